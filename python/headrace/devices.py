"""Batches on a CUDA device: copied ahead, on a stream of their own.

The memory copied from is of PyTorch's pinned allocator (``lending``), which gives it out again only
when the event of the last copy from it has completed.
"""

from __future__ import annotations

import functools
import threading
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from headrace import arguments
from headrace.errors import UnsupportedError

if TYPE_CHECKING:
    from headrace.epoch import Epoch
    from headrace.loader import Loader


def resolve(device: Any) -> Any:
    """The ``torch.device`` to copy to; None for none and for the CPU.

    Raises:
        UnsupportedError: it is no CUDA device, or PyTorch sees none here.
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

    While the caller computes with one batch the next one is copied, if it is decoded by then.
    """

    def __init__(self, loader: Loader, epoch: Epoch, device: Any) -> None:
        import torch

        self._torch = torch
        self._loader, self._epoch, self._device = loader, epoch, device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        # By number, which PyTorch need not look for in a torch.device at each batch.
        self._current_stream = functools.partial(
            torch.cuda.current_stream, self._stream.device_index
        )
        # As with an Epoch, threads may share this, each batch going to one of them.
        self._turn = threading.RLock()
        # Batches stay here until they are handed out, for an interrupt may come while one is
        # copied; with each, what a state is made of behind it.
        self._received: tuple[Any, Any] | None = None
        self._copied: deque[tuple[Any, Any, Any]] = deque()
        self._failed: tuple[Exception, Any] | None = None  # instead of the batch behind those

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._turn:
            if self._epoch.superseded:  # it says so itself
                self._copied.clear()
                self._received = self._failed = None
            if not self._copied:
                self._raise_failed()
                self._copy()
            if len(self._copied) < 2 and self._failed is None and self._epoch.ready():
                self._copy_ahead()
            batch, copied, reached = self._copied[0]
            now = self._current_stream()
            now.wait_event(copied)
            for tensor in _tensors(batch):
                # Allocated on our stream: without this its memory could go to the next copy while
                # the caller's kernels still read it.
                tensor.record_stream(now)
            self._copied.popleft()
            self._loader.reached = reached
            return batch

    def _raise_failed(self) -> None:
        if self._failed is not None:
            (error, self._loader.reached), self._failed = self._failed, None
            raise error

    def _copy_ahead(self) -> None:
        """Copies the next batch; what is wrong with it is said when it is asked for."""
        before = self._loader.reached
        try:
            self._copy()
        except Exception as error:
            self._failed = error, self._loader.reached
        finally:  # a state counts what was handed out
            self._loader.reached = before

    def _copy(self) -> None:
        if self._received is None:
            self._received = next(self._epoch), self._loader.reached
        batch, reached = self._received
        with self._torch.cuda.stream(self._stream):
            moved = _to(batch, self._device)
            copied = self._stream.record_event()
        self._copied.append((moved, copied, reached))
        self._received = None


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
