"""The open loaders of this process, and what each measures."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from headrace._engine import _lib
from headrace.errors import HeadraceError

_numbers = itertools.count()
_Asked = tuple["weakref.ref[Any]", Callable[[Any], dict[str, Any]]]
# One thread may ask for the figures of all loaders while another thread opens one. Iterating over a
# WeakValueDictionary then fails because it has changed; copying a dict is one step.
_loaders: dict[int, _Asked] = {}


def add(loader: Any, ask: Callable[[Any], dict[str, Any]] | None = None) -> int:
    """Registers a loader that was opened; it is forgotten when it is freed.

    Args:
        loader: the engine's handle of a loader; or something else that hands out batches, with
        ``ask``.
        ask: returns what it measured, like ``Loader.stats``.

    Returns:
        its number, for ``forget``.
    """
    _alive()
    number = next(_numbers)
    _loaders[number] = weakref.ref(loader), ask or of_handle
    return number


def forget(number: int) -> None:
    """Removes a loader that was closed."""
    _loaders.pop(number, None)


def of_handle(handle: _lib.Handle) -> dict[str, Any]:
    """Returns what the engine measured of one of its loaders or decoders."""
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
    """Returns what each open loader measured, by its number in this process; the first one is 0."""
    found = {}
    for number, loader, ask in _alive():
        try:
            found[number] = ask(loader)
        except HeadraceError:  # closed, or it belongs to the parent of this forked process
            continue
    return found
