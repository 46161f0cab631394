"""Sizes that follow the epoch or the step: progressive resizing without a new loader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace._engine import arguments

UNITS = ("epoch", "step")


class Schedule:
    """A size that changes at given epochs or steps.

    Use it as the ``size`` of a transform, or as ``Loader(resolution=...)``, which replaces the size
    of the finished images. A batch has the size of its own epoch or step, so it is the same for any
    number of threads or ranks and after a resume. Memory is allocated for the largest size.

    Args:
        sizes: a dict from the epoch or step at which a size begins to the size in pixels: one
            number, or height and width. 0 must be one of the keys.
        by: "epoch", or "step", which counts the steps of all epochs from 0.

    Raises:
        ArgumentError: a number or a size is impossible; the sentence names it.
    """

    def __init__(self, sizes: Mapping[int, Any], by: str = "epoch") -> None:
        self.by = arguments.choice("by", by, UNITS)
        if not isinstance(sizes, Mapping):
            raise arguments.refuse_type("sizes", sizes, "a dict of sizes by epoch or step")
        self.sizes = _sizes("sizes", sizes, by)

    def to_dict(self) -> dict[str, Any]:
        """The schedule as the engine reads it."""
        return {"by": self.by, "at": [[at, size] for at, size in self.sizes.items()]}

    def __repr__(self) -> str:
        return f"Schedule({self.sizes}, by={self.by!r})"


def _sizes(name: str, sizes: Mapping[int, Any], by: str) -> dict[int, int | list[int]]:
    found = {arguments.count(f"a key of {name}", at, 0): size for at, size in sizes.items()}
    if 0 not in found:
        raise arguments.refuse(name, dict(sizes), f"a size from {by} 0 on")
    return {at: _size(f"{name}[{at}]", found[at]) for at in sorted(found)}


def _size(name: str, value: Any) -> int | list[int]:
    if hasattr(value, "__index__"):
        return arguments.count(name, value, 1)
    sides = arguments.each(name, value, lambda part, side: arguments.count(part, side, 1))
    if len(sides) != 2:
        raise arguments.refuse(name, value, "an int, or height and width,")
    return sides


def resolution(value: Any) -> dict[str, Any] | None:
    """``Loader(resolution=...)`` as the engine reads it: a ``Schedule``, or a dict by epoch."""
    if value is None:
        return None
    if isinstance(value, Schedule):
        return value.to_dict()
    if not isinstance(value, Mapping):
        raise arguments.refuse_type(
            "resolution", value, "a dict of sizes by epoch, or a headrace.transforms.Schedule,"
        )
    return Schedule(_sizes("resolution", value, "epoch")).to_dict()
