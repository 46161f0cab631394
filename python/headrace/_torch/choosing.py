"""The batches that a ``DataLoader``'s sampler chooses, from a place on, in torch's sequence."""

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
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    from headrace._torch.iterated import Numbered, Sampled

# Samplers that choose nothing themselves and draw nothing, and where what they wrap is found.
_WRAPPERS = {
    ("torch.utils.data.sampler", "BatchSampler"): "sampler",
    ("accelerate.data_loader", "BatchSamplerShard"): "batch_sampler",
    ("accelerate.data_loader", "SkipBatchSampler"): "batch_sampler",
    (__name__, "_Behind"): "sampler",
}
# Samplers of torch that draw with their first index and not before.
_LAZY = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_SKIPPED_AT_ONCE = 1 << 16


class _Behind:
    """A sampler without its first samples, so that what groups the others begins behind those."""

    def __init__(self, sampler: Any, skip: Callable[[Iterator[Any]], None]) -> None:
        self.sampler, self._skip = sampler, skip

    def __iter__(self) -> Iterator[Any]:
        indices = iter(self.sampler)
        self._skip(indices)
        yield from indices


class Choice:
    """One pass over a sampler.

    Sampler and generators are asked in torch's sequence, so that the order of samples and the state
    in which generators are left are those of torch's loader.

    Args:
        place: where the pass begins.
        resumed: whether a state said so.

    Attributes:
        chosen: the batches, as rows of the samples, by their numbers.
        failure: the sampler's own, in the place of the batch behind those.
        ended: it was raised.
        progress: where the pass begins, and what is chosen and handed out of it.
    """

    def __init__(self, loader: Sampled, samples: Numbered, place: Place, resumed: bool) -> None:
        self._loader, self.progress = loader, Progress(place)
        self._rows = samples.rows
        self.chosen: dict[int, Chosen] = {}
        self.failure: Exception | None = None
        self.ended = False
        self._counted = samples.draws()
        # Frameworks save one rank's state for all, and samplers give each rank others: what another
        # rank drew is not compared.
        self.whose = [*part(layers(self._sampler()))]
        # What lies before the next batch: this rank's samples, and what is known of them.
        self._taken, self._expected = place.samples, place.drawn
        self._left = self._taken  # of them, to be asked for again
        self._drawn = 0  # the checksum of all that was asked for
        self._indices: Iterator[Any] | None = self._begin(resumed)

    def fill(self, number: int, handed_out: int, ahead: int) -> None:
        """Asks the sampler until so many batches from a number on are known."""
        forget(self.chosen, handed_out)
        forget(self.progress.behind, handed_out - 1)
        progress = self.progress
        wanted = number + ahead
        known = progress.total < math.inf or self.failure is not None or self.ended
        while not known and progress.count < wanted:
            try:
                more = self._choose()
            except Exception as failure:  # its turn comes behind the batches before it
                if not is_of_the_batch(failure):
                    raise
                self.failure = failure
                known = True
            else:
                if not more:
                    progress.total = progress.count
                    known = True

    def has(self, number: int) -> bool:
        """Whether there is a batch of that number, once it was filled so far; or an error."""
        if self.failure is not None:
            return number <= self.progress.count
        return not self.ended and number < self.progress.total

    def check(self, number: int) -> None:
        """Raises what the sampler raised in the place of a batch."""
        if self.failure is not None and number == self.progress.count:
            raise self.failure

    def fails(self, number: int) -> bool:
        """Whether it is the sampler that fails, and not a batch."""
        return self.failure is not None and number == self.progress.count

    def _choose(self) -> bool:
        """Asks for the next batch; false where there is none."""
        indices = self._opened() if self._indices is None else self._indices
        # An exception from outside ends a generator: then it is opened anew.
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
                break  # a batch sampler's own, of none
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
        """The sampler once more, behind all that it chose: it was asked when an exception came."""
        self._counted.clear()
        self._left, self._drawn = self._taken, 0
        return self._begin(True)

    # ---- where it begins ---------------------------------------------------------------------

    def _sampler(self) -> Any:
        """What chooses the batches, or where they are not grouped the samples."""
        loader = self._loader
        return loader.sampler if loader.batch_sampler is None else loader.batch_sampler

    def _from_place(self, sampler: Any) -> Any:
        """A sampler whose first batch begins at the place that a state tells."""
        *wrappers, base = layers(sampler)
        before = self.progress.place
        self.progress.place, left = rest(before, [*wrappers, base])
        if self.progress.place is not before:  # other numbers of ranks took samples, too
            self._taken = self._left = self.progress.place.samples
            self._expected = self.progress.place.drawn
        if left is not None:
            order = left.order()
            taken = self._rows(order[: left.begin])
            if self.progress.place is not before:
                compare_taken(before, taken)
            self._counted.of(taken)
            base = left.samples(order)
        # Any other batch sampler is asked for its batches again.
        if self._left and [type(wrapper) for wrapper in wrappers] == [BatchSampler]:
            base = _Behind(base, self._skip)
        return _over(wrappers, base)

    def _begin(self, somewhere: bool) -> Iterator[Any]:
        """The indices to come, and the base seed: torch's ``_BaseDataLoaderIter.__init__``.

        Args:
            somewhere: in the epoch, and not at its start.
        """
        loader = self._loader
        sampler: Any = self._sampler()
        if somewhere:
            sampler = self._from_place(sampler)
        place = self.progress.place
        indices: Iterator[Any] = iter(sampler)
        if loader.base_seed is None or not loader.persistent_workers:
            # A seed that the state holds is not drawn again. So a program that restored torch's
            # generators as well goes on as if it had not been stopped.
            if place.base_seed is None:
                drawn = torch.empty((), dtype=torch.int64).random_(generator=loader.generator)
                loader.base_seed = int(drawn.item())
            if loader.num_workers:
                # Its iterator with workers resets itself when it is made, and so begins twice.
                indices = iter(sampler)
        if place.base_seed is None:
            place.base_seed = loader.base_seed
        loader.base_seed = place.base_seed  # which persistent workers go on with
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

        Such a sampler draws first when it is asked for its first index.
        """
        if self.progress.place.generator is None:
            self.progress.place.generator = self._loader.tracker.place(generator)
        else:
            go_to(generator, *self.progress.place.generator)
        yield from indices

    def _seeded(self, wrappers: list[Any], base: RandomSampler) -> Iterator[Any]:
        """Yields from a RandomSampler without a generator; its one draw is noted for a resume.

        It seeds a generator of its own with a number drawn from the global one when its first
        index is asked for; ours is drawn in that moment, too.
        """
        if self.progress.place.order_seed is None:
            drawn = torch.empty((), dtype=torch.int64).random_()
            self.progress.place.order_seed = int(drawn.item())
        generator = torch.Generator()
        generator.manual_seed(self.progress.place.order_seed)
        yield from _drawing_from(wrappers, base, generator)

    def _drawing(self, indices: Iterator[Any], wrappers: list[Any], base: Any) -> Iterator[Any]:
        """Yields from a sampler that draws everything from the global generator at its first index.

        On resume a generator of its own stands where that one stood, which is left alone.
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
        """Passes what was handed out before the place."""
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
        """Passes a sampler's samples up to the place."""
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


def _wraps(sampler: Any) -> str:
    """The attribute that holds what a sampler merely groups, skips or shares out; else ""."""
    kind = type(sampler)
    return _WRAPPERS.get((kind.__module__, kind.__name__), "")


def _over(wrappers: list[Any], base: Any) -> Any:
    """Copies of what groups a sampler, over another one."""
    for wrapper in reversed(wrappers):
        inner, base = base, copy.copy(wrapper)
        setattr(base, _wraps(wrapper), inner)
    return base


def _drawing_from(wrappers: list[Any], base: Any, generator: torch.Generator) -> Any:
    """Copies of a sampler and of what groups it, that draw from a generator."""
    twin = copy.copy(base)
    twin.generator = generator
    return _over(wrappers, twin)


def layers(sampler: Any) -> list[Any]:
    """A sampler, what it wraps, and so on to the one that chooses the indices."""
    found = [sampler]
    while inside := _wraps(found[-1]):
        found.append(getattr(found[-1], inside))
    return found
