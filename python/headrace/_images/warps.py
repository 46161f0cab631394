"""Maps of the plane, by torchvision's functional names and arguments or by their coefficients."""

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


_MOST = 1e9  # of a coefficient, docs/limits.md


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
    """Turns (degrees, clockwise), moves (pixels), scales and shears (degrees) the image.

    ``version`` 1 gives the bytes of ``torchvision.transforms.functional``, 2 those of
    ``torchvision.transforms.v2.functional``, whose coefficients differ in the last bit now and
    then: what a point on an edge gets differs with it.
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
    """Turns the image counter-clockwise by ``angle`` degrees.

    With ``expand`` the result is as large as the turned image; else it has the image's size.
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
        coefficients = []
    # Where one almost says nothing new, rounding decides what the solution is: numbers without end.
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
    return run(img, "AffineMap", fill=0 if fill is None else fill, **given)


def elastic(
    img: Pixels,
    displacement: Any,
    interpolation: Any = "bilinear",
    fill: Fill = None,
    *,
    version: int = 2,
) -> Pixels:
    """Each pixel from a place beside its own, as torchvision's ``elastic`` of the same arguments.

    Args:
        img: uint8 array of shape (height, width, 3).
        displacement: float32 of shape (1, height, width, 2): how far each pixel looks across and
            down, where the image reaches from -1 to 1. Of ``elastic_displacement``, or a tensor.
        interpolation: "nearest" or "bilinear".
        fill: value of what comes from outside; None: it counts as 0.
        version: 1 rounds a blend with the fill as ``torchvision.transforms.functional``, 2 as
            ``torchvision.transforms.v2.functional``.
    """
    image = of(img)
    try:
        field = np.ascontiguousarray(displacement, np.float32)
    except (TypeError, ValueError, RuntimeError):  # ragged; or a tensor that NumPy cannot have
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
        size: height and width of the image.
        alpha, sigma: as ElasticTransform's.
        key: of the noise, four numbers of 32 bits.

    Returns:
        float32 of shape (1, height, width, 2), which ``elastic`` and torchvision's take.

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
    """An affine map as torchvision does it to a uint8 tensor: what lies outside is blended in.

    Args:
        img: uint8 array of shape (height, width, 3).
        coefficients: six, from a pixel of the result to one of the image, both counted from the
            middle of the image.
        interpolation: "nearest" or "bilinear".
        fill: value of what comes from outside; None: it counts as 0.
    """
    given = {"coefficients": coefficients, "interpolation": interpolation, "fill": fill}
    return run(img, "TensorAffine", **given)


def perspective_map(
    img: Pixels, coefficients: Sequence[float], interpolation: Any = "bilinear", fill: Fill = None
) -> Pixels:
    """A perspective map by its eight coefficients, as ``Image.transform`` takes them."""
    given = {"coefficients": coefficients, "interpolation": interpolation}
    return run(img, "Perspective", fill=0 if fill is None else fill, **given)
