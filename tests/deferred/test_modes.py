"""Modes of images that a dataset's own code opens: conversions by a matrix, and palettes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageOps, ImagePalette
from torch.utils import data

import images
from deferred.test_own_code import compared

WORKERS = pytest.mark.parametrize("workers", [0, 1])


def saved(mode: str, format: str = "PNG") -> bytes:
    """A picture of a mode as a file."""
    file, colours = io.BytesIO(), Image.fromarray(images.pixels(30, 20))
    (colours.quantize(16) if mode == "P" else colours.convert(mode)).save(file, format)
    return file.getvalue()


def answered(make: Callable[[Any], Any], picture: bytes) -> Any:
    """Mode and pixels of the result for a file, or the error that was raised."""
    try:
        made = make(Image.open(io.BytesIO(picture)))
        if not isinstance(made, Image.Image):
            return made
        return made.mode, np.array(made), np.array(made.convert("RGBA")), made.getpalette()
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"


def same(sample: Any) -> Any:
    return sample


class Answers(data.Dataset[Any]):
    """The answers of every use of every picture."""

    def __init__(self, pictures: list[bytes], uses: dict[str, Callable[[Any], Any]]) -> None:
        self.work = [(use, picture) for picture in pictures for use in uses.values()]

    def __len__(self) -> int:
        return len(self.work)

    def __getitem__(self, index: int) -> Any:
        return answered(*self.work[index])


LUMINANCE = (0.2126, 0.7152, 0.0722, 0)
MATRICES: dict[str, Callable[[Any], Any]] = {
    "L": lambda image: image.convert("L", LUMINANCE),
    "RGB": lambda image: image.convert("RGB", (*LUMINANCE, 0, 1, 0, 5, 0.5, 0, 0, 9)),
    "L of a part": lambda image: image.crop((3, 4, 20, 15)).convert("L", LUMINANCE),
    "RGB by no matrix": lambda image: image.convert("RGB", ()),
    "L by no matrix": lambda image: image.convert("L", ()),
}


@WORKERS
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P"])
def test_a_conversion_by_a_matrix_gives_pillows_pixels_or_error(mode: str, workers: int) -> None:
    dataset = Answers([saved(mode)], MATRICES)
    compared(dataset, strict=False, batch_size=None, num_workers=workers, collate_fn=same)


COLOURS = [(n * 7) % 256 for n in range(768)]


def coloured(image: Any) -> Any:
    image.putpalette(COLOURS)
    return image


def assigned(image: Any) -> Any:
    image.palette = ImagePalette.ImagePalette("RGB", bytes(COLOURS))
    image.palette.dirty = 1
    return image


def of_the_palette(image: Any) -> Any:
    palette = image.palette
    return palette and str([palette.mode, palette.rawmode, palette.dirty, bytes(palette.palette)])


def loaded(image: Any) -> Any:
    image.load()
    return image


PALETTES: dict[str, Callable[[Any], Any]] = {
    "put": coloured,
    "put, with alpha": lambda image: (image.putpalette(bytes(range(256)) * 4, "RGBA"), image)[1],
    "put, and resized": lambda image: coloured(image).resize((20, 11)),
    "put to a copy": lambda image: coloured(image.copy()),
    "put to a part": lambda image: coloured(image.crop((3, 4, 20, 15))),
    "put to an array": lambda image: coloured(Image.fromarray(np.array(image))),
    "put, and RGB": lambda image: coloured(image).convert("RGB"),
    "assigned": assigned,
    "a copy": lambda image: image.copy(),
    "a copy of a copy": lambda image: image.copy().copy(),
    "a copy's palette": lambda image: of_the_palette(image.copy()),
    "the file's palette": of_the_palette,
    "the palette of what was loaded": lambda image: of_the_palette(loaded(image)),
    "the palette of what has pixels": lambda image: (image.getpixel((0, 0)), of_the_palette(image)),
    "transparency": lambda image: image.has_transparency_data,
    "transparency of a copy": lambda image: image.copy().has_transparency_data,
    "made transparent": lambda image: (image.apply_transparency(), image)[1],
    "remapped": lambda image: image.remap_palette([*range(255, -1, -1)]),
    "remapped to colours": lambda image: image.remap_palette([*range(256)], bytes(COLOURS)),
    "remapped part": lambda image: image.crop((3, 4, 20, 15)).remap_palette([*range(255, -1, -1)]),
    "posterized": lambda image: ImageOps.posterize(image, 3),
    "posterized copy": lambda image: ImageOps.posterize(image.copy(), 3),
    "solarized": lambda image: ImageOps.solarize(image, 100),
    "inverted": ImageOps.invert,
    "expanded": lambda image: ImageOps.expand(image, 3),
    "expanded copy": lambda image: ImageOps.expand(image.copy(), 3, 1),
    "inverted by torchvision": F.invert,
    "solarized by torchvision": lambda image: F.solarize(image, 100),
    "padded by torchvision": lambda image: F.pad(image, [4]),
    "mirrored by torchvision": lambda image: F.resize(
        F.pad(image, [4], padding_mode="reflect"), [50, 60]
    ),
}


@WORKERS
@pytest.mark.parametrize("mode", ["P", "L", "RGB"])
def test_palettes_equal_pillows_however_they_are_set_or_copied(mode: str, workers: int) -> None:
    formats = ("PNG", "BMP", "GIF", "TIFF") if mode == "P" else ("PNG",)
    dataset = Answers([saved(mode, format) for format in formats], PALETTES)
    compared(dataset, strict=False, batch_size=None, num_workers=workers, collate_fn=same)


GREYED: dict[str, Callable[[Any], Any]] = {
    "a Compose": tv.Compose([tv.Grayscale(1), tv.ColorJitter((1.9, 1.9))]),
    "a Compose that resizes": tv.Compose([tv.Resize(12), tv.Grayscale()]),
    "Grayscale": tv.Grayscale(1),
    "Pillow's": lambda image: image.convert("L"),
    "torchvision's": lambda image: F.to_grayscale(image, 1),
}


@WORKERS
def test_transforms_of_a_grey_image_are_kept_when_it_is_converted_to_rgb(
    workers: int,
) -> None:
    def made_of(greyed: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda image: F.pil_to_tensor(greyed(image.convert("RGB")).convert("RGB"))

    uses = {name: made_of(greyed) for name, greyed in GREYED.items()}
    pictures = [saved("L"), saved("L", "JPEG"), saved("RGB")]
    compared(Answers(pictures, uses), batch_size=None, num_workers=workers)
