"""Labels of one image, moved as a loader's transforms move them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace import transforms
from headrace._engine import _lib, abi, arguments
from headrace._images.drawn import draw_key
from headrace.errors import ArgumentError


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
    """Moves a label of one image as a loader's transforms move it.

    Args:
        label: ``headrace.transforms.Boxes``, ``KeyPoints`` or ``Mask``.
        values: boxes of shape (n, 4), rotated boxes (n, 5) or (n, 8), or points of shape (n, 2), in
            pixels, which are converted to float32; or a mask of uint8, shape (height, width).
        size: height and width of the image in pixels.
        transform: as for ``Loader``; or, for given parameters, the calls of ``replay`` as dicts,
            such as ``{"name": "Crop", "top": 1, "left": 2, "height": 3, "width": 4}``.
        seed, epoch, sample, draw: as for ``replay``.

    Returns:
        for a mask, the moved mask, uint8. For boxes and points a pair: those that are left, float32
        of shape (k, 4), (k, 5), (k, 8) or (k, 2), and their rows in ``values``, int64 of shape
        (k,).

    Raises:
        ArgumentError: the values have another shape or are not finite, or a transform cannot move
            labels.
    """
    if not isinstance(label, transforms.Boxes | transforms.KeyPoints | transforms.Mask):
        raise arguments.refuse_type(
            "label", label, "Boxes, KeyPoints or Mask of headrace.transforms"
        )
    height, width = arguments.height_and_width("size", size)
    array = _values(label, values, (height, width))
    config = {
        "transform": arguments.transforms("transform", transform),
        "label": label.to_dict(),
        "size": [height, width],
        **draw_key(seed=seed, epoch=epoch, sample=sample, draw=draw),
    }

    def room(found: abi.Image) -> tuple[Any, Any]:
        made = np.empty(found.bytes, np.uint8)
        return (made, found.width, found.height), made.ctypes.data

    made, across, down = _lib.decode(array.ctypes.data, array.nbytes, config, room)
    if isinstance(label, transforms.Mask):
        return made.reshape(down, across)
    kept, moved = made[: 8 * across].view(np.int64), made[8 * across :].view(np.float32)
    return moved.reshape(-1, array.shape[1]), kept


# How many numbers a rotated box has.
_WIDTHS = {"xyxyxyxy": 8, "xywhr": 5, "cxcywhr": 5}


def _values(label: Any, values: Any, size: tuple[int, int]) -> Any:
    """Returns a label's values as the engine reads them."""
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that NumPy cannot read
        array = np.empty(0, object)
    if isinstance(label, transforms.Mask):
        wanted, fits = f"uint8 of shape {size}", array.shape == size and array.dtype == np.uint8
        kind: Any = np.uint8
    else:
        row = _WIDTHS.get(label.format, 4) if isinstance(label, transforms.Boxes) else 2
        wanted = f"numbers of shape (n, {row})"
        fits = array.ndim == 2 and array.shape[1] == row and array.dtype.kind in "iuf"
        kind = np.float32
    if not fits:
        raise ArgumentError(
            f"values: a {array.dtype} array of shape {array.shape}; must be {wanted}"
        )
    return np.ascontiguousarray(array, kind)
