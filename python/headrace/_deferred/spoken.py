"""Transforms of the program's own that say what they equal, where its code calls them itself.

In a ``Compose`` the translation finds them. Of those that a dataset's code calls alone the classes
have to be known before: they are looked for in what the dataset holds.
"""

from __future__ import annotations

from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from headrace._deferred import transforming
from headrace._translate import registered

# How deep they are looked for, in containers of how many entries, and how many objects are looked
# at: as where a dataset's generators are (drawn.py).
_DEEPEST, _LONGEST, _MOST = 8, 64, 300
_OTHERS = (
    type, ModuleType, torch.Tensor, np.ndarray,
    str, bytes, int, float, complex, type(None),
)  # fmt: skip
_METHODS = ("__getitem__", "__getitems__", "__iter__")
# An epoch's first batches: a dataset may make its transforms with its first samples.
_BATCHES = 2


class Spoken:
    """The classes of a dataset's transforms of which the program says what they equal."""

    def __init__(self) -> None:
        self._left = _BATCHES

    def look_anew(self) -> None:
        """An epoch begins, for which the dataset may have other transforms."""
        self._left = _BATCHES

    def look(self, dataset: Any) -> None:
        """Has the calls of a dataset's transforms recorded as what they equal."""
        if not self._left:
            return
        self._left -= 1
        for kind in (*registered.kinds(), *_classes(dataset)):
            transforming.switch_class(kind)


def _classes(dataset: Any) -> list[type]:
    """Those of the objects that a dataset holds, or its functions refer to."""
    level: list[Any] = [dataset, *(getattr(type(dataset), name, None) for name in _METHODS)]
    seen = {*map(id, level)}
    found: dict[type, None] = {}
    for _ in range(_DEEPEST):
        parts = [part for one in level for part in _inside(one)]
        level = []
        for part in parts:
            if id(part) in seen or len(seen) > _MOST or issubclass(type(part), _OTHERS):
                continue
            seen.add(id(part))
            level.append(part)
            if registered.is_spoken_of(part):
                found[type(part)] = None
    return [*found]


def _inside(value: Any) -> list[Any]:
    """What an object holds, or a container, or what a function refers to."""
    try:
        if type(value) is MethodType:
            return [value.__self__, value.__func__]
        if type(value) is FunctionType:
            names, cells = value.__globals__, value.__closure__ or ()
            inside: Any = [names[name] for name in value.__code__.co_names if name in names]
            inside += [cell.cell_contents for cell in cells] + [*(value.__defaults__ or ())]
        elif isinstance(value, dict):
            inside = value.values()
        else:
            inside = value if isinstance(value, list | tuple) else vars(value).values()
        return [*inside] if len(inside) <= _LONGEST else []
    except Exception:  # a proxy whose object is gone, an empty cell, an object without attributes
        return []
