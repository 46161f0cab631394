"""Keeps the memory of batches, to use it again once nobody refers to the batch.

Fresh memory costs a page fault for each 4 KB. For a batch of photographs that is a fifth of what
decoding costs. Memory that torch frees goes back to the system each time, so batches are made in
blocks that are kept here.
"""

from __future__ import annotations

import contextlib
import mmap
import weakref
from typing import Any

import numpy as np
import torch

# The most free blocks of one size. There are more blocks while a program keeps batches.
_MOST_FREE = 4
# The most sizes of which free blocks are kept. If each image is a batch of its own size, no size
# comes again soon.
_MOST_SIZES = 8


class Blocks:
    """Blocks of memory by their sizes."""

    def __init__(self) -> None:
        self._free: dict[int, list[mmap.mmap]] = {}

    def tensor(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """An uninitialised tensor, whose memory comes back here when its last view dies."""
        count = dtype.itemsize
        for side in shape:
            count *= side
        if not count:
            return torch.empty(shape, dtype=dtype, device="cpu")
        free = self._last(count)
        block = free.pop() if free else mmap.mmap(-1, count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        lease = np.frombuffer(block, np.uint8).view(_Lease)
        lease.block, lease.blocks = block, weakref.ref(self)
        # Not as a view of the bytes: what a program changes in place, or trains on, must be no view
        # where torch's loader gives none.
        return torch.from_numpy(lease).view(dtype).view(shape).data

    def _last(self, count: int) -> list[mmap.mmap]:
        """The free blocks of a size. The size becomes the latest one.

        A batch may die and give its block back at any point here. At worst that block is lost.
        """
        free = self._free.pop(count, None) or []
        self._free[count] = free
        while len(self._free) > _MOST_SIZES:
            with contextlib.suppress(RuntimeError):  # another thread changes it, too
                self._free.pop(next(iter(self._free)), None)
        return free

    def take_back(self, block: mmap.mmap) -> None:
        """Keeps a block for the next batch of its size, if that is one of the last sizes."""
        free = self._free.get(len(block))
        if free is not None and len(free) < _MOST_FREE:
            free.append(block)

    def clear(self) -> None:
        """Lets all free blocks go."""
        self._free.clear()


class _Lease(np.ndarray[Any, Any]):
    """What a tensor holds while it lies in a block. When this dies, it gives the block back."""

    block: mmap.mmap | None = None
    blocks: weakref.ref[Blocks] | None = None

    def __del__(self) -> None:
        block, blocks = self.block, None if self.blocks is None else self.blocks()
        self.block = None
        if block is not None and blocks is not None:
            blocks.take_back(block)
