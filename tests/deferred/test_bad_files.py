"""What a dataset of one's own meets in bad files: Pillow's errors, where Pillow raises them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import PIL
import pytest
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import Opens, compared

SMALL = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Twelve JPEGs, of which 4 is cut off, 7 is text and 9 is a JPEG 2000 by another name."""
    root = images.plain_tree(tmp_path / "photos", 12)
    found = sorted(str(path) for path in root.rglob("*.jpg"))
    whole = Path(found[4]).read_bytes()
    Path(found[4]).write_bytes(whole[: len(whole) // 2])
    Path(found[7]).write_bytes(b"not an image at all")
    Image.open(found[9]).save(found[9], "JPEG2000")
    for path in found:
        os.utime(path, (1e9, 1e9))
    return found


def with_another(paths: list[str]) -> Any:
    def make(path: str, index: int) -> Any:
        while True:
            try:
                return SMALL(Image.open(path).convert("RGB")), index
            except (OSError, PIL.UnidentifiedImageError):
                index = (index + 1) % len(paths)
                path = paths[index]

    return make


def or_none(path: str, index: int) -> Any:
    try:
        image = Image.open(path).convert("RGB")
    except OSError:
        return None
    return SMALL(image), index


def present(samples: list[Any]) -> Any:
    return data.default_collate([sample for sample in samples if sample is not None])


@pytest.mark.parametrize("workers", [0, 2])
def test_programs_that_try_another_file_find_the_one_that_torchs_loader_finds(
    paths: list[str], workers: int
) -> None:
    compared(Opens(paths, with_another(paths)), strict=False, num_workers=workers)
    compared(Opens(paths, or_none), strict=False, num_workers=workers, collate_fn=present)


@pytest.mark.parametrize("number", [4, 7])
def test_an_error_is_pillows_and_comes_in_its_turn(paths: list[str], number: int) -> None:
    dataset = Opens(paths, lambda path, index: (SMALL(Image.open(path).convert("RGB")), index))
    with pytest.raises(OSError) as expected:  # noqa: PT011  # Pillow's sentence is compared
        dataset[number]
    loader = hr.DataLoader(dataset, batch_size=1)
    batches, found = iter(loader), []
    for _ in range(len(paths)):
        try:
            found.append(int(next(batches)[1]))
        except OSError as failure:
            found.append((type(failure), str(failure)))
    bad = [place for place, what in enumerate(found) if isinstance(what, tuple)]
    assert bad == [4, 7]
    assert found[number] == (expected.type, str(expected.value))
    assert found[:4] == [0, 1, 2, 3]
    loader.close()


def test_files_that_pillow_alone_reads_are_read_by_it(paths: list[str]) -> None:
    del paths[7], paths[4]
    with pytest.warns(UserWarning, match="is no JPEG, PNG, WebP"):
        compared(Opens(paths, lambda path, index: SMALL(Image.open(path))), strict=False)
