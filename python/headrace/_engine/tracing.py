"""Traces: which loaders of this process write one, and what Python adds to them.

The engine records what its threads do. This module records what the program's thread does with a
batch: how long it waits, what a copy takes, and the whole ``next()``.
"""

from __future__ import annotations

import atexit
import os
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace._engine import _lib, arguments
from headrace.errors import HeadraceError

VARIABLE = "HEADRACE_TRACE"

_traced: set[int] = set()  # handles of loaders
_asked_by_variable = ContextVar("_asked_by_variable", default=True)


@contextmanager
def without_variable() -> Iterator[None]:
    """Ignores the environment's variable for loaders that are opened inside, in this thread."""
    before = _asked_by_variable.set(False)
    try:
        yield
    finally:
        _asked_by_variable.reset(before)


def begin(handle: _lib.Handle, path: str) -> str:
    """Makes a loader write a trace to a file, and ends its former trace; returns the file's name.

    Raises:
        HeadraceError: the file cannot be written.
    """
    name = path.encode("utf-8", "surrogateescape")
    _lib.call("hr_trace", handle.value, name, len(name))
    return _begun(handle)


def _begun(handle: _lib.Handle) -> str:
    """Notes that a loader has a trace; returns the name of its file."""
    if not _traced:
        # A program that ends without close() still gets complete traces.
        atexit.unregister(_end_all)
        atexit.register(_end_all)
    _traced.add(handle.value)
    weakref.finalize(handle, _traced.discard, handle.value).atexit = False
    return arguments.found_path(_lib.info("hr_loader_info", handle.value)["trace"])


def end(handle: _lib.Handle) -> None:
    """Completes the file.

    Raises:
        HeadraceError: a part of it could not be written.
    """
    if handle.value in _traced:
        _traced.discard(handle.value)
        _lib.call("hr_trace", handle.value, None, 0)


def close(handle: _lib.Handle) -> None:
    """Ends a trace before its loader closes. A full disk does not keep the loader from closing."""
    if handle.close.alive and not _lib.came_by_fork():
        try:
            end(handle)
        except HeadraceError as failure:
            warnings.warn(f"the trace is incomplete: {failure}", stacklevel=3)


def config(path: str | None) -> dict[str, str]:
    """The part of a loader's configuration for the trace that it or the environment asks for."""
    wanted = path or (os.environ.get(VARIABLE) if _asked_by_variable.get() else None)
    return {"trace": wanted} if wanted else {}


def opened(handle: _lib.Handle, path: str | None) -> None:
    """Notes the trace of a loader that was opened with one, or warns why it has none."""
    if path is None:
        return
    try:
        if "trace" in _lib.info("hr_loader_info", handle.value):
            _begun(handle)
        else:
            begin(handle, arguments.path(VARIABLE, path))
    except HeadraceError as failure:
        warnings.warn(f"no trace is written: {failure}", stacklevel=3)


def checked(path: object) -> str | None:
    """Checks the argument of ``trace``."""
    return None if path is None else arguments.path("path", path)


def now() -> int:
    """The present time, as the beginning of a span; 0 if no trace is written."""
    return time.monotonic_ns() if _traced else 0


def note(kind: int, handle: int, epoch: int, step: int, began: int) -> None:
    """Adds a span from ``began``, a result of ``now``, to this moment."""
    if began and handle in _traced:
        _lib.library().hr_span(handle, kind, epoch, step, began, time.monotonic_ns(), None)


def _end_all() -> None:
    if not _lib.came_by_fork():
        for handle in list(_traced):  # other threads may end their traces meanwhile
            _lib.library().hr_trace(handle, None, 0, None)
