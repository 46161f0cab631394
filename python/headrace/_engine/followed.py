"""Which version of Pillow the engine follows: the one that is installed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

# The first version whose resize begins with the cheaper pass. The engine does so by default.
_NEWEST = 13


@functools.cache
def pillow() -> str:
    """The version of an installed Pillow before 13, as "12.3"; "" for a later one and for none."""
    try:
        import PIL

        major, minor = map(int, PIL.__version__.split(".")[:2])
    except (ImportError, AttributeError, ValueError):
        return ""
    return f"{major}.{minor}" if major < _NEWEST else ""


def following(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Adds to a configuration of ``hr_decode`` or ``hr_loader_open`` which Pillow to follow."""
    return {**config, "pillow": pillow()} if pillow() else config
