"""What transforms have in common: how the engine reads them, and what they raise."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import fields
from types import ModuleType
from typing import Any

# Pillow's Image.Resampling, by value.
_PILLOW_FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")

_RAISES = """\
Raises:
    ArgumentError: when the loader is made with it, if an argument is impossible.

"""


def plain(name: str, value: Any) -> Any:
    """Returns a form that JSON can carry: enums by value; arrays, tensors and tuples as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
        return [plain(name, item) for item in value]
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return value.to_dict()
    if name in ("interpolation", "policy"):
        value = getattr(value, "value", value)
        if type(value) is int and 0 <= value < len(_PILLOW_FILTERS):
            return _PILLOW_FILTERS[value]
    return value


class Transform:
    """What transforms share."""

    def to_dict(self) -> dict[str, Any]:
        """The transform as the engine reads it: its name and all its arguments."""
        arguments: Any = fields(self)  # type: ignore[arg-type]
        named = {f.name: plain(f.name, getattr(self, f.name)) for f in arguments}
        return {"name": type(self).__name__, **named}


class Label(Transform):
    """What a field of the dataset is, and how it moves: for ``labels=`` of ``hr.Loader``."""


def absent(module: ModuleType, name: str) -> AttributeError:
    """The error for a name that a module of transforms does not have; Python adds a similar one."""
    said = f"module {module.__name__!r} has no attribute {name!r}"
    if name[:1].isupper():
        said += ": headrace.from_torchvision translates torchvision's transforms"
    return AttributeError(said, name=name, obj=module)


def publish(kind: type, module: str) -> None:
    """Makes a public module the home of a class, and adds to its docstring what all of them raise.

    Pickles contain the home's name; help() and typing.get_type_hints use it.
    """
    kind.__module__ = module
    # The text goes before "Source:". Without docstrings (python -OO) there is nothing to complete.
    said, source, name = inspect.cleandoc(kind.__doc__ or "").rpartition("Source: ")
    if source and "Raises:" not in said:
        kind.__doc__ = said + _RAISES + source + name
