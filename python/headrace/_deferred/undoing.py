"""Undoes what a collate function changed, before it is called again because it needs values.

Collate functions remove fields of samples, move boxes in them, and count batches. Without this the
second call would find what the first one left.
"""

from __future__ import annotations

import contextlib
import io
import random
from array import array
from collections import deque
from collections.abc import Callable
from functools import lru_cache, partial
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import ProxyTypes

import numpy as np
import PIL.Image
import torch
from PIL._util import DeferredError

from headrace._deferred.tensor import PendingTensor

_DEEPEST = 12
# Bounds of the search for pending values in samples: the depth, and the objects looked into.
_SHALLOW, _MOST_OBJECTS = 6, 10_000
_LONGEST = 100_000  # the most entries of one container of a sample
# The same for what the collate function keeps, which may lead to the whole program, and the most
# bytes of one array.
_LONGEST_OF_ITS_OWN, _LARGEST_OF_ITS_OWN = 1_000, 1 << 20
_PLAIN = {bool, int, float, complex, str, bytes, type(None)}
_LEFT = (type, FunctionType, ModuleType, torch.nn.Module)
# Types that are not written in Python, and whose objects cannot be changed; and the package of
# tokenizers, whose objects collate functions only read.
_FIXED = {
    *(object, torch.dtype, torch.layout, torch.memory_format, type(...), type(NotImplemented)),
}
_FIXED_OF = ("tokenizers",)

Undo = Callable[[], Any]


class Before:
    """How samples and a collate function were before its call.

    Args:
        samples: what it is called with; containers, arrays and objects at any depth.
        collate: the function, with what it keeps: attributes, closed-over names, generators.

    Attributes:
        opaque: whether the samples have something that cannot be put back, such as an iterator, so
            that the function must not be called twice.
    """

    def __init__(self, samples: Any, collate: Any) -> None:
        self.opaque = False
        self._of_samples = True
        self._undo: list[Undo] = []
        self._seen: set[int] = set()
        self._longest, self._largest = _LONGEST, float("inf")
        self._look(samples, 0)
        self._of_samples = False
        self._longest, self._largest = _LONGEST_OF_ITS_OWN, _LARGEST_OF_ITS_OWN
        self._look_at_function(collate)

    def restore(self) -> None:
        """Puts back what was changed since."""
        for undo in self._undo:
            undo()

    def _look(self, value: Any, depth: int) -> None:
        if type(value) in _PLAIN or id(value) in self._seen:
            return
        if depth > _DEEPEST:
            self.opaque |= self._of_samples
            return
        self._seen.add(id(value))
        of: Any = type(value)  # isinstance would ask a proxy for its object, which may be gone
        if issubclass(of, tuple):
            for part in value:
                self._look(part, depth + 1)
        elif issubclass(of, _LEFT) or issubclass(of, ProxyTypes):
            return
        elif issubclass(of, PendingTensor):
            self._undo.append(partial(_put_parts_back, value, value.parts, value.form))
        elif issubclass(of, torch.Tensor):
            self._keep_tensor(value)
        elif issubclass(of, np.ndarray):
            self._keep_array(value)
        elif issubclass(of, list | dict | set | deque):
            self._keep_container(value, depth)
        else:
            self._keep_object(value, depth)

    def _keep_object(self, value: Any, depth: int) -> None:
        """Keeps the attributes and slots of an object of the program or of another library."""
        kind = _kind(type(value))  # type: ignore[arg-type]  # a type is hashable
        if kind.fixed or self._keep_generator(value):
            return
        before = self.opaque
        self.opaque = before or kind.iterates
        if kind.bytes:
            self._undo.append(partial(value.__setitem__, slice(None), value[:]))
        if isinstance(getattr(value, "__dict__", None), dict):
            self._keep_container(vars(value), depth)
        for slot in kind.slots:
            try:
                kept = slot.__get__(value)
            except AttributeError:  # nothing is in it yet
                self._undo.append(partial(_empty_slot, slot, value))
                continue
            self._undo.append(partial(slot.__set__, value, kept))
            self._look(kept, depth + 1)
        if isinstance(value, PIL.Image.Image):
            self.opaque = before  # it may hold its file, which only Pillow's decoding changes
            name = "_im" if hasattr(value, "_im") else "im"  # Pillow 10 has `im`
            pixels: Any = getattr(value, name)
            if pixels is not None and not isinstance(pixels, DeferredError):  # it is closed
                self._undo.append(partial(setattr, value, name, pixels.copy()))

    def _look_at_function(self, function: Any) -> None:
        """Keeps what belongs to the function, so that the second call finds it as the first did."""
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
            self.opaque |= self._of_samples
            return
        copied = value.copy() if isinstance(value, deque) else _plain_type(value)(value)
        self._undo.append(partial(_refill, value, copied))
        parts = copied.values() if isinstance(copied, dict) else copied
        if not {*map(type, parts)} <= _PLAIN:  # a long list of numbers needs no loop
            for part in parts:
                self._look(part, depth + 1)

    def _keep_tensor(self, value: torch.Tensor) -> None:
        plain = value.layout == torch.strided and value.device.type == "cpu"
        if plain and not value.requires_grad and value.nbytes <= self._largest:
            kept, seen = value.detach().clone(), value.detach()
            self._undo.append(partial(_refill_tensor, value, kept, seen))

    def _keep_array(self, value: Any) -> None:
        if value.flags.writeable and not value.dtype.hasobject and value.nbytes <= self._largest:
            self._undo.append(partial(_refill_array, value, value.copy()))

    def _keep_generator(self, value: Any) -> bool:
        """Keeps the state of a random generator; false: the value is none."""
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


