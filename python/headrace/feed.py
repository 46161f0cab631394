"""The samples that a user's sampler chooses, submitted to the engine ahead of the loop."""

from __future__ import annotations

import array
import collections
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from headrace import _lib, replay
from headrace.errors import ArgumentError, HeadraceError

# Any iterable of sample numbers, or a function that makes one: a generator function, for instance.
Sampler = Iterable[Any] | Callable[[], Iterable[Any]]

# Samples under way at least, for storage that is slow: as many as the engine reads ahead by itself.
_SAMPLES_AHEAD = 64
_REPLAYED_AT_ONCE = 1 << 16
# What hr_submit takes ahead of the consumer.
_MOST_BATCHES, _MOST_SAMPLES = 4096, 1 << 24


def check(sampler: Any) -> None:
    """Refuses what cannot be iterated once an epoch.

    Raises:
        ArgumentError: it is no iterable, or one that is used up after one pass.
    """
    if isinstance(sampler, Iterator):
        raise ArgumentError(
            f"sampler: a {type(sampler).__name__} is used up after one epoch; give the function "
            "that makes it, or an object with __iter__"
        )
    if not hasattr(sampler, "__iter__") and not callable(sampler):
        raise ArgumentError(
            f"sampler: a {type(sampler).__name__} is no iterable of sample numbers and no function "
            "that makes one"
        )


def shards_itself(sampler: Any) -> bool:
    """Whether it gives each rank samples of its own, as ``DistributedSampler`` does."""
    return hasattr(sampler, "num_replicas")


def steps(sampler: Any, step_samples: int, drop_last: bool) -> int:
    """Batches of an epoch.

    Raises:
        TypeError: the sampler has no length, which torch's DataLoader says in this way too.
    """
    if not isinstance(sampler, Sized):
        raise TypeError(f"the sampler, a {type(sampler).__name__}, has no length")
    count = len(sampler)
    return count // step_samples if drop_last else -(-count // step_samples)


class Feed:
    """One pass over a sampler, from a place on, cut into this rank's batches.

    The sampler's samples are those of all ranks together, ``step_samples`` a step, of which each
    rank takes its part as it does of Headrace's own order; one that shards itself has this rank's
    only, and is split as among one. The number of a sample's draw is its place in the sampler, so
    that one that comes twice is augmented differently.

    With ``pad`` the order begins again behind its end, as ``DistributedSampler`` has it, until the
    last step is equally long on all ranks: ``internal/order`` says the same of Headrace's own.
    """

    def __init__(
        self,
        sampler: Any,
        handle: int,
        place: tuple[int, int],
        drawn: int | None,
        part: tuple[int, int],
        batch_size: int,
        drop_last: bool,
        ahead: tuple[int, int],
        pad: bool,
    ) -> None:
        epoch, self._position = place
        self._rank, self._world_size = part
        self._batch_size, self._drop_last, self._handle = batch_size, drop_last, handle
        self._step_samples = batch_size * self._world_size
        self.submitted = 0
        prefetch, samples = ahead
        wanted = prefetch + 2 + -(-max(samples, _SAMPLES_AHEAD) // batch_size)
        self._ahead = max(1, min(wanted, _MOST_BATCHES, _MOST_SAMPLES // batch_size))
        self._expected = drawn
        self._drawn = 0  # replay.checksum of all that was read
        self._behind: collections.deque[int] = collections.deque()  # each submitted batch
        self._replayed = False
        self._chosen: array.array[int] | None = None  # of the next step
        self._failure: Exception | None = None
        self._ended = False
        set_epoch = getattr(sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(epoch)
        made = sampler if hasattr(sampler, "__iter__") else sampler()
        # Less than one sample a rank is missing in a last step; of fewer, all are here.
        self._most_first = self._world_size - 1 if pad else 0
        self._first: list[int] = []
        self._indices = self._numbers(made)

    def fill(self, delivered: int) -> float:
        """Submits as many batches as may wait, and says how many there are in all, if known.

        Raises:
            Exception: what the sampler raised, after all batches before were delivered.
            ArgumentError: it gave what is no sample of the dataset, likewise.
        """
        while not self._ended and self.submitted - delivered < self._ahead:
            try:
                self._ended = not self._submit()
            except Exception as failure:
                self._ended, self._failure = True, failure
            except BaseException:  # Ctrl-C: samples were taken from the sampler, and may be lost
                self._ended = True
                self._failure = HeadraceError("the sampler was interrupted; begin a new iteration")
                raise
        if self._failure is not None and delivered >= self.submitted:
            raise self._failure
        return math.inf if not self._ended or self._failure is not None else self.submitted

    def _numbers(self, made: Iterable[Any]) -> Iterator[int]:
        """The sampler's numbers, the first of which the padding repeats."""
        for value in made:
            number = _index(value)
            if len(self._first) < self._most_first:
                self._first.append(number)
            yield number

    def delivered(self) -> int:
        """The checksum of all samples up to the batch that was delivered now; once for each."""
        return self._behind.popleft()

    def head(self) -> list[int]:
        """The first samples of all ranks from here on, to compare with the other ranks."""
        return self._read()[:16].tolist()

    def _read(self) -> array.array[int]:
        if not self._replayed:
            self._replay()
        if self._chosen is None:
            self._chosen = self._take(self._step_samples)
            self._drawn = replay.checksum(self._chosen, self._drawn)
        return self._chosen

    def _take(self, count: int) -> array.array[int]:
        return array.array("q", itertools.islice(self._indices, count))

    def _replay(self) -> None:
        """To the place: what a sampler would have drawn is known to nobody else."""
        left = self._position
        while left and (taken := self._take(min(left, _REPLAYED_AT_ONCE))):
            self._drawn = replay.checksum(taken, self._drawn)
            left -= len(taken)
        replay.compare(self._expected, self._drawn, self._position)
        self._replayed = True

    def _submit(self) -> bool:
        """Submits the next step's batch; false where there is none."""
        chosen = self._read()
        count = len(chosen)
        if count == 0 or (count < self._step_samples and self._drop_last):
            return False
        if self._first and count < self._step_samples:
            missing = -count % self._world_size
            chosen.extend(itertools.islice(itertools.cycle(self._first), missing))
        first, length = share(len(chosen), self._batch_size, self._rank, self._world_size)
        indices = chosen[first : first + length]
        draws = array.array("Q", range(self._position + first, self._position + first + length))
        _lib.submit(self._handle, indices, draws)
        self._behind.append(self._drawn)
        self._chosen = None
        self._position += count
        self.submitted += 1
        return True


def share(count: int, batch_size: int, rank: int, world_size: int) -> tuple[int, int]:
    """A rank's part of a step of ``count`` samples, as (first, length).

    A whole batch, or of a last step, which has fewer samples, as even a share as can be, lower
    ranks first: ``internal/order`` says the same of Headrace's own order.
    """
    if count == batch_size * world_size:
        return rank * batch_size, batch_size
    each, extra = divmod(count, world_size)
    return rank * each + min(rank, extra), each + (rank < extra)


def _index(value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or number.bit_length() > 63:
        raise ArgumentError(f"sampler: it gave {value!r}, which is no sample number")
    return number
