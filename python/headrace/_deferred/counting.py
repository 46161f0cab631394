"""Counts what a loader over a program's own code has handed out, and how long that took."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from headrace._deferred.recording import Asked

_WAITS = 4096  # how many of the last waiting times are kept, for their median and the like


class Counts:
    """Counts and waiting times of all epochs of one loader.

    Attributes:
        batches: how many were handed out.
    """

    def __init__(self) -> None:
        self._first = 0.0
        self.batches = self._samples = 0
        self._waited_s = self._longest_s = 0.0
        self._waits: deque[float] = deque(maxlen=_WAITS)

    def began(self) -> float:
        """The time now, at which a batch is asked for."""
        now = time.perf_counter()
        self._first = self._first or now
        return now

    def handed_out(self, samples: int, began: float) -> None:
        """Counts a batch that was asked for at ``began``."""
        took = time.perf_counter() - began
        self.batches, self._samples = self.batches + 1, self._samples + samples
        self._waited_s, self._longest_s = self._waited_s + took, max(self._longest_s, took)
        self._waits.append(took)

    def stats(self, engine: dict[str, Any]) -> dict[str, Any]:
        """The fields of ``Loader.stats``: the engine's, and those that are counted here."""
        since = time.perf_counter() - self._first if self._first else 0.0
        waits = sorted(self._waits.copy())
        return engine | {
            "images_per_second": self._samples / since if since else 0.0,
            "bytes_per_second": engine["bytes_read"] / since if since else 0.0,
            "samples": self._samples,
            "batches": self.batches,
            "consumer_waiting_s": self._waited_s,
            "stall_p50_s": _quantile(waits, 0.5),
            "stall_p99_s": _quantile(waits, 0.99),
            "stall_max_s": self._longest_s,
        }


def _quantile(ordered: list[float], part: float) -> float:
    return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def samples_of(data: Any, asked: Asked | None, taken: int | None) -> int:
    """How many samples a batch has.

    Args:
        data: the batch. Its own length counts if a stream makes its batches itself.
        asked: what the dataset was asked for; None for a stream.
        taken: how many samples torch's loader took from a stream for it; None: it takes what the
            stream gives.
    """
    if asked is not None:
        several = asked.batched or isinstance(asked.indices, list)  # of a sampler that batches
        return len(asked.indices) if several and hasattr(asked.indices, "__len__") else 1
    return _length(data) if taken is None else taken


def _length(data: Any) -> int:
    """Samples of what a stream gives: the length of the first array in it, or list of texts."""
    while isinstance(data, list | tuple | dict) and data:
        first = next(iter(data.values())) if isinstance(data, dict) else data[0]
        if isinstance(data, list) and isinstance(first, str | bytes):
            return len(data)
        data = first
    shape = getattr(data, "shape", None)  # a program's own object may have any `shape`
    return int(shape[0]) if isinstance(shape, tuple) and shape else 1
