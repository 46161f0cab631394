"""Modes of images that a dataset's own code opens: conversions by a matrix, and palettes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

import images
from deferred.test_own_code import Opens, compared

WORKERS = pytest.mark.parametrize("workers", [0, 1])


def png(mode: str) -> bytes:
    file = io.BytesIO()
    images_of = Image.fromarray(images.pixels(30, 20))
    (images_of.quantize(16) if mode == "P" else images_of.convert(mode)).save(file, "PNG")
    return file.getvalue()


def answered(make: Callable[[Any], Any], mode: str) -> Callable[[Any, int], Any]:
    """Mode and pixels of what is made of a file of a mode, or the error that it is."""
    encoded = png(mode)

    def of(_: Any, index: int) -> Any:
        try:
            made = make(Image.open(io.BytesIO(encoded)))
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"
        if not isinstance(made, Image.Image):
            return made
        return made.mode, np.array(made), np.array(made.convert("RGB"))

    return of


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
def test_a_conversion_by_a_matrix_is_pillows_or_its_error(mode: str, workers: int) -> None:
    for make in MATRICES.values():
        dataset = Opens(["one"], answered(make, mode))
        compared(dataset, strict=False, batch_size=None, num_workers=workers)
