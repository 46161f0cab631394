"""Which Pillow's pixels the engine makes: those of the one that is installed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

# The first whose resize begins with the cheaper pass, as the engine does where nothing is said.
_NEWEST = 13


@functools.cache
def pillow() -> str:
    """The version of an installed Pillow before 13, as "12.3"; empty for any other and for none."""
    try:
        import PIL

        major, minor = map(int, PIL.__version__.split(".")[:2])
    except (ImportError, AttributeError, ValueError):
        return ""
    return f"{major}.{minor}" if major < _NEWEST else ""


def following(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration of ``hr_decode`` or ``hr_loader_open`` that says whose pixels are wanted."""
    return {**config, "pillow": pillow()} if pillow() else config
