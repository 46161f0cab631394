"""Checks the numbers that programs give to image functions: Python's, and NumPy's where allowed.

Recorded ops have Python's numbers. A NumPy number is converted to one only if Pillow and
torchvision make the same of both. Their arithmetic with narrower numbers may overflow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_WHOLE = (int, np.int64, np.int32)
_EXACT = (float, np.float64, *_WHOLE)


def whole(value: Any) -> int | None:
    """The value as an ``int``, if it is an integer that can count pixels; else None."""
    return int(value) if type(value) in _WHOLE else None


def exact(value: Any) -> int | float | None:
    """The value as Python's number, if it is finite and calculates like one; else None."""
    if type(value) not in _EXACT or not math.isfinite(value):
        return None
    return whole(value) if type(value) in _WHOLE else float(value)


def number(value: Any) -> int | float | None:
    """As ``exact``, or a NumPy float32: for numbers that are compared or become C's double."""
    single = type(value) is np.float32 and math.isfinite(value)
    return float(value) if single else exact(value)


def within(value: Any, low: float, high: float) -> bool:
    """Whether the value is one of Python's numbers and between two bounds, both included."""
    return type(value) in (int, float) and math.isfinite(value) and low <= value <= high
