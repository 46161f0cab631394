"""How far a ``DataLoader``'s epoch has come, and how the rest of it goes to other numbers of ranks.

torch's ``DistributedSampler`` gives rank r of W the places r, r + W, r + 2 W, ... of an order that
does not depend on W. So when each of W ranks has taken b samples, the first b W places are done,
and those behind them can be dealt to any number of ranks in turns, as the sampler deals the whole.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

from torch.utils.data import BatchSampler, DistributedSampler

from headrace import ranks, replay
from headrace.errors import ArgumentError


@dataclass
class Place:
    """How far an iteration has come, and what it was drawn from."""

    epoch: int = 0  # iterations before it
    batches: int = 0  # handed out in it
    begin: int = 0  # places of the epoch that other numbers of ranks took before
    samples: int = 0  # that this rank took since, in batches that may go on with another size
    drawn: list[int] | None = None  # what replay.checksum makes of them, and whose they are
    base_seed: int | None = None  # torch's for its workers, here for augmentations
    order_seed: int | None = None  # of a RandomSampler without a generator
    generator: list[int] | None = None  # where the one it draws from stood: generators.Tracker
    sampler_epoch: int | None = None  # of a sampler with set_epoch


def part(layers: list[Any]) -> tuple[int, int]:
    """The rank, and how many there are: as a sampler deals, else as the process runs.

    Args:
        layers: a sampler, what it groups, and so on to the one that chooses the samples.
    """
    for sampler in layers:
        for names in (("rank", "num_replicas"), ("process_index", "num_processes")):  # Accelerate's
            rank, world_size = (getattr(sampler, name, None) for name in names)
            if type(rank) is int and type(world_size) is int:
                return rank, world_size
    return ranks.resolve(None, None)


def check(place: Place, layers: list[Any]) -> None:
    """Refuses a place of another number of ranks where samplers deal in an order that is not known.

    A sampler that does not say for how many ranks it deals may be the same on all of them, and is
    replayed.

    Raises:
        ArgumentError: what other ranks took, and what is left, is not known.
    """
    deals = any(
        hasattr(layer, name) for layer in layers for name in ("num_replicas", "num_processes")
    )
    moved = deals and place.drawn is not None and place.drawn[2] != part(layers)[1]
    if (place.begin or moved) and _dealer(layers) is None:
        raise of_other_ranks(place, layers)


def of_other_ranks(place: Place, layers: list[Any]) -> ArgumentError:
    """What is said where the rest of an epoch cannot be told."""
    begun = f"{place.drawn[2]} ranks" if place.drawn else "other ranks"
    rank, world_size = part(layers)
    return ArgumentError(
        f"the state is of an epoch that {begun} began, and this is rank {rank} of {world_size} "
        f"with a {type(layers[-1]).__name__}: what they left is known only of torch's "
        "DistributedSampler, or a subclass with its __iter__, as sampler= or in a BatchSampler"
    )


class Rest:
    """What a ``DistributedSampler`` has to deal where other numbers of ranks began its epoch."""

    def __init__(self, sampler: DistributedSampler[Any], begin: int) -> None:
        self._sampler, self.begin = sampler, begin
        self._count = len(sampler.dataset)  # type: ignore[arg-type]

    def __len__(self) -> int:
        """This rank's samples; all ranks have as many."""
        left, among = max(0, self._count - self.begin), self._sampler.num_replicas
        return left // among if self._sampler.drop_last else -(-left // among)

    def samples(self, order: list[int]) -> list[int]:
        """This rank's samples; what is missing in the last turn is repeated from the epoch's first.

        Args:
            order: as ``order`` gives it.
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
                f"the state stands {self.begin} samples into an epoch that the sampler ends before"
            )
        return order


def _dealer(layers: list[Any]) -> DistributedSampler[Any] | None:
    """The sampler whose order is known for any number of ranks, if nothing else has a say in it."""
    *groups, base = layers
    plain = [type(group) for group in groups] in ([], [BatchSampler])
    if plain and isinstance(base, DistributedSampler):
        own = type(base).__iter__ is not DistributedSampler.__iter__
        return None if own else base
    return None


def rest(place: Place, layers: list[Any]) -> tuple[Place, Rest | None]:
    """A place as this number of ranks has it, and what is left where another number was there.

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
        samples: all that were taken in that order, as the loader has them.

    Raises:
        ArgumentError: the sampler has another seed or epoch.
    """
    if before.drawn is not None:
        drawn, rank, world_size = before.drawn
        taken = samples[before.begin + rank :: world_size]
        replay.compare(drawn, replay.checksum(taken), before.samples)
