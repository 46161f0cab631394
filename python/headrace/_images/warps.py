"""Maps of the plane, with torchvision's functional names and arguments or with coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import _lib, abi, arguments
from headrace._images.pixels import in_its_words, of, run
from headrace._transforms.base import plain
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from headrace._images.pixels import Fill, Pixels


_MOST = 1e9  # the largest coefficient, docs/limits.md


def affine(
    img: Pixels,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: Any = "nearest",
    fill: Fill = None,
    center: Sequence[float] | None = None,
    *,
    version: int = 1,
) -> Pixels:
    """Rotates, translates, scales and shears the image, like torchvision's ``affine``.

    Args:
        img: uint8 array of shape (height, width, 3).
        angle: clockwise rotation in degrees.
        translate: horizontal and vertical translation in pixels.
        scale: scale factor.
        shear: shear in degrees: along x, or along x and y.
        interpolation: "nearest", "bilinear" or "bicubic".
        fill: value, or (red, green, blue), of pixels from outside; None: 0.
        center: (x, y) of the fixed point in pixels; None: the middle of the image.
        version: 1 gives the bytes of ``torchvision.transforms.functional``, 2 those of
            ``torchvision.transforms.v2.functional``. Their coefficients sometimes differ in the
            last bit, and then the values of points on an edge differ too.
    """
    sheared = arguments.numbers("shear", shear)
    if np.ndim(shear) == 0:
        sheared += [0.0]
    return run(
        img,
        "Affine",
        angle=angle,
        translate=translate,
        scale=scale,
        shear=sheared * 2 if len(sheared) == 1 else sheared,
        interpolation=interpolation,
        fill=0 if fill is None else fill,
        center=center,
        version=version,
    )


def rotate(
    img: Pixels,
    angle: float,
    interpolation: Any = "nearest",
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Fill = None,
) -> Pixels:
    """Rotates the image counter-clockwise by ``angle`` degrees.

    With ``expand`` the result is large enough for the whole rotated image; otherwise it has the
    image's size. ``center`` is (x, y) in pixels; None: the middle. Pixels from outside get
    ``fill``; None: 0.
    """
    return run(
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
    """Warps the image so that the four ``startpoints`` move to the ``endpoints``.

    Points are (x, y) in pixels, clockwise from the top left corner. The map is the solution of
    eight equations, and its last bit can decide which pixel is the nearest. So torchvision's solver
    is used if torch is installed, and otherwise NumPy's.
    """
    rows, sides = [], []
    corners = _corners("endpoints", endpoints), _corners("startpoints", startpoints)
    for (x, y), (to_x, to_y) in zip(*corners, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -to_x * x, -to_x * y])
        rows.append([0, 0, 0, x, y, 1, -to_y * x, -to_y * y])
        sides += [to_x, to_y]
    try:
        coefficients = _solved(rows, sides)
    except RuntimeError:  # torch raises it if an equation depends on the others
        coefficients = []
    # If an equation almost depends on the others, rounding decides the solution, and its numbers
    # become huge.
    if not coefficients or not all(abs(number) <= _MOST for number in coefficients):
        allowed = "a sequence of four corners, no three of them on a line,"
        raise arguments.refuse("endpoints", endpoints, allowed)
    return run(
        img,
        "Perspective",
        coefficients=coefficients,
        interpolation=interpolation,
        fill=0 if fill is None else fill,
    )


def _corners(name: str, value: Any) -> list[list[float]]:
    found = arguments.each(name, value, arguments.numbers)
    if len(found) != 4 or any(len(corner) != 2 for corner in found):
        raise arguments.refuse(name, value, "a sequence of four corners (x, y)")
    return found


def _solved(rows: list[list[float]], sides: list[float]) -> list[float]:
    """Returns the least-squares solution in single precision, which torchvision uses as well."""
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
    """Applies an affine map given by its six coefficients, as for Pillow's ``Image.transform``.

    ``size`` is the height and width of the result in pixels; None: the image's.
    """
    given = {"coefficients": coefficients, "interpolation": interpolation, "size": size}
    return run(img, "AffineMap", fill=0 if fill is None else fill, **given)


def elastic(
    img: Pixels,
    displacement: Any,
    interpolation: Any = "bilinear",
    fill: Fill = None,
    *,
    version: int = 2,
) -> Pixels:
    """Displaces each pixel, like torchvision's ``elastic`` with the same arguments.

    Args:
        img: uint8 array of shape (height, width, 3).
        displacement: float32 array or tensor of shape (1, height, width, 2), such as that of
            ``elastic_displacement``: the horizontal and vertical distance from each pixel to the
            point from which it gets its value, in units in which the image reaches from -1 to 1.
        interpolation: "nearest" or "bilinear".
        fill: value of points outside of the image; None: 0.
        version: 1 rounds a blend with the fill like ``torchvision.transforms.functional``, 2 like
            ``torchvision.transforms.v2.functional``.

    Raises:
        ArgumentError: ``displacement`` has another shape, or an argument is impossible.
    """
    image = of(img)
    try:
        field = np.ascontiguousarray(displacement, np.float32)
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that NumPy cannot read
        field = np.empty(0, np.float32)
    wanted = (1, *image.shape[:2], 2)
    if field.shape != wanted:
        found = f"displacement: an array of shape {field.shape}"
        raise ArgumentError(f"{found}; must be numbers of shape {wanted}")
    given = {"interpolation": interpolation, "fill": fill, "version": version}
    return run(
        image, "Displace", displacement=field.ctypes.data, size=list(image.shape[:2]), **given
    )


def elastic_displacement(
    size: Sequence[int],
    alpha: float | Sequence[float] = 50.0,
    sigma: float | Sequence[float] = 5.0,
    key: Sequence[int] = (0, 0, 0, 0),
) -> NDArray[np.float32]:
    """The displacements that ``headrace.transforms.ElasticTransform`` draws for a key.

    Args:
        size: height and width of the image in pixels.
        alpha, sigma: as for ElasticTransform.
        key: four numbers of 32 bits that determine the noise.

    Returns:
        float32 array of shape (1, height, width, 2), for ``elastic`` and torchvision's ``elastic``.

    Raises:
        ArgumentError: an argument is out of range, or the image too small for the blur.
    """
    height, width = arguments.height_and_width("size", size)
    step = {"name": "Elastic", "alpha": plain("alpha", alpha), "sigma": plain("sigma", sigma)}
    config = {
        "transform": [{**step, "key": plain("key", key)}],
        "displacement": True,
        "size": [height, width],
    }

    def room(found: abi.Image) -> tuple[Any, Any]:
        made = np.empty((1, height, width, 2), np.float32)
        return made, made.ctypes.data

    try:
        made: NDArray[np.float32] = _lib.decode(b"", 0, config, room)
    except ArgumentError as failure:
        raise type(failure)(in_its_words(failure.reason, "Elastic", step)) from None
    return made


def tensor_affine(
    img: Pixels, coefficients: Sequence[float], interpolation: Any = "nearest", fill: Fill = None
) -> Pixels:
    """Applies an affine map as torchvision applies it to a uint8 tensor.

    Unlike in Pillow, points at the edge are blended with the fill.

    Args:
        img: uint8 array of shape (height, width, 3).
        coefficients: six numbers that map a pixel of the result to a point of the image, both
            relative to the middle of the image.
        interpolation: "nearest" or "bilinear".
        fill: value of points outside of the image; None: 0.
    """
    given = {"coefficients": coefficients, "interpolation": interpolation, "fill": fill}
    return run(img, "TensorAffine", **given)


def perspective_map(
    img: Pixels, coefficients: Sequence[float], interpolation: Any = "bilinear", fill: Fill = None
) -> Pixels:
    """Applies a perspective map given by its eight coefficients, as for ``Image.transform``."""
    given = {"coefficients": coefficients, "interpolation": interpolation}
    return run(img, "Perspective", fill=0 if fill is None else fill, **given)
