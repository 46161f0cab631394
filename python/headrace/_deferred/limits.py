"""The engine's limits for images that a dataset's own code opens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from headrace._torch import foreign
from headrace.errors import HeadraceError, LimitError


class Limits(NamedTuple):
    """What the engine is told where the code of a dataset runs, by Pillow's switch there.

    Attributes:
        text: the limits as the engine's JSON, by name.
        own_pixels: the program said itself how many pixels an image may have.
    """

    text: str
    own_pixels: bool

    def stand(self, failure: HeadraceError) -> bool:
        """Whether a failure is one that Pillow is not asked about: a limit of the engine's own."""
        return isinstance(failure, LimitError) and not foreign.refused(failure, self.own_pixels)


def now(given: Mapping[str, int] | None = None) -> Limits:
    """As Pillow's switch stands now.

    Args:
        given: the loader's own.
    """
    chosen = foreign.limits(given)
    return Limits(_text(tuple(chosen.items())), given is not None and "max_pixels" in given)


@lru_cache(64)
def _text(chosen: tuple[tuple[str, int], ...]) -> str:
    return json.dumps(dict(chosen), separators=(",", ":"))
