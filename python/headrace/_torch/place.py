"""Keeps the position in a ``DataLoader``'s epoch, and divides the rest among other ranks.

torch's ``DistributedSampler`` gives rank r of W the positions r, r + W, r + 2 W, ... of an order
that does not depend on W. So when each of W ranks has taken b samples, the first b W positions are
done. The rest can be dealt to any number of ranks in turns, as the sampler deals the whole.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import BatchSampler, DistributedSampler

from headrace._epoch import ranks, rerun
from headrace._epoch.delivery import Delivery
from headrace.errors import ArgumentError

_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio: spreads epochs over all numbers
# hr_seek's epochs end here; a torch seed has one bit more.
_EPOCHS = 2**62


@dataclass
class Place:
    """How far an iteration has come, and what it was drawn from."""

    epoch: int = 0  # how many iterations came before it
    batches: int = 0  # how many batches were handed out in it
    begin: int = 0  # how many places of the epoch other numbers of ranks took before
    samples: int = 0  # how many samples this rank took since; the batch size may change after them
    drawn: list[int] | None = None  # their rerun.checksum, the rank, and the number of ranks
    base_seed: int | None = None  # torch's base seed for workers, used here for augmentations
    order_seed: int | None = None  # the seed of a RandomSampler without a generator
    generator: list[int] | None = None  # where the sampler's generator stood (generators.Tracker)
    sampler_epoch: int | None = None  # the epoch of a sampler with set_epoch


def spread(base_seed: int, passed: int) -> int:
    """An epoch's number for the engine's draws, if torch's base seed tells epochs apart.

    Args:
        passed: how many epochs the same base seed served before.
    """
    return (base_seed + passed * _GOLDEN) % _EPOCHS


class Progress:
    """How far one iteration has come.

    Attributes:
        place: where it begins, and what its order is drawn from.
        delivery: which of its batches were handed out.
        count: how many batches were chosen.
        total: how many batches there are; infinity if that is not known, or the sampler failed.
        behind: for each batch, how many samples of the epoch this rank has taken after it, and
            ``Place.drawn`` after it.
        generator: where the sampler's own generator stood at the end, as ``Place.generator``; None:
            it has none, or its place is not known.
        persistent: whether the next iteration keeps the base seed.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.delivery = Delivery()
        self.count = 0
        self.total = math.inf
        self.behind: dict[int, tuple[int, list[int]]] = {}
        self.generator: list[int] | None = None
        self.persistent = False

    @property
    def moved(self) -> int:
        """A number that grows with every batch that is handed out, and at the end."""
        handed_out = self.delivery.handed_out
        return handed_out + (handed_out >= self.total)

    @property
    def reached(self) -> Place:
        """The place after what was handed out; after the last batch the next epoch's start."""
        place, handed_out = self.place, min(self.delivery.handed_out, self.count)
        if handed_out >= self.total:
            return self._next_epoch()
        if not handed_out:
            return place
        samples, drawn = self.behind[handed_out - 1]
        return replace(place, batches=place.batches + handed_out, samples=samples, drawn=drawn)

    def _next_epoch(self) -> Place:
        """The next epoch's start. Its order is known if the sampler draws from its own generator.

        torch's global generator may be used by anybody before that epoch begins.
        """
        base_seed = self.place.base_seed if self.persistent and self.generator else None
        return Place(self.place.epoch + 1, base_seed=base_seed, generator=self.generator)


class Standing:
    """Where a ``DataLoader`` stands: what its iterations leave for the next one, and for a state.

    Attributes:
        latest: the iteration that handed a batch out last.
        resume: the place that a state told, until an iteration has handed a batch out from there.
        next_epoch: the epoch of the next iteration.
    """

    def __init__(self) -> None:
        self.latest: Progress | None = None
        self.resume: Place | None = None
        self.next_epoch = 0
        # The place that was set; the iteration that was the latest then; and how far that had come.
        self._said = Place()
        self._during: Progress | None = None
        self._moved = 0

    @property
    def place(self) -> Place:
        """The place after the last batch that was handed out, or one that was set since."""
        latest = self.latest
        if latest is None or (latest is self._during and latest.moved == self._moved):
            return self._said
        return latest.reached

    def go_to(self, place: Place) -> None:
        """Makes a place the current one, where the next iteration begins."""
        resume, latest = replace(place), self.latest
        moved, epoch = 0 if latest is None else latest.moved, place.epoch
        # No exception comes between these.
        self._said = place
        self._during = latest
        self._moved = moved
        self.resume = resume
        self.next_epoch = epoch

    def begins(self, sampler: Any) -> tuple[Place, Place | None]:
        """Where the next iteration begins; and a state's place that is to come, or None.

        Args:
            sampler: the sampler with ``set_epoch``, or None. If that chose another epoch since the
                state, the iteration begins at the start of that epoch.
        """
        epoch, resume = None if sampler is None else sampler.epoch, self.resume
        if resume is not None and resume.sampler_epoch in (None, epoch):
            return replace(resume, sampler_epoch=epoch), resume
        return Place(epoch=self.next_epoch, sampler_epoch=epoch), resume

    def behind(self, resumed: Place | None, epoch: int) -> tuple[Place | None, int]:
        """What ``resume`` and ``next_epoch`` become once a batch of an epoch was handed out.

        Args:
            resumed: the state's place with which the epoch began, or None.
        """
        resume = None if self.resume is resumed else self.resume
        return resume, max(self.next_epoch, epoch + 1)

    def end(self, progress: Progress, resumed: Place | None) -> None:
        """Goes on to the next epoch if a state left no batch of this one, as with drop_last."""
        if progress.total == 0 and resumed is not None and self.resume is resumed:
            self._skip(progress)

    def _skip(self, empty: Progress) -> None:
        """Goes on after an epoch of which a state left no batch."""
        epoch = max(self.next_epoch, empty.place.epoch + 1)
        # No exception comes between these.
        self.latest = empty
        self.resume = None
        self.next_epoch = epoch

    def __getstate__(self) -> dict[str, Any]:
        # Another process gets the places, and not the iteration that reached them.
        said = {"_said": self.place, "latest": None, "_during": None, "_moved": 0}
        return self.__dict__ | said


