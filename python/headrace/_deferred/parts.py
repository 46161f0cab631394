"""The parts of a pending tensor: images, and the operators that are applied to them later.

All of it is plain data, which can be sent to another process. Tensors that share memory in torch
share one object here, also after they were sent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from headrace._deferred.chain import Chain, Form

DTYPES = {
    "uint8": torch.uint8,
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class Part(NamedTuple):
    """One image of a tensor.

    Attributes:
        chain: what to decode, and how.
        form: dtype and scale.
        place: the place of its sample in the batch.
    """

    chain: Chain
    form: Form
    place: int

    def described(self) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype."""
        width, height = self.chain.size
        return (self.form.channels, height, width), DTYPES[self.form.dtype]

    @property
    def leaf(self) -> Part:
        """Itself, because the engine fills its memory."""
        return self


class Constant(NamedTuple):
    """A small tensor that is an operator's argument, with the values that it had at the call."""

    data: bytes
    dtype: torch.dtype
    shape: tuple[int, ...]

    def tensor(self) -> torch.Tensor:
        """A tensor with these values."""
        return torch.frombuffer(bytearray(self.data), dtype=self.dtype).view(self.shape)


class TensorOp(NamedTuple):
    """A method of torch.Tensor, its arguments, and what is known of its result.

    Attributes:
        name: the method's name.
        arguments: numbers, dtypes, slices, and tuples of them; constants.
        named: the arguments that are given by name.
        view: whether the result is a view of the tensor's memory.
        pointwise: whether each value is made of the value in the same place.
        shape, dtype, stride: those of the result.
        contiguous: whether the result is contiguous.
        several: whether a ``select`` or ``narrow`` is one result of ``unbind`` or ``split``.
    """

    name: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...]
    view: bool
    pointwise: bool
    shape: tuple[int, ...]
    dtype: torch.dtype
    stride: tuple[int, ...]
    contiguous: bool
    several: bool = False

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The method's result for a tensor."""
        if self.several:
            return _one_of_several(self.name, tensor, *self.arguments)
        return called(self.name, tensor, [*map(_given, self.arguments)], self.named)


def _one_of_several(
    name: str, tensor: torch.Tensor, axis: int, at: int, length: int = 1
) -> torch.Tensor:
    """A view that is to autograd one of several results, made with as few others as possible."""
    if name == "select":
        (made,) = tensor.narrow(axis, at, 1).unbind(axis)
        return made
    rest = tensor.shape[axis] - at - length
    return tensor.split_with_sizes([at, length, rest], axis)[1]


def _given(argument: Any) -> Any:
    """An argument as torch takes it."""
    return argument.tensor() if type(argument) is Constant else argument


def called(name: str, tensor: torch.Tensor, given: Any, named: Any = ()) -> torch.Tensor:
    """The result of a tensor's method; for an assignment, a copy with the assigned values."""
    if name == "__setitem__":
        changed = tensor.clone()
        changed[given[0]] = given[1]
        return changed
    made: torch.Tensor = getattr(tensor, name)(*given, **dict(named))
    return made


