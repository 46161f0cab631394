"""Promises of time, checked so that a busy machine, which may delay any process, breaks none."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

PATIENCE_S = 15.0


def within(seconds: float, attempt: Callable[[], float], tries: int = 5) -> None:
    """One of several attempts must take less than that many seconds, by its own measure."""
    took: list[float] = []
    while len(took) < tries:
        took.append(attempt())
        if took[-1] < seconds:
            return
    pytest.fail(f"not once under {seconds} s: {took}")


def eventually(holds: Callable[[], object]) -> bool:
    """Whether a condition becomes true in time, for what ends soon after a call and not before it
    returns."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        gc.collect()
        if holds():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
