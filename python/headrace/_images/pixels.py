"""HWC uint8 arrays through the engine and back: the base of each function of one image."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import _lib, abi
from headrace._transforms.base import plain
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    Fill = int | Sequence[int] | None


def run(img: Pixels, name: str, **given: Any) -> Pixels:
    """Applies one transform to an image, which the engine reads as a binary PPM file.

    Raises:
        ArgumentError: the image or an argument is impossible; the sentence uses the argument's name
        here.
    """
    array = of(img)
    encoded = b"P6 %d %d 255\n" % (array.shape[1], array.shape[0]) + array.tobytes()
    step = {_ENGINES.get(key, key): plain(key, value) for key, value in given.items()}
    try:
        config = {"transform": [{"name": name, **step}]}
        return _lib.decode(encoded, len(encoded), config, room_for)
    except ArgumentError as failure:
        raise type(failure)(in_its_words(failure.reason, name, given)) from None


def of(image: Any) -> Pixels:
    """Returns an image as an array, if NumPy can read it as one; otherwise an ArgumentError."""
    try:
        array = np.asarray(image)
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that NumPy cannot read
        array = np.empty(0, object)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or array.size == 0:
        raise ArgumentError(
            f"img: a {array.dtype} array of shape {array.shape}; must be uint8 of shape "
            "(height, width, 3)"
        )
    return array


def room_for(image: abi.Image) -> tuple[Pixels, int]:
    """Makes an HWC uint8 array for answers of ``hr_decode``, and returns it with its address."""
    shape = (image.height, image.width, 3)
    count = image.bytes // math.prod(shape)
    pixels = np.empty(shape if count == 1 else (count, *shape), np.uint8)
    return pixels, pixels.ctypes.data


# Arguments that have another name in torchvision than in the engine.
_ENGINES = {
    "output_size": "size",
    **dict.fromkeys(
        (f"{what}_factor" for what in ("brightness", "contrast", "saturation", "sharpness", "hue")),
        "factor",
    ),
}


def in_its_words(reason: str, name: str, given: Mapping[str, Any]) -> str:
    """The engine's sentence without the position in a list, because the caller has made no list."""
    said = reason.removeprefix(f"transform 0 ({name}): ")
    for argument in given:
        engines = _ENGINES.get(argument, argument)
        if said.startswith(f"{engines} "):
            return argument + said.removeprefix(engines)
    return said
