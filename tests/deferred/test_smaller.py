"""Images that Pillow reduces before it resizes them: by libjpeg's draft, and by averaging boxes."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torchvision import io as tv_io

import headrace as hr
import images
from deferred.test_own_code import compared
from headrace import functional as ours

Op = Callable[[Any], Any]
BICUBIC, LANCZOS = Image.Resampling.BICUBIC, Image.Resampling.LANCZOS
NEAREST = Image.Resampling.NEAREST


def in_place(name: str, *arguments: Any, **named: Any) -> Op:
    """A method that changes the image in place."""

    def of(image: Any) -> Any:
        getattr(image, name)(*arguments, **named)
        return image

    return of


def draft(mode: Any, size: Any) -> Op:
    return in_place("draft", mode, size)


def answered(image: Any) -> Any:
    """The results of two drafts, the second of which comes too late, and the image's attributes."""
    first, second = image.draft("RGB", (20, 20)), image.draft("L", (9, 9))
    return str((first, second, image.mode, image.size)), F.to_tensor(image)


def too_late(image: Any) -> Any:
    cropped = image.crop((0, 0, 9, 9))
    return image.draft("L", (20, 20)), F.to_tensor(image), F.to_tensor(cropped)


DRAFTS: dict[str, Op] = {
    **{f"1/{n}": draft(None, (max(1, 97 // n), max(1, 71 // n))) for n in (1, 2, 3, 4, 8, 30)},
    "luminance": draft("L", None),
    "luminance of a half": draft("L", (40, 30)),
    "and no other mode": draft("CMYK", (40, 30)),
    "and a crop": lambda image: draft("RGB", (30, 20))(image).crop((3, 2, 15, 14)),
    "luminance, as colours": lambda image: draft("L", (30, 20))(image).convert("RGB").rotate(9),
}
REDUCTIONS: dict[str, Op] = {
    **{f"by {n}": lambda image, n=n: image.reduce(n) for n in (1, 2, 3, 4, 5, 6, 7, 17, 96, 200)},
    "by two factors": lambda image: image.reduce((3, 2)),
    "across": lambda image: image.reduce((4, 1)),
    "down": lambda image: image.reduce((1, 5)),
    "of a part": lambda image: image.reduce((5, 3), box=(7, 9, 60, 50)),
    "of a crop, flipped": lambda image: F.hflip(image.crop((3, 2, 70, 60)).reduce(3)).resize(
        (9, 8)
    ),
    "with a border": lambda image: F.pad(image.reduce(4), [3, 2], 7),
    "a window of it": lambda image: image.reduce(3).crop((5, 4, 20, 17)),
    "of grey": lambda image: image.convert("L").reduce(3),
    "a gap": lambda image: image.resize((11, 9), LANCZOS, reducing_gap=1.5),
    "a gap, and a part": lambda image: image.resize((9, 7), BICUBIC, (1.5, 2.25, 90, 60.5), 2.0),
    "a gap, down": lambda image: image.resize((80, 5), BICUBIC, reducing_gap=1.1),
    "no gap of nearest": lambda image: image.resize((9, 7), NEAREST, reducing_gap=1.1),
    **{f"thumbnail of {n}": in_place("thumbnail", (n, n)) for n in (1, 3, 7, 12, 24, 40, 48)},
    "thumbnail by reductions": in_place("thumbnail", (7, 7), LANCZOS, 1.0),
    "thumbnail without": in_place("thumbnail", (7, 7), reducing_gap=None),
}


class Smaller(data.Dataset[Any]):
    """Applies every operation to every picture."""

    def __init__(self, pictures: list[bytes], ops: dict[str, Op], end: Op = F.to_tensor) -> None:
        self.work = [(picture, op) for picture in pictures for op in ops.values()]
        self.end = end

    def __len__(self) -> int:
        return len(self.work)

    def __getitem__(self, index: int) -> Any:
        picture, op = self.work[index]
        return self.end(op(Image.open(io.BytesIO(picture))))


def jpegs() -> Iterator[bytes]:
    for kind in (*images.SAMPLINGS, *images.UNEVEN_SAMPLINGS):
        yield images.jpeg(97, 71, kind)
    yield images.jpeg(97, 71, flags=("progressive",))
    yield images.jpeg(97, 71, colour="grey")
    yield images.jpeg(97, 71, colour="rgb", sampling="4:4:4")
    for width, height in ((1, 1), (2, 9), (17, 3), (8, 8), (33, 64)):
        yield images.jpeg(width, height)


def test_a_draft_gives_pillows_pixels() -> None:
    compared(Smaller(list(jpegs()), DRAFTS), batch_size=None)


def test_reductions_by_whole_factors_give_pillows_pixels() -> None:
    compared(Smaller([images.jpeg(97, 71), images.png(97, 71, 2)], REDUCTIONS), batch_size=None)


def test_drafts_and_reductions_in_worker_processes_give_pillows_pixels() -> None:
    both = {key: op for key, op in (DRAFTS | REDUCTIONS).items() if not key.startswith("thumb")}
    compared(Smaller([images.jpeg(97, 71)], both), batch_size=None, num_workers=1)
    arrays = Smaller([images.jpeg(97, 71)], both, np.asarray)
    compared(arrays, strict=False, batch_size=None, num_workers=1)


def test_a_draft_returns_what_pillows_does_and_works_only_before_the_image_is_loaded() -> None:
    ops = {"twice": answered, "late": too_late}
    compared(Smaller([images.jpeg(97, 71)], ops, lambda made: made), batch_size=None)
    png = Smaller([images.png(97, 71, 2)], {"none": lambda image: image.draft("L", None)})
    png.end = str
    compared(png, strict=False, batch_size=None)


def test_reduce_gives_pillows_pixels_for_any_factors() -> None:
    random = np.random.default_rng(5)
    for _ in range(300):
        width, height = (int(side) for side in random.integers(1, 90, 2))
        picture = random.integers(0, 256, (height, width, 3), np.uint8)
        if random.random() < 0.2:
            picture[:] = 255
        factor = tuple(int(f) for f in random.integers(1, 40, 2))
        wanted = np.asarray(Image.fromarray(picture).reduce(factor))
        assert np.array_equal(ours.reduce(picture, factor), wanted), (width, height, factor)
    white = np.full((1100, 900, 3), 255, np.uint8)
    for factor in (1, 2, 600, 65_536):
        wanted = np.asarray(Image.fromarray(white).reduce(factor))
        assert np.array_equal(ours.reduce(white, factor), wanted), factor


class Read(data.Dataset[Any]):
    """Reads JPEG files as torchvision's grey."""

    def __init__(self, pictures: list[bytes]) -> None:
        self.pictures = pictures

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, index: int) -> Any:
        encoded = torch.frombuffer(bytearray(self.pictures[index]), dtype=torch.uint8)
        return tv_io.decode_image(encoded, tv_io.ImageReadMode.GRAY)


def test_torchvisions_grey_decode_of_a_jpeg_is_the_files_luminance() -> None:
    compared(Read(list(jpegs())), batch_size=None)


def test_a_draft_of_a_truncated_file_raises_pillows_error() -> None:
    picture = images.jpeg(97, 71)
    cut = Smaller([picture[: len(picture) // 2]], {"draft": draft(None, (20, 20))})
    loader = hr.DataLoader(cut, batch_size=None)
    with contextlib.closing(loader), pytest.raises(OSError, match="truncated"):
        next(iter(loader))
