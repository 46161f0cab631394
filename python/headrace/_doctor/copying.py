"""How fast batches are copied to a GPU from PyTorch's pinned memory, as a loader copies them."""

from __future__ import annotations

import time
from importlib.util import find_spec

_MOST_BYTES = 256 << 20


def rate(image_bytes: int, batch_size: int, seconds: float) -> tuple[float | None, str]:
    """The images a second that the link to the current GPU carries, or why that was not measured.

    Args:
        image_bytes: the bytes of one image of a batch.
        batch_size: images that are copied at once.
    """
    if find_spec("torch") is None:
        return None, "the copy to a GPU was not measured: PyTorch is not installed"
    import torch

    if not torch.cuda.is_available():
        return None, "the copy to a GPU was not measured: PyTorch sees no CUDA device"
    images = max(min(batch_size, _MOST_BYTES // max(image_bytes, 1)), 1)
    try:
        pinned = torch.empty(images * image_bytes, dtype=torch.uint8, pin_memory=True)
        there = torch.empty_like(pinned, device="cuda")
    except RuntimeError as failure:  # such as torch.OutOfMemoryError
        return None, f"the copy to a GPU was not measured: {str(failure).partition(chr(10))[0]}"
    there.copy_(pinned, non_blocking=True)  # not timed: it touches both for the first time
    torch.cuda.synchronize()
    began, copied, took = time.perf_counter(), 0, 0.0
    while took < seconds:
        there.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()
        copied += images
        took = time.perf_counter() - began
    return copied / took, ""
