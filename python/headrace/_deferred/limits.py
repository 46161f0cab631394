"""The engine's limits for images that a dataset's own code opens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from headrace._torch import foreign
from headrace.errors import HeadraceError, LimitError

MAX_RECORD_BYTES = 256 << 20  # the engine's default (docs/limits.md)


class Limits(NamedTuple):
    """The limits for the engine, by ``PIL.Image.MAX_IMAGE_PIXELS`` where a dataset's code runs.

    Attributes:
        text: the limits as the engine's JSON, by name.
        own_pixels: whether the program itself set how many pixels an image may have.
        pixels, record: the most pixels of an image, and the most bytes of a record.
    """

    text: str
    own_pixels: bool
    pixels: int
    record: int

    def hold(self, pixels: int, size: int) -> bool:
        """Whether so many pixels of an image, and so many bytes of a record, are within them."""
        return pixels <= self.pixels and size <= self.record

    def stand(self, failure: HeadraceError) -> bool:
        """Whether a failure is a limit of the engine's own, so that Pillow is not asked."""
        return isinstance(failure, LimitError) and not foreign.refused(failure, self.own_pixels)


def now(given: Mapping[str, int] | None = None) -> Limits:
    """The limits as ``PIL.Image.MAX_IMAGE_PIXELS`` is set now.

    Args:
        given: the loader's own limits.
    """
    chosen = foreign.limits(given)
    own_pixels = given is not None and "max_pixels" in given
    record = chosen.get("max_record_bytes", MAX_RECORD_BYTES)
    return Limits(_text(tuple(chosen.items())), own_pixels, chosen["max_pixels"], record)


@lru_cache(64)
def _text(chosen: tuple[tuple[str, int], ...]) -> str:
    return json.dumps(dict(chosen), separators=(",", ":"))
