"""Stages that were measured too briefly to be named the limit: few images, in hardly any time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# So many images, or so many seconds. A thread that has no core waits some milliseconds for one, and
# a shorter time would measure mainly that.
_LEAST, _LEAST_S = 32, 0.05
# So many ready batches that were taken: then one that was held up does not change their median.
_LEAST_READY = 3


def enough(count: float, seconds: float) -> bool:
    """Whether a rate measured with so many images in that time is worth something."""
    return count >= _LEAST or (count > 0 and seconds >= _LEAST_S)


def stages(
    facts: Mapping[str, Any], of_store: Mapping[str, Any] | None, whole: int
) -> dict[str, str]:
    """Returns each stage that was measured with too little, and with what it was measured.

    Args:
        facts: what was measured of storage and decoding (``_doctor/stages.py``).
        of_store: for an object store, what the loader measured; it replaces the figures of storage.
        whole: how many images the dataset has.
    """
    found: dict[str, str] = {}
    read = of_store or _decisive(facts["storage"])
    if read is not None:
        count = int(read["decoded"] if of_store else read["reads"])
        if not enough(count, read["seconds"]):
            found["storage"] = _said(count, "image", read["seconds"])
    every, ready, of = (facts["decoding"][name] for name in ("all", "rounds", "of"))
    if not enough(every["decoded"], every["seconds"]):
        found["decoding"] = _said(every["decoded"], "image", every["seconds"])
        found["delivery"] = found["decoding"]
    elif ready < _LEAST_READY:
        found["delivery"] = _said(ready, "batch", None)
    elif of < min(_LEAST, whole):  # the threads idle at the end of each short epoch
        found["delivery"] = f"{_said(of, 'image', None)} of {whole:,}"
    return found


def _decisive(storage: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the reads that decide the rate of storage: cold ones, or those from memory."""
    cold, warm = storage["cold"], storage["warm"]
    if cold is None or warm is None:
        found: Mapping[str, Any] | None = cold or warm
        return found
    share, rate = storage["cached_share"] or 0.0, cold["images_per_second"]
    from_memory = share / max(warm["images_per_second"], rate)
    decisive: Mapping[str, Any] = warm if from_memory > (1 - share) / rate else cold
    return decisive


def _said(count: int, what: str, seconds: float | None) -> str:
    many = f"{count or 'no'} {what}{('es' if what == 'batch' else 's') * (count > 1)}"
    return many if seconds is None else f"{many} in {seconds * 1e3:,.1f} ms"


def notes(found: Mapping[str, str], rates: Mapping[str, float | None]) -> list[str]:
    """Returns sentences on the stages that ``stages`` found."""
    return [
        f"{name} was measured with {what}: too little for a verdict"
        if rates[name] is not None
        else f"{name} was not measured: there was time for {what}"
        for name, what in found.items()
    ]
