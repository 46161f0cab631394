"""How fast encoded images come from storage, cold and from the page cache."""

from __future__ import annotations

import errno
import mmap
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from headrace._doctor import bounded, little
from headrace._doctor.choosing import Place

PAGE = mmap.PAGESIZE
MOST_BYTES = 1 << 30
# Reads at once, and the parts of the samples that each number is measured with. The loader reads 64
# ahead if storage is slow (internal/pipeline/config.go).
DEPTHS = {1: 1, 8: 2, 64: 5}
_ASKED = 8  # records asked whether dropping helped; asking reads ahead, so they are not measured
_ASKING = 1.0  # seconds to ask the page cache, or to restore it
_AHEAD = 128 << 10  # any kernel reads so much for one request; of a larger one it may read less
_CORES = 16  # calls at once if the kernel works without waiting for a disk
_SLOW = 300.0  # images a second
_HEAD = 4096  # of a file: reading so few bytes takes little more than the latency
_AS_LONG = 1.5  # times the latency with fewer reads; images differ in size


def cached(place: Place) -> bool | None:
    """Whether all of a record is in the page cache; None if the file system does not say.

    Asking may make the kernel read ahead, so the next answer may differ.
    """
    try:
        file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        buffer = bytearray(place.length)
        # This reads nothing that would have to be waited for (preadv2(2)).
        return os.preadv(file, [buffer], place.offset, os.RWF_NOWAIT) == place.length
    except OSError as failure:
        return False if failure.errno == errno.EAGAIN else None
    finally:
        os.close(file)


def drop(place: Place) -> None:
    """Makes the kernel forget a record's pages, except those that a process maps or has changed."""
    _advise(place, os.POSIX_FADV_DONTNEED, place.length + 2 * PAGE)


def ask_for(place: Place) -> None:
    """Makes the kernel read a record into the page cache, without waiting for it."""
    _advise(place, os.POSIX_FADV_WILLNEED, _AHEAD)


