"""The configuration of a dataset of image files that a program names individually."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace._engine import arguments
from headrace.errors import ArgumentError


def of_files(
    paths: Iterable[Any], labels: Iterable[Any], classes: Sequence[str] | None
) -> dict[str, Any]:
    """Returns the engine's configuration of files and their labels."""
    found: dict[str, Any] = {"paths": arguments.each("paths", paths, arguments.path)}
    numbers: dict[str, int] = {}
    if classes is not None:
        found["classes"] = arguments.each("classes", classes, arguments.name)
        numbers = {name: number for number, name in enumerate(found["classes"])}
    found["labels"] = arguments.each(
        "labels", labels, lambda name, label: _class_number(name, label, numbers)
    )
    if len(found["paths"]) != len(found["labels"]):
        raise ArgumentError(
            f"{len(found['paths'])} paths and {len(found['labels'])} labels were given"
        )
    return found


def _class_number(name: str, label: Any, numbers: Mapping[str, int]) -> int:
    """Returns the number of a class; it was given as a number, or as a name if there are names."""
    if not isinstance(label, str):
        return arguments.integer(name, label, 0)
    if label in numbers:
        return numbers[label]
    allowed = "one of the classes" if numbers else "a class number (or classes that have the name)"
    raise arguments.refuse(name, label, allowed)
