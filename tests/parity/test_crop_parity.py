"""A crop that is decoded alone and resized equals torchvision's resized_crop of the whole image."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as torchvision

import headrace as hr
import images
from draws import some_boxes

FILTERS = ["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"]
# One pixel, one row, one column, less than an MCU, edges inside an MCU, whole MCUs.
SMALL = [(1, 1), (2, 1), (1, 9), (3, 2), (7, 5), (8, 8), (17, 33), (33, 16), (64, 48)]


def differing(data: bytes, boxes: list[tuple[int, int, int, int]], seed: int) -> list[object]:
    """The boxes whose pixels differ from torchvision's with one of the filters, up- or
    downscaled."""
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    random = np.random.default_rng(seed)
    found: list[object] = []
    for number, box in enumerate(boxes):
        for interpolation in FILTERS:
            # Reduced and enlarged in both directions, so that both pass orders of Pillow 13 occur.
            size = [max(1, round(side * 2 ** random.uniform(-3, 1.5))) for side in box[2:]]
            flip = bool(number % 2)
            expected = torchvision.resized_crop(whole, *box, size, InterpolationMode(interpolation))
            expected = torchvision.hflip(expected) if flip else expected
            made = hr.functional.resized_crop(data, *box, size, interpolation, hflip=flip)
            if not np.array_equal(made, np.asarray(expected)):
                found.append((box, size, interpolation, flip))
    return found


@pytest.mark.parametrize("name", sorted(images.every_jpeg(8, 8)))
def test_crops_of_each_kind_of_jpeg_equal_torchvisions_with_every_filter(name: str) -> None:
    width, height = 149, 107
    data = images.every_jpeg(width, height)[name]
    assert differing(data, some_boxes(width, height, 24, len(name)), len(name)) == []


@pytest.mark.every(3)
@pytest.mark.parametrize("size", SMALL, ids=lambda size: f"{size[0]}x{size[1]}")
def test_crops_of_small_jpegs_of_every_kind_equal_torchvisions(size: tuple[int, int]) -> None:
    for name, data in images.every_jpeg(*size).items():
        assert differing(data, some_boxes(*size, 7, len(name)), len(name)) == [], name


@pytest.mark.parametrize("sampling", images.UNEVEN_SAMPLINGS)
def test_narrow_crops_equal_torchvisions_if_components_differ_in_width(sampling: str) -> None:
    for width, height in ((7, 9), (100, 37)):
        data = images.jpeg(width, height, sampling)
        whole = hr.functional.decode(data)
        for left in range(width):
            for columns in range(1, min(width - left, 3) + 1):
                crop = hr.functional.resized_crop(data, 0, left, 9, columns, (9, columns))
                expected = whole[:9, left : left + columns]
                assert np.array_equal(crop, expected), (width, left, columns)
        assert differing(data, some_boxes(width, height, 5, width), width) == []


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_crops_of_every_kind_of_png_equal_torchvisions() -> None:
    for name, data in images.every_png(61, 83).items():
        assert differing(data, some_boxes(61, 83, 7, len(name)), len(name)) == [], name


@pytest.mark.parametrize("interpolation", FILTERS)
def test_a_resize_with_each_filter_equals_pillows(interpolation: str) -> None:
    width, height = 211, 157
    data = images.jpeg(width, height, "4:2:0")
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    random = np.random.default_rng(5)
    for box in some_boxes(width, height, 60, seed=7):
        size = [int(n) for n in random.integers(1, 260, 2)]
        expected = torchvision.resized_crop(whole, *box, size, InterpolationMode(interpolation))
        found = hr.functional.resized_crop(data, *box, size, interpolation)
        assert np.array_equal(found, np.asarray(expected)), (box, size)
