"""Makes of a batch's decoded images what torch's operators are to make of them.

What shares memory where torch does it at once shares it here. An image that several tensors are
made of is decoded once.
"""

from __future__ import annotations

import math

import torch

from headrace._deferred import tensor
from headrace._deferred.memory import Blocks
from headrace._deferred.parts import Derived, Memory, Part, leaves_of, values
from headrace._deferred.tensor import PendingTensor

_ALIGNED = 64  # bytes, as torch's own memory


def is_derived(value: PendingTensor) -> bool:
    """Whether operators make some of a tensor's values."""
    return Derived in map(type, value.parts)


class Derivations:
    """The tensors of a batch that operators make values of.

    Args:
        pairs: the batch's other tensors, and the memory that the engine fills for each.

    Attributes:
        wanted: the images that the engine has yet to make for them, and where.
    """

    def __init__(
        self,
        pending: list[PendingTensor],
        pairs: list[tuple[PendingTensor, torch.Tensor]],
        blocks: Blocks,
    ) -> None:
        # With the parts, which a tensor that has its values does not have any more.
        self._pending, self._blocks = [(value, value.parts) for value in pending], blocks
        self.wanted: list[tuple[Part, torch.Tensor]] = []
        # By the id of what it is, each memory that tensors are views of. The tensors have parts
        # that refer to them all.
        self._memories: dict[int, torch.Tensor] = {}
        if not pending:
            return
        for value, made in pairs:
            if not (value.stacked or value.pinned):
                self._memories[id(value.parts[0])] = made[...]
        for value in pending:  # a view stays where the image is made
            part = value.parts[0]
            seen = part.memory if isinstance(part, Derived) and not value.stacked else None
            if isinstance(seen, Part) and id(seen) not in self._memories:
                self._add(seen, blocks.tensor(*seen.described()))
        for value, made in pairs:
            for row, one in zip(made, value.parts, strict=True) if value.stacked else ():
                self._memories.setdefault(id(one), row)
        left = {id(leaf): leaf for value in pending for leaf in leaves_of(value.parts)}
        self._add_in_one_block([leaf for key, leaf in left.items() if key not in self._memories])

    def _add(self, leaf: Part, made: torch.Tensor) -> None:
        self._memories[id(leaf)] = made
        self.wanted.append((leaf, made))

    def _add_in_one_block(self, leaves: list[Part]) -> None:
        """Memory that is needed until the values are made."""
        forms = [leaf.described() for leaf in leaves]
        counts = [math.prod(shape) for shape, _ in forms]
        sizes = [
            -(-count * dtype.itemsize // _ALIGNED) * _ALIGNED
            for count, (_, dtype) in zip(counts, forms, strict=True)
        ]
        rows = torch.split(self._blocks.tensor((sum(sizes),), torch.uint8), sizes)
        for leaf, row, count, (shape, dtype) in zip(leaves, rows, counts, forms, strict=True):
            self._add(leaf, row.view(dtype)[:count].view(shape))

    def make(self) -> None:
        """Puts the values in the place of the tensors, once the images came. An interrupted one is
        called again."""
        for value, parts in self._pending:
            if not isinstance(value, PendingTensor):
                continue
            if value.stacked:
                made = empty(value, self._blocks)
                for row, part in zip(made, parts, strict=True):
                    if isinstance(part, torch.Tensor):
                        row.copy_(part)
                    else:
                        ops = part.ops if isinstance(part, Derived) else ()
                        values(ops, self._memories[id(part.leaf)], row)
            else:
                (part,) = parts
                assert isinstance(part, Derived), "others are not given to this"
                made = values(part.views, self._memory(part.memory))
                # One of its own: it is exchanged for what waits.
                made = made.pin_memory() if value.pinned else made[...]
            tensor.replace(value, made)

    def _memory(self, known: Part | Memory) -> torch.Tensor:
        made = self._memories.get(id(known))
        if made is None:
            assert isinstance(known, Memory), "the images' are there"
            made = values(known.ops, self._memories[id(known.leaf)])
            self._memories[id(known)] = made
        return made

    def close(self) -> None:
        """Lets go of all memory."""
        self._memories, self.wanted, self._pending = {}, [], []


def empty(value: PendingTensor, blocks: Blocks) -> torch.Tensor:
    """The memory for a tensor's values."""
    shape, dtype = value.described()
    if value.pinned:
        return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=True)
    return blocks.tensor(shape, dtype)
