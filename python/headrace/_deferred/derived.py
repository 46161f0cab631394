"""Applies torch's operators, which were recorded for pending tensors, to a batch's decoded images.

Tensors that would share memory in torch share it here. An image that several tensors are made of is
decoded once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch

from headrace._deferred import tensor
from headrace._deferred.memory import Blocks
from headrace._deferred.parts import AnyPart, Derived, Memory, Part, Stacked, values
from headrace._deferred.tensor import PendingTensor

_Leaf = Part | Stacked

_ALIGNED = 64  # bytes, as torch aligns its own memory


def is_derived(value: PendingTensor) -> bool:
    """Whether operators make some of a tensor's values."""
    return _has_operators(value.parts)


def _has_operators(parts: tuple[AnyPart, ...]) -> bool:
    kinds = {*map(type, parts)}  # mostly there are only images, and then no Python loop is needed
    if kinds == {Part}:
        return False
    inner = [part.parts for part in parts if isinstance(part, Stacked)]
    return Derived in kinds or any(map(_has_operators, inner))


class Derivations:
    """The tensors of a batch whose values operators make.

    Args:
        pending: these tensors.
        pairs: the batch's other tensors, and the memory that the engine fills for each.
        blocks: where memory is taken from.
        apart: whether the tensors that share memory are no views of one another to autograd.

    Attributes:
        wanted: the images that the engine has yet to make for the tensors, and where to write them.
    """

    def __init__(
        self,
        pending: list[PendingTensor],
        pairs: list[tuple[PendingTensor, torch.Tensor]],
        blocks: Blocks,
        apart: bool,
    ) -> None:
        self._apart = apart
        # The parts are kept, too, because a tensor loses them when it gets its values.
        self._pending, self._blocks = [(value, value.parts) for value in pending], blocks
        # What ``make`` gives the tensors, in order; filled when it is called first.
        self._order: list[tuple[PendingTensor, tuple[AnyPart, ...], _Leaf | Memory | None]] = []
        self.wanted: list[tuple[Part, torch.Tensor]] = []
        # The memory of each leaf, by `_key`. The tensors' parts refer to all leaves, so no id in a
        # key can be used again.
        self._memories: dict[int, torch.Tensor] = {}
        # The leaves that the program's tensors are views of. Each has memory of its own.
        self._own: dict[int, _Leaf] = {}
        # The stacks of which the engine does not write all rows.
        self._unfinished: dict[int, Stacked] = {}
        if not pending:
            return
        leaves = [leaf for value in pending for leaf in _leaves(value.parts)]
        viewed = {_key(leaf) for leaf in leaves if isinstance(leaf, Stacked)}
        for value, made in pairs:
            if not value.pinned and (not value.stacked or id(value.parts) in viewed):
                self._memories[_key(value.part)] = view_of(made, apart=False)
        for value in pending:  # a view stays in the memory of its image or its stack
            part = value.part
            seen = part.memory if isinstance(part, Derived) else part
            is_seen = isinstance(seen, Part) or (_key(seen) in viewed and not value.pinned)
            if is_seen and not isinstance(seen, Memory | Derived):
                self._own.setdefault(_key(seen), seen)
        for key, leaf in self._own.items():
            if key not in self._memories:
                self._add(leaf, blocks.tensor(*leaf.described()))
        for value, made in pairs:
            if value.stacked:
                self._lend(made, value.parts)
        # Stacks first: a stack may contain some of the images.
        for kind in (Stacked, Part):
            self._add_in_one_block([leaf for leaf in leaves if isinstance(leaf, kind)])

    def _add(self, leaf: _Leaf, made: torch.Tensor) -> None:
        self._memories[_key(leaf)] = made
        if isinstance(leaf, Part):
            self.wanted.append((leaf, made))
            return
        self._unfinished[_key(leaf)] = leaf
        for row, part in zip(made, leaf.parts, strict=True):
            if isinstance(part, torch.Tensor | Derived):
                continue
            if _key(part) not in self._memories and _key(part) not in self._own:
                self._add(part, row)

    def _lend(self, made: torch.Tensor, parts: tuple[AnyPart, ...]) -> None:
        """Lets operators read an image where the engine writes it in a stack."""
        for row, part in zip(made, parts, strict=True):
            if isinstance(part, Part | Stacked):
                self._memories.setdefault(_key(part), row)
            if isinstance(part, Stacked):
                self._lend(row, part.parts)

    def _add_in_one_block(self, leaves: list[_Leaf]) -> None:
        """Adds the remaining leaves, whose memory is needed only until the values are made."""
        left = {_key(leaf): leaf for leaf in leaves if _key(leaf) not in self._memories}
        if not left:
            return
        forms = [leaf.described() for leaf in left.values()]
        counts = [math.prod(shape) for shape, _ in forms]
        sizes = [
            -(-count * dtype.itemsize // _ALIGNED) * _ALIGNED
            for count, (_, dtype) in zip(counts, forms, strict=True)
        ]
        rows = torch.split(self._blocks.tensor((sum(sizes),), torch.uint8), sizes)
        for leaf, row, count, form in zip(left.values(), rows, counts, forms, strict=True):
            self._add(leaf, row.view(form[1])[:count].view(form[0]))

    def make(self) -> None:
        """Puts the values in the place of the tensors, once the images came.

        If it was interrupted, it is called again.
        """
        self._order = self._order or self._in_order()
        with torch.enable_grad():  # torch refuses writes with gradients to views made without
            for *_, whole in self._order:
                if whole is not None:
                    self._memory(whole)  # is filled before others of these are swapped
            for value, parts, whole in self._order:
                if isinstance(value, PendingTensor):
                    made = self._values(value, parts) if whole is None else self._memory(whole)
                    tensor.replace(value, made)

    def _in_order(self) -> list[tuple[PendingTensor, tuple[AnyPart, ...], _Leaf | Memory | None]]:
        """The tensors with their parts, and for some of them the memory that they become.

        As in torch, a tensor that has all of a memory is no view, and the others are views of it.
        These come first, because the memory is swapped with the pending tensor.
        """
        views, wholes = [], {}
        for value, parts in self._pending:
            part = value.part
            whole: _Leaf | Memory | None = None
            if isinstance(part, Derived):
                whole = None if part.views else part.memory
            elif _key(part) in self._own:
                whole = part
            if whole is None or value.pinned or value.viewed or _key(whole) in wholes:
                views.append((value, parts, None))
            else:
                wholes[_key(whole)] = value, parts, whole
        return [*views, *wholes.values()]

    def _values(self, value: PendingTensor, parts: tuple[AnyPart, ...]) -> torch.Tensor:
        """A new tensor object, because it is swapped with the pending one."""
        part = value.part
        if isinstance(part, Derived):
            made = values(part.views, self._memory(part.memory))
            return made.pin_memory() if value.pinned else view_of(made, self._apart)
        if value.pinned or _key(part) not in self._own:
            made = empty(value, self._blocks)
            self._fill(made, parts)
            return made
        return view_of(self._memory(part), self._apart)

    def _memory(self, known: _Leaf | Memory) -> torch.Tensor:
        if isinstance(known, Memory):
            if id(known) not in self._memories:
                self._memories[id(known)] = values(known.ops, self._memory(known.leaf))
            return self._memories[id(known)]
        made = self._memories[_key(known)]
        if (unfinished := self._unfinished.get(_key(known))) is not None:
            self._fill(made, unfinished.parts)
            del self._unfinished[_key(known)]
        return made

    def _fill(self, made: torch.Tensor, parts: tuple[AnyPart, ...]) -> None:
        """Puts into a stack's memory what the engine has not put there."""
        for row, part in zip(made, parts, strict=True):
            if isinstance(part, torch.Tensor):
                row.copy_(part)
            elif isinstance(part, Stacked):
                self._fill(row, part.parts)
            else:
                ops = part.ops if isinstance(part, Derived) else ()
                leaf = self._memory(part.leaf)
                if ops or leaf.data_ptr() != row.data_ptr():
                    values(ops, leaf, row)

    def close(self) -> None:
        """Lets go of all memory."""
        self._memories, self._unfinished, self._own = {}, {}, {}
        self.wanted, self._pending, self._order = [], [], []


def _key(leaf: _Leaf | Derived | Memory) -> int:
    """A key that is the same for all leaves with the same memory."""
    return id(leaf.parts if isinstance(leaf, Stacked) else leaf)


def _leaves(parts: tuple[AnyPart, ...]) -> Iterator[_Leaf]:
    """The images and the stacks that need memory of their own."""
    for part in parts:
        if isinstance(part, torch.Tensor):
            continue
        if isinstance(part, Stacked):
            yield from _leaves(part.parts)
            continue
        leaf = part.leaf
        yield leaf
        if isinstance(leaf, Stacked):
            yield from _leaves(leaf.parts)


def view_of(made: torch.Tensor, apart: bool) -> torch.Tensor:
    """Another tensor of the same memory; if ``apart``, it is no view to autograd."""
    if apart:
        return made.data
    with torch.enable_grad():  # torch refuses writes with gradients to views made without
        return made[...]


def empty(value: PendingTensor, blocks: Blocks) -> torch.Tensor:
    """The memory for a tensor's values."""
    shape, dtype = value.described()
    if value.pinned:
        return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
    return blocks.tensor(shape, dtype)
