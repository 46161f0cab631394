"""Functions on single images: NumPy arrays of uint8, shape (height, width, 3), RGB.

``decode`` and ``resized_crop`` make them from encoded bytes; the others take and return them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import _lib, arguments
from headrace._images.chains import mix_chains
from headrace._images.drawn import replay
from headrace._images.labelled import move
from headrace._images.ops import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    adjust_sharpness,
    autocontrast,
    center_crop,
    crop,
    equalize,
    erase,
    five_crop,
    gaussian_blur,
    gaussian_noise,
    hflip,
    invert,
    jpeg,
    pad,
    permute_channels,
    pillow_blur,
    posterize,
    reduce,
    resize,
    resize_box,
    rgb_to_grayscale,
    solarize,
    solarize_add,
    ten_crop,
    to_grayscale,
    vflip,
)
from headrace._images.pixels import room_for
from headrace._images.warps import (
    affine,
    affine_map,
    elastic,
    elastic_displacement,
    perspective,
    perspective_map,
    rotate,
    tensor_affine,
)
from headrace._transforms.base import plain

__all__ = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "affine_map",
    "autocontrast",
    "center_crop",
    "crop",
    "decode",
    "elastic",
    "elastic_displacement",
    "equalize",
    "erase",
    "five_crop",
    "gaussian_blur",
    "gaussian_noise",
    "hflip",
    "invert",
    "jpeg",
    "mix_chains",
    "move",
    "pad",
    "permute_channels",
    "perspective",
    "perspective_map",
    "pillow_blur",
    "posterize",
    "reduce",
    "replay",
    "resize",
    "resize_box",
    "resized_crop",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "solarize_add",
    "ten_crop",
    "tensor_affine",
    "to_grayscale",
    "vflip",
]

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Encoded = bytes | bytearray | memoryview | NDArray[np.uint8]


def decode(
    data: Encoded, *, limits: Mapping[str, int] | None = None, mode: str = "exact"
) -> NDArray[np.uint8]:
    """Decodes an image to the pixels that Pillow's ``convert("RGB")`` gives.

    The format is detected from the content: JPEG, PNG, WebP, GIF, BMP, TIFF or PPM
    (docs/formats.md).

    Args:
        data: the encoded file.
        limits: values that differ from the defaults, for ``max_pixels``, ``max_decoder_bytes``,
            ``max_record_bytes``, ``max_scans`` and ``max_scan_blocks``; docs/limits.md says what
            each bounds.
        mode: "exact", or "fast" for similar pixels, as in ``resized_crop``.

    Returns:
        uint8 array of shape (height, width, 3). The EXIF orientation is not applied.

    Raises:
        BadImageError, TruncatedError: the bytes are not a valid image of their format.
        UnsupportedError: the format is not read; the sentence names it.
        LimitError: the image exceeds a limit.
    """
    config: dict[str, Any] = {"mode": arguments.choice("mode", mode, arguments.MODES)}
    if limits is not None:
        config["limits"] = arguments.limits(limits)
    return _decode(data, config)


def resized_crop(
    data: Encoded,
    top: int,
    left: int,
    height: int,
    width: int,
    size: int | Sequence[int],
    interpolation: Any = "bilinear",
    hflip: bool = False,
    mode: str = "exact",
) -> NDArray[np.uint8]:
    """Decodes a crop of an image and resizes it, like torchvision's ``resized_crop`` on PIL images.

    Args:
        data: the encoded file; or a decoded image, uint8 of shape (height, width, 3).
        top, left, height, width: the crop, in pixels of the image. In an encoded file the crop
            must lie inside the image. Outside of a decoded image it is black, as in torchvision.
        size: height and width of the result in pixels; or one number, or a list of one, for the
            shorter side: the longer side follows, rounded down, as with ``resize``.
        interpolation: "nearest", "bilinear", "bicubic", "box", "hamming" or "lanczos", or one of
            torchvision's InterpolationMode or Pillow's constants.
        hflip: whether to mirror the result left to right.
        mode: "exact": every byte equals that of the installed Pillow, or of Pillow 13 if none is
            installed. "fast": similar pixels, equally reproducible. JPEGs are decoded at 1/2, 1/4
            or 1/8 of their size if the crop is at least that many times larger than ``size`` on
            both axes. docs/exactness.md states the error.

    Returns:
        uint8 array of shape (height, width, 3).

    Raises:
        ArgumentError: the crop is empty or leaves the image, or an argument is impossible.
        BadImageError, TruncatedError, UnsupportedError, LimitError: as for ``decode``.
    """
    box = {"top": top, "left": left, "height": height, "width": width}
    interpolation = plain("interpolation", interpolation)
    mode, mirrored = arguments.choice("mode", mode, arguments.MODES), arguments.flag("hflip", hflip)
    if isinstance(data, np.ndarray) and data.ndim == 3:
        made = resize(crop(data, **box), _size("size", size), interpolation)
        return np.ascontiguousarray(made[:, ::-1]) if mirrored else made
    steps: list[dict[str, Any]] = [
        {"name": "Crop", **{name: arguments.count(name, value) for name, value in box.items()}},
        {"name": "Resize", "size": _size("size", size), "interpolation": interpolation},
    ]
    if mirrored:
        steps.append({"name": "RandomHorizontalFlip", "p": 1.0})
    return _decode(data, {"transform": steps, "mode": mode})


def _size(name: str, value: Any) -> list[int]:
    """Returns height and width, or only the length of the shorter side."""
    if hasattr(value, "__index__") and not np.ndim(value):
        return [arguments.count(name, value, 1)]
    if isinstance(value, list | tuple) and len(value) == 1:
        return [arguments.count(f"{name}[0]", value[0], 1)]
    return arguments.height_and_width(name, value)


def _decode(data: Encoded, config: dict[str, Any]) -> NDArray[np.uint8]:
    encoded = arguments.encoded("data", data)
    return _lib.decode(encoded.ctypes.data, encoded.size, config, room_for)


# This module is the home of all of them for users, and so for pickles and help().
for _name in __all__:
    globals()[_name].__module__ = __name__
