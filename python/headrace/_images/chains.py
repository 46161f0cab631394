"""Chains of functions on one image whose weighted results are added up, as AugMix does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import arguments
from headrace._images import ops, pixels, warps

if TYPE_CHECKING:
    from headrace._images.pixels import Pixels

# The functions that a chain of mix_chains may contain.
_CHAINED = {
    function.__name__: function
    for function in (
        ops.adjust_brightness,
        ops.adjust_contrast,
        ops.adjust_saturation,
        ops.adjust_sharpness,
        warps.affine_map,
        ops.autocontrast,
        ops.equalize,
        ops.invert,
        ops.pillow_blur,
        ops.posterize,
        ops.solarize,
        ops.solarize_add,
        warps.tensor_affine,
    )
}


def mix_chains(
    img: Pixels,
    chains: Sequence[Sequence[Mapping[str, Any]]],
    weights: Sequence[float],
    original: float = 0.0,
    blend: float | None = None,
) -> Pixels:
    """Adds up the results of several chains of functions, weighted, as AugMix does.

    Args:
        img: uint8 array of shape (height, width, 3).
        chains: lists of ``{"function": name, "arguments": {...}}``, with functions of
            ``headrace.functional``. Each chain begins with ``img``.
        weights: the weight of each chain's result, 0 to 1.
        original: the weight of the image itself, 0 to 1.
        blend: the share of the sum when it is blended with the image, 0 to 1; None: the sum alone.

    Returns:
        uint8 array of shape (height, width, 3).

    Raises:
        ArgumentError: a weight or a function is not allowed.
    """
    array = pixels.of(img)
    shares = arguments.each("weights", weights, _share)
    if not isinstance(chains, Sequence) or len(chains) != len(shares):
        raise arguments.refuse("chains", chains, f"as many lists as weights ({len(shares)})")
    total = np.float32(_share("original", original)) * array.astype(np.float32)
    for share, chain in zip(shares, chains, strict=True):
        total = total + np.float32(share) * _chained(array, chain).astype(np.float32)
    mixed: Pixels = np.clip(total, 0, 255).astype(np.uint8)
    if blend is None:
        return mixed
    # As in Pillow's Image.blend: single precision, truncated.
    apart = (mixed.astype(np.int32) - array.astype(np.int32)).astype(np.float32)
    blended = array.astype(np.float32) + np.float32(_share("blend", blend)) * apart
    result: Pixels = np.clip(blended, 0, 255).astype(np.uint8)
    return result


def _chained(image: Pixels, chain: Any) -> Pixels:
    """Returns the image after a chain's functions."""
    for step in chain if isinstance(chain, Sequence) else [chain]:
        named = isinstance(step, Mapping) and isinstance(step.get("arguments"), Mapping)
        if not named or step.get("function") not in _CHAINED:
            expected = "lists of functions of AugMix with their arguments"
            raise arguments.refuse("chains", chain, expected)
        image = _CHAINED[step["function"]](image, **step["arguments"])
    return image


def _share(name: str, value: Any) -> float:
    number = arguments.number(name, value)
    if not 0 <= number <= 1:
        raise arguments.refuse(name, value, "a number from 0 to 1")
    return number
