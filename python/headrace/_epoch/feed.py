"""The samples that a user's sampler chooses, submitted to the engine ahead of the loop."""

from __future__ import annotations

import array
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from headrace._epoch import rerun
from headrace._epoch.arrivals import Chosen, forget
from headrace._epoch.delivery import is_of_the_batch
from headrace.errors import ArgumentError

# Any iterable of sample numbers, or a function that makes one: a generator function, for instance.
Sampler = Iterable[Any] | Callable[[], Iterable[Any]]

# Samples under way at least, for storage that is slow: as many as the engine reads ahead by itself.
_SAMPLES_AHEAD = 64
SAMPLES_FETCHED = 4096  # and of a store of objects
_REPLAYED_AT_ONCE = 1 << 16
# How much hr_submit accepts ahead of the consumer.
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
        chosen: dict[int, Chosen],
        place: tuple[int, int],
        drawn: int | None,
        whose: list[int],
        part: tuple[int, int],
        batch_size: int,
        drop_last: bool,
        ahead: tuple[int, int],
        pad: bool,
    ) -> None:
        self._sampler, self._chosen = sampler, chosen
        self._epoch, self._position = place  # behind what was chosen
        self._rank, self._world_size = part
        self._batch_size, self._drop_last = batch_size, drop_last
        self._step_samples = batch_size * self._world_size
        self._count = 0  # batches chosen
        prefetch, samples = ahead
        wanted = prefetch + 2 + -(-max(samples, _SAMPLES_AHEAD) // batch_size)
        self._ahead = max(1, min(wanted, _MOST_BATCHES, _MOST_SAMPLES // batch_size))
        # The checksum of all that was read: those before the place too, of which a state may tell.
        self._read_so_far = drawn
        self.drawn: dict[int, list[int]] = {}  # behind each batch, and whose it is
        self._whose = whose
        self._next: array.array[int] | None = None  # the samples of the next step, once read
        self._failure: Exception | None = None
        self._ended = False
        # Less than one sample a rank is missing in a last step; of fewer, all are here.
        self._most_first = self._world_size - 1 if pad else 0
        self._first: list[int] = []
        self._indices: Iterator[int] | None = None  # of the sampler, behind all that was read

    def fill(self, number: int, handed_out: int) -> float:
        """Chooses batches from a number on, and says how many there are in all, if known.

        Raises:
            Exception: what the sampler raised, where it did instead of this batch.
            ArgumentError: it gave what is no sample of the dataset, likewise.
        """
        forget(self._chosen, handed_out)
        forget(self.drawn, handed_out - 1)
        while not self._ended and self._count - number < self._ahead:
            try:
                more = self._choose()
            except Exception as failure:
                if not is_of_the_batch(failure):
                    raise
                self._failure = failure
                self._ended = True
            else:
                self._ended = not more
        if self._failure is not None and number >= self._count:
            raise self._failure
        return math.inf if not self._ended or self._failure is not None else self._count

    def head(self) -> list[int]:
        """The first samples of all ranks from here on, to compare with the other ranks."""
        return self._read()[:16].tolist()

    def _read(self) -> array.array[int]:
        """The samples of the next step, all ranks together."""
        if self._next is None:
            indices = self._opened() if self._indices is None else self._indices
            # An exception from outside ends a generator: then it is opened anew.
            self._indices = None
            samples = array.array("q", itertools.islice(indices, self._step_samples))
            drawn = rerun.checksum(samples, self._read_so_far or 0)
            self._next = samples
            self._read_so_far = drawn
            self._indices = indices
        return self._next

    def _opened(self) -> Iterator[int]:
        """The sampler's numbers from the place on.

        What a sampler would have drawn before it is known to nobody else, so it is asked again.
        """
        sampler = self._sampler
        set_epoch = getattr(sampler, "set_epoch", None)
        if set_epoch is not None:
            set_epoch(self._epoch)
        self._first = []
        indices = self._numbers(sampler if hasattr(sampler, "__iter__") else sampler())
        left, drawn = self._position, 0
        while left:
            some = array.array("q", itertools.islice(indices, min(left, _REPLAYED_AT_ONCE)))
            if not some:
                break
            drawn = rerun.checksum(some, drawn)
            left -= len(some)
        rerun.compare(self._read_so_far, drawn, self._position)
        self._read_so_far = drawn
        return indices

    def _numbers(self, made: Iterable[Any]) -> Iterator[int]:
        """The sampler's numbers, the first of which the padding repeats."""
        for value in made:
            number = _index(value)
            if len(self._first) < self._most_first:
                self._first.append(number)
            yield number

    def _choose(self) -> bool:
        """Chooses the next step's batch; false where there is none."""
        samples, number = self._read(), self._count
        count = len(samples)
        if count == 0 or (count < self._step_samples and self._drop_last):
            return False
        if self._first and count < self._step_samples:
            missing = -count % self._world_size
            samples = samples + array.array(
                "q", itertools.islice(itertools.cycle(self._first), missing)
            )
        first, length = part_of_step(len(samples), self._batch_size, self._rank, self._world_size)
        draws = range(self._position + first, self._position + first + length)
        batch = Chosen(samples[first : first + length], draws)
        behind, position, drawn = number + 1, self._position + count, self._read_so_far
        assert drawn is not None
        whose = [drawn, *self._whose]
        # No exception comes between these.
        self._chosen[number] = batch
        self.drawn[number] = whose
        self._count = behind
        self._position = position
        self._next = None
        return True


def part_of_step(count: int, batch_size: int, rank: int, world_size: int) -> tuple[int, int]:
    """A rank's part of a step of ``count`` samples, as (first, length).

    A whole batch, or of a last step, which has fewer samples, as even a part as can be, lower
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
