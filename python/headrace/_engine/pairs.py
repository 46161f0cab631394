"""Which files of two folders are pairs, and what the second one of each is called."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from headrace._engine import arguments

KINDS = {"image": "target", "mask": "mask"}  # and the field's name
UNPAIRED = ("error", "skip")


def config(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    kind: str,
    suffixes: Sequence[str],
    unpaired: str,
) -> dict[str, Any]:
    """The engine's configuration of pairs."""
    ends = arguments.each("suffixes", suffixes, _suffix)
    if len(ends) != 2:
        raise arguments.refuse("suffixes", suffixes, "two texts")
    pairs = {
        "first": arguments.path("first", first),
        "second": arguments.path("second", second),
        "field": KINDS[arguments.choice("kind", kind, tuple(KINDS))],
        "suffixes": ends,
        "skip": arguments.choice("unpaired", unpaired, UNPAIRED) == "skip",
    }
    return {"pairs": pairs}


def further_images(config: Mapping[str, Any]) -> list[str]:
    """The fields of a dataset, by its configuration, that are second images of pairs."""
    parts = [config, *config.get("parts", ())]
    fields = {part["pairs"]["field"] for part in parts if "pairs" in part}
    return sorted(fields & {KINDS["image"]})


def _suffix(name: str, value: Any) -> str:
    """The end of a stem, which may be empty."""
    return "" if value == "" else arguments.name(name, value)
