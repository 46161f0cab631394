"""Gives a ``DataLoader``'s warnings, each of them once, and never as an error.

They tell a program that its loop runs, and how. With ``-W error`` Python makes an error of a
warning, and that would end a program that runs with torch's own loader. So the sentence goes to the
log then. A user who wants an error uses ``strict=True``.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from headrace._translate.libraries import package_of
from headrace.dataset import Dataset

_log = logging.getLogger("headrace")

# Packages that read or change images. Only their names are compared; none is imported.
_IMAGING = ("PIL", "albumentations", "cv2", "imageio", "kornia", "skimage", "timm", "torchvision")
# Datasets that consist of others, and the attribute that holds these.
_JOINED = {
    "Subset": "dataset",
    "ConcatDataset": "datasets",
    "ChainDataset": "datasets",
    "StackDataset": "datasets",
}
# Packages that may stand between a program and its loader.
_LIBRARIES = (
    *("accelerate", "contextlib", "headrace", "lightning", "pytorch_lightning", "timm", "torch"),
    "transformers",
)
# Packages whose modules say nothing about a program.
_OF_NOBODY = ("builtins", "torch", "typing", "collections", "abc", "numpy", "datasets")


class Notices:
    """A loader's warnings, with those that were given already."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, text: str, stacklevel: int, topic: str = "") -> None:
        """Warns, unless it has given that warning before.

        Args:
            text: the text after the loader's name.
            stacklevel: as for ``warnings.warn``, counted from the caller; 0: the innermost line
                that is not of one of the libraries in between.
            topic: warnings of one topic count as the same; "": the text is the topic.
        """
        if (topic or text) in self._said:
            return
        self._said.add(topic or text)
        try:
            level = stacklevel or of_the_program()[0]
            warnings.warn(f"headrace.DataLoader: {text}", stacklevel=level + 1)
        except UserWarning as notice:  # a filter's "error"
            _log.warning("%s", str(notice))  # without its traceback, which holds the loader


def of_the_program() -> tuple[int, Any]:
    """How many frames lie between the caller and the innermost one of no library; and that frame.

    If there is none: how many lie between the caller and the outermost frame, and None.
    """
    level, frame = 0, sys._getframe(1)
    while package_of(str(frame.f_globals.get("__name__", ""))) in _LIBRARIES:
        if frame.f_back is None:
            return level, None
        level, frame = level + 1, frame.f_back
    return level, frame


def may_have_images(dataset: Any) -> bool:
    """Whether anything suggests that a dataset's samples are images; its code is never run.

    It looks at the classes of a dataset and of those that it consists of, at the modules that
    define them, and at the types of their attributes. torch's ``TensorDataset``, plain sequences
    and Hugging Face's datasets without a feature ``Image`` have no images. Any other dataset may
    have some if it is torchvision's or Headrace's, if a module of its classes uses a package for
    images, or if one of its attributes comes from such a package, as a transform does.
    """
    return any(map(_suggests_images, _parts(dataset, 0)))


def _parts(dataset: Any, depth: int) -> Iterator[Any]:
    """The datasets that a dataset of torch's consists of, at any depth."""
    held: list[Any] = []
    for name, attribute in _JOINED.items():
        kind = getattr(sys.modules.get("torch.utils.data"), name, None)
        if kind is not None and isinstance(dataset, kind):
            inner = getattr(dataset, attribute, ())
            held = [*inner.values()] if isinstance(inner, dict) else [inner]
            if isinstance(inner, list | tuple):
                held = [*inner]
            break
    if is_a_pipe(dataset):  # it reads from another pipe, and torch's loader has wrapped it in one
        held = [value for value in _attributes(dataset) if is_a_pipe(value)]
        yield dataset
    elif not held or depth > 8:
        yield dataset
    for part in held if depth <= 8 else ():
        yield from _parts(part, depth + 1)


def is_a_pipe(value: Any) -> bool:
    """Whether a value is one of torch's data pipes."""
    torchs = sys.modules.get("torch.utils.data")
    kinds = [getattr(torchs, name, None) for name in ("IterDataPipe", "MapDataPipe")]
    return isinstance(value, tuple(kind for kind in kinds if kind is not None))


def _suggests_images(dataset: Any) -> bool:
    if isinstance(dataset, Dataset):
        return True
    features = _features(dataset)
    if features is not None:
        return any(type(feature).__name__ == "Image" for feature in features)
    modules = {kind.__module__ for kind in type(dataset).__mro__}
    named = [sys.modules[name] for name in modules if name in sys.modules]
    if any(map(_of_imaging, named)):
        return True
    own = [module for module in named if package_of(module.__name__) not in _OF_NOBODY]
    held = [value for owner in (*own, dataset) for value in _attributes(owner)]
    return any(map(_of_imaging, held))


def _features(dataset: Any) -> list[Any] | None:
    """The features of a Hugging Face dataset that knows them; None for any other dataset."""
    if package_of(type(dataset).__module__) != "datasets":
        return None
    features = getattr(dataset, "features", None)
    return [*features.values()] if isinstance(features, dict) else None


def _attributes(owner: Any) -> list[Any]:
    return list(getattr(owner, "__dict__", {}).values())


def _of_imaging(value: Any) -> bool:
    """Whether a value is a package for images, or comes from one."""
    if isinstance(value, ModuleType):
        name = value.__name__
    else:
        owner = value if isinstance(value, type | FunctionType) else type(value)
        name = owner.__module__
    return isinstance(name, str) and package_of(name) in _IMAGING
