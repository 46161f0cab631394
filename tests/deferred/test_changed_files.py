"""Files that change after ``__getitem__`` and before decoding are errors, and give no pixels."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import Opens
from headrace import errors

SMALL = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    made = []
    for number in range(6):
        path = tmp_path / f"{number}.jpg"
        Image.fromarray(images.pixels(60, 50, seed=number)).save(path)
        os.utime(path, (1e9, 1e9))
        made.append(str(path))
    return made


def replaced(path: str) -> None:
    os.replace(shutil.copy2(Path(path).parent / "0.jpg", f"{path}.other"), path)


def written_to(path: str) -> None:
    Path(path).write_bytes(Path(path).read_bytes() + b"more")


CHANGES: dict[str, Callable[[str], None]] = {
    "replaced": replaced,
    "written to": written_to,
    "deleted": os.unlink,
}


class Changes:
    """Collates samples, and changes one sample's file after ``__getitem__``."""

    def __init__(self, path: str, change: str) -> None:
        self.path, self.change = path, change

    def __call__(self, samples: list[Any]) -> Any:
        made = data.default_collate(samples)
        if self.path in made[1]:
            CHANGES[self.change](self.path)
        return made


def passed_over(path: str, index: int) -> Any:
    """Skips samples that cannot be read, as programs do: this error must not be raised there."""
    try:
        return SMALL(Image.open(path).convert("RGB")), path
    except OSError:
        return SMALL(Image.new("RGB", (40, 40))), path


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_after_getitem_is_an_error_that_names_it_and_gives_no_other_pixels(
    paths: list[str], change: str, workers: int
) -> None:
    dataset = Opens(paths, passed_over)
    options = {"collate_fn": Changes(paths[3], change), "num_workers": workers, "ahead": 0}
    with contextlib.closing(hr.DataLoader(dataset, 2, **options)) as loader:
        batches = iter(loader)
        assert list(next(batches)[1]) == paths[:2]
        with pytest.raises(errors.ChangedError, match=re.escape(paths[3])) as raised:
            next(batches)
        assert isinstance(raised.value, OSError)
        assert raised.value.file == paths[3]
        assert list(next(batches)[1]) == paths[4:]


def test_an_image_whose_pixels_are_needed_raises_if_its_file_has_changed(paths: list[str]) -> None:
    dataset = Opens(paths, lambda path, index: Image.open(path))
    with contextlib.closing(hr.DataLoader(dataset, 6, collate_fn=list)) as loader:
        (batch,) = loader
        replaced(paths[2])
        assert batch[1].getpixel((0, 0))
        with pytest.raises(errors.ChangedError, match=re.escape(paths[2])):
            batch[2].getpixel((0, 0))
