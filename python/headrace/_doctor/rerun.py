"""How fast a loader's batches are made by another number of threads, when nobody takes them."""

from __future__ import annotations

import time
from ctypes import byref
from typing import Any

from headrace._doctor import bounded
from headrace._engine import _lib, abi
from headrace.loader import Loader

_SLICE_MS = 1000


def gain(loader: Any, now: int, threads: int, seconds: float) -> float | None:
    """How many times as many images so many threads give as those now; None: it was not tried.

    Measured, because what a further thread brings depends on hyper-threads, memory and on who else
    is there. What Python does with batches is not in it.
    """
    if not isinstance(loader, Loader) or loader._config["order"] != "epoch":
        return None
    before = _rate(loader, now, seconds / 2)
    return _rate(loader, threads, seconds / 2) / before if before else None


def rate(loader: Any, threads: int, seconds: float) -> float | None:
    """Images a second of the loader's engine alone, without what Python does with batches."""
    if not isinstance(loader, Loader) or loader._config["order"] != "epoch":
        return None
    return _rate(loader, threads, seconds)


def _rate(loader: Loader, threads: int, seconds: float) -> float:
    """Images a second of an engine of its own."""
    config = {**loader._config, "seed": loader.seed, "num_threads": threads, "epoch": 0}
    handle = _lib.opened("hr_loader_open", config, loader.dataset.handle)
    loader.dataset.lend_arrays(handle)
    try:
        _take(handle.value)  # opens files and makes memory
        began, images, clock = time.perf_counter(), 0, bounded.Clock(seconds)
        while not images or clock.left:
            images += _take(handle.value)
        return images / max(time.perf_counter() - began, 1e-9)
    finally:
        handle.close()


def _take(handle: int) -> int:
    """Takes a batch and gives it back; its images."""
    batch, error = abi.Batch(), abi.Error()
    while code := _lib.library().hr_next(handle, _SLICE_MS, byref(batch), byref(error)):
        if code not in (abi.END, abi.TIMEOUT):
            raise error.exception()
    _lib.release(batch.batch)
    return int(batch.length)
