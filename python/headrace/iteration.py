"""One pass over a ``DataLoader``: its sampler's indices in, its batches out."""

from __future__ import annotations

import collections
import copy
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import (
    RandomSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    default_collate,
)

from headrace import lending, ranks, replay
from headrace.batches import Engine, Pool, Recipe, TimedOut
from headrace.errors import ArgumentError
from headrace.generators import go_to

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
}
# Samplers of torch that draw with their first index and not before.
_LAZY = (RandomSampler, SubsetRandomSampler, WeightedRandomSampler)
_MOST_AHEAD = 1024  # batches; the engine lets 4,096 wait


@dataclass
class Place:
    """How far an iteration has come, and what it was drawn from."""

    epoch: int = 0  # iterations before it
    batches: int = 0  # handed out in it
    samples: int = 0  # of those batches, which may go on with another size
    drawn: list[int] | None = None  # what replay.checksum makes of them, and whose they are
    base_seed: int | None = None  # torch's for its workers, here for augmentations
    order_seed: int | None = None  # of a RandomSampler without a generator
    generator: list[int] | None = None  # where the one it draws from stood: generators.Tracker
    sampler_epoch: int | None = None  # of a sampler with set_epoch


class _Chosen(NamedTuple):
    """A batch that the sampler chose and nobody has received yet, or what it raised instead."""

    rows: list[int]
    drawn: int = 0  # the checksum behind it
    error: Exception | None = None


class Iteration:
    """The iterator of a ``DataLoader``.

    Sampler and generators are asked in torch's sequence, so that the order of samples and the state
    in which generators are left are those of torch's loader.
    """

    def __init__(self, loader: DataLoader, recipe: Recipe) -> None:
        self._loader = loader
        self._place, self._resumed = self._start()
        self._left = self._place.samples  # to be replayed
        # Frameworks save one rank's state for all, and samplers give each rank others: there it
        # cannot be told. But no share of another number of ranks goes on here.
        self._whose = [*ranks.resolve(None, None)]
        self._drawn = 0
        # How often each row came: its draw number.
        self._seen = np.zeros(len(recipe.samples.dataset), np.uint32)
        self._rows = recipe.samples.rows
        self._chosen: collections.deque[_Chosen] = collections.deque()
        self._chose_all = False
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
        self._choose()
        if not self._chosen:
            self._finish()
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
        batch = self._collated(received)
        if loader.pin_memory and lending.available():
            batch = _pinned(batch)  # leaves tensors alone that the engine made in such memory
        return batch

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

    def _begin(self) -> Iterator[Any]:
        """The indices to come, and the base seed: torch's ``_BaseDataLoaderIter.__init__``."""
        loader, place = self._loader, self._place
        sampler: Any = loader.batch_sampler
        if sampler is None:
            sampler = loader.sampler
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
        yield from _twin(wrappers, base, generator)

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
            yield from _twin(wrappers, base, generator)

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
                self._chose_all = True
                if self._left:
                    raise ArgumentError(
                        f"the state stands {self._place.samples} samples into an epoch that the "
                        "sampler ends before"
                    ) from None
            except Exception as error:  # its turn comes behind the batches before it
                self._chose_all = True
                self._chosen.append(_Chosen([], error=error))
            else:
                draws = self._draws(chosen)
                if self._left:
                    behind = self._replay(chosen)
                    chosen, draws = chosen[behind:], draws[behind:]
                    if not chosen:
                        continue
                self._drawn = replay.checksum(chosen, self._drawn)
                self._maker.submit(chosen, draws)
                self._chosen.append(_Chosen(chosen, self._drawn))

    def _replay(self, rows: list[int]) -> int:
        """How many of a batch stand before the place: all, or a part where its size is another."""
        count = min(len(rows), self._left)
        self._left -= count
        self._drawn = replay.checksum(rows[:count], self._drawn)
        if not self._left:
            drawn = self._place.drawn
            rank, world_size = self._whose
            if drawn and (drawn[1] == rank or drawn[2] != world_size):
                replay.compare(drawn[0], self._drawn, self._place.samples)
        return count

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


def _wraps(sampler: Any) -> str:
    """The attribute that holds what a sampler merely groups, skips or shares out; else ""."""
    kind = type(sampler)
    return _WRAPPERS.get((kind.__module__, kind.__name__), "")


def _twin(wrappers: list[Any], base: Any, generator: torch.Generator) -> Any:
    """Copies of a sampler and of what groups it, that draw from a generator."""
    twin = copy.copy(base)
    twin.generator = generator
    for wrapper in reversed(wrappers):
        inner, twin = twin, copy.copy(wrapper)
        setattr(twin, _wraps(wrapper), inner)
    return twin


def layers(sampler: Any) -> list[Any]:
    """A sampler, what it wraps, and so on to the one that chooses the indices."""
    found = [sampler]
    while inside := _wraps(found[-1]):
        found.append(getattr(found[-1], inside))
    return found


def _give_back(loader: weakref.ref[DataLoader], maker: Engine | Pool) -> None:
    owner = loader()
    if owner is None:
        maker.close()
    else:
        owner.give_back(maker)
