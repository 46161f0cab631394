"""What a dataset's images are like: the share of those that cost more than others."""

from __future__ import annotations

import random
import statistics
from typing import Any

from headrace._doctor import bounded
from headrace._doctor.choosing import Place
from headrace.dataset import Dataset

# Start-of-frame markers of a JPEG, with the process that each stands for (ITU-T T.81, table B.1).
_FRAMES = {
    **dict.fromkeys((0xC0, 0xC1), "baseline"),
    **dict.fromkeys((0xC2, 0xCA), "progressive"),
    0xC9: "arithmetic",
}
_HEAD = 1 << 16


def header(data: bytes) -> tuple[str, str, int, int]:
    """Returns codec, process, width and height from the first bytes of a file; "unknown" and 0 for
    others."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
        return "png", "unknown", width, height
    at = 2 if data[:2] == b"\xff\xd8" else len(data)
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in _FRAMES:
            height, width = (int.from_bytes(data[at + n : at + n + 2], "big") for n in (5, 7))
            return "jpeg", _FRAMES[marker], width, height
        if marker == 0xFF:  # a fill byte
            at += 1
        else:
            at += 2 + max(int.from_bytes(data[at + 2 : at + 4], "big"), 2)
    return ("jpeg" if data[:2] == b"\xff\xd8" else "unknown"), "unknown", 0, 0


def _facts(dataset: Dataset, place: Place) -> tuple[str, str, int, int, bool]:
    found = dataset.facts(place.index)
    points = int(found.get("seek_length", 0)) > 0
    if int(found["width"]) > 0:
        size = int(found["width"]), int(found["height"])
        return str(found["codec"]), str(found["process"]), *size, points
    try:
        with open(place.path, "rb") as file:
            file.seek(place.offset)
            return *header(file.read(min(_HEAD, place.length))), points
    except OSError:
        return "unknown", "unknown", 0, 0, points


def look(
    dataset: Dataset,
    places: list[Place],
    seconds: float = 2.0,
    at_once: int = bounded.AT_ONCE,
) -> dict[str, Any]:
    """Returns shares of the records that were looked at, and medians of their sides and bytes.

    ``seek_points`` is the share of JPEGs that have them in the index. When ``seconds`` are over,
    the records reached so far stand for all.
    """
    mixed = random.Random(0).sample(places, len(places))

    def ask(place: Place) -> tuple[str, str, int, int, bool]:
        return _facts(dataset, place)

    found = [one for _, one in bounded.each(mixed, ask, seconds, at_once)]
    count = max(len(found), 1)
    jpegs = [one for one in found if one[0] == "jpeg"]
    shorter = [min(width, height) for _, _, width, height, _ in found if width and height]
    return {
        "looked_at": len(found),
        "kind": dataset.kind,
        "progressive": sum(one[1] in ("progressive", "arithmetic") for one in found) / count,
        "png": sum(one[0] == "png" for one in found) / count,
        "seek_points": sum(one[4] for one in jpegs) / len(jpegs) if jpegs else None,
        "shorter_side": statistics.median(shorter) if shorter else None,
        "image_bytes": sum(place.length for place in places) / max(len(places), 1),
    }
