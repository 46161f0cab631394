"""Counts how often each sample came in an epoch: its draw number, for its augmentations."""

from __future__ import annotations

from collections import Counter

import numpy as np


class Draws:
    """The counts for samples that are numbered from 0."""

    def __init__(self, count: int) -> None:
        self._seen = np.zeros(count, np.uint32)

    def of(self, rows: list[int]) -> list[int]:
        """The draw numbers of a batch's samples, which are counted in the batch's order."""
        seen = self._seen
        if len(set(rows)) == len(rows):
            at = np.array(rows, np.int64)
            times = seen[at]
            seen[at] = times + 1
            draws: list[int] = times.tolist()
            return draws
        draws = []
        for row in rows:
            draws.append(int(seen[row]))
            seen[row] += 1
        return draws

    def clear(self) -> None:
        """Begins the epoch again."""
        self._seen[:] = 0


class AnyDraws:
    """As ``Draws``, for samples with any numbers."""

    def __init__(self) -> None:
        self._seen: Counter[int] = Counter()

    def of(self, rows: list[int]) -> list[int]:
        draws = []
        for row in rows:
            draws.append(self._seen[row])
            self._seen[row] += 1
        return draws

    def clear(self) -> None:
        self._seen.clear()
