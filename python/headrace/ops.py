"""Transforms of whole images, one at a time, by torchvision's functional names and arguments.

Each takes and returns an HWC uint8 array and gives the bytes that torchvision gives on a PIL image
(the blur, which torchvision runs on tensors: but for a few values in ten million, and those by
one). The engine that runs them in a loader runs them here, so a recipe's drawn parameters can be
replayed one by one. With ``tensor=True``, where there is such an argument, the bytes are those that
torchvision's first version gives on a uint8 tensor.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import _lib, arguments, transforms
from headrace.errors import ArgumentError
from headrace.multiview import Views
from headrace.transforms import _plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    Fill = int | Sequence[int] | None


def _run(img: Pixels, name: str, **given: Any) -> Pixels:
    """One transform on an image, which the engine reads as a binary PPM file.

    Raises:
        ArgumentError: the image or an argument is impossible, by the name it has here.
    """
    array = pixels_of(img)
    encoded = b"P6 %d %d 255\n" % (array.shape[1], array.shape[0]) + array.tobytes()
    step = {_ENGINES.get(key, key): _plain(key, value) for key, value in given.items()}
    try:
        config = {"transform": [{"name": name, **step}]}
        return _lib.decode(encoded, len(encoded), config, room_for_pixels)
    except ArgumentError as failure:
        raise type(failure)(_here(failure.reason, name, given)) from None


def pixels_of(image: Any) -> Pixels:
    """An image of any kind that NumPy knows as an array, or an ArgumentError."""
    try:
        array = np.asarray(image)
    except (TypeError, ValueError, RuntimeError):  # ragged; or a tensor that NumPy cannot have
        array = np.empty(0, object)
    if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8 or array.size == 0:
        raise ArgumentError(
            f"img: a {array.dtype} array of shape {array.shape}; must be uint8 of shape "
            "(height, width, 3)"
        )
    return array


def room_for_pixels(image: _lib.Image) -> tuple[Pixels, int]:
    """An HWC uint8 array for an answer of ``hr_decode``, or one of several, and its address."""
    shape = (image.height, image.width, 3)
    count = image.bytes // math.prod(shape)
    pixels = np.empty(shape if count == 1 else (count, *shape), np.uint8)
    return pixels, pixels.ctypes.data


# Arguments that torchvision names otherwise than the engine.
_ENGINES = {
    "output_size": "size",
    **dict.fromkeys(
        (f"{what}_factor" for what in ("brightness", "contrast", "saturation", "sharpness", "hue")),
        "factor",
    ),
}


def _here(reason: str, name: str, given: Mapping[str, Any]) -> str:
    """The engine's sentence without its place in a list that the caller has not made."""
    said = reason.removeprefix(f"transform 0 ({name}): ")
    for argument in given:
        engines = _ENGINES.get(argument, argument)
        if said.startswith(f"{engines} "):
            return argument + said.removeprefix(engines)
    return said


