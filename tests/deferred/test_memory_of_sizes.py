"""Memory of batches of many sizes."""

from __future__ import annotations

import torch

from headrace._deferred.memory import Blocks


def test_memory_blocks_of_old_sizes_are_freed_and_those_of_the_last_sizes_are_kept() -> None:
    blocks = Blocks()
    for number in range(200):
        blocks.tensor((1000 + number,), torch.uint8)
    assert list(blocks._free) == list(range(1192, 1200))
    assert all(len(free) == 1 for free in blocks._free.values())
    kept = [blocks.tensor((5000,), torch.uint8) for _ in range(6)]
    del kept
    assert len(blocks._free[5000]) == 4
    first = blocks.tensor((5000,), torch.uint8)
    address = first.data_ptr()
    for _ in range(3):
        blocks.tensor((7,), torch.uint8)
    del first
    assert blocks.tensor((5000,), torch.uint8).data_ptr() == address
    assert len(blocks._free) <= 8