def _advise(place: Place, advice: int, most: int) -> None:
    """Tells the kernel what becomes of a record's pages, at most so many bytes in one call."""
    try:
        file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        first = place.offset // PAGE * PAGE
        end = -(-(place.offset + place.length) // PAGE) * PAGE
        for start in range(first, end, most):
            os.posix_fadvise(file, start, min(most, end - start), advice)
    except OSError:  # some file systems have no pages to forget
        pass
    finally:
        os.close(file)


def read(place: Place, most: int | None = None) -> int:
    """Reads a record as the loader does, by pread, then its seek points; returns the record's
    bytes.

    The seek points of all records are one small file, whose neighbouring pages the kernel reads
    ahead if it keeps pages. So they stay in memory if they are there, because the loader would find
    them there, too.
    """
    got = _pread(place.path, place.offset, min(place.length, most or place.length))
    if place.points is not None:
        _pread(*place.points)
    return got


def _pread(path: str, offset: int, wanted: int) -> int:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        got = 0
        while got < wanted:
            part = os.pread(file, wanted - got, offset + got)
            if not part:
                break
            got += len(part)
        return got
    finally:
        os.close(file)


def try_to_read(place: Place) -> bool:
    """Reads a record into the page cache; returns whether all of it came."""
    try:
        return read(place) == place.length
    except OSError:
        return False


def read_direct(place: Place, most: int | None = None) -> int:
    """Reads a record past the page cache, in whole pages and into memory aligned to them."""
    wanted = min(place.length, most or place.length)
    first = place.offset // PAGE * PAGE
    size = -(-(place.offset + wanted) // PAGE) * PAGE - first
    file = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT)
    try:
        with mmap.mmap(-1, size) as memory:
            return os.preadv(file, [memory], first)
    finally:
        os.close(file)


def timed(
    places: list[Place], depth: int, seconds: float, how: Callable[[Place], int]
) -> dict[str, Any] | None:
    """Reads places, so many at once, until the time is over; returns rates and a read's latency."""
    end = time.perf_counter() + seconds
    found: list[tuple[float, int, float]] = []

    def one(place: Place) -> None:
        began = time.perf_counter()
        if began < end or not found:
            try:
                got = how(place)
            except OSError:
                return
            now = time.perf_counter()
            found.append((now - began, got, now))

    began = time.perf_counter()
    with ThreadPoolExecutor(depth) as pool:
        list(pool.map(one, places))
    if not found:
        return None
    took = max(max(now for _, _, now in found) - began, 1e-9)
    waits = sorted(wait for wait, _, _ in found)
    return {
        "images_per_second": len(found) / took,
        "megabytes_per_second": sum(got for _, got, _ in found) / took / 1e6,
        "latency_mean_s": statistics.fmean(waits),
        "latency_p50_s": statistics.median(waits),
        "latency_p99_s": waits[min(len(waits) - 1, len(waits) * 99 // 100)],
        "reads": len(found),
        "seconds": took,
    }


def within(places: list[Place], most_bytes: int = MOST_BYTES) -> list[Place]:
    """Returns the first places that together have so many bytes."""
    found, left = [], most_bytes
    for place in places:
        left -= place.length
        if left < 0:
            break
        found.append(place)
    return found


@contextmanager
def left_as_it_was(places: list[Place]) -> Iterator[float | None]:
    """Yields the share of records in the page cache. At the end, those that were not in it leave it
    again, and those that were are asked for.

    It is None if the file system does not say.
    """
    known = dict(bounded.each(places, cached, _ASKING, _CORES))
    answered = [state for state in known.values() if state is not None]
    try:
        yield sum(answered) / len(answered) if answered else None
    finally:
        clock = bounded.Clock(_ASKING)
        came = [place for place in places if known.get(place, False) is False]
        bounded.each(came, drop, clock.left, _CORES)
        # This comes after the others, because neighbours in one file may share a page, which is
        # dropped with either.
        were = [place for place in places if known.get(place) is True]
        bounded.each(were, ask_for, clock.left, _CORES)


def measure(places: list[Place], seconds: float, in_memory: bool = False) -> dict[str, Any]:
    """Reads records cold, and then warm.

    Args:
        places: the records, at most 1 GB of them.
        seconds: how long all reading may take, apart from the last reads of each kind.
        in_memory: their file system has no disk, so no read is colder than another.

    Returns:
        ``cold``: ``images_per_second`` and the like at the best depth, ``depths`` by reads at once,
        ``head_images_per_second`` for the first 4 kB alone, ``how`` ("fadvise", "O_DIRECT", or
        "memory" for a file system in memory); and ``warm``. Either is None if it could not be
        measured, and ``why`` says why. ``at_once`` is how many reads at once still helped.
    """
    places = random.Random(0).sample(places, len(places))  # a loader does not read in order, either
    places = [place for place, _ in bounded.each(places, drop, seconds * 0.2, _CORES)]
    how, name = read, "memory" if in_memory else "fadvise"
    asked = places[:_ASKED]
    if not in_memory and sum(cached(place) is True for place in asked) > len(asked) / 2:
        how, name = read_direct, "O_DIRECT"
    fresh = places[_ASKED:] if len(places) > 4 * _ASKED else places
    cold, why = _cold(fresh, seconds * 0.75, how, name)
    rate = cold["images_per_second"] if cold else 1.0
    at_once = max(map(int, cold["depths"])) if cold else max(DEPTHS)
    some = places[: max(8, int(rate * seconds * 0.15))]
    timed(some, at_once, seconds * 0.15, read)  # unused: fills the page cache
    warm = timed(some, min(8, at_once), seconds * 0.1, read)
    return {"cold": cold, "warm": warm, "at_once": at_once, "why": why}


def _cold(
    places: list[Place], seconds: float, how: Callable[..., int], name: str
) -> tuple[dict[str, Any] | None, str]:
    parts: dict[int, dict[str, Any]] = {}
    first, alone = 0, False
    whole = sum(DEPTHS.values()) + 1
    for depth, part in DEPTHS.items():
        end = first + max(len(places) * part // whole, 1)
        found = timed(places[first:end], depth, seconds * part / whole, how)
        if found:
            alone = found["reads"] >= depth and _takes_no_longer(found, parts)
            parts[depth] = _without_end(found, depth) if alone else found
        first = end
        if _gains_nothing(parts):
            break  # with more at once, each would wait longer in proportion
    if not parts:
        return None, "no record could be read past the page cache"
    depth = max(parts)
    heads = timed(places[first:], depth, seconds / whole, lambda place: how(place, _HEAD))
    if heads and alone:
        heads = _without_end(heads, depth)
    best = max(parts.values(), key=_worth)
    return {
        **best,
        "depths": {
            str(depth): {name: found[name] for name in ("images_per_second", "latency_p50_s")}
            for depth, found in parts.items()
        },
        "head_images_per_second": heads["images_per_second"] if heads else None,
        "how": name,
    }, ""


def _takes_no_longer(found: dict[str, Any], fewer: dict[int, dict[str, Any]]) -> bool:
    """Whether a read takes as long as with fewer at once, so that none waits for another."""
    last = next(reversed(fewer.values()), None)
    return last is not None and bool(found["latency_mean_s"] < _AS_LONG * last["latency_mean_s"])


def _without_end(found: dict[str, Any], depth: int) -> dict[str, Any]:
    """Returns the rates of reads that do not wait for one another while all readers have work.

    In the measurement itself, most readers waited at the end for the last ones.
    """
    times = max(depth / found["latency_mean_s"] / found["images_per_second"], 1.0)
    rates = ("images_per_second", "megabytes_per_second")
    return found | {name: found[name] * times for name in rates}


def _worth(found: dict[str, Any]) -> tuple[bool, float]:
    """Orders rates: the best one is the highest of those that come from more than a few reads."""
    return little.enough(found["reads"], found["seconds"]), float(found["images_per_second"])


def _gains_nothing(parts: dict[int, dict[str, Any]]) -> bool:
    """Whether a disk is slow and reads at once wait for one another: its bandwidth is the limit."""
    if len(parts) < 2:
        return False
    one, several = (found["images_per_second"] for found in list(parts.values())[-2:])
    return bool(several < 1.5 * one and several < _SLOW)
