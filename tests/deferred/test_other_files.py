"""BMP, GIF and TIFF files that a program opens are recorded like JPEG and PNG files."""

from __future__ import annotations

import io
import os
import struct
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms.functional as F
from PIL import Image, ImageSequence
from torch.utils import data

import images
import other_formats
import versions
from deferred.test_own_code import Opens, compared

MODES = {
    "BMP": ("1", "L", "P", "RGB"),
    "GIF": ("L", "P"),
    "TIFF": ("1", "L", "P", "RGB", "RGBA", "LA", "CMYK"),
}


def of_modes(format: str) -> Iterator[bytes]:
    for mode in MODES[format]:
        file = io.BytesIO()
        Image.fromarray(images.pixels(50, 40)).convert(mode).save(file, format)
        yield file.getvalue()


def facts(path: str, index: int) -> Any:
    image = Image.open(path)
    told = [image.format, image.mode, image.size, sorted(map(str, image.info))]
    told += [getattr(image, "n_frames", 1), image.getexif() != {}]
    return str(told), F.to_tensor(image.convert("RGB").crop((3, 4, 30, 31)))


@pytest.mark.parametrize("format", MODES)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_file_of_any_mode_is_native(tmp_path: Path, format: str, workers: int) -> None:
    paths = []
    for number, encoded in enumerate(of_modes(format)):
        path = tmp_path / f"{number}.{format.lower()}"
        path.write_bytes(encoded)
        os.utime(path, (1e9, 1e9))
        paths.append(str(path))
    compared(Opens(paths, facts), num_workers=workers)
    grey = [paths[1]] if format != "GIF" else []
    compared(Opens(grey, lambda path, index: F.to_tensor(Image.open(path).rotate(9))))


class Variants(data.Dataset[Any]):
    """Files of one kind, as Pillow reads them."""

    def __init__(self, kind: str, count: int) -> None:
        self.files = list(islice(other_formats.variants(kind, 3), count))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return F.pil_to_tensor(Image.open(io.BytesIO(self.files[index])).convert("RGB"))
            except (OSError, ValueError, SyntaxError, TypeError, struct.error) as failure:
                return torch.zeros(3, 1, 1, dtype=torch.uint8), type(failure).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", [versions.BMP, "gif", "tiff"])
def test_files_of_every_kind_give_pillows_images(kind: str) -> None:
    compared(Variants(kind, 250), strict=False, batch_size=None)


def frames(path: str, index: int) -> Any:
    image = Image.open(path)
    shown = []
    for number in range(image.n_frames):
        image.seek(number)
        shown.append(F.pil_to_tensor(image.convert("RGB")))
    return shown


@pytest.mark.parametrize("format", ["GIF", "TIFF", "PNG"])
def test_frames_after_the_first_are_pillows(tmp_path: Path, format: str) -> None:
    path = tmp_path / "several"
    first, *others = [Image.fromarray(images.pixels(30, 20, seed=n)) for n in range(3)]
    first.save(path, format, save_all=True, append_images=others)
    with pytest.warns(UserWarning, match="of a common kind"):
        compared(Opens([str(path)], frames), strict=False)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_animated_png_has_all_of_its_frames(tmp_path: Path, workers: int) -> None:
    def copies(path: str, index: int) -> Any:
        return [F.pil_to_tensor(one.copy()) for one in ImageSequence.Iterator(Image.open(path))]

    path = tmp_path / "several.png"
    first, *others = [Image.fromarray(images.pixels(30, 20, seed=n)) for n in range(3)]
    first.save(path, save_all=True, append_images=others)
    with pytest.warns(UserWarning, match="of a common kind"):
        compared(Opens([str(path)], copies), strict=False, num_workers=workers)
