"""The limit, and the worth of a remedy: arithmetic on rates, in images a second."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

STAGES = ("storage", "decoding", "delivery", "copy", "training")
# A remedy with a smaller gain is not reported.
_LEAST_GAIN = 1.03


def limit(stages: Mapping[str, float | None], asked: float | None) -> tuple[str, float]:
    """Returns the slowest stage and its rate; "none" if it is as fast as was asked for.

    The stages work at the same time, so the slowest one sets the pace. Among equally fast stages,
    the one nearest to the training is named. A stage that was not measured is None.
    """
    known = [(rate, -STAGES.index(name), name) for name, rate in stages.items() if rate is not None]
    if not known:
        return "none", 0.0
    rate, _, name = min(known)
    return ("none" if asked is not None and rate >= asked else name), rate


def counting(
    stages: Mapping[str, float | None], few: Collection[str]
) -> Mapping[str, float | None]:
    """Leaves out stages that were measured with too little, unless nothing else was measured."""
    counted = {name: None if name in few else rate for name, rate in stages.items()}
    return counted if any(rate is not None for rate in counted.values()) else stages


def gain(
    stages: Mapping[str, float | None], changed: Mapping[str, float | None]
) -> tuple[float, float]:
    """How many times faster everything becomes with some stages changed, and the new rate."""
    before = limit(stages, None)[1]
    after = limit({**stages, **changed}, None)[1]
    return (after / before if before > 0 else 1.0), after


def remedy(
    text: str,
    stages: Mapping[str, float | None],
    changed: Mapping[str, float | None],
    measured: bool,
) -> dict[str, Any] | None:
    """Returns a remedy and its gain; None if it is worth nothing.

    ``measured``: whether the changed rate was measured here, on some of these images, or
    calculated.
    """
    times, rate = gain(stages, changed)
    if times < _LEAST_GAIN:
        return None
    return {
        "text": text,
        "gain": times,
        "images_per_second": rate,
        "measured": measured,
    }


def from_storage(cached: float | None, cold: float | None, warm: float | None) -> float | None:
    """Images a second if a share of the reads is answered from memory."""
    if cold is None or warm is None:
        return cold or warm
    share = 0.0 if cached is None else cached
    return 1 / (share / max(warm, cold) + (1 - share) / cold)


def smaller_reads(whole: float, head: float | None, ratio: float) -> float:
    """Images a second of reads that have a share of the bytes.

    A read waits and then transfers; the time of the first 4 kB is taken for the wait.
    """
    if head is None or head <= whole:
        return whole
    return 1 / (1 / head + (1 / whole - 1 / head) * ratio)
