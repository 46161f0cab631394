"""A crop that is decoded alone and resized is torchvision's resized_crop of the whole image."""

from __future__ import annotations

import io

import numpy as np
import PIL
import pytest
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as torchvision

import headrace as hr
import images

pytestmark = pytest.mark.skipif(
    int(PIL.__version__.split(".")[0]) < 13, reason=f"Pillow {PIL.__version__} is older than 13"
)

FILTERS = ["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"]


def crops(width: int, height: int, count: int, seed: int) -> list[tuple[int, int, int, int]]:
    """Windows as top, left, height, width: corners, edges, single pixels and anything between."""
    random = np.random.default_rng(seed)
    found = [(0, 0, height, width), (0, 0, 1, 1), (height - 1, width - 1, 1, 1)]
    while len(found) < count:
        h, w = int(random.integers(1, height + 1)), int(random.integers(1, width + 1))
        top, left = int(random.integers(height - h + 1)), int(random.integers(width - w + 1))
        found.append((top, left, h, w))
    return found


@pytest.mark.parametrize("name", sorted(images.every_jpeg(8, 8)))
def test_a_crop_of_this_kind_of_jpeg_is_torchvisions(name: str) -> None:
    width, height = 149, 107
    data = images.every_jpeg(width, height)[name]
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    for number, box in enumerate(crops(width, height, 25, seed=len(name))):
        flip = bool(number % 2)
        expected = torchvision.resized_crop(whole, *box, [32, 40])
        expected = torchvision.hflip(expected) if flip else expected
        found = hr.functional.resized_crop(data, *box, (32, 40), hflip=flip)
        assert np.array_equal(found, np.asarray(expected)), (box, flip)


@pytest.mark.parametrize("interpolation", FILTERS)
def test_a_resize_with_this_filter_is_pillows(interpolation: str) -> None:
    width, height = 211, 157
    data = images.jpeg(width, height, "4:2:0")
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    random = np.random.default_rng(5)
    for box in crops(width, height, 60, seed=7):
        # Down and up, in both directions, so that both pass orders of Pillow 13 occur.
        size = [int(n) for n in random.integers(1, 260, 2)]
        expected = torchvision.resized_crop(whole, *box, size, InterpolationMode(interpolation))
        found = hr.functional.resized_crop(data, *box, size, interpolation)
        assert np.array_equal(found, np.asarray(expected)), (box, size)
