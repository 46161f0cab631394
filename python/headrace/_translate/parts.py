"""Takes a pipeline apart into single transforms, in the order in which they run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from headrace._translate import registered
from headrace._translate.libraries import of_python, package_of

# The public modules whose classes are known by name. A subclass is not known, because it may do
# anything.
_VERSIONS = {"torchvision.transforms": 1, "torchvision.transforms.v2": 2}
# Modules of others. This prefix goes before their classes' names, because torchvision has some of
# the same names.
_OF_OTHERS = {
    "timm.data.transforms": "Timm",
    "timm.data.auto_augment": "Timm",
    "timm.data.random_erasing": "Timm",
    "open_clip.transform": "OpenClip",
}
_LIBRARIES = ("torchvision", "timm", "open_clip")
# The module of the objects that weights.transforms() makes: each is a whole pipeline in one class.
_PRESETS = "torchvision.transforms._presets"
# A Compose may contain itself, and the list that a program gives for an object may contain others
# of its class.
_DEEPEST = 16


class Whole:
    """One object of a pipeline that is read as the transforms that it equals.

    Attributes:
        op: the object; Python can run it if the engine cannot run what it equals.
        divisible: whether the engine may run a beginning of that, and Python the rest.
    """

    def __init__(self, op: Any, divisible: bool) -> None:
        self.op, self.divisible = op, divisible


class Part(NamedTuple):
    """One transform of a pipeline."""

    op: Any
    whole: Whole | None  # the outermost object that it is a part of
    reason: str = ""  # why its parts are not known


def known(op: Any) -> tuple[str, int]:
    """Returns the name and version of a class that may be read; ("", 0) for anything else."""
    kind = type(op)
    if altered(op):
        return "", 0
    for module, version in _VERSIONS.items():
        if getattr(sys.modules.get(module), kind.__name__, None) is kind:
            return kind.__name__, version
    for module, prefix in _OF_OTHERS.items():
        if getattr(sys.modules.get(module), kind.__name__, None) is kind and package_of(module):
            return f"{prefix}{kind.__name__}", 1
    return "", 0


def altered(op: Any) -> bool:
    """Whether an object does something other than its library's class: it has its own method or one
    of the program, or a hook."""
    own = getattr(op, "__dict__", {})
    hooks = ("_forward_hooks", "_forward_pre_hooks")  # of torch.nn.Module, the base of all of v2's
    return (
        any(own.get(name) for name in hooks)
        or any(callable(getattr(type(op), name, None)) for name in own)
        or any(map(_patched, type(op).__mro__))
    )


def _patched(kind: type) -> bool:
    """Whether a program has put its own functions into a library's class."""
    library = package_of(kind.__module__)
    if library not in _LIBRARIES:
        return False
    functions = (getattr(value, "__func__", value) for value in vars(kind).values())
    # A function's globals tell where it was written; a wrapper copies the module's name from the
    # function that it wraps.
    homes = {
        str(function.__globals__.get("__name__")).partition(".")[0]
        for function in functions
        if isinstance(function, FunctionType)
    }
    # Some of the library's own functions have decorators of torch and Python.
    return not {home for home in homes if not of_python(home)} <= {library, "torch"}


def parts(op: Any) -> Iterator[Part]:
    """Yields the transforms of a pipeline; None has none."""
    return iter(()) if op is None else _parts(op, None, ())


def divide(found: list[Part], number: int) -> tuple[int, list[Any]]:
    """Returns where Python takes over if the part with this number has no translation.

    Returns:
        the number of the first part that the engine does not run, and what Python calls instead of
        it and the rest.
    """
    whole = found[number].whole
    if whole is None:
        return number, _objects(found[number:])
    first = next(place for place, part in enumerate(found) if part.whole is whole)
    behind = [part.op for part in found[number:] if part.whole is whole]
    if number > first and whole.divisible and all(map(callable, behind)):
        return number, [*behind, *_objects(found[number + len(behind) :])]
    return first, _objects(found[first:])


def _objects(found: list[Part]) -> list[Any]:
    """Returns the objects of a pipeline that these parts make up, each whole object once."""
    made, last = [], None
    for part in found:
        if part.whole is None:
            made.append(part.op)
        elif part.whole is not last:
            made.append(part.whole.op)
        last = part.whole
    return made


def _parts(op: Any, whole: Whole | None, around: tuple[Any, ...]) -> Iterator[Part]:
    """Yields the parts of an object inside others; ``around`` begins with the outermost one."""
    if any(outer is op for outer in around):
        yield Part(op, whole, "it is a part of itself")
    elif len(around) > _DEEPEST:
        yield Part(op, whole, f"it lies more than {_DEEPEST} levels deep")
    else:
        try:
            equal = _equal_of(op)
        except registered.Unclear as failure:
            yield Part(op, whole, str(failure))
            return
        inner = _composed(op) if equal is None else equal
        if inner is None:
            yield Part(op, whole)
            return
        if equal is not None:
            whole = whole or Whole(op, divisible=True)
            # With a tensor, a preset does something other than its parts in a row.
            whole.divisible = whole.divisible and registered.is_spoken_of(op)
        for part in inner:
            yield from _parts(part, whole, (*around, op))


def _composed(op: Any) -> list[Any] | None:
    """Returns what a list of transforms holds; None for a single transform."""
    if known(op)[0] == "Compose":
        return list(op.transforms)
    of_torch = getattr(sys.modules.get("torch.nn"), "Sequential", None)
    return list(op) if type(op) is of_torch and not altered(op) else None


def _equal_of(op: Any) -> list[Any] | None:
    """Returns the transforms that an object equals; None if nobody says so.

    Raises:
        Unclear: the program says that there are such, but not which.
    """
    if registered.is_spoken_of(op):
        if altered(op):
            raise registered.Unclear("it has a hook, or one of its methods was replaced")
        return registered.equal_of(op)
    name = type(op).__name__
    make = PRESETS.get(name)
    if make is None or getattr(sys.modules.get(_PRESETS), name, None) is not type(op):
        return None
    try:
        return None if altered(op) else make(sys.modules["torchvision.transforms"], op)
    except (AttributeError, TypeError, ValueError) as failure:
        raise registered.Unclear(f"its arguments are not understood ({failure})") from failure


def _classification(v1: Any, op: Any) -> list[Any]:
    resize = v1.Resize(op.resize_size, op.interpolation, antialias=op.antialias)
    return [resize, v1.CenterCrop(op.crop_size), *_detection(v1, op), v1.Normalize(op.mean, op.std)]


def _segmentation(v1: Any, op: Any) -> list[Any]:
    resizes = []
    if isinstance(op.resize_size, list):
        resizes = [v1.Resize(op.resize_size, op.interpolation, antialias=op.antialias)]
    return [*resizes, *_detection(v1, op), v1.Normalize(op.mean, op.std)]


def _detection(v1: Any, op: Any) -> list[Any]:
    # The preset converts with ConvertImageDtype to torch.float, which is its default.
    return [v1.PILToTensor(), v1.ConvertImageDtype(sys.modules["torch"].float32)]


# For each torchvision preset, by the name of its class: what its forward does to a PIL image.
PRESETS: dict[str, Callable[[Any, Any], list[Any]]] = {
    "ImageClassification": _classification,
    "ObjectDetection": _detection,
    "SemanticSegmentation": _segmentation,
}