def waits(samples: Any) -> bool:
    """Whether an image or a tensor is found in samples that is still pending."""
    seen: set[int] = set()
    level = [samples]
    for _ in range(_SHALLOW):
        parts: list[Any] = []
        for value in level:
            if _is_to_come(value):
                return True
            if id(value) not in seen and len(seen) < _MOST_OBJECTS:
                seen.add(id(value))
                inside = _inside(value)
                if not {*map(type, inside)} <= _PLAIN:  # a long list of numbers is skipped
                    parts += inside
        level = parts
    return any(map(_is_to_come, level))


def _is_to_come(value: Any) -> bool:
    of = type(value)  # isinstance would ask a proxy for its object, which may be gone
    if issubclass(of, PIL.Image.Image):
        return getattr(value, "chain", None) is not None
    return issubclass(of, PendingTensor)


def _inside(value: Any) -> Any:
    of = type(value)
    if issubclass(of, dict):
        return value.values()
    if issubclass(of, list | tuple | set | deque):
        return value
    try:
        own = None if issubclass(of, (*_LEFT, torch.Tensor)) else getattr(value, "__dict__", None)
    except Exception:  # a proxy whose object is gone
        return ()
    return own.values() if isinstance(own, dict) else ()


class _Kind(NamedTuple):
    """How the state of a class's objects is found.

    Attributes:
        slots: the descriptors of the class's ``__slots__``.
        bytes: whether they are ``bytearray``s or ``array``s.
        iterates: whether they are iterators, whose position cannot be seen. Other objects whose
            state cannot be seen mostly have none: locks, slices, views of dicts.
        fixed: whether they have no state that could change.
    """

    slots: tuple[Any, ...]
    bytes: bool
    iterates: bool
    fixed: bool


@lru_cache(256)
def _kind(of: type) -> _Kind:
    written = [one for one in of.__mro__ if "__slots__" in vars(one)]
    members = [member for one in written for member in vars(one).values()]
    slots = tuple(member for member in members if isinstance(member, MemberDescriptorType))
    seen = bool(written) or of.__dictoffset__ != 0
    array_of_bytes, file = issubclass(of, bytearray | array), issubclass(of, io.IOBase)
    iterates = hasattr(of, "__next__") and not seen and not file
    # A value such as a date defines a hash. An object that changes has none, or that of its
    # identity.
    hashes: Any = of.__hash__
    known = (
        hashes not in (None, object.__hash__)
        or of in _FIXED
        or str(of.__module__).partition(".")[0] in _FIXED_OF
    )
    fixed = known and not (slots or iterates or file or of.__dictoffset__)
    return _Kind(slots, array_of_bytes, iterates, fixed)


def _empty_slot(slot: Any, value: Any) -> None:
    with contextlib.suppress(AttributeError):  # it is still empty
        slot.__delete__(value)


def _plain_type(container: Any) -> type:
    """The plain type of a list, dict or set. To make one runs no code of the program's."""
    return next(kind for kind in (list, dict, set) if isinstance(container, kind))


def _refill(container: Any, copied: Any) -> None:
    container.clear()
    (container.extend if isinstance(copied, list | deque) else container.update)(copied)


def _put_parts_back(value: PendingTensor, parts: Any, form: Any) -> None:
    if isinstance(value, PendingTensor):
        value.become(parts, form)


def _refill_tensor(value: torch.Tensor, kept: torch.Tensor, seen: torch.Tensor) -> None:
    """Args:
    kept: the values that the tensor had.
    seen: the tensor as it lay in its memory, which other tensors may share.
    """
    with torch.no_grad():
        if value.shape != seen.shape or value.stride() != seen.stride():  # unsqueeze_, t_, ...
            value.data = seen
        if not torch.equal(value, kept):
            value.copy_(kept)


def _refill_array(value: Any, kept: Any) -> None:
    if value.shape != kept.shape:
        value.shape = kept.shape
    if not np.array_equal(value, kept):
        value[...] = kept
