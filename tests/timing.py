"""Promises of time, asked so that a busy machine, which keeps any process waiting, breaks none."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

import pytest

PATIENCE_S = 15.0


def within(seconds: float, attempt: Callable[[], float], tries: int = 5) -> None:
    """One of several attempts takes less than so many seconds, each as it says itself."""
    took: list[float] = []
    while len(took) < tries:
        took.append(attempt())
        if took[-1] < seconds:
            return
    pytest.fail(f"not once under {seconds} s: {took}")


def eventually(holds: Callable[[], object]) -> bool:
    """Whether something comes to hold: what ends soon after a call, and not before it returns."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        gc.collect()
        if holds():
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
