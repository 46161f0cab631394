"""The share of reads that a page cache of a given size answers, if each epoch has another order."""

from __future__ import annotations

import math


def hits(share: float) -> float:
    """The share of reads that are answered by a cache which holds a share of the dataset's bytes.

    Every epoch reads each sample once, in a new order. A sample lies at x of one epoch (0 to 1) and
    at y of the next. It is found if what was read between is no more than the cache holds. Between
    them lie 1 - x + y of an epoch, of which (1 - x) y were read twice: that leaves 1 - x (1 - y).
    With x and y random, that is at most c in 1 - t + t ln t of all cases, with t = 1 - c. This
    assumes a cache that drops what was used longest ago; Linux's is close to one.
    """
    missing = 1 - min(max(share, 0.0), 1.0)
    return 1 - missing + missing * math.log(missing) if missing > 0 else 1.0


def share_for(wanted: float) -> float:
    """The share of the dataset that a cache has to hold to answer a given share of the reads."""
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if hits(middle) < wanted else (low, middle)
    return high
