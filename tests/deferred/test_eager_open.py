"""``eager_open=True``: images are decoded when they are opened, and no code runs twice."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torchvision
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import compared

SMALL = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])
WORKERS = pytest.mark.parametrize("workers", [0, 2])
CUT_OFF = 4


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Twelve JPEGs; one of them is cut off after its header."""
    root = images.plain_tree(tmp_path_factory.mktemp("eager") / "photos", 12)
    found = sorted(str(path) for path in root.rglob("*.jpg"))
    whole = Path(found[CUT_OFF]).read_bytes()
    Path(found[CUT_OFF]).write_bytes(whole[: len(whole) // 2])
    for path in found:
        os.utime(path, (1e9, 1e9))
    return found


class Counting(data.Dataset[Any]):
    """Each sample says how often it was made."""

    def __init__(self, paths: list[str], how: str) -> None:
        self.paths, self.how, self.asked = paths, how, Counter[int]()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        self.asked[index] += 1
        for place in range(index, index + len(self.paths)):  # or the next file that can be read
            with contextlib.suppress(OSError, RuntimeError):
                path = self.paths[place % len(self.paths)]
                return self.image(path), place, self.asked[index]
        raise AssertionError("none can be read")

    def image(self, path: str) -> Any:
        if self.how == "torchvision.io":
            return torchvision.io.read_image(path)[:, :20, :20].float() / 255
        return SMALL(Image.open(path).convert("RGB"))


class Drawing(Counting):
    def __getitem__(self, index: int) -> Any:
        random.random()
        return super().__getitem__(index)


@WORKERS
@pytest.mark.parametrize("how", ["PIL.Image", "torchvision.io"])
def test_a_sample_with_a_bad_file_is_made_once_and_batches_equal_torchs(
    paths: list[str], how: str, workers: int
) -> None:
    expected = list(data.DataLoader(Counting(paths, how), 5, num_workers=workers))
    options: dict[str, Any] = {"num_workers": workers, "strict": False, "expected": expected}
    compared(Counting(paths, how), eager_open=True, **options)
    assert {int(count) for *_, counts in expected for count in counts} == {1}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("draws", [False, True])
def test_without_eager_open_the_batch_of_a_bad_file_is_made_again(
    paths: list[str], workers: int, draws: bool
) -> None:
    dataset = (Drawing if draws else Counting)(paths, "")
    options: dict[str, Any] = {"num_workers": workers}
    with contextlib.closing(hr.DataLoader(dataset, 3, **options)) as loader:
        counts = [counted.tolist() for *_, counted in loader]
    assert counts == [[1] * 3, [2] * 3, [1] * 3, [1] * 3]


class OneFile(Counting):
    """Writes each image to the same file, opens it, and then overwrites the file."""

    def __init__(self, paths: list[str], file: Path) -> None:
        super().__init__(paths, "")
        self.file = file

    def image(self, path: str) -> Any:
        shutil.copy2(path, self.file)
        image = SMALL(Image.open(self.file).convert("RGB"))
        self.file.write_bytes(b"")
        os.utime(self.file, (1e9, 1e9))
        return image


def test_a_sample_whose_file_is_overwritten_after_opening_is_made_once(
    paths: list[str], tmp_path: Path
) -> None:
    expected = list(data.DataLoader(OneFile(paths, tmp_path / "torchs.jpg"), 5))
    dataset = OneFile(paths, tmp_path / "ours.jpg")
    compared(dataset, eager_open=True, strict=False, expected=expected)
    assert set(dataset.asked.values()) == {1}