def adjust_brightness(img: Pixels, brightness_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends from black (0) to the image (1) and beyond."""
    return _run(img, "AdjustBrightness", brightness_factor=brightness_factor, tensor=tensor)


def adjust_contrast(img: Pixels, contrast_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends from the mean grey (0) to the image (1) and beyond."""
    return _run(img, "AdjustContrast", contrast_factor=contrast_factor, tensor=tensor)


def adjust_saturation(img: Pixels, saturation_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends from the grey image (0) to the image (1) and beyond."""
    return _run(img, "AdjustSaturation", saturation_factor=saturation_factor, tensor=tensor)


def adjust_sharpness(img: Pixels, sharpness_factor: float, *, tensor: bool = False) -> Pixels:
    """Blends from the smoothed image (0) to the image (1) and beyond."""
    return _run(img, "AdjustSharpness", sharpness_factor=sharpness_factor, tensor=tensor)


def adjust_hue(img: Pixels, hue_factor: float) -> Pixels:
    """Turns the hue by -0.5 to 0.5 of the circle, in Pillow's 8-bit HSV."""
    return _run(img, "AdjustHue", hue_factor=hue_factor)


def adjust_gamma(img: Pixels, gamma: float, gain: float = 1) -> Pixels:
    """``255 * gain * (value / 255) ** gamma``, cut off."""
    return _run(img, "AdjustGamma", gamma=gamma, gain=gain)


def autocontrast(img: Pixels, *, tensor: bool = False) -> Pixels:
    """Stretches each channel from its darkest and lightest value to 0 and 255."""
    return _run(img, "Autocontrast", tensor=tensor)


def equalize(img: Pixels) -> Pixels:
    """Equalises each channel's histogram."""
    return _run(img, "Equalize")


def invert(img: Pixels) -> Pixels:
    """255 minus each value."""
    return _run(img, "Invert")


def posterize(img: Pixels, bits: int) -> Pixels:
    """Keeps the ``bits`` (1 to 8) highest bits of each value; of 0 the image is black."""
    return _run(img, "Posterize", bits=bits)


def solarize(img: Pixels, threshold: float) -> Pixels:
    """Inverts values of at least ``threshold``."""
    return _run(img, "Solarize", threshold=threshold)


def solarize_add(img: Pixels, add: int, thresh: int = 128) -> Pixels:
    """Adds ``add`` (0 to 255) to values below ``thresh``, up to 255, as timm's SolarizeAdd."""
    return _run(img, "SolarizeAdd", add=add, thresh=thresh)


def jpeg(img: Pixels, quality: int) -> Pixels:
    """The image as a JPEG of that ``quality`` (1 to 100) shows it, encoded as Pillow saves it."""
    return _run(img, "JPEG", quality=quality)


def gaussian_noise(
    img: Pixels,
    mean: float = 0.0,
    sigma: float = 0.1,
    clip: bool = True,
    key: Sequence[int] = (0, 0, 0, 0),
) -> Pixels:
    """Adds normal noise of that ``mean`` (-10 to 10) and standard deviation (0 to 10), as shares of
    255, to every value; ``clip``: cut off at 0 and 255, else 257 is 1.

    The noise is a function of the ``key``, four numbers of 32 bits, which ``replay`` tells.
    """
    return _run(img, "Noise", mean=mean, sigma=sigma, clip=clip, key=key)


def pillow_blur(img: Pixels, radius: float) -> Pixels:
    """Blurs as Pillow's ``ImageFilter.GaussianBlur`` of that radius, 0 to 1000 pixels."""
    return _run(img, "PillowBlur", radius=radius)


def rgb_to_grayscale(img: Pixels, num_output_channels: int = 3) -> Pixels:
    """The grey image in three channels; torchvision's default of one is refused."""
    return _run(img, "Grayscale", num_output_channels=num_output_channels)


def gaussian_blur(
    img: Pixels, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> Pixels:
    """Blurs with a Gaussian kernel.

    Args:
        img: uint8 array of shape (height, width, 3); each side more than half the kernel's.
        kernel_size: odd side in pixels; or width and height.
        sigma: standard deviation in pixels; or across and down. None: ``0.15 * kernel + 0.35``.
    """
    if sigma is None:
        sigma = [0.15 * size + 0.35 for size in _numbers("kernel_size", kernel_size)]
    return _run(img, "Blur", kernel_size=kernel_size, sigma=sigma)


def affine(
    img: Pixels,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: Any = "nearest",
    fill: Fill = None,
    center: Sequence[float] | None = None,
) -> Pixels:
    """Turns (degrees, clockwise), moves (pixels), scales and shears (degrees) the image."""
    sheared = _numbers("shear", shear)
    if np.ndim(shear) == 0:
        sheared += [0.0]
    return _run(
        img,
        "Affine",
        angle=angle,
        translate=translate,
        scale=scale,
        shear=sheared * 2 if len(sheared) == 1 else sheared,
        interpolation=interpolation,
        fill=0 if fill is None else fill,
        center=center,
    )


def rotate(
    img: Pixels,
    angle: float,
    interpolation: Any = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Pixels:
    """Turns the image counter-clockwise by ``angle`` degrees.

    With ``expand`` the result is as large as the turned image; else it has the image's size.
    """
    return _run(
        img,
        "Rotate",
        angle=angle,
        interpolation=interpolation,
        expand=arguments.flag("expand", expand),
        center=center,
        fill=0 if fill is None else fill,
    )


def perspective(
    img: Pixels,
    startpoints: Sequence[Sequence[int]],
    endpoints: Sequence[Sequence[int]],
    interpolation: Any = "bilinear",
    fill: Fill = None,
) -> Pixels:
    """Moves four corners, (x, y) clockwise from the top left, to where ``endpoints`` are.

    The map is the solution of eight equations, whose last bit decides which pixel is nearest where
    two are; torchvision's solver is used where torch is installed, else NumPy's.
    """
    rows, sides = [], []
    corners = _corners("endpoints", endpoints), _corners("startpoints", startpoints)
    for (x, y), (to_x, to_y) in zip(*corners, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -to_x * x, -to_x * y])
        rows.append([0, 0, 0, x, y, 1, -to_y * x, -to_y * y])
        sides += [to_x, to_y]
    try:
        coefficients = _solved(rows, sides)
    except RuntimeError:  # torch's, where an equation says nothing new
        allowed = "a sequence of four corners, no three of them on a line,"
        raise arguments.refuse("endpoints", endpoints, allowed) from None
    return _run(
        img,
        "Perspective",
        coefficients=coefficients,
        interpolation=interpolation,
        fill=0 if fill is None else fill,
    )


def _numbers(name: str, value: Any) -> list[float]:
    """Numbers, of which one may stand alone."""
    if hasattr(value, "__float__") and np.ndim(value) == 0:
        return [arguments.number(name, value)]
    if not isinstance(value, Iterable):
        raise arguments.refuse_type(name, value, "a number, or a sequence of them,")
    return arguments.each(name, value, arguments.number)


def _corners(name: str, value: Any) -> list[list[float]]:
    found = arguments.each(name, value, _numbers)
    if len(found) != 4 or any(len(corner) != 2 for corner in found):
        raise arguments.refuse(name, value, "a sequence of four corners (x, y)")
    return found


def _solved(rows: list[list[float]], sides: list[float]) -> list[float]:
    """The least-squares solution in single precision, as torchvision keeps it."""
    try:
        import torch
    except ImportError:
        found = np.linalg.lstsq(np.asarray(rows, float), np.asarray(sides, float), rcond=None)[0]
        return [float(value) for value in found.astype(np.float32)]
    matrix = torch.tensor(rows, dtype=torch.float64)
    solved = torch.linalg.lstsq(matrix, torch.tensor(sides, dtype=torch.float64), driver="gels")
    values: list[float] = solved.solution.to(torch.float32).tolist()
    return values


def affine_map(
    img: Pixels,
    coefficients: Sequence[float],
    interpolation: Any = "nearest",
    fill: Fill = None,
    size: Sequence[int] | None = None,
) -> Pixels:
    """An affine map by its six coefficients, as Pillow's ``Image.transform`` takes them.

    ``size`` is the height and width of the result; None: the image's.
    """
    given = {"coefficients": coefficients, "interpolation": interpolation, "size": size}
    return _run(img, "AffineMap", fill=0 if fill is None else fill, **given)


def tensor_affine(
    img: Pixels, coefficients: Sequence[float], interpolation: Any = "nearest", fill: Fill = None
) -> Pixels:
    """An affine map as torchvision does it to a uint8 tensor: what lies outside is blended in.

    Args:
        img: uint8 array of shape (height, width, 3).
        coefficients: six, from a pixel of the result to one of the image, both counted from the
            middle of the image.
        interpolation: "nearest" or "bilinear".
        fill: value of what comes from outside; None: it counts as 0.
    """
    given = {"coefficients": coefficients, "interpolation": interpolation, "fill": fill}
    return _run(img, "TensorAffine", **given)


def perspective_map(
    img: Pixels, coefficients: Sequence[float], interpolation: Any = "bilinear", fill: Fill = None
) -> Pixels:
    """A perspective map by its eight coefficients, as ``Image.transform`` takes them."""
    given = {"coefficients": coefficients, "interpolation": interpolation}
    return _run(img, "Perspective", fill=0 if fill is None else fill, **given)


def permute_channels(img: Pixels, permutation: Sequence[int]) -> Pixels:
    """Channels in another order: the first of the result is number ``permutation[0]``."""
    return _run(img, "PermuteChannels", permutation=permutation)


def pad(
    img: Pixels,
    padding: int | Sequence[int],
    fill: int | Sequence[int] = 0,
    padding_mode: str = "constant",
) -> Pixels:
    """Adds pixels on all sides; see ``headrace.transforms.Pad``."""
    return _run(img, "Pad", padding=padding, fill=fill, padding_mode=padding_mode)


def crop(img: Pixels, top: int, left: int, height: int, width: int) -> Pixels:
    """A box of the image; what lies outside is black."""
    return _run(img, "Crop", top=top, left=left, height=height, width=width)


def center_crop(img: Pixels, output_size: int | Sequence[int]) -> Pixels:
    """The middle of the image, padded with black where it is too small."""
    return _run(img, "CenterCrop", output_size=output_size)


def five_crop(img: Pixels, size: int | Sequence[int]) -> tuple[Pixels, ...]:
    """The corners and the middle: top left, top right, bottom left, bottom right, middle.

    Raises:
        ArgumentError: the image is smaller than ``size`` (height and width, or one number).
    """
    return tuple(_run(img, "FiveCrop", size=size))


def ten_crop(
    img: Pixels, size: int | Sequence[int], vertical_flip: bool = False
) -> tuple[Pixels, ...]:
    """``five_crop`` of the image, and of its mirror image."""
    return tuple(_run(img, "TenCrop", size=size, vertical_flip=vertical_flip))


def resize(
    img: Pixels,
    size: int | Sequence[int] | None,
    interpolation: Any = "bilinear",
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Pixels:
    """Resizes the image; see ``headrace.transforms.Resize``."""
    given = {"size": size, "interpolation": interpolation, "max_size": max_size}
    return _run(img, "Resize", antialias=antialias, **given)


def erase(
    img: Pixels,
    i: int,
    j: int,
    h: int,
    w: int,
    v: float | Sequence[float],
    inplace: bool = False,
) -> Pixels:
    """Replaces the box whose first row is ``i`` and first column ``j``, of ``h`` rows and ``w``
    columns, with ``v``: one value from 0 to 255, or (red, green, blue). What lies outside of the
    image is cut off. ``inplace`` is refused: the array that is given stays as it is."""
    if arguments.flag("inplace", inplace):
        raise arguments.refuse("inplace", inplace, "False: the result is an array of its own")
    return _run(img, "Erase", i=i, j=j, h=h, w=w, v=v)


def hflip(img: Pixels) -> Pixels:
    """Mirrored left to right."""
    return _run(img, "RandomHorizontalFlip", p=1.0)


def vflip(img: Pixels) -> Pixels:
    """Mirrored top to bottom."""
    return _run(img, "RandomVerticalFlip", p=1.0)


def move(
    label: Any,
    values: Any,
    size: Sequence[int],
    transform: Sequence[Any],
    *,
    seed: int = 0,
    epoch: int = 0,
    sample: int = 0,
    draw: int = 0,
) -> Any:
    """What a loader's transforms do to a label of one image, with all that they draw.

    Args:
        label: ``headrace.transforms.Boxes``, ``KeyPoints`` or ``Mask``.
        values: boxes of shape (n, 4) or points of shape (n, 2), which become float32; a mask as
            uint8 of the image's height and width.
        size: height and width of the image.
        transform: as for ``Loader``; for given parameters the steps of ``replay``'s functions as
            dicts, as ``{"name": "Crop", "top": 1, "left": 2, "height": 3, "width": 4}``.
        seed, epoch, sample, draw: as for ``replay``.

    Returns:
        a moved mask; of boxes and points those that are left, and their rows in ``values``: float32
        of shape (k, 4) or (k, 2), int64 of shape (k,).

    Raises:
        ArgumentError: values of another shape, or that are not finite; a transform that moves no
            labels.
    """
    if not isinstance(label, transforms.Boxes | transforms.KeyPoints | transforms.Mask):
        raise arguments.refuse_type(
            "label", label, "Boxes, KeyPoints or Mask of headrace.transforms"
        )
    height, width = height_and_width("size", size)
    array = _label(label, values, (height, width))
    config = {
        "transform": arguments.steps("transform", transform),
        "label": label.to_dict(),
        "size": [height, width],
        **_key(seed=seed, epoch=epoch, sample=sample, draw=draw),
    }

    def room(found: _lib.Image) -> tuple[Any, Any]:
        made = np.empty(found.bytes, np.uint8)
        return (made, found.width, found.height), made.ctypes.data

    made, across, down = _lib.decode(array.ctypes.data, array.nbytes, config, room)
    if isinstance(label, transforms.Mask):
        return made.reshape(down, across)
    kept, moved = made[: 8 * across].view(np.int64), made[8 * across :].view(np.float32)
    return moved.reshape(-1, array.shape[1]), kept


def _key(**parts: int) -> dict[str, int]:
    """What the draws for one image are a function of."""
    return {name: arguments.seed(name, value) for name, value in parts.items()}


def height_and_width(name: str, value: Any) -> list[int]:
    """Two whole numbers, at least 1."""
    if not hasattr(value, "__getitem__"):  # a set has no first
        raise arguments.refuse_type(name, value, "an int, or height and width,")
    found = arguments.each(name, value, lambda part, side: arguments.count(part, side, 1))
    if len(found) != 2:
        raise arguments.refuse(name, value, "an int, or height and width,")
    return found


def _label(label: Any, values: Any, size: tuple[int, int]) -> Any:
    """A label's values as the engine reads them."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # ragged; or a tensor that NumPy cannot have
        array = np.empty(0, object)
    if isinstance(label, transforms.Mask):
        wanted, fits = f"uint8 of shape {size}", array.shape == size and array.dtype == np.uint8
        kind: Any = np.uint8
    else:
        row = 4 if isinstance(label, transforms.Boxes) else 2
        wanted = f"numbers of shape (n, {row})"
        fits = array.ndim == 2 and array.shape[1] == row and array.dtype.kind in "iuf"
        kind = np.float32
    if not fits:
        raise ArgumentError(
            f"values: a {array.dtype} array of shape {array.shape}; must be {wanted}"
        )
    return np.ascontiguousarray(array, kind)


def replay(
    data: bytes | memoryview,
    transform: Sequence[Any] | Views,
    *,
    seed: int = 0,
    epoch: int = 0,
    sample: int = 0,
    draw: int = 0,
) -> Any:
    """What a loader's transforms do to one image, with all that they draw.

    Args:
        data: the encoded image.
        transform: as for ``Loader``.
        seed, epoch, sample, draw: what the draws are a function of; ``sample`` is the index in the
            dataset, ``draw`` 0 unless a sample can come more than once an epoch.

    Returns:
        Function names of ``headrace.functional`` with their arguments after the image, in order;
        ``erase`` stands for a box of the finished values. Of ``headrace.transforms.Views`` such a
        list for each view, arranged as the loader arranges its tensors. Sizes by epoch are those of
        ``epoch``.
    """
    several = transform if isinstance(transform, Views) else None
    lists = several if several is not None else [arguments.steps("transform", transform)]
    key = _key(seed=seed, epoch=epoch, sample=sample, draw=draw)
    encoded = arguments.encoded("data", data)
    found = [
        _replay(encoded, {"transform": steps, "view": view, **key})
        for view, steps in enumerate(lists)
    ]
    return found[0] if several is None else several.arrange(found)


def _replay(encoded: Pixels, config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """One view's steps."""
    config = {"dtype": "float32", "replay": True, **config}

    def room(image: _lib.Image) -> tuple[Any, Any]:
        text = ctypes.create_string_buffer(image.bytes)
        return text, text

    answer = _lib.decode(encoded.ctypes.data, encoded.size, config, room)
    return [(step["function"], step["arguments"]) for step in json.loads(answer.raw)]
