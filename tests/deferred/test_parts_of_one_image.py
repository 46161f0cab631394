"""A worker process that needs the pixels of several parts of an image decodes it once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torchvision.transforms.functional as F
from PIL import Image, ImageDraw
from torch.utils import data

import headrace as hr
from deferred.test_own_code import Opens, paths
from deferred.test_tensor_ops import batches, same

__all__ = ["paths"]  # a fixture

CORNERS = [(0, 0, 20, 20), (10, 5, 31, 27), (3, 8, 20, 20)]


def drawn_on(image: Any) -> Any:
    ImageDraw.Draw(image).rectangle((2, 2, 9, 9), (255, 0, 0))
    return image


def resized_crops(image: Any) -> list[Any]:
    smaller = image.resize((40, 40)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return [smaller.crop(box).resize((8, 8)) for box in CORNERS]


PARTS: dict[str, Callable[[Any], list[Any]]] = {
    "crops": lambda image: [image.crop(box) for box in CORNERS],
    "crops, drawn on": lambda image: [drawn_on(image.crop(box)) for box in CORNERS],
    "crops of a smaller one": resized_crops,
    "crops of one that is drawn on": lambda image: [
        *(image.crop(box) for box in CORNERS[:2]),
        drawn_on(image),
        image.crop(CORNERS[2]),
    ],
    "one that went through a tensor, drawn on": lambda image: [
        drawn_on(F.to_pil_image(F.to_tensor(smaller := image.resize((40, 40))))),
        smaller,
    ],
    "a crop, then all of it": lambda image: [image.crop(CORNERS[0]), image.copy(), drawn_on(image)],
    "grey and coloured": lambda image: [
        image.convert("L").crop(CORNERS[0]),
        image.crop(CORNERS[1]),
        image.convert("L").crop(CORNERS[2]),
    ],
}


def decodes(function: Callable[[Any], Any], *arguments: Any) -> tuple[Any, int]:
    """The result of a function, and how many JPEG files Pillow decoded for it."""
    found = []

    def noted(frame: Any, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "jpeg_decoder":
            found.append(called)

    sys.setprofile(noted)
    try:
        return function(*arguments), len(found)
    finally:
        sys.setprofile(None)


def arrays_of(parts: Callable[[Any], list[Any]], path: str) -> list[Any]:
    return [np.array(part) for part in parts(Image.open(path).convert("RGB"))]


@pytest.mark.parametrize("what", PARTS)
def test_a_worker_decodes_an_image_once_for_all_of_its_parts(paths: list[str], what: str) -> None:
    def made(path: str, index: int) -> Any:
        arrays, count = decodes(arrays_of, PARTS[what], path)
        return [array.tolist() for array in arrays], count

    dataset = Opens(paths[:3], made)
    with pytest.warns(UserWarning, match="needs the pixels"):
        found = batches(hr.DataLoader, dataset, batch_size=None, num_workers=1)
    expected = batches(data.DataLoader, dataset, batch_size=None, num_workers=1)
    assert same([arrays for arrays, _ in found], [arrays for arrays, _ in expected])
    # If the program has the whole image, it may change it.
    most = 2 if "is drawn on" in what or "all of it" in what else 1
    assert all(count <= most for _, count in found)
