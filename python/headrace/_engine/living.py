"""The engine's loaders of this process, as long as they live."""

from __future__ import annotations

import itertools
import weakref
from typing import Any

from headrace._engine import _lib
from headrace.errors import HeadraceError

_numbers = itertools.count()
# A thread of its own may ask for what all of them measured while another one opens a loader. A
# WeakValueDictionary that is gone through then says that it has changed; a copy is one call of C.
_loaders: dict[int, weakref.ref[_lib.Handle]] = {}


def add(handle: _lib.Handle) -> None:
    """Notes a loader that was opened; it is forgotten when nobody has it any more."""
    _alive()
    _loaders[next(_numbers)] = weakref.ref(handle)


def _alive() -> list[tuple[int, _lib.Handle]]:
    found = []
    for number, watched in list(_loaders.items()):
        handle = watched()
        if handle is None:
            _loaders.pop(number, None)
        else:
            found.append((number, handle))
    return found


def stats() -> dict[int, dict[str, Any]]:
    """What each open loader measured, by its number in this process, the first one opened 0."""
    found = {}
    for number, handle in _alive():
        try:
            found[number] = dict(_lib.info("hr_loader_info", handle.value)["stats"])
        except HeadraceError:  # closed, or of the process that this one was forked from
            continue
    return found
