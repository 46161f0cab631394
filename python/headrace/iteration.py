"""One pass over a ``DataLoader``: its sampler's indices in, its batches out."""

from __future__ import annotations

import collections
import copy
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import (
    BatchSampler,
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from headrace import _lib, lending, replay
from headrace.batches import Engine, Pool, Recipe, TimedOut
from headrace.errors import ArgumentError
from headrace.generators import go_to
from headrace.place import Place, compare_taken, of_other_ranks, part, rest

if TYPE_CHECKING:
    from headrace.dataloader import DataLoader

# Goes into lists, tuples, mappings and whatever has a pin_memory() of its own.
_pinned: Any = torch.utils.data._utils.pin_memory.pin_memory
# hr_seek's epochs end here; a torch seed has one bit more.
_EPOCHS = 2**62
# Samplers that choose nothing themselves and draw nothing, and where what they wrap is found.
_WRAPPERS = {
    ("torch.utils.data.sampler", "BatchSampler"): "sampler",
    ("accelerate.data_loader", "BatchSamplerShard"): "batch_sampler",
    ("accelerate.data_loader", "SkipBatchSampler"): "batch_sampler",
    ("headrace.iteration", "_Behind"): "sampler",
}
# Samplers of torch that draw with their first index and not before.
_LAZY = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_SKIPPED_AT_ONCE = 1 << 16
_MOST_AHEAD = 1024  # batches; the engine lets 4,096 wait


class _Chosen(NamedTuple):
    """A batch that the sampler chose and nobody has received yet, or what it raised instead."""

    rows: list[int]
    drawn: int = 0  # the checksum behind it
    error: Exception | None = None


class _Behind:
    """A sampler without its first samples, so that what groups the others begins behind those."""

    def __init__(self, sampler: Any, skip: Callable[[Iterator[Any]], None]) -> None:
        self.sampler, self._skip = sampler, skip

    def __iter__(self) -> Iterator[Any]:
        indices = iter(self.sampler)
        self._skip(indices)
        yield from indices


class Iteration:
    """The iterator of a ``DataLoader``.

    Sampler and generators are asked in torch's sequence, so that the order of samples and the state
    in which generators are left are those of torch's loader.
    """

    def __init__(self, loader: DataLoader[Any], recipe: Recipe) -> None:
        # Waiting for a batch lets other threads run, and they may ask for one, too.
        self._turn = threading.RLock()
        self._loader = loader
        self._place, self._resumed = self._start()
        self._left = self._place.samples  # to be replayed
        self._drawn = 0
        # How often each row came: its draw number.
        self._seen = np.zeros(len(recipe.samples.dataset), np.uint32)
        self._rows = recipe.samples.rows
        self._chosen: collections.deque[_Chosen] = collections.deque()
        self._chose_all = self._ended = False
        # Frameworks save one rank's state for all, and samplers give each rank others: what another
        # rank drew is not compared.
        self._whose = [*part(layers(self._sampler()))]
        self._indices = self._begin()
        ahead = recipe.prefetch * max(1, loader.num_workers)
        self._ahead = min(_MOST_AHEAD, ahead)
        self._maker = loader.take(recipe)
        self._finish = weakref.finalize(self, _give_back, weakref.ref(loader), self._maker)
        self._finish.atexit = False
        self._maker.begin(self._draw_epoch())
        # torch asks the sampler now where it has workers, and else with the first batch.
        if loader.num_workers:
            self._choose()

    def __iter__(self) -> Iteration:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        _lib.library()  # refuses a forked child, where nobody gives the lock back
        with self._turn:
            received = self._received()
        batch = self._collated(received)
        if self._loader.pin_memory and lending.available():
            batch = _pinned(batch)  # leaves tensors alone that the engine made in such memory
        return batch

    def _received(self) -> Any:
        """The next batch as it was made, counted as handed out."""
        self._choose()
        if not self._chosen:
            self._finish()
            self._pass_empty()
            raise StopIteration
        loader, error = self._loader, self._chosen[0].error
        if error is not None:
            self._chosen.popleft()
            raise error
        try:
            received = self._maker.receive(loader.timeout)
        except TimedOut:  # it is still to come
            raise
        except Exception:
            self._advance()
            raise
        self._advance()
        return received

    def _collated(self, received: Any) -> Any:
        loader, collate = self._loader, self._loader.collate_fn
        if isinstance(self._maker, Engine):
            images, labels = received
            if collate is default_collate and len(labels):
                return [images, labels]
            received = self._maker.samples(images, labels)
        return collate(received if loader.batch_sampler is not None else received[0])

    # ---- where it begins ---------------------------------------------------------------------

    def _start(self) -> tuple[Place, Place | None]:
        loader, sampler = self._loader, self._loader.epoch_sampler
        epoch = None if sampler is None else sampler.epoch
        resume = loader.resume
        if resume is not None and resume.sampler_epoch in (None, epoch):
            return replace(resume, sampler_epoch=epoch), resume
        return Place(epoch=loader.next_epoch, sampler_epoch=epoch), resume

    def _sampler(self) -> Any:
        """What chooses the batches, or where they are not grouped the samples."""
        loader = self._loader
        return loader.sampler if loader.batch_sampler is None else loader.batch_sampler

    def _from_place(self, sampler: Any) -> Any:
        """A sampler whose first batch begins at the place that a state tells."""
        *wrappers, base = layers(sampler)
        before = self._place
        self._place, left = rest(before, [*wrappers, base])
        self._left = self._place.samples
        if left is not None:
            order = left.order()
            taken = self._rows(order[: left.begin])
            if self._place is not before:
                compare_taken(before, taken)
            self._draws(taken)
            base = left.samples(order)
        # Any other batch sampler is asked for its batches again.
        if self._left and [type(wrapper) for wrapper in wrappers] == [BatchSampler]:
            base = _Behind(base, self._skip)
        return _over(wrappers, base)

    def _begin(self) -> Iterator[Any]:
        """The indices to come, and the base seed: torch's ``_BaseDataLoaderIter.__init__``."""
        loader, place = self._loader, self._place
        sampler: Any = self._sampler()
        if self._resumed is not None:
            sampler = self._from_place(sampler)
            place = self._place
        indices: Iterator[Any] = iter(sampler)
        if loader.base_seed is None or not loader.persistent_workers:
            # What a state tells was drawn before it was made, and is not drawn again: whoever
            # put the generators back to where they stood then goes on as if nothing had been.
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
        """What a sampler with a generator yields, whose place is noted for a resume, or resumed.

        Such a sampler draws first when it is asked for its first index.
        """
        if self._place.generator is None:
            self._place.generator = self._loader.tracker.place(generator)
        else:
            go_to(generator, *self._place.generator)
        yield from indices

    def _seeded(self, wrappers: list[Any], base: RandomSampler) -> Iterator[Any]:
        """What a RandomSampler without a generator yields, its one draw noted for a resume.

        It seeds a generator of its own with a number drawn from the global one when its first
        index is asked for; ours is drawn in that moment, too.
        """
        if self._place.order_seed is None:
            drawn = torch.empty((), dtype=torch.int64).random_()
            self._place.order_seed = int(drawn.item())
        generator = torch.Generator()
        generator.manual_seed(self._place.order_seed)
        yield from _drawing_from(wrappers, base, generator)

    def _drawing(self, indices: Iterator[Any], wrappers: list[Any], base: Any) -> Iterator[Any]:
        """What a sampler yields that draws all from the global generator, when it is first asked.

        On resume a generator of its own stands where that one stood, which is left alone.
        """
        if self._place.generator is None:
            self._place.generator = self._loader.tracker.place(torch.default_generator)
            yield from indices
        else:
            generator = torch.Generator()
            go_to(generator, *self._place.generator)
            yield from _drawing_from(wrappers, base, generator)

    def _draw_epoch(self) -> int:
        """The epoch of the augmentations' key; its seed is the loader's."""
        loader, place = self._loader, self._place
        if loader.seed is not None:
            return place.epoch
        assert place.base_seed is not None
        # Persistent workers keep the base seed, and must not repeat their draws.
        passed = place.epoch if loader.persistent_workers else 0
        return (place.base_seed + passed * 0x9E3779B97F4A7C15) % _EPOCHS

    # ---- how it goes on ----------------------------------------------------------------------

    def _choose(self) -> None:
        """Asks the sampler for batches until as many are under way as may be."""
        while not self._chose_all and len(self._chosen) < self._ahead:
            try:
                chosen = self._next_rows()
            except StopIteration:
                self._chose_all = self._ended = True
                if self._left:
                    raise self._too_short() from None
            except Exception as error:  # its turn comes behind the batches before it
                self._chose_all = True
                self._chosen.append(_Chosen([], error=error))
            else:
                draws = self._draws(chosen)
                if self._left:
                    behind = min(len(chosen), self._left)
                    self._replay(chosen[:behind])
                    chosen, draws = chosen[behind:], draws[behind:]
                    if not chosen:
                        continue
                self._drawn = replay.checksum(chosen, self._drawn)
                self._maker.submit(chosen, draws)
                self._chosen.append(_Chosen(chosen, self._drawn))

    def _replay(self, rows: list[int]) -> None:
        """Passes what was handed out before the place."""
        self._left -= len(rows)
        self._drawn = replay.checksum(rows, self._drawn)
        if not self._left and self._place.drawn:
            drawn, rank, world_size = self._place.drawn
            if world_size != self._whose[1]:
                if drawn != self._drawn:
                    raise of_other_ranks(self._place, layers(self._sampler()))
            elif rank == self._whose[0]:
                replay.compare(drawn, self._drawn, self._place.samples)

    def _skip(self, indices: Iterator[Any]) -> None:
        """Passes a sampler's samples up to the place."""
        while self._left:
            some = itertools.islice(indices, min(self._left, _SKIPPED_AT_ONCE))
            rows = self._rows([*some])
            if not rows:
                raise self._too_short()
            self._draws(rows)
            self._replay(rows)

    def _too_short(self) -> ArgumentError:
        return ArgumentError(
            f"the state stands {self._place.samples} samples into an epoch that the sampler ends "
            "before"
        )

    def _next_rows(self) -> list[int]:
        chosen: Iterable[Any] = next(self._indices)
        return self._rows(chosen if self._loader.batch_sampler is not None else [chosen])

    def _draws(self, rows: list[int]) -> list[int]:
        seen = self._seen
        if len(set(rows)) == len(rows):
            draws: list[int] = seen[rows].tolist() if rows else []
            seen[rows] += 1
            return draws
        draws = []
        for row in rows:
            draws.append(int(seen[row]))
            seen[row] += 1
        return draws

    def _advance(self) -> None:
        """Notes that a batch was handed out."""
        loader, place = self._loader, self._place
        chosen = self._chosen.popleft()
        self._choose()
        place.batches += 1
        place.samples += len(chosen.rows)
        place.drawn = [chosen.drawn, *self._whose]
        loader.place = place
        loader.next_epoch = max(loader.next_epoch, place.epoch + 1)
        if self._resumed is not None and loader.resume is self._resumed:
            loader.resume = None
        if self._chose_all and not self._chosen:
            loader.place = Place(epoch=place.epoch + 1)

    def _pass_empty(self) -> None:
        """Goes on to the next epoch where a state's has no batch left, as with drop_last."""
        loader, resumed = self._loader, self._resumed
        if self._ended and resumed is not None and loader.resume is resumed:
            loader.resume = None
            loader.place = Place(epoch=self._place.epoch + 1)
            loader.next_epoch = max(loader.next_epoch, loader.place.epoch)


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


def _give_back(loader: weakref.ref[DataLoader[Any]], maker: Engine | Pool) -> None:
    owner = loader()
    if owner is None:
        maker.close()
    else:
        owner.give_back(maker)