def part(layers: list[Any]) -> tuple[int, int]:
    """The rank and the number of ranks: those of a sampler, else those of the process.

    Args:
        layers: a sampler, the one that it wraps, and so on to the one that chooses the samples.
    """
    for sampler in layers:
        for names in (("rank", "num_replicas"), ("process_index", "num_processes")):  # Accelerate's
            rank, world_size = (getattr(sampler, name, None) for name in names)
            if type(rank) is int and type(world_size) is int:
                return rank, world_size
    return ranks.resolve(None, None)


def check(place: Place, layers: list[Any]) -> None:
    """Refuses a place of another number of ranks if samplers deal in an order that is not known.

    A sampler that does not say for how many ranks it deals may be the same on all ranks, and is
    run again.

    Raises:
        ArgumentError: it is not known what other ranks took, and what is left.
    """
    deals = any(
        hasattr(layer, name) for layer in layers for name in ("num_replicas", "num_processes")
    )
    moved = deals and place.drawn is not None and place.drawn[2] != part(layers)[1]
    if (place.begin or moved) and _dealer(layers) is None:
        raise of_other_ranks(place, layers)


def of_other_ranks(place: Place, layers: list[Any]) -> ArgumentError:
    """The error if the rest of an epoch is not known."""
    begun = f"{place.drawn[2]} ranks" if place.drawn else "other ranks"
    rank, world_size = part(layers)
    return ArgumentError(
        f"the state is of an epoch that {begun} began, and this is rank {rank} of {world_size} "
        f"with a {type(layers[-1]).__name__}: what they left is known only of torch's "
        "DistributedSampler, or a subclass with its __iter__, as sampler= or in a BatchSampler"
    )


class Rest:
    """The rest of a ``DistributedSampler``'s epoch that another number of ranks began."""

    def __init__(self, sampler: DistributedSampler[Any], begin: int) -> None:
        self._sampler, self.begin = sampler, begin
        self._count = len(sampler.dataset)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """How many samples this rank has; all ranks have as many."""
        left, among = max(0, self._count - self.begin), self._sampler.num_replicas
        return left // among if self._sampler.drop_last else -(-left // among)

    def samples(self, order: list[int]) -> list[int]:
        """This rank's samples. The last turn is filled up with the epoch's first samples.

        Args:
            order: the order, as ``order`` returns it.
        """
        first, among = self.begin + self._sampler.rank, self._sampler.num_replicas
        places = range(first, self.begin + len(self) * among, among)
        return [order[place % self._count] for place in places]

    def order(self) -> list[int]:
        """The epoch's samples as one rank alone would have them, neither padded nor cut."""
        alone = copy.copy(self._sampler)
        alone.rank, alone.num_replicas, alone.drop_last = 0, 1, False
        alone.num_samples = alone.total_size = self._count
        order = list(alone)
        if self.begin > len(order):
            raise ArgumentError(
                f"the state was saved {self.begin} samples into an epoch, and the sampler has fewer"
            )
        return order


def _dealer(layers: list[Any]) -> DistributedSampler[Any] | None:
    """The sampler whose order is known for any number of ranks, if nothing else changes it."""
    *groups, base = layers
    plain = [type(group) for group in groups] in ([], [BatchSampler])
    if plain and isinstance(base, DistributedSampler):
        own = type(base).__iter__ is not DistributedSampler.__iter__
        return None if own else base
    return None


def rest(place: Place, layers: list[Any]) -> tuple[Place, Rest | None]:
    """A place for this number of ranks; and the rest of the epoch if another number began it.

    Raises:
        ArgumentError: as ``check``.
    """
    check(place, layers)
    sampler = _dealer(layers)
    if sampler is None:
        return place, None
    drawn = place.drawn
    if drawn is not None and drawn[2] != sampler.num_replicas:
        begin = place.begin + place.samples * drawn[2]
        place = replace(place, begin=begin, samples=0, drawn=None)
    return place, Rest(sampler, place.begin) if place.begin else None


def compare_taken(before: Place, samples: list[int]) -> None:
    """Refuses an order in which the ranks of a state would have taken other samples.

    Args:
        before: the state's place.
        samples: all samples that were taken in this loader's order.

    Raises:
        ArgumentError: the sampler has another seed or epoch.
    """
    if before.drawn is not None:
        drawn, rank, world_size = before.drawn
        taken = samples[before.begin + rank :: world_size]
        rerun.compare(drawn, rerun.checksum(taken), before.samples)
