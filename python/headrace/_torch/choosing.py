"""Asks a ``DataLoader``'s sampler for its batches, from a place on, in torch's sequence."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from headrace._epoch import rerun
from headrace._epoch.arrivals import Chosen, forget
from headrace._epoch.delivery import is_of_the_batch
from headrace._torch.generators import go_to
from headrace._torch.place import Place, Progress, compare_taken, of_other_ranks, part, rest
from headrace._translate.libraries import package_of
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    from headrace._torch.iterated import Numbered, Sampled

# Samplers that choose nothing themselves and draw nothing, and the attribute with what they wrap.
_WRAPPERS = {
    ("torch.utils.data.sampler", "BatchSampler"): "sampler",
    ("accelerate.data_loader", "BatchSamplerShard"): "batch_sampler",
    ("accelerate.data_loader", "SkipBatchSampler"): "batch_sampler",
    (__name__, "_Behind"): "sampler",
}
# Samplers of torch that draw when they are asked for their first index, and not before.
_LAZY = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_SKIPPED_AT_ONCE = 1 << 16


class _Behind:
    """A sampler without its first samples, so that batches are made of the samples after those."""

    def __init__(self, sampler: Any, skip: Callable[[Iterator[Any]], None]) -> None:
        self.sampler, self._skip = sampler, skip

    def __iter__(self) -> Iterator[Any]:
        indices = iter(self.sampler)
        self._skip(indices)
        yield from indices


class Choice:
    """One pass over a sampler.

    Sampler and generators are asked in torch's sequence. So the order of samples, and the states in
    which generators are left, are those of torch's loader.

    Args:
        place: where the pass begins.
        resumed: whether that place comes from a loaded state.

    Attributes:
        chosen: the batches, as rows of the samples, by their numbers.
        failure: the sampler's error, in the place of the batch after those.
        ended: whether that error was raised.
        progress: where the pass begins, and what is chosen and handed out of it.
    """

    def __init__(self, loader: Sampled, samples: Numbered, place: Place, resumed: bool) -> None:
        self._loader, self.progress = loader, Progress(place)
        self.progress.persistent = loader.persistent_workers
        self._rows = samples.rows
        self.chosen: dict[int, Chosen] = {}
        self.failure: Exception | None = None
        self.ended = False
        self._counted = samples.draws()
        # Frameworks save one rank's state for all ranks, and samplers give each rank other samples.
        # So the rank is noted, and what another rank drew is not compared.
        self.whose = [*part(layers(self._sampler()))]
        # What lies before the next batch: how many samples of this rank, and their checksum.
        self._taken, self._expected = place.samples, place.drawn
        self._left = self._taken  # how many of them are still to be asked for again
        self._drawn = 0  # the checksum of all samples that were asked for
        self._indices: Iterator[Any] | None = self._begin(resumed)

    def fill(self, number: int, handed_out: int, ahead: int) -> None:
        """Asks the sampler until ``ahead`` batches from a number on are known."""
        forget(self.chosen, handed_out)
        forget(self.progress.behind, handed_out - 1)
        progress = self.progress
        wanted = number + ahead
        known = progress.total < math.inf or self.failure is not None or self.ended
        while not known and progress.count < wanted:
            try:
                more = self._choose()
            except Exception as failure:  # it is raised after the batches before it
                if not is_of_the_batch(failure):
                    raise
                self.failure = failure
                known = True
            else:
                if not more:
                    own = own_generator(self._sampler())
                    generator = None if own is None else self._loader.tracker.place(own)
                    # No exception comes between these.
                    progress.generator = generator
                    progress.total = progress.count
                    known = True

    def has(self, number: int) -> bool:
        """Whether there is a batch of that number, or an error; ``fill`` must have got so far."""
        if self.failure is not None:
            return number <= self.progress.count
        return not self.ended and number < self.progress.total

    def check(self, number: int) -> None:
        """Raises the sampler's error, if it is in the place of this batch."""
        if self.failure is not None and number == self.progress.count:
            raise self.failure

    def fails(self, number: int) -> bool:
        """Whether the sampler's error is in the place of this batch."""
        return self.failure is not None and number == self.progress.count

    def _choose(self) -> bool:
        """Asks for the next batch; false: there is none."""
        indices = self._opened() if self._indices is None else self._indices
        # An exception from outside ends a generator. None here has the sampler opened again then.
        self._indices = None
        rows: list[int] = []
        while not rows:
            try:
                rows = self._next_rows(indices)
            except StopIteration:
                if self._left:
                    raise self._too_short() from None
                self._indices = iter(())
                return False
            draws = self._counted.of(rows)
            if self._left:
                passed = min(len(rows), self._left)
                self._ask_again(rows[:passed])
                rows, draws = rows[passed:], draws[passed:]
            elif not rows:
                break  # a batch sampler may give an empty batch
        drawn = rerun.checksum(rows, self._drawn)
        taken, whose = self._taken + len(rows), [drawn, *self.whose]
        progress = self.progress
        batch, number, count = Chosen(rows, draws), progress.count, progress.count + 1
        behind = (taken, whose)
        # No exception comes between these.
        self.chosen[number] = batch
        progress.behind[number] = behind
        progress.count = count
        self._taken = taken
        self._expected = whose
        self._drawn = drawn
        self._indices = indices
        return True

    def _opened(self) -> Iterator[Any]:
        """Opens the sampler again, behind all that it chose: an exception has interrupted it."""
        self._counted.clear()
        self._left, self._drawn = self._taken, 0
        return self._begin(True)

    # ---- where it begins ---------------------------------------------------------------------

    def _sampler(self) -> Any:
        """The batch sampler; the sampler, if the loader does not batch."""
        loader = self._loader
        return loader.sampler if loader.batch_sampler is None else loader.batch_sampler

    def _from_place(self, sampler: Any) -> Any:
        """A sampler whose first batch begins at the place that a state told."""
        *wrappers, base = layers(sampler)
        before = self.progress.place
        self.progress.place, left = rest(before, [*wrappers, base])
        if self.progress.place is not before:  # another number of ranks took samples before
            self._taken = self._left = self.progress.place.samples
            self._expected = self.progress.place.drawn
        if left is not None:
            order = left.order()
            taken = self._rows(order[: left.begin])
            if self.progress.place is not before:
                compare_taken(before, taken)
            self._counted.of(taken)
            base = left.samples(order)
        # A batch sampler of another class is asked for its batches again, from the first one on.
        if self._left and [type(wrapper) for wrapper in wrappers] == [BatchSampler]:
            base = _Behind(base, self._skip)
        return _over(wrappers, base)

    def _begin(self, somewhere: bool) -> Iterator[Any]:
        """Begins the pass, and draws the base seed, as torch's ``_BaseDataLoaderIter.__init__``.

        Args:
            somewhere: whether it begins inside the epoch, and not at its start.
        """
        loader = self._loader
        sampler: Any = self._sampler()
        if somewhere:
            sampler = self._from_place(sampler)
        place = self.progress.place
        between_epochs(place, self._sampler())
        indices: Iterator[Any] = iter(sampler)
        if loader.base_seed is None or not loader.persistent_workers:
            # The seed of a state is not drawn again. So a program that restored torch's generators
            # as well goes on as if it had not been stopped.
            if place.base_seed is None:
                drawn = torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
                loader.base_seed = int(drawn.item())
            if loader.num_workers:
                # torch's iterator with workers resets itself when it is made, and so begins twice.
                indices = iter(sampler)
        if place.base_seed is None:
            place.base_seed = loader.base_seed
        loader.base_seed = place.base_seed  # persistent workers go on with it
        *wrappers, base = layers(sampler)
        if type(base) not in _LAZY:
            return indices
        if base.generator is not None:
            return self._tracked(indices, base.generator)
        if type(base) is RandomSampler:
            return self._seeded(wrappers, base)
        return self._drawing(indices, wrappers, base)

    def _tracked(self, indices: Iterator[Any], generator: torch.Generator) -> Iterator[Any]:
        """Yields from a sampler with a generator, whose state is noted for a resume, or restored.

        Such a sampler draws when it is asked for its first index, so the state is noted then.
        """
        if self.progress.place.generator is None:
            self.progress.place.generator = self._loader.tracker.place(generator)
        else:
            go_to(generator, *self.progress.place.generator)
        yield from indices

    def _seeded(self, wrappers: list[Any], base: RandomSampler) -> Iterator[Any]:
        """Yields from a RandomSampler without a generator; its one draw is noted for a resume.

        When torch's sampler is asked for its first index, it draws a number from the global
        generator and seeds one of its own with it. The same is done here, at the same moment.
        """
        if self.progress.place.order_seed is None:
            drawn = torch.empty((), dtype=torch.int64).random_()
            self.progress.place.order_seed = int(drawn.item())
        generator = torch.Generator()
        generator.manual_seed(self.progress.place.order_seed)
        yield from _drawing_from(wrappers, base, generator)

    def _drawing(self, indices: Iterator[Any], wrappers: list[Any], base: Any) -> Iterator[Any]:
        """Yields from a sampler that draws everything from the global generator at its first index.

        After a resume it draws from a generator of its own, in the state that the global one had
        then. The global one is left alone.
        """
        if self.progress.place.generator is None:
            self.progress.place.generator = self._loader.tracker.place(torch.default_generator)
            yield from indices
        else:
            generator = torch.Generator()
            go_to(generator, *self.progress.place.generator)
            yield from _drawing_from(wrappers, base, generator)

    # ---- how it goes on ----------------------------------------------------------------------

    def _ask_again(self, rows: list[int]) -> None:
        """Counts samples that were handed out before the place, and compares them at its end."""
        self._left -= len(rows)
        self._drawn = rerun.checksum(rows, self._drawn)
        if not self._left and self._expected:
            drawn, rank, world_size = self._expected
            if world_size != self.whose[1]:
                if drawn != self._drawn:
                    raise of_other_ranks(self.progress.place, layers(self._sampler()))
            elif rank == self.whose[0]:
                rerun.compare(drawn, self._drawn, self._taken)

    def _skip(self, indices: Iterator[Any]) -> None:
        """Skips a sampler's samples up to the place."""
        while self._left:
            some = itertools.islice(indices, min(self._left, _SKIPPED_AT_ONCE))
            rows = self._rows([*some])
            if not rows:
                raise self._too_short()
            self._counted.of(rows)
            self._ask_again(rows)

    def _too_short(self) -> ArgumentError:
        return ArgumentError(
            f"the state was saved {self._taken} samples into an epoch, and the sampler has fewer"
        )

    def _next_rows(self, indices: Iterator[Any]) -> list[int]:
        chosen: Iterable[Any] = next(indices)
        return self._rows(chosen if self._loader.batch_sampler is not None else [chosen])


