"""The files of two folders that form pairs, and the name of the second file's field."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from headrace._engine import arguments

KINDS = {"image": "target", "mask": "mask"}  # kinds, and the name of the field of each
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
    """Returns the fields of a dataset that are second images of pairs, by its configuration."""
    parts = [config, *config.get("parts", ())]
    fields = {part["pairs"]["field"] for part in parts if "pairs" in part}
    return sorted(fields & {KINDS["image"]})


def _suffix(name: str, value: Any) -> str:
    """The end of a stem, which may be empty."""
    return "" if value == "" else arguments.name(name, value)
