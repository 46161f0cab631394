"""Joins pending tensors as ``torch.stack`` and ``torch.cat`` do, without their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from headrace._deferred import operators
from headrace._deferred.parts import AnyPart, Part, form_of


class _NoStorage:
    """Stands for the shared memory that default_collate reserves. A pending stack needs none.

    Attributes:
        asked: whether the next stack is for this memory, and so has to be contiguous.
    """

    asked = False

    def _new_shared(self, *_: Any, **__: Any) -> _NoStorage:
        return self

    def _is_shared(self) -> bool:
        """False, as for memory that is not shared yet."""
        return False

    def resize_(self, *_: Any) -> None:
        """Returns None as the ``out`` of a stack, so that the stack makes a tensor of its own."""
        self.asked = True


NO_STORAGE = _NoStorage()


def _stacked(
    kind: Any, tensors: Any, dim: int = 0, *, out: Any = None, **named: Any
) -> list[AnyPart] | None:
    """The parts of a stack of tensors of one shape and dtype, some of which have values."""
    if dim or out is not None or named:  # named: `axis`, which torch takes for dim
        return None
    in_rows, NO_STORAGE.asked = NO_STORAGE.asked, False
    parts = _parts_of(tensors, kind)
    if parts is None or not (
        in_rows or operators.all_in_rows(parts) or operators.stack_in_rows(parts)
    ):
        return None
    return _as_they_are(parts)


def _joined(kind: Any, tensors: Any, dim: int = 0, **named: Any) -> list[AnyPart] | None:
    """As ``_stacked``, for stacks and tensors with a first axis of length one, put together."""
    parts = None if dim or named or isinstance(tensors, torch.Tensor) else _parts_of(tensors, kind)
    rows = parts and operators.all_in_rows(parts) and operators.rows_of(parts)
    return _as_they_are(rows) if rows else None


# Each gets the class of pending tensors, and the arguments of torch's function. It returns the
# parts of the stack, which have one shape and dtype; None: values are needed.
FUNCTIONS: dict[Any, Callable[..., list[AnyPart] | None]] = {
    torch.stack: _stacked,
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _joined),
}


def _as_they_are(parts: list[AnyPart]) -> list[AnyPart]:
    # torch's stack is a copy: later changes of a tensor do not show in it.
    return [part.clone() if isinstance(part, torch.Tensor) else part for part in parts]


def _parts_of(tensors: Any, kind: Any) -> list[AnyPart] | None:
    """The parts of tensors of one shape and dtype; None: values are needed."""
    parts: list[AnyPart] = []
    first: Any = None
    part: AnyPart
    for tensor in tensors:
        if isinstance(tensor, kind):
            part, found = tensor.part, tensor.form
            if type(part) is not Part:
                part = operators.before_a_stack(part)
        elif (
            type(tensor) is torch.Tensor
            and not tensor.requires_grad
            and tensor.device.type == "cpu"
        ):
            part, found = tensor, form_of(tensor)
        else:
            return None
        first = found if first is None else first
        if found != first:
            return None
        parts.append(part)
    return parts
