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

# The least number of samples under way, for slow storage: as many as the engine reads ahead by
# itself.
_SAMPLES_AHEAD = 64
SAMPLES_FETCHED = 4096  # the same for an object store
_REPLAYED_AT_ONCE = 1 << 16
# How much hr_submit accepts ahead of the consumer.
_MOST_BATCHES, _MOST_SAMPLES = 4096, 1 << 24


def check(sampler: Any) -> None:
    """Refuses what cannot be iterated over in every epoch.

    Raises:
        ArgumentError: it is not iterable, or is used up after one pass.
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
    """Whether it gives each rank its own samples, as ``DistributedSampler`` does."""
    return hasattr(sampler, "num_replicas")


def steps(sampler: Any, step_samples: int, drop_last: bool) -> int:
    """Returns the number of batches of an epoch.

    Raises:
        TypeError: the sampler has no length. torch's DataLoader raises the same.
    """
    if not isinstance(sampler, Sized):
        raise TypeError(f"the sampler, a {type(sampler).__name__}, has no length")
    count = len(sampler)
    return count // step_samples if drop_last else -(-count // step_samples)


class Feed:
    """One pass over a sampler from a place on, cut into this rank's batches.

    The sampler gives the samples of all ranks together, ``step_samples`` for each step, and each
    rank takes its part as in Headrace's own order. A sampler that shards itself gives this rank's
    samples only, and is split as for a single rank. The number of a sample's draw is its place in
    the sampler, so a sample that comes twice is augmented differently.

    With ``pad``, the order begins again behind its end until the last step is equally long on all
    ranks, as in ``DistributedSampler``. ``internal/order`` does the same with Headrace's own order.
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
        self._epoch, self._position = place  # the place behind what was chosen
        self._rank, self._world_size = part
        self._batch_size, self._drop_last = batch_size, drop_last
        self._step_samples = batch_size * self._world_size
        self._count = 0  # batches chosen
        prefetch, samples = ahead
        wanted = prefetch + 2 + -(-max(samples, _SAMPLES_AHEAD) // batch_size)
        self._ahead = max(1, min(wanted, _MOST_BATCHES, _MOST_SAMPLES // batch_size))
        # The checksum of everything that was read, also before the place, because a state may have
        # been saved there.
        self._read_so_far = drawn
        self.drawn: dict[int, list[int]] = {}  # the checksum behind each batch, and whose it is
        self._whose = whose
        self._next: array.array[int] | None = None  # the samples of the next step, once read
        self._failure: Exception | None = None
        self._ended = False
        # A last step lacks less than one sample per rank. If the epoch has fewer samples than that,
        # all of them are here.
        self._most_first = self._world_size - 1 if pad else 0
        self._first: list[int] = []
        self._indices: Iterator[int] | None = None  # the sampler's, behind what was read

    def fill(self, number: int, handed_out: int) -> float:
        """Chooses batches from a number on; returns how many there are in all, if that is known.

        Raises:
            Exception: what the sampler raised in place of this batch.
            ArgumentError: in place of this batch the sampler gave a value that is not a sample of
            the dataset.
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
        """The first samples of all ranks from here on, to compare them with the other ranks."""
        return self._read()[:16].tolist()

    def _read(self) -> array.array[int]:
        """Returns the samples of the next step, of all ranks together."""
        if self._next is None:
            indices = self._opened() if self._indices is None else self._indices
            # An exception from outside ends a generator; then it is opened again.
            self._indices = None
            samples = array.array("q", itertools.islice(indices, self._step_samples))
            drawn = rerun.checksum(samples, self._read_so_far or 0)
            self._next = samples
            self._read_so_far = drawn
            self._indices = indices
        return self._next

    def _opened(self) -> Iterator[int]:
        """Yields the sampler's numbers from the place on.

        Only the sampler knows what it drew before the place, so it is asked for that again.
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
        """Yields the sampler's numbers, and keeps the first ones, which the padding repeats."""
        for value in made:
            number = _index(value)
            if len(self._first) < self._most_first:
                self._first.append(number)
            yield number

    def _choose(self) -> bool:
        """Chooses the next step's batch; returns False if there is none."""
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
        # No exception can come between these two.
        self._chosen[number] = batch
        self.drawn[number] = whose
        self._count = behind
        self._position = position
        self._next = None
        return True


def part_of_step(count: int, batch_size: int, rank: int, world_size: int) -> tuple[int, int]:
    """A rank's part of a step of ``count`` samples, as (first, length).

    A part is a whole batch. A last step with fewer samples is divided as evenly as possible, and
    lower ranks get the larger parts. ``internal/order`` does the same with Headrace's own order.
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