class Stacked(NamedTuple):
    """Several parts of one shape and dtype, one after another in one memory.

    Attributes:
        parts: the parts in their order. The tuple is one object for all tensors that share this
            memory.
    """

    parts: tuple[AnyPart, ...]

    def described(self) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype."""
        shape, dtype = form_of(self.parts[0])
        return (len(self.parts), *shape), dtype

    @property
    def leaf(self) -> Stacked:
        """Itself, as for an image."""
        return self


class Memory(NamedTuple):
    """Values that operators make of an image or a stack, in memory of their own.

    Attributes:
        leaf: the image or the stack.
        ops: the operators, of which the last one returns no view.
    """

    leaf: Part | Stacked
    ops: tuple[TensorOp, ...]


class Derived(NamedTuple):
    """What operators make of an image or a stack: a memory, and a view of it.

    Attributes:
        memory: that of the image or the stack itself, or one that operators fill.
        views: the operators that give the view, each applied to the result of the one before.
    """

    memory: Part | Stacked | Memory
    views: tuple[TensorOp, ...]

    @property
    def leaf(self) -> Part | Stacked:
        """The image or the stack."""
        return self.memory.leaf

    @property
    def ops(self) -> tuple[TensorOp, ...]:
        """All operators on the values of the image or the stack."""
        return (self.memory.ops if isinstance(self.memory, Memory) else ()) + self.views

    @property
    def last(self) -> TensorOp:
        """The operator that this is the result of."""
        return self.views[-1] if self.views else self.ops[-1]

    def described(self) -> tuple[tuple[int, ...], torch.dtype]:
        """Shape and dtype."""
        return self.last.shape, self.last.dtype

    def then(self, ops: tuple[TensorOp, ...]) -> Derived:
        """The same image with further operators."""
        if ops[-1].view:
            return Derived(self.memory, self.views + ops)
        return Derived(Memory(self.leaf, self.ops + ops), ())


OnePart = Part | Stacked | Derived
AnyPart = OnePart | torch.Tensor


def form_of(part: AnyPart) -> tuple[tuple[int, ...], torch.dtype]:
    """Shape and dtype of a part, which may be a tensor with values."""
    if isinstance(part, torch.Tensor):
        return tuple(part.shape), part.dtype
    return part.described()


def leaves_of(parts: tuple[AnyPart, ...]) -> list[Part]:
    """The images among parts, also those inside stacks."""
    found = []
    for part in parts:
        leaf = None if isinstance(part, torch.Tensor) else part.leaf
        if isinstance(leaf, Stacked):
            found += leaves_of(leaf.parts)
        elif leaf is not None:
            found.append(leaf)
    return found


def values(
    ops: tuple[TensorOp, ...], tensor: torch.Tensor, row: torch.Tensor | None = None
) -> torch.Tensor:
    """Applies operators to values.

    Args:
        row: where the result goes, with its shape and dtype; None: to memory of its own, except
            that a view stays in the memory that it is a view of.
    """
    place, own = 0, False
    while place < len(ops):
        end = place
        if ops[place].name == "__setitem__":
            if not own:
                only = row is not None and all(op.name == "__setitem__" for op in ops[place:])
                tensor = row.copy_(tensor) if only and row is not None else tensor.clone()
                own = True
            index, value = (_given(one) for one in ops[place].arguments)
            tensor[index] = value
            place += 1
            continue
        while end < len(ops) and ops[end].pointwise:
            end += 1
        if end == place:
            tensor = ops[place].of(tensor)
            own |= not ops[place].view
            place += 1
            continue
        last = ops[end - 1]
        made = row if end == len(ops) else None
        if made is None:
            made = torch.empty_strided(last.shape, last.stride, dtype=last.dtype, device="cpu")
        fill(made, tensor, ops[place:end])
        tensor, place, own = made, end, True
    if row is None or tensor is row:
        return tensor
    fill(row, tensor)
    return row


# torch divides the work on more values among threads of its own (GRAIN_SIZE in
# aten/src/ATen/TensorIterator.h). Those and the engine's threads would wait for one another at each
# operator. And so few values stay in a core's cache from one operator to the next.
_MOST_AT_ONCE = (1 << 15) - 1

_Call = tuple[str, list[Any], Any]


def fill(made: torch.Tensor, tensor: torch.Tensor, ops: tuple[TensorOp, ...] = ()) -> None:
    """Applies pointwise operators to some values at a time, and writes the results to memory.

    The bytes do not depend on how many values that are, because each operator rounds a value once.
    """
    calls: list[_Call] = []
    for op in ops:
        given = [_spread(one, made) if type(one) is Constant else one for one in op.arguments]
        calls.append((op.name, given, op.named))
    _fill(made, tensor, calls)


def _spread(constant: Constant, made: torch.Tensor) -> torch.Tensor:
    """A constant in the shape of what it is combined with.

    A number stays a number, because torch has other rules of dtypes for it.
    """
    tensor = constant.tensor()
    return tensor.expand(made.shape) if tensor.dim() else tensor


def _fill(made: torch.Tensor, tensor: torch.Tensor, calls: list[_Call]) -> None:
    count = made.numel()
    if count <= _MOST_AT_ONCE:
        for name, given, named in calls:
            tensor = called(name, tensor, given, named)
        made.copy_(tensor)
        return
    # The values are cut along the dimension in which they lie farthest apart.
    size, stride = made.shape, made.stride()
    along = max((dim for dim in range(len(size)) if size[dim] > 1), key=stride.__getitem__)
    step = max(1, size[along] * _MOST_AT_ONCE // count)
    for begin in range(0, size[along], step):
        length = min(step, size[along] - begin)
        cut = [
            (name, [_narrowed(one, along, begin, length) for one in given], named)
            for name, given, named in calls
        ]
        _fill(made.narrow(along, begin, length), tensor.narrow(along, begin, length), cut)


def _narrowed(value: Any, along: int, begin: int, length: int) -> Any:
    if isinstance(value, torch.Tensor) and value.dim():
        return value.narrow(along, begin, length)
    return value
