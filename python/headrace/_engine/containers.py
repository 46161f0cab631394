"""Which containers a dataset consists of, and what in them is image and label."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace._engine import arguments

if TYPE_CHECKING:
    Path = str | os.PathLike[str]


def config(
    what: str,
    path: Path | Sequence[Path],
    format: str | None,
    image: str | None,
    label: str | None,
    fields: Sequence[str] | None,
    classes: Sequence[str] | None,
    split: str | None,
    root: Path | None = None,
) -> dict[str, Any]:
    """The engine's configuration of a source, which may be one path or several.

    Args:
        what: the name of the argument that the source was given as.
    """
    found: dict[str, Any] = {}
    if isinstance(path, list | tuple):
        found["containers"] = arguments.each(what, path, arguments.path)
    else:
        found["path"] = arguments.path(what, path)
    for name, value in (
        ("format", format),
        ("image", image),
        ("label", label),
        ("split", split),
    ):
        if value is not None:
            found[name] = arguments.name(name, value)
    for name, values in (("fields", fields), ("classes", classes)):
        if values is not None:
            found[name] = arguments.each(name, values, arguments.name)
    if root is not None:
        found["root"] = arguments.path("root", root)
    return found


def warn_of(info: Mapping[str, Any]) -> None:
    """Warns of what a scan has to say, where the user's own code opened the dataset."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("headrace."):
        level, frame = level + 1, frame.f_back
    for text in info.get("warnings", ()):
        warnings.warn(text, stacklevel=level)
