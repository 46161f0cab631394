"""Finds the program's own transforms that say what they equal and that its code calls itself.

Those in a ``Compose`` are found by the translation. If a dataset's code calls one alone, its class
has to be known before. So such classes are looked for in what the dataset holds.
"""

from __future__ import annotations

from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from headrace._deferred import transforming
from headrace._translate import registered

# Bounds of the search: the depth, the entries of a container, and the objects that are looked at.
# They are those of the search for a dataset's generators (drawn.py).
_DEEPEST, _LONGEST, _MOST = 8, 64, 300
_OTHERS = (
    type, ModuleType, torch.Tensor, np.ndarray,
    str, bytes, int, float, complex, type(None),
)  # fmt: skip
_METHODS = ("__getitem__", "__getitems__", "__iter__")
# In how many batches of an epoch it looks: a dataset may make its transforms with the first sample.
_BATCHES = 2


class Spoken:
    """Has a dataset's transforms recorded of which the program says what they equal."""

    def __init__(self) -> None:
        self._left = _BATCHES

    def look_anew(self) -> None:
        """Looks again, because the dataset may have other transforms for a new epoch."""
        self._left = _BATCHES

    def look(self, dataset: Any) -> None:
        """Finds the classes, and has calls of their objects recorded as what these equal."""
        if not self._left:
            return
        self._left -= 1
        for kind in (*registered.kinds(), *_classes(dataset)):
            transforming.switch_class(kind)


def _classes(dataset: Any) -> list[type]:
    """The classes of such objects that a dataset holds, or that its methods refer to."""
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
    """What an object or a container holds, or what a function refers to."""
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
