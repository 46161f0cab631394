"""Several files of arrays as one dataset, with the images of one file after those of another."""

from __future__ import annotations

import glob
import itertools
import os
import re
from collections.abc import Callable, Sequence
from typing import Any

from headrace._arrays import held, stored, tiles
from headrace._arrays.stored import Stored
from headrace._engine import arguments
from headrace.errors import ArgumentError

_SHAPE = ("height", "width", "channels", "strides")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_FILES = 1 << 20


def matching(pattern: str) -> list[str]:
    """The files that a pattern with wildcards or braces names, sorted; none if it has neither.

    Braces are those of containers: ``{000..146}`` and ``{train,val}``.
    """
    if not re.search(r"[*?\[{]", pattern) or os.path.lexists(pattern):
        return []
    parts = _BRACES.split(pattern)
    choices = [[part] if at % 2 == 0 else _inside(part) for at, part in enumerate(parts)]
    found: list[str] = []
    for chosen in itertools.islice(itertools.product(*choices), _MOST_FILES):
        name = "".join(chosen)
        # Braces name files, which need not exist; a wildcard finds those that exist.
        found += sorted(glob.glob(name)) if re.search(r"[*?\[]", name) else [name]
    return found


def _inside(braces: str) -> list[str]:
    ends = re.fullmatch(r"(\d+)\.\.(\d+)", braces)
    if ends is None:
        return braces.split(",")
    first, last = int(ends[1]), int(ends[2])
    if not first <= last < first + _MOST_FILES:
        return []
    return [f"{number:0{len(ends[1])}d}" for number in range(first, last + 1)]


def config(
    kind: str,
    paths: Sequence[str],
    read: Callable[[str], list[Stored]],
    opened: Callable[[str], Sequence[Stored]],
    image: str | None,
    label: Any,
    classes: Sequence[str] | None,
    layout: str | None,
) -> dict[str, Any]:
    """Returns the configuration of the arrays of several files.

    Args:
        kind: the kind of the files.
        read: reads the arrays of a file of images.
        opened: reads the arrays of a file of labels.
        label: the name of an array in each file; a file or labels for all images together; or one
            file of labels for each file of images.

    Raises:
        ArgumentError: their images differ in shape, or ``label`` does not fit their number.
    """
    labels = _each(paths, label)
    found: dict[str, Any] = {}
    numbers: list[int] = []
    for path, own in zip(paths, labels, strict=True):
        arrays = read(path)
        part = stored.config(kind, arrays, image, own, classes, layout, opened)
        if "array" not in part:
            text = "holds encoded images; headrace.Dataset.concat joins several such files"
            raise ArgumentError(f"{path}: {text}")
        rows = sum(one["rows"] for one in part["array"]["stretches"])
        numbers += [-1] * rows if part["labels"] is None else part["labels"]
        if not found:
            found = part
            continue
        here, array = part["array"], found["array"]
        for name in _SHAPE:
            if here[name] != array[name]:
                raise ArgumentError(
                    f"{path}: its images have the {name} {here[name]} (expected {array[name]}, as "
                    f"{paths[0]}); headrace.Dataset.concat joins datasets that differ"
                )
        for one in here["stretches"]:
            tiles.moved(one, len(array["files"]))
        array["stretches"] += here["stretches"]
        array["files"] += here["files"]
        array["source"]["shape"][0] += here["source"]["shape"][0]
    if labels[0] is stored.NO_LABELS:
        values, of = stored.labels_of([], None, len(numbers), label, opened)
        found["array"]["source"]["label"] = of
        found["labels"] = held.labels(values, len(numbers), found.get("classes"))
    else:
        found["labels"] = numbers if max(numbers) >= 0 else None
    return found


def _each(paths: Sequence[str], label: Any) -> list[Any]:
    """``label=`` of each file; ``NO_LABELS`` if there is one label= for all files together."""
    if isinstance(label, list | tuple) and label:
        if all(isinstance(one, str | os.PathLike) for one in label):
            if len(label) != len(paths):
                raise ArgumentError(
                    f"label has {len(label)} files (expected {len(paths)}, as many as of images)"
                )
            return list(label)
        return [stored.NO_LABELS] * len(paths)
    if isinstance(label, str | os.PathLike):
        beside = matching(arguments.path("label", label))
        if len(beside) == len(paths):
            return list(beside)
        return [stored.NO_LABELS if os.path.exists(label) else label] * len(paths)
    return [None if label is None else stored.NO_LABELS] * len(paths)