def own_generator(sampler: Any) -> torch.Generator | None:
    """The generator that one of torch's random samplers was given; None: it has none."""
    base = layers(sampler)[-1]
    found: torch.Generator | None = base.generator if type(base) in _LAZY else None
    return found


def between_epochs(place: Place, sampler: Any) -> None:
    """Puts a sampler's generator to where it stood between two epochs, if a state was saved there.

    torch draws the base seed from it before the order, so a later place has that seed.
    """
    own = own_generator(sampler)
    if own is not None and place.generator is not None and place.base_seed is None:
        go_to(own, *place.generator)
        place.generator = None


def _wraps(sampler: Any) -> str:
    """The attribute with the sampler that this one only groups, skips or divides; else ""."""
    kind = type(sampler)
    found = _WRAPPERS.get((kind.__module__, kind.__name__), "")
    return found if package_of(kind.__module__) else ""


def _over(wrappers: list[Any], base: Any) -> Any:
    """Copies of the wrappers of a sampler, over another one."""
    for wrapper in reversed(wrappers):
        inner, base = base, copy.copy(wrapper)
        setattr(base, _wraps(wrapper), inner)
    return base


def _drawing_from(wrappers: list[Any], base: Any, generator: torch.Generator) -> Any:
    """Copies of a sampler and its wrappers that draw from a generator."""
    twin = copy.copy(base)
    twin.generator = generator
    return _over(wrappers, twin)


def layers(sampler: Any) -> list[Any]:
    """A sampler, the one that it wraps, and so on to the one that chooses the indices."""
    found = [sampler]
    while inside := _wraps(found[-1]):
        found.append(getattr(found[-1], inside))
    return found
