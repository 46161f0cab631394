"""Batches in memory of PyTorch's own: what ``pin_memory=True`` is made of.

The engine writes into tensors that were lent to it (``hr_lend``). When a batch arrives its loan
ends at once, and the tensor is the caller's like any other. So the rules for its memory are
PyTorch's: its pinned allocator knows of copies that still run (``.to("cuda", non_blocking=True)``)
and gives the memory out again only when they are done, which it does for no memory but its own.
Where the loader itself copies a batch to a device, nobody else ever has its memory: then that is
lent again when the copy is done, without a round through the allocator.
What a forked child sees of it is the driver's affair (docs/limits.md, "Of forked children").
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

# Whose batches go to an accelerator trains beside the decode threads: by so much their niceness is
# above that of the process, so that what launches its kernels does not wait for a decoder.
NICE = 10


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
        containers.warn(
            "pin_memory=True, but PyTorch finds no accelerator: batches stay in ordinary memory"
        )
        return None
    return lambda size: torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=True)


def lender(output: str, own: bool = True) -> Lender | None:
    """For a loader of this output; None where memory cannot be pinned.

    Not ``own``: labels too are views of the batch, for who copies all of it at once and says when
    the copies are done (``Lender.copied``).

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
    """A tensor that is lent, and its parts as a batch of one form has them."""

    __slots__ = ("form", "parts", "tensor")

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor
        self.form: views.Form | None = None
        self.parts: list[Any] = []

    def views(self, form: views.Form) -> list[Any]:
        """The parts of a batch of this form, made once: three views cost as much as starting a
        copy."""
        if self.form is not form:
            self.parts = [
                self.tensor[at : at + elements * dtype.itemsize].view(dtype).view(shape)
                for dtype, shape, elements, at, _ in form.tensors
            ]
            self.form = form
        return list(self.parts)


class Lender:
    """Lends tensors to one loader's engine and makes batches of those that come back."""

    def __init__(self, allocate: Allocate, own: bool) -> None:
        import torch

        self._allocate, self._own = allocate, own
        self._uint8 = torch.uint8
        self._frombuffer = torch.frombuffer
        self._engine: _lib.Handle | None = None
        self._slot_bytes = 0
        self._loans = 0  # that the engine is to have at once
        self._lent: dict[int, _Memory] = {}  # by tag
        self._offered: int | None = None  # the last of them, until it is known that it was lent
        self._tag = 0  # of the next
        # What each thread copies to a device at present, and what was copied, each with an event
        # behind its copies. Memory that an exception keeps from here is PyTorch's, as any tensor.
        self._copying: dict[int, _Memory] = {}
        self._copied: collections.deque[tuple[Any, _Memory]] = collections.deque()

    def serve(self, engine: _lib.Handle, slot_bytes: int, prefetch: int) -> None:
        """Begins with an engine just opened; loans to an earlier one ended when that was closed."""
        self._engine, self._slot_bytes, self._lent = engine, slot_bytes, {}
        self._offered = None
        self.close()
        engine.keep(self._lent)
        # The window of the engine, which is two at least, and one for what it opens next.
        self._loans = prefetch + 2
        self._lend()

    def _lend(self) -> None:
        """Lends what is missing; again what may not have been lent, as an exception came."""
        assert self._engine is not None
        again = self._offered in self._lent
        while again or len(self._lent) < self._loans:
            if not again:
                memory, tag = self._memory(), self._tag
                behind = tag + 1
                # Kept before it is lent: the engine writes to it from then on.
                self._lent[tag] = memory
                self._offered, self._tag = tag, behind
            assert self._offered is not None
            memory = self._lent[self._offered]
            loan = (memory.tensor.data_ptr(), self._slot_bytes, self._offered)
            # The same twice is refused, and changes nothing.
            with contextlib.suppress(*([ArgumentError] if again else [])):
                _lib.call("hr_lend", self._engine.value, *loan)
            self._offered = None
            again = False

    def _memory(self) -> _Memory:
        """For the next loan."""
        with contextlib.suppress(IndexError):
            event, memory = self._copied.popleft()  # nobody else gets it meanwhile
            if event.query():
                return memory
            self._copied.appendleft((event, memory))
        return _Memory(self._allocate(self._slot_bytes))

    def returned(self, tag: int) -> None:
        """Forgets what lay in a batch that nobody took; the next batch lends anew in its place.

        Whoever collects garbage may come here, so nothing is allocated.
        """
        self._lent.pop(tag, None)

    def over(self, batch: abi.Batch, form: views.Form) -> list[Any]:
        """The tensors of a held batch, whose loan ends here."""
        tag = batch.tag
        memory = self._lent.get(tag)
        lent = memory is not None
        if memory is None:
            # Begun before the first loan, and so in a slot of the engine's own.
            size = ctypes.sizeof(form.memory)
            memory = _Memory(self._allocate(size))
            source = form.memory.from_address(batch.fields[0].data)
            memory.tensor.copy_(self._frombuffer(source, dtype=self._uint8))
        _lib.release(batch.batch)  # again is harmless
        if lent:
            # The memory is ours alone from here on; no exception comes between these two.
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
        """Says that this thread begins with a batch; one whose copies an exception ended keeps its
        memory."""
        self._copying.pop(threading.get_ident(), None)

    def copied(self, event: Any) -> None:
        """Says that no copy of the thread's batch begins any more, and that the event stands behind
        them: its memory is lent again when that has completed."""
        memory = self._copying.pop(threading.get_ident(), None)
        # Of another size is what an engine had that was closed meanwhile.
        if memory is not None and memory.tensor.nbytes == self._slot_bytes:
            self._copied.append((event, memory))

    def close(self) -> None:
        """Gives back what is not lent."""
        self._copying.clear()
        self._copied.clear()

    def _owned(self, part: Any) -> Any:
        memory = self._allocate(part.nbytes)
        return memory.view(part.dtype).view(part.shape).copy_(part)
