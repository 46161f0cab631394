"""Batches in PyTorch's own memory: how ``pin_memory=True`` works.

The engine writes into tensors that were lent to it (``hr_lend``). When a batch arrives, its loan
ends at once, and the tensor belongs to the caller like any other. So PyTorch's rules hold for its
memory: PyTorch's pinned allocator knows of copies that still run (``.to("cuda",
non_blocking=True)``) and reuses memory only when they are done. It does so for no memory but its
own. If the loader itself copies a batch to a device, nobody else ever has its memory. Such memory
is lent again when the copy is done, without going through the allocator. What a forked child sees
of it depends on the driver (docs/limits.md, "Of forked children").
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Any

from headrace._batch import views
from headrace._engine import _lib, abi, containers
from headrace.errors import ArgumentError

Allocate = Callable[[int], Any]  # bytes to a uint8 tensor

# If batches go to an accelerator, training runs beside the decode threads. The threads get a
# niceness this much above the process's, so that the thread that launches kernels does not wait for
# a decoder.
NICE = 10


def available() -> bool:
    """Whether PyTorch can pin memory here."""
    import torch

    if not hasattr(torch, "accelerator"):  # before torch 2.6
        return torch.cuda.is_available()
    return torch.accelerator.is_available()


def allocator() -> Allocate | None:
    """What allocates pinned memory; None, with PyTorch's warning, if there is no accelerator."""
    import torch

    if not available():
        containers.warn(
            "pin_memory=True, but PyTorch finds no accelerator: batches stay in ordinary memory"
        )
        return None
    return lambda size: torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)


def lender(output: str, own: bool = True) -> Lender | None:
    """Returns a lender for a loader of this output; None if memory cannot be pinned.

    If not ``own``, labels too are views of the batch. That is for a caller that copies the whole
    batch at once and says when the copies are done (``Lender.copied``).

    Raises:
        ArgumentError: the output is not "torch".
    """
    if output != "torch":
        raise ArgumentError(f"pin_memory=True needs output='torch' (found output={output!r})")
    allocate = allocator()
    return None if allocate is None else Lender(allocate, own)


def niceness(lender: Lender | None) -> int:
    """How much a loader raises the niceness of its decode threads."""
    return 0 if lender is None else NICE


class _Memory:
    """A lent tensor, and its parts for a batch of one form."""

    __slots__ = ("form", "parts", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.form: views.Form | None = None
        self.parts: list[Any] = []

    def views(self, form: views.Form) -> list[Any]:
        """The parts of a batch of this form, made only once, because three views cost as much as
        starting a copy. To autograd they are no views of one another."""
        if self.form is not form:
            self.parts = [
                self.tensor[at : at + elements * dtype.itemsize].view(dtype).view(shape).data
                for dtype, shape, elements, at, _ in form.tensors
            ]
            self.form = form
        return list(self.parts)


class Lender:
    """Lends tensors to the engine of one loader, and makes batches of those that come back."""

    def __init__(self, allocate: Allocate, own: bool) -> None:
        import torch

        self._allocate, self._own = allocate, own
        self._uint8 = torch.uint8
        self._frombuffer = torch.frombuffer
        self._engine: _lib.Handle | None = None
        self._slot_bytes = 0
        self._loans = 0  # how many the engine should have at once
        self._lent: dict[int, _Memory] = {}  # by tag
        self._offered: int | None = None  # the last tag, until it is known that it was lent
        self._tag = 0  # of the next loan
        # What each thread now copies to a device, and what was copied, each with an event behind
        # its copies. If an exception keeps memory out of these, PyTorch frees it like any tensor's.
        self._copying: dict[int, _Memory] = {}
        self._copied: collections.deque[tuple[Any, _Memory]] = collections.deque()

    def serve(self, engine: _lib.Handle, slot_bytes: int, prefetch: int) -> None:
        """Begins with an engine just opened. Loans to an earlier one ended when it was closed."""
        self._engine, self._slot_bytes, self._lent = engine, slot_bytes, {}
        self._offered = None
        self.close()
        engine.keep(self._lent)
        # The engine's window, which is at least two, and one for the batch that it opens next.
        self._loans = prefetch + 2
        self._lend()

    def _lend(self) -> None:
        """Lends what is missing. If an exception came during a loan, that loan is repeated."""
        assert self._engine is not None
        again = self._offered in self._lent
        while again or len(self._lent) < self._loans:
            if not again:
                memory, tag = self._memory(), self._tag
                behind = tag + 1
                # The memory is kept before it is lent, because the engine writes to it from then
                # on.
                self._lent[tag] = memory
                self._offered, self._tag = tag, behind
            assert self._offered is not None
            memory = self._lent[self._offered]
            loan = (memory.tensor.data_ptr(), self._slot_bytes, self._offered)
            # Lending the same memory twice is refused and changes nothing.
            with contextlib.suppress(*([ArgumentError] if again else [])):
                _lib.call("hr_lend", self._engine.value, *loan)
            self._offered = None
            again = False

    def _memory(self) -> _Memory:
        """Returns memory for the next loan."""
        with contextlib.suppress(IndexError):
            event, memory = self._copied.popleft()  # no other thread gets it meanwhile
            if event.query():
                return memory
            self._copied.appendleft((event, memory))
        return _Memory(self._allocate(self._slot_bytes))

    def returned(self, tag: int) -> None:
        """Forgets the memory of a batch that nobody took; the next batch lends new memory in its
        place.

        The garbage collector may call this at any time, so it allocates nothing.
        """
        self._lent.pop(tag, None)

    def over(self, batch: abi.Batch, form: views.Form) -> list[Any]:
        """Returns the tensors of a held batch, and ends its loan."""
        tag = batch.tag
        memory = self._lent.get(tag)
        lent = memory is not None
        if memory is None:
            # The batch was begun before the first loan, so it lies in one of the engine's own
            # slots.
            size = ctypes.sizeof(form.memory)
            memory = _Memory(self._allocate(size))
            source = form.memory.from_address(batch.fields[0].data)
            memory.tensor.copy_(self._frombuffer(source, dtype=self._uint8))
        _lib.release(batch.batch)  # releasing it twice is harmless
        if lent:
            # From here on only this process uses the memory. No exception can come between these
            # two lines.
            del self._lent[tag]
            batch.batch = 0
        else:
            batch.batch = 0
        self._lend()
        parts = memory.views(form)
        if self._own:
            pairs = zip(parts, form.tensors, strict=True)
            return [self._owned(part) if about.own else part for part, about in pairs]
        if lent:
            self._copying[threading.get_ident()] = memory
        return parts

    def copying(self) -> None:
        """Says that this thread begins with a batch. If an exception ended the copies of its last
        batch, that batch keeps its memory."""
        self._copying.pop(threading.get_ident(), None)

    def copied(self, event: Any) -> None:
        """Says that no further copy of the thread's batch begins, and that ``event`` follows all of
        them. Its memory is lent again when the event has completed."""
        memory = self._copying.pop(threading.get_ident(), None)
        # Memory of another size belonged to an engine that has been closed meanwhile.
        if memory is not None and memory.tensor.nbytes == self._slot_bytes:
            self._copied.append((event, memory))

    def close(self) -> None:
        """Gives back what is not lent."""
        self._copying.clear()
        self._copied.clear()

    def _owned(self, part: Any) -> Any:
        memory = self._allocate(part.nbytes)
        return memory.view(part.dtype).view(part.shape).data.copy_(part)
