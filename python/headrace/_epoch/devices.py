"""Batches on a CUDA device: copied ahead, on a stream of their own.

The copied memory is pinned. It is lent to the engine again only when the event behind its copies
has completed (``lending``).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace._engine import abi, arguments, tracing
from headrace._epoch.delivery import is_of_the_batch
from headrace.errors import UnsupportedError

if TYPE_CHECKING:
    from headrace._batch.lending import Lender
    from headrace._epoch.delivery import Delivery
    from headrace._epoch.epoch import Epoch


def resolve(device: Any) -> Any:
    """Returns the ``torch.device`` to copy to; None for no device and for the CPU.

    Raises:
        UnsupportedError: it is not a CUDA device, or PyTorch finds none here.
    """
    if device is None or (isinstance(device, str) and device == "cpu"):
        return None
    import torch

    try:
        found = torch.device(device)
    except (TypeError, RuntimeError, ValueError, OverflowError):
        raise arguments.refuse_type("device", device, 'a CUDA device, "cpu" or None') from None
    if found.type == "cpu":
        return None
    if found.type != "cuda":
        raise UnsupportedError(f"device={str(device)!r}: batches go to CUDA devices or to the CPU")
    if not torch.cuda.is_available():
        raise UnsupportedError(
            f"device={str(device)!r}: PyTorch sees no CUDA device here (torch.cuda.is_available() "
            "is False); leave device out for batches on the CPU"
        )
    return found


class Copies:
    """The batches of an epoch, on a device.

    While the caller computes with one batch, the next one is copied, if it is decoded by then.

    Args:
        epoch: makes the batches, in memory of ``lender``.
        device: the ``torch.device``.
        lender: is told when a batch's memory may be written again.
    """

    def __init__(self, epoch: Epoch, device: Any, lender: Lender) -> None:
        import torch

        self._torch = torch
        self._epoch, self._device, self._lender = epoch, device, lender
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # Asking by number is faster, because PyTorch need not look it up in a torch.device for each
        # batch.
        self._current_stream = functools.partial(
            torch.cuda.current_stream, self._stream.device_index
        )
        # A batch that was copied ahead, or the exception of that, which is raised when the batch is
        # asked for.
        self._ahead: dict[int, tuple[Any, Any] | Exception] = {}

    def begin(self) -> Delivery:
        if self._epoch.superseded:  # the epoch raises that itself
            self._ahead.clear()
        return self._epoch.begin()

    def has(self, number: int) -> bool:
        return self._epoch.has(number)

    def ready(self, number: int) -> bool:
        return number in self._ahead or self._epoch.ready(number)

    def make(self, number: int) -> Any:
        found = self._ahead.get(number) or self._copied(number)
        self._ahead[number] = found
        if not isinstance(found, Exception) and number + 1 not in self._ahead:
            self._copy_ahead(number + 1)
        # If an exception keeps the batch from being handed out, it is made again.
        del self._ahead[number]
        if isinstance(found, Exception):
            raise found
        batch, copied = found
        now = self._current_stream()
        now.wait_event(copied)
        for tensor in _tensors(batch):
            # The memory was allocated on our stream. Without this, the next copy could get it while
            # the caller's kernels still read it.
            tensor.record_stream(now)
        return batch

    def note(self, kind: int, number: int, began: int) -> None:
        self._epoch.note(kind, number, began)

    def _copy_ahead(self, number: int) -> None:
        if self._epoch.ready(number):
            try:
                self._ahead[number] = self._copied(number)
            except Exception as error:
                if not is_of_the_batch(error):
                    raise
                self._ahead[number] = error

    def _copied(self, number: int) -> tuple[Any, Any]:
        self._lender.copying()
        batch = self._epoch.make(number)
        began = tracing.now()
        with self._torch.cuda.stream(self._stream):
            moved = _to(batch, self._device)
            copied = self._stream.record_event()
        self._lender.copied(copied)
        self.note(abi.SPAN_COPY, number, began)
        return moved, copied


def _to(part: Any, device: Any) -> Any:
    if isinstance(part, tuple | list):
        return type(part)(_to(each, device) for each in part)
    if isinstance(part, dict):
        return {name: _to(each, device) for name, each in part.items()}
    return part.to(device, non_blocking=True) if hasattr(part, "record_stream") else part


def _tensors(part: Any) -> Iterator[Any]:
    if isinstance(part, tuple | list | dict):
        for each in part.values() if isinstance(part, dict) else part:
            yield from _tensors(each)
    elif hasattr(part, "record_stream"):
        yield part
