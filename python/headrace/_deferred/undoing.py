"""Undoes what a collate function changed, before it is called again because it needs values.

Programs take the fields of samples away, add to the boxes in them, and count their batches. Without
this the second call would find what the first one left.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import PIL.Image
import torch

from headrace._deferred.tensor import PendingTensor

_DEEPEST = 12
_LONGEST = 100_000  # entries of one container of a sample
# Of what belongs to the collate function, which may lead to the whole program.
_LONGEST_OF_ITS_OWN, _LARGEST_OF_ITS_OWN = 1_000, 1 << 20
_PLAIN = {bool, int, float, complex, str, bytes, type(None)}
_LEFT = (type, FunctionType, ModuleType, PendingTensor, torch.nn.Module)

Undo = Callable[[], Any]


class Before:
    """How samples and a collate function were before its call.

    Args:
        samples: what it is called with; containers, arrays and objects at any depth.
        collate: the function, with what it keeps: attributes, closed-over names, generators.
    """

    def __init__(self, samples: Any, collate: Any) -> None:
        self._undo: list[Undo] = []
        self._seen: set[int] = set()
        self._longest, self._largest = _LONGEST, float("inf")
        self._look(samples, 0)
        self._longest, self._largest = _LONGEST_OF_ITS_OWN, _LARGEST_OF_ITS_OWN
        self._look_at_function(collate)

    def restore(self) -> None:
        """Puts back what was changed since."""
        for undo in self._undo:
            undo()

    def _look(self, value: Any, depth: int) -> None:
        if type(value) in _PLAIN or depth > _DEEPEST or id(value) in self._seen:
            return
        self._seen.add(id(value))
        if isinstance(value, tuple):
            for part in value:
                self._look(part, depth + 1)
        elif isinstance(value, _LEFT):
            return
        elif isinstance(value, torch.Tensor):
            self._keep_tensor(value)
        elif isinstance(value, np.ndarray):
            self._keep_array(value)
        elif isinstance(value, list | dict | set | deque):
            self._keep_container(value, depth)
        elif not self._keep_generator(value) and isinstance(getattr(value, "__dict__", None), dict):
            self._keep_container(vars(value), depth)
            if isinstance(value, PIL.Image.Image) and value._im is not None:
                self._undo.append(partial(setattr, value, "_im", value._im.copy()))

    def _look_at_function(self, function: Any) -> None:
        """What the second call shall find of the function's own as the first one did."""
        if isinstance(function, partial):
            self._look_at_function(function.func)
            self._look([*function.args, function.keywords], 0)
        elif isinstance(function, MethodType):
            self._look(function.__self__, _DEEPEST - 3)
        elif isinstance(function, FunctionType):
            for cell in function.__closure__ or ():
                try:
                    kept = cell.cell_contents
                except ValueError:  # not bound yet
                    continue
                self._undo.append(partial(setattr, cell, "cell_contents", kept))
                self._look(kept, _DEEPEST - 3)
            self._look(function.__defaults__, _DEEPEST - 3)
        else:
            self._look(function, _DEEPEST - 3)

    def _keep_container(self, value: Any, depth: int) -> None:
        if len(value) > self._longest:
            return
        copied = value.copy() if isinstance(value, deque) else _plain_type(value)(value)
        self._undo.append(partial(_refill, value, copied))
        parts = copied.values() if isinstance(copied, dict) else copied
        if not {*map(type, parts)} <= _PLAIN:  # as the numbers of a long list are
            for part in parts:
                self._look(part, depth + 1)

    def _keep_tensor(self, value: torch.Tensor) -> None:
        plain = value.layout == torch.strided and value.device.type == "cpu"
        if plain and not value.requires_grad and value.nbytes <= self._largest:
            kept = value.detach().clone()
            self._undo.append(partial(_refill_tensor, value, kept))

    def _keep_array(self, value: Any) -> None:
        if value.flags.writeable and not value.dtype.hasobject and value.nbytes <= self._largest:
            self._undo.append(partial(_refill_array, value, value.copy()))

    def _keep_generator(self, value: Any) -> bool:
        """Whether it is a random generator; it will draw the same numbers again."""
        if isinstance(value, random.Random):
            self._undo.append(partial(value.setstate, value.getstate()))
        elif isinstance(value, np.random.RandomState | torch.Generator):
            generator: Any = value
            self._undo.append(partial(generator.set_state, generator.get_state()))
        elif isinstance(value, np.random.Generator):
            bits: Any = value.bit_generator
            self._undo.append(partial(setattr, bits, "state", bits.state))
        else:
            return False
        return True


def _plain_type(container: Any) -> type:
    """The plain type of a list, dict or set, whose copies run no code of the program's."""
    return next(kind for kind in (list, dict, set) if isinstance(container, kind))


def _refill(container: Any, copied: Any) -> None:
    container.clear()
    (container.extend if isinstance(copied, list | deque) else container.update)(copied)


def _refill_tensor(value: torch.Tensor, kept: torch.Tensor) -> None:
    with torch.no_grad():
        if value.shape != kept.shape:  # unsqueeze_ and its like
            value.data = kept
        elif not torch.equal(value, kept):
            value.copy_(kept)


def _refill_array(value: Any, kept: Any) -> None:
    if value.shape != kept.shape:
        value.shape = kept.shape
    if not np.array_equal(value, kept):
        value[...] = kept
