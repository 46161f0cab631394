"""Measures how fast another number of threads makes a loader's batches, without a consumer."""

from __future__ import annotations

import time
from ctypes import byref
from typing import Any

from headrace._doctor import bounded
from headrace._engine import _lib, abi
from headrace.loader import Loader

_SLICE_S = 1.0


def gain(loader: Any, now: int, threads: int, seconds: float, clock: bounded.Clock) -> float | None:
    """Returns how many times as many images this number of threads gives as the present one; None
    if it was not tried, or no batch came in time.

    It is measured, because the benefit of a further thread depends on hyper-threads, memory and
    other programs. It does not include what Python does with batches.
    """
    if not isinstance(loader, Loader) or loader._config["order"] != "epoch":
        return None
    before = _rate(loader, now, seconds / 2, clock.part(0.5))
    after = _rate(loader, threads, seconds / 2, clock)
    return after / before if before and after else None


def rate(loader: Any, threads: int, seconds: float, clock: bounded.Clock) -> float | None:
    """The images a second of the loader's engine alone, without what Python does with batches."""
    if not isinstance(loader, Loader) or loader._config["order"] != "epoch":
        return None
    return _rate(loader, threads, seconds, clock) or None


def _rate(loader: Loader, threads: int, seconds: float, clock: bounded.Clock) -> float:
    """Returns the images a second of another engine; 0 if no batch came in time."""
    config = {**loader._config, "seed": loader.seed, "num_threads": threads, "epoch": 0}
    handle = _lib.opened("hr_loader_open", config, loader.dataset.handle)
    loader.dataset.lend_arrays(handle)
    try:
        _take(handle.value, clock)  # not timed: it opens files and allocates memory
        began, images, wanted = time.perf_counter(), 0, bounded.Clock(seconds)
        while clock.left and (not images or wanted.left):
            images += _take(handle.value, clock)
        return images / max(time.perf_counter() - began, 1e-9)
    finally:
        handle.close()


def _take(handle: int, clock: bounded.Clock) -> int:
    """Takes a batch and gives it back; returns its number of images, 0 if none comes in time."""
    batch, error = abi.Batch(), abi.Error()

    def wait() -> int:
        slice_ms = int(clock.of(_SLICE_S) * 1000) + 1
        return int(_lib.library().hr_next(handle, slice_ms, byref(batch), byref(error)))

    while code := wait():
        if code not in (abi.END, abi.TIMEOUT):
            raise error.exception()
        if not clock.left:
            return 0
    _lib.release(batch.batch)
    return int(batch.length)
