"""What a ``DataLoader`` says of itself: once each, and never as an error.

What a program is told here is that its loop runs, and how. Python makes an error of a warning where
it is asked to (``-W error``), and that would end a program that torch's own loader serves. The
sentence goes to the log then. Who wants an error says ``strict=True``.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from headrace.dataset import Dataset

_log = logging.getLogger("headrace")

# Packages that read or change images. Only their names are looked for: none is imported.
_IMAGING = ("PIL", "albumentations", "cv2", "imageio", "kornia", "skimage", "timm", "torchvision")
# Datasets that consist of others, and the attribute that holds them.
_JOINED = {
    "Subset": "dataset",
    "ConcatDataset": "datasets",
    "ChainDataset": "datasets",
    "StackDataset": "datasets",
}
# What stands between a program and its loader.
_LIBRARIES = (
    *("accelerate", "contextlib", "headrace", "lightning", "pytorch_lightning", "timm", "torch"),
    "transformers",
)
# Whose modules say nothing about a program.
_OF_NOBODY = ("builtins", "torch", "typing", "collections", "abc", "numpy", "datasets")


class Notices:
    """The sentences that a loader has said."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, text: str, stacklevel: int, topic: str = "") -> None:
        """Warns, unless it has said that before.

        Args:
            text: what follows the loader's name.
            stacklevel: as of ``warnings.warn``, counted from the caller; 0: the innermost line that
                is of none of the libraries in between.
            topic: sentences of one topic count as the same; "": the text itself.
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
    """The innermost frame that runs code of no library, and how many lie between it and the caller.

    Where there is none: None, and how many lie between the outermost one and the caller.
    """
    level, frame = 0, sys._getframe(1)
    while str(frame.f_globals.get("__name__", "")).partition(".")[0] in _LIBRARIES:
        if frame.f_back is None:
            return level, None
        level, frame = level + 1, frame.f_back
    return level, frame


def may_have_images(dataset: Any) -> bool:
    """Whether anything suggests that a dataset's samples are images; its code is never run.

    Looked at are the classes of a dataset and of those that it consists of, the modules that define
    them, and the types of their attributes. torch's ``TensorDataset``, plain sequences and Hugging
    Face's datasets without a feature ``Image`` have none. Any other has some if it is torchvision's
    or Headrace's, if a module of its classes uses a package for images, or if one of its attributes
    comes from there, as a transform does.
    """
    return any(map(_suggests_images, _parts(dataset, 0)))


def _parts(dataset: Any, depth: int) -> Iterator[Any]:
    """The datasets that a dataset of torch's consists of, however nested."""
    held: list[Any] = []
    for name, attribute in _JOINED.items():
        kind = getattr(sys.modules.get("torch.utils.data"), name, None)
        if kind is not None and isinstance(dataset, kind):
            inner = getattr(dataset, attribute, ())
            held = [*inner.values()] if isinstance(inner, dict) else [inner]
            if isinstance(inner, list | tuple):
                held = [*inner]
            break
    if is_a_pipe(dataset):  # reads from another; and torch's loader has put one around it
        held = [value for value in _attributes(dataset) if is_a_pipe(value)]
        yield dataset
    elif not held or depth > 8:
        yield dataset
    for part in held if depth <= 8 else ():
        yield from _parts(part, depth + 1)


def is_a_pipe(value: Any) -> bool:
    """Whether it is one of torch's data pipes."""
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
    own = [module for module in named if module.__name__.partition(".")[0] not in _OF_NOBODY]
    held = [value for owner in (*own, dataset) for value in _attributes(owner)]
    return any(map(_of_imaging, held))


def _features(dataset: Any) -> list[Any] | None:
    """The features of one of Hugging Face's datasets that knows them; None of any other."""
    if type(dataset).__module__.partition(".")[0] != "datasets":
        return None
    features = getattr(dataset, "features", None)
    return [*features.values()] if isinstance(features, dict) else None


def _attributes(owner: Any) -> list[Any]:
    return list(getattr(owner, "__dict__", {}).values())


def _of_imaging(value: Any) -> bool:
    """Whether a value is a package for images, or something out of one."""
    if isinstance(value, ModuleType):
        name = value.__name__
    else:
        owner = value if isinstance(value, type | FunctionType) else type(value)
        name = owner.__module__
    return isinstance(name, str) and name.partition(".")[0] in _IMAGING
