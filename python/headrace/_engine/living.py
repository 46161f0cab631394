"""The engine's loaders of this process, as long as they live."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from headrace._engine import _lib
from headrace.errors import HeadraceError

_numbers = itertools.count()
_loaders: weakref.WeakValueDictionary[int, _lib.Handle] = weakref.WeakValueDictionary()


def add(handle: _lib.Handle) -> None:
    """Notes a loader that was opened; it is forgotten when nobody has it any more."""
    _loaders[next(_numbers)] = handle


def stats() -> dict[int, dict[str, Any]]:
    """What each open loader measured, by its number in this process, the first one opened 0."""
    found = {}
    for number, handle in sorted(_loaders.items()):
        try:
            found[number] = dict(_lib.info("hr_loader_info", handle.value)["stats"])
        except HeadraceError:  # closed, or of the process that this one was forked from
            continue
    return found
