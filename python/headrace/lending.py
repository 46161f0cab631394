"""Batches in memory of PyTorch's own: what ``pin_memory=True`` is made of.

The engine writes into tensors that were lent to it (``hr_lend``). When a batch arrives its loan
ends at once, and the tensor is the caller's like any other. So the rules for its memory are
PyTorch's: its pinned allocator knows of copies that still run (``.to("cuda", non_blocking=True)``)
and gives the memory out again only when they are done, which it does for no memory but its own.
"""

from __future__ import annotations

import ctypes
import itertools
import warnings
from collections.abc import Callable
from typing import Any

from headrace import _lib, views
from headrace.errors import ArgumentError

Allocate = Callable[[int], Any]  # bytes to a uint8 tensor


def available() -> bool:
    """Whether PyTorch can pin memory here."""
    import torch

    if not hasattr(torch, "accelerator"):  # before torch 2.6
        return torch.cuda.is_available()
    return torch.accelerator.is_available()


def allocator() -> Allocate | None:
    """What makes pinned memory; None, with a warning as PyTorch's, where no accelerator is."""
    import torch

    if not available():
        warnings.warn(
            "pin_memory=True, but PyTorch finds no accelerator: batches stay in ordinary memory",
            stacklevel=4,
        )
        return None
    return lambda size: torch.empty(size, dtype=torch.uint8, pin_memory=True)


def lender(output: str, own: bool = True) -> Lender | None:
    """For a loader of this output; None where memory cannot be pinned.

    Not ``own``: labels too are views of the batch, for who copies them at once.

    Raises:
        ArgumentError: the output is not "torch".
    """
    if output != "torch":
        raise ArgumentError(f"pin_memory=True makes torch tensors, and output is {output!r}")
    allocate = allocator()
    return None if allocate is None else Lender(allocate, own)


class Lender:
    """Lends tensors to one loader's engine and makes batches of those that come back."""

    def __init__(self, allocate: Allocate, own: bool) -> None:
        import torch

        self._allocate, self._own = allocate, own
        self._uint8 = torch.uint8
        self._frombuffer = torch.frombuffer
        self._engine: _lib.Handle | None = None
        self._slot_bytes = 0
        self._lent: dict[int, Any] = {}
        self._tags = itertools.count()

    def serve(self, engine: _lib.Handle, slot_bytes: int, prefetch: int) -> None:
        """Begins with an engine just opened; loans to an earlier one ended when that was closed."""
        self._engine, self._slot_bytes, self._lent = engine, slot_bytes, {}
        engine.keep(self._lent)
        # The window of the engine, which is two at least, and one for what it opens next.
        for _ in range(prefetch + 2):
            self._lend()

    def _lend(self) -> None:
        assert self._engine is not None
        tag, memory = next(self._tags), self._allocate(self._slot_bytes)
        self._lent[tag] = memory
        _lib.call("hr_lend", self._engine.value, memory.data_ptr(), self._slot_bytes, tag)

    def over(self, batch: _lib.Batch, form: views.Form) -> list[Any]:
        """The tensors of a held batch, whose loan ends here."""
        memory = self._lent.get(batch.tag)
        if memory is None:
            # Begun before the first loan, and so in a slot of the engine's own.
            size = ctypes.sizeof(form.memory)
            memory = self._allocate(size)
            source = form.memory.from_address(batch.fields[0].data)
            memory.copy_(self._frombuffer(source, dtype=self._uint8))
        handle, batch.batch = batch.batch, 0
        _lib.release(handle)
        if self._lent.pop(batch.tag, None) is not None:
            self._lend()
        return [
            self._part(memory, at, elements * dtype.itemsize, own).view(dtype).view(shape)
            for dtype, shape, elements, at, own in form.tensors
        ]

    def _part(self, memory: Any, at: int, size: int, own: bool) -> Any:
        part = memory[at : at + size]
        return self._allocate(size).copy_(part) if own and self._own else part
