"""Whether a dataset's index is older than this version, or than the files it lists."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.dataset import Dataset
from headrace.errors import one_line

_FOLDERS = 1000  # class folders that are looked at, at most


def look(dataset: Dataset, version: str) -> dict[str, Any]:
    """Whether a dataset's index is of an older version, or older than its files.

    Args:
        version: the version of Headrace that runs now.

    Returns:
        ``written_by``: "headrace 0.0.9" if that version is older, else None. ``changed``: a folder
        in which files were added or removed since, else None. ``in_place``: whether the index
        belongs to files that are read in place.
    """
    kind, info = dataset.kind, dataset.info
    found: dict[str, Any] = {"written_by": None, "changed": None, "in_place": kind != "packed"}
    writer = str(info.get("created_by") or "").strip()
    if writer and _number(writer) < _number(version):
        found["written_by"] = one_line(writer)
    if kind == "indexed" and not dataset.away:
        found["changed"] = _changed(Path(info["path"]))
    return found


def _number(text: str) -> tuple[int, ...]:
    """The numbers of a version, which follow the program's name."""
    parts = text.split()[-1].split(".")[:3]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)


def _changed(folder: Path) -> str | None:
    try:
        written = (folder / "headrace.json").stat().st_mtime_ns
        with os.scandir(folder) as entries:
            for entry in islice(entries, _FOLDERS):
                if entry.is_dir() and entry.stat().st_mtime_ns > written:
                    return one_line(entry.path)
    except OSError:  # the index lies elsewhere
        pass
    return None
