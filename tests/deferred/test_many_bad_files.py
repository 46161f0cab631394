"""Many bad files close together, as an interrupted download leaves them."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import equal

SMALL = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])
PREFETCH, BATCH = 2, 2


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Four hundred files; from the 40th to the 340th, three of four are truncated."""
    root = tmp_path_factory.mktemp("many")
    (whole,) = images.plain_tree(root / "photo", 1).rglob("*.jpg")
    half = root / "half.jpg"
    half.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    found = []
    for number in range(400):
        found.append(str(root / f"{number:03}.jpg"))
        shutil.copyfile(half if 40 <= number < 340 and number % 4 else whole, found[-1])
        os.utime(found[-1], (1e9, 1e9))
    return found


class TakesAnother(data.Dataset[Any]):
    """Draws a number, and takes the first of its files in place of a bad one."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.own = paths, np.random.default_rng(7)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        drawn = random.random(), np.random.rand(), torch.rand(1), self.own.random()
        try:
            image = Image.open(self.paths[index]).convert("RGB")
        except OSError:
            image = Image.open(self.paths[0]).convert("RGB")
            index = -1
        return SMALL(image), index, drawn


@pytest.mark.every(3)
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_many_bad_files_keep_the_number_of_batches_under_way_and_change_no_draw(
    paths: list[str], workers: int
) -> None:
    options: dict[str, Any] = {
        "batch_size": BATCH, "num_workers": workers, "prefetch_factor": PREFETCH,
    }  # fmt: skip
    torch.manual_seed(4)
    expected = list(data.DataLoader(TakesAnother(paths), **options))
    torch.manual_seed(4)
    with contextlib.closing(hr.DataLoader(TakesAnother(paths), **options)) as loader:
        batches: Any = iter(loader)
        found, begun = [], []
        for batch in batches:
            found.append(batch)
            begun.append(len(batches._begun))
        ahead = loader.ahead
    assert equal(found, expected)
    assert max(begun) <= workers * PREFETCH + ahead + 2
