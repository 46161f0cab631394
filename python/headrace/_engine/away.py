"""Datasets in object stores: what a user says of the store, and waits that Ctrl-C can end."""

from __future__ import annotations

import _thread
import contextlib
import contextvars
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from headrace._engine import arguments
from headrace.errors import ArgumentError, WaitTimeoutError

# The beginnings of addresses; internal/remote/address.go has the same.
SCHEMES = ("s3", "gs", "az", "http", "https", "hf")

Answer = TypeVar("Answer")

# How many seconds a call may wait here, and the time at which they are over.
_limit: contextvars.ContextVar[tuple[float, float]] = contextvars.ContextVar(
    "headrace-patience", default=(math.inf, math.inf)
)


def is_url(path: Any) -> bool:
    """Whether a path is an address in a store; the case of a scheme does not matter."""
    if not isinstance(path, str):
        return False
    scheme, colon, _ = path.partition("://")
    return colon != "" and scheme.lower() in SCHEMES


def shown(address: str) -> str:
    """Returns an address for texts: those of http and https without name, password and query."""
    scheme, colon, rest = address.partition("://")
    if not colon:  # a local index of containers in a store
        return address
    if scheme.lower().startswith("http"):
        host, slash, path = rest.partition("?")[0].partition("#")[0].partition("/")
        rest = host.rpartition("@")[2] + slash + path
    return f"{scheme}://{rest}"


def storage(value: Any) -> dict[str, Any]:
    """Returns the options of a store for the engine, which knows their names.

    Errors contain no value, because it may be a secret in the wrong place.
    """
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise arguments.refuse_type("storage", type(value), "a dict with names of options")
    for one in value.values():
        if not isinstance(one, str | bool):
            raise ArgumentError(
                f"an option of storage is of type {type(one).__name__}: a str or a bool is expected"
            )
    return dict(value)


def cache(directory: Any, size: Any) -> dict[str, Any]:
    """Returns the options of a cache on disk, for the engine."""
    if (directory is None) != (size is None):
        raise ArgumentError("cache and cache_size: one of them is given (expected both, or none)")
    if directory is None:
        return {}
    return {
        "cache": arguments.path("cache", directory),
        "cache_size": arguments.size("cache_size", size),
    }


def timeout(value: Any) -> float | None:
    """Returns the seconds that a store may take."""
    return None if value is None else arguments.seconds("timeout", value)


def _until(limit: tuple[float, float]) -> float:
    return limit[1]


@contextlib.contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Bounds the time of everything done with ``patiently`` inside; None sets no bound of its own.

    Of two nested bounds, the one that is over first counts.
    """
    if seconds is None:
        yield
        return
    token = _limit.set(min((seconds, time.monotonic() + seconds), _limit.get(), key=_until))
    try:
        yield
    finally:
        _limit.reset(token)


def patiently(
    call: Callable[[], Answer], forgotten: Callable[[Answer], object], address: str
) -> Answer:
    """Makes a call that may wait long for a store, so that Ctrl-C ends the wait.

    Python handles signals between two calls into the engine, and one such call may last a minute.

    Args:
        forgotten: gets the answer if it comes after the wait was ended.
        address: what is waited for.

    Raises:
        WaitTimeoutError: it took longer than the time that was left.
    """
    seconds, until = _limit.get()
    done: list[Answer] = []
    failed: list[BaseException] = []
    lock, waited_for, over = threading.Lock(), [True], threading.Lock()
    over.acquire()

    def run() -> None:
        try:
            made = call()
            with lock:
                if waited_for[0]:
                    done.append(made)
                    return
            forgotten(made)
        except BaseException as error:
            failed.append(error)
        finally:
            over.release()

    try:
        _thread.start_new_thread(run, ())  # one call of C, which no exception can interrupt
        left = min(max(0.0, until - time.monotonic()), threading.TIMEOUT_MAX)
        if not over.acquire(timeout=left):
            raise WaitTimeoutError(
                f"{shown(address)}: the store gave no answer within {seconds:g} s"
            )
    except BaseException:
        with lock:
            waited_for[0] = False
        for made in done:
            forgotten(made)
        raise
    if failed:
        raise failed[0]
    return done[0]


def waiting(path: Any) -> Callable[[Callable[[], Answer], Callable[[Answer], object]], Answer]:
    """Returns how to call what works on a path: patiently if the path is an address."""
    if not is_url(path):
        return lambda call, _: call()
    return lambda call, forgotten: patiently(call, forgotten, path)
