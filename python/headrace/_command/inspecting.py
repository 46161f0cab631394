"""What containers hold that cannot be opened because image or label are missing or in doubt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from headrace._command import options
from headrace._engine import away, containers
from headrace.dataset import Dataset
from headrace.errors import HeadraceError

_SHOWN = ("rows", "kind", "path", "shards", "source")


def looked_at(
    source: Path | list[Path],
    words: containers.Words,
    storage: Sequence[str] | None,
    timeout: float | None,
) -> dict[str, Any]:
    """Returns kind, samples, columns and what is in doubt; empty if that cannot be found out.

    Args:
        source: one path, or several.
        words: what the user said of the source.
        storage: KEY=VALUE options of an object store.
        timeout: the seconds that this may take.
    """
    with suppress(HeadraceError), away.within(timeout):
        config = containers.config("source", source, words) | {"inspect": True}
        if storage:
            config["storage"] = options.storage(list(storage))
        dataset = Dataset.__new__(Dataset)
        dataset.__setstate__({"config": config | {"backend": "auto", "verify_crc": True}})
        with dataset:
            info = dataset.info
            if "columns" not in info.get("source", {}):
                return {}
            found = {name: info[name] for name in _SHOWN}
            found |= {"first_key": dataset.facts(0)["key"], "doubts": info["warnings"]}
            return with_path(found, source)
    return {}


def with_path(found: dict[str, Any], source: Path | list[Path]) -> dict[str, Any]:
    """What was found, with the path of a single file: the dataset's own path is its folder."""
    if not isinstance(source, list) and not away.is_url(source) and os.path.isfile(source):
        return {**found, "path": os.fspath(source)}
    return found
