"""Work that ends in time, even if storage answers late, images take long, or other programs keep
the cores busy."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.errors import WaitTimeoutError

if TYPE_CHECKING:
    from headrace.loader import Loader

Item = TypeVar("Item")
Found = TypeVar("Found")

# Each thread waits for storage and does little else.
AT_ONCE = 64


class Clock:
    """What is left of the time that a diagnosis may take."""

    def __init__(self, seconds: float) -> None:
        self._end = time.perf_counter() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left; 0 if the time is over."""
        return max(self._end - time.perf_counter(), 0.0)

    def of(self, seconds: float) -> float:
        """Returns so many seconds, or those that are left if they are fewer."""
        return min(seconds, self.left)

    def part(self, share: float) -> Clock:
        """Returns a clock of a share of what is left, so that time is left for what comes after."""
        return Clock(self.left * share)


ENDLESS = Clock(math.inf)
_LEAST_WAIT = 1e-3


class Over(Exception):
    """The time ended before the work was done."""


def batches(loader: Loader, clock: Clock) -> Iterator[Any]:
    """Yields the loader's batches, epoch after epoch, as long as they come in time."""
    while True:
        epoch = iter(loader)
        while True:
            loader.timeout = max(clock.left, _LEAST_WAIT)
            try:
                batch = next(epoch)
            except StopIteration:
                break
            except WaitTimeoutError:
                return
            yield batch


def each(
    items: Iterable[Item], work: Callable[[Item], Found], seconds: float, at_once: int = AT_ONCE
) -> list[tuple[Item, Found]]:
    """Works on items, many at once and the first ones first, until the time is over.

    Returns:
        the items that were reached, in their order, each with the result of the work. The first
        item is always among them, however short the time is. Work that has begun is waited for.
    """
    clock, ordered = Clock(seconds), list(items)

    def one(number: int) -> tuple[Item, Found] | None:
        item = ordered[number]
        return (item, work(item)) if number == 0 or clock.left > 0 else None

    with ThreadPoolExecutor(at_once) as pool:
        return [found for found in pool.map(one, range(len(ordered))) if found is not None]
