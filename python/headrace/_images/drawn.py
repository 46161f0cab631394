"""What a loader's transforms draw for one sample."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace._engine import _lib, abi, arguments
from headrace._images.warps import elastic_displacement
from headrace._transforms.multiview import Views

if TYPE_CHECKING:
    from headrace._images.pixels import Pixels


def replay(
    data: bytes | memoryview,
    transform: Sequence[Any] | Views,
    *,
    seed: int = 0,
    epoch: int = 0,
    sample: int = 0,
    draw: int = 0,
) -> Any:
    """Reports what a loader's transforms do to one image, with all parameters that they draw.

    Args:
        data: the encoded image.
        transform: as for ``Loader``.
        seed, epoch, sample, draw: the numbers that determine the draws. ``sample`` is the index in
            the dataset; ``draw`` is 0 unless a sample can come more than once an epoch.

    Returns:
        a list of pairs: the name of a function of ``headrace.functional``, and a dict of its
        arguments without the image, in the order in which they are applied. ``erase`` is applied
        to the finished values. For ``headrace.transforms.Views`` there is such a list for each
        view, arranged as the loader arranges its tensors. Sizes by epoch are those of ``epoch``.

    Raises:
        ArgumentError: a transform is impossible.
        BadImageError, TruncatedError, UnsupportedError, LimitError: as for ``decode``.
    """
    several = transform if isinstance(transform, Views) else None
    lists = several if several is not None else [arguments.transforms("transform", transform)]
    key = draw_key(seed=seed, epoch=epoch, sample=sample, draw=draw)
    encoded = arguments.encoded("data", data)
    found = [
        _replay(encoded, {"transform": one, "view": view, **key}) for view, one in enumerate(lists)
    ]
    return found[0] if several is None else several.arrange(found)


def _replay(encoded: Pixels, config: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Returns what is done to one view: functions with their arguments."""
    config = {"dtype": "float32", "replay": True, **config}

    def room(image: abi.Image) -> tuple[Any, Any]:
        text = ctypes.create_string_buffer(image.bytes)
        return text, text

    answer = _lib.decode(encoded.ctypes.data, encoded.size, config, room)
    return [_told(step["function"], step["arguments"]) for step in json.loads(answer.raw)]


def _told(function: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Returns a step as its function takes it. Of displacements the engine reports only the key, so
    they are computed here."""
    if function != "elastic":
        return function, given
    drawn = {name: given.pop(name) for name in ("size", "alpha", "sigma", "key")}
    return function, {"displacement": elastic_displacement(**drawn), **given}


def draw_key(**parts: int) -> dict[str, int]:
    """Returns the numbers that determine the draws for one image."""
    return {name: arguments.seed(name, value) for name, value in parts.items()}
