"""Checks the numbers that programs give to image functions: Python's, and NumPy's where allowed.

What is recorded has Python's numbers. A NumPy number is one of these only where Pillow and
torchvision make the same of both: their arithmetic of narrower ones may overflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_WHOLE = (int, np.int64, np.int32)
_EXACT = (float, np.float64, *_WHOLE)


def whole(value: Any) -> int | None:
    """An integer, which counts pixels; else None."""
    return int(value) if type(value) in _WHOLE else None


def exact(value: Any) -> int | float | None:
    """A finite number with which arithmetic is Python's; else None."""
    if type(value) not in _EXACT or not math.isfinite(value):
        return None
    return whole(value) if type(value) in _WHOLE else float(value)


def number(value: Any) -> int | float | None:
    """A finite number that is compared, or used as C's double; else None."""
    single = type(value) is np.float32 and math.isfinite(value)
    return float(value) if single else exact(value)


def within(value: Any, low: float, high: float) -> bool:
    """Whether it is a number of Python's between two bounds, both included."""
    return type(value) in (int, float) and math.isfinite(value) and low <= value <= high
