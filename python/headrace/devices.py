"""Batches on a CUDA device: copied ahead, on a stream of their own.

Not yet run on a GPU. The memory copied from is of PyTorch's pinned allocator (``lending``), which
gives it out again only when the event of the last copy from it has completed.
"""

from __future__ import annotations

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
        self._position, self._epoch, self._device = loader.position, epoch, device
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._ahead: tuple[Any, Any, tuple[int, int]] | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch, copied, place = self._ahead or self._copy()
        self._ahead = None
        if self._epoch.ready():
            self._ahead = self._copy()
        # The state counts what was handed out, not what was copied ahead.
        self._position.place = place
        now = self._torch.cuda.current_stream(self._device)
        now.wait_event(copied)
        for tensor in _tensors(batch):
            # Allocated on our stream: without this its memory could go to the next copy while
            # the caller's kernels still read it.
            tensor.record_stream(now)
        return batch

    def _copy(self) -> tuple[Any, Any, tuple[int, int]]:
        batch = next(self._epoch)
        with self._torch.cuda.stream(self._stream):
            moved = _to(batch, self._device)
            copied = self._stream.record_event()
        return moved, copied, self._position.place


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
