"""The loaders of this process, as long as they live, and what each measures."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from headrace._engine import _lib
from headrace.errors import HeadraceError

_numbers = itertools.count()
_Asked = tuple["weakref.ref[Any]", Callable[[Any], dict[str, Any]]]
# A thread of its own may ask for what all of them measured while another one opens a loader. A
# WeakValueDictionary that is gone through then says that it has changed; a dict's copy is one step.
_loaders: dict[int, _Asked] = {}


def add(loader: Any, ask: Callable[[Any], dict[str, Any]] | None = None) -> int:
    """Notes a loader that was opened; it is forgotten when nobody has it any more.

    Args:
        loader: the engine's handle of one; or what else hands out batches, with ``ask``.
        ask: says what it measured, as ``Loader.stats``.

    Returns:
        its number, for ``forget``.
    """
    _alive()
    number = next(_numbers)
    _loaders[number] = weakref.ref(loader), ask or of_handle
    return number


def forget(number: int) -> None:
    """Takes out a loader that was closed."""
    _loaders.pop(number, None)


def of_handle(handle: _lib.Handle) -> dict[str, Any]:
    """What the engine measured of a loader or a decoder of its own."""
    return dict(_lib.info("hr_loader_info", handle.value)["stats"])


def _alive() -> list[tuple[int, Any, Callable[[Any], dict[str, Any]]]]:
    found = []
    for number, (watched, ask) in _loaders.copy().items():
        loader = watched()
        if loader is None:
            _loaders.pop(number, None)
        else:
            found.append((number, loader, ask))
    return found


def stats() -> dict[int, dict[str, Any]]:
    """What each open loader measured, by its number in this process, the first one opened 0."""
    found = {}
    for number, loader, ask in _alive():
        try:
            found[number] = ask(loader)
        except HeadraceError:  # closed, or of the process that this one was forked from
            continue
    return found
