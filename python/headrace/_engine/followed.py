"""Which Pillow's pixels the engine makes: those of the one that is installed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

# The first whose resize begins with the cheaper pass, as the engine does where nothing is said.
_NEWEST = 13


@functools.cache
def pillow() -> int:
    """The major version of an installed Pillow before 13; 0 for any other, and for none."""
    try:
        import PIL

        version = int(PIL.__version__.partition(".")[0])
    except (ImportError, AttributeError, ValueError):
        return 0
    return version if 0 < version < _NEWEST else 0


def following(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration of ``hr_decode`` or ``hr_loader_open`` that says whose pixels are wanted."""
    return {**config, "pillow": pillow()} if pillow() else config
