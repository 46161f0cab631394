"""Memory of batches that is used again once nobody refers to the batch.

Fresh memory costs a page fault for each 4 KB: of a batch of photographs a fifth of what decoding
costs. What torch frees goes back to the system each time, so batches are made in blocks kept here.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from typing import Any

import numpy as np
import torch

# Blocks of one size that wait for a batch. More are there while a program keeps batches.
_MOST_FREE = 4
# Sizes of which blocks wait. Where each image is a batch of its own size, no size comes again soon.
_MOST_SIZES = 8


class Blocks:
    """Blocks of memory by their sizes."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised tensor, whose memory comes back when its last view dies."""
        count = dtype.itemsize
        for side in shape:
            count *= side
        if not count:
            return torch.empty(shape, dtype=dtype, device="cpu")
        free = self._last(count)
        block = free.pop() if free else mmap.mmap(-1, count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        lease = np.frombuffer(block, np.uint8).view(_Lease)
        lease.block, lease.blocks = block, weakref.ref(self)
        return torch.from_numpy(lease).view(dtype).view(shape)

    def _last(self, count: int) -> list[mmap.mmap]:
        """The free blocks of a size, which becomes the one that was asked for last.

        A batch may die, and so give its block back, at any point here: that block is lost at worst.
        """
        free = self._free.pop(count, None) or []
        self._free[count] = free
        while len(self._free) > _MOST_SIZES:
            with contextlib.suppress(RuntimeError):  # another thread asks, too
                self._free.pop(next(iter(self._free)), None)
        return free

    def take_back(self, block: mmap.mmap) -> None:
        """Keeps a block for the next batch of its size, if that is one of the last sizes."""
        free = self._free.get(len(block))
        if free is not None and len(free) < _MOST_FREE:
            free.append(block)

    def clear(self) -> None:
        """Lets all go that no batch lies in."""
        self._free.clear()


class _Lease(np.ndarray[Any, Any]):
    """What a tensor holds while it lies in a block: its death gives the block back."""

    block: mmap.mmap | None = None
    blocks: weakref.ref[Blocks] | None = None

    def __del__(self) -> None:
        block, blocks = self.block, None if self.blocks is None else self.blocks()
        self.block = None
        if block is not None and blocks is not None:
            blocks.take_back(block)
