"""Turns what a loader's sampler chooses into the requests (``Asked``) that its dataset gets."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from headrace._deferred.keeping import Turns
from headrace._deferred.recording import Asked, Draws
from headrace._epoch.arrivals import forget
from headrace._torch.choosing import Choice, between_epochs
from headrace._torch.draws import AnyDraws
from headrace._torch.generators import Tracker
from headrace._torch.place import Place, Progress, spread
from headrace._torch.states import State

_KEPT = (list, tuple, range, np.ndarray, torch.Tensor)  # a dataset gets these as they are

Rows = Callable[[Iterable[Any]], list[int]]


class Sampled:
    """What chooses samples, as ``_torch.iterated.Sampled`` describes it.

    torch's own loader draws the base seed, and begins twice if it has workers. So this says that
    the seed is drawn and that there are no workers, and ``Choice`` does neither again.
    """

    num_workers, persistent_workers = 0, True

    def __init__(self, loader: Any) -> None:
        self.sampler, self.batch_sampler = loader.sampler, loader.batch_sampler
        self.generator: torch.Generator | None = loader.generator
        self.tracker: Tracker = loader.tracker
        self.base_seed: int | None = 0


class Choices:
    """What torch's loader gets in a sampler's place. Each ``iter`` is an epoch of ``Asked``.

    Attributes:
        state: the state of the loader in front: its sampler, its seed, and where it stands.
        place: where the next epoch begins.
        resumed: the place that a loaded state told, until a batch was handed out; else None.
        latest: the pass that was begun last.
        base_seed: torch's base seed, which persistent workers keep; a state may bring another.
        persistent: whether worker processes persist.
    """

    def __init__(self, loader: Any, rows: Rows | None) -> None:
        self.state: State = loader.state
        self.sampled = Sampled(loader)
        self.persistent: bool = loader.persistent_workers
        self._rows = rows
        self.base_seed: int | None = None
        self.place = Place()
        self.resumed: Place | None = None
        self.latest: Pass | None = None

    def __len__(self) -> int:
        sampled = self.sampled
        return len(sampled.sampler if sampled.batch_sampler is None else sampled.batch_sampler)

    def __iter__(self) -> Iterator[Asked]:
        self.latest = Pass(self, replace(self.place), self.resumed is not None)
        return self.latest

    def begin(self) -> None:
        """Finds out where the next epoch begins."""
        self.place, self.resumed = self.state.standing.begins(self.state.epoch_sampler)
        sampler, batch_sampler = self.sampled.sampler, self.sampled.batch_sampler
        between_epochs(self.place, sampler if batch_sampler is None else batch_sampler)
        if self.place.base_seed is not None:
            self.base_seed = self.place.base_seed
        elif not self.persistent:
            self.base_seed = None

    def began(self, base_seed: int) -> None:
        """Notes torch's base seed, once its loader drew one."""
        if self.base_seed is None:
            self.base_seed = base_seed
        assert self.latest is not None
        self.latest.progress.place.base_seed = self.base_seed

    def key(self, place: Place) -> Draws | None:
        """The key of an epoch's draws; None: it is torch's base seed, which is not drawn yet."""
        if self.state.seed is not None:
            return Draws(self.state.seed, place.epoch)
        # Persistent workers keep their seed. After a resume it is not that of torch's iterator.
        base_seed = self.base_seed if place.base_seed is None else place.base_seed
        if base_seed is None:
            return None
        return Draws(0, spread(base_seed, self.passed(place)))

    def passed(self, place: Place) -> int:
        """How many epochs the place's base seed served before."""
        return place.epoch if self.persistent else 0

    # ---- samples by number: _torch.iterated.Numbered ---------------------------------------

    def rows(self, indices: Iterable[Any]) -> list[int]:
        if self._rows is not None:
            return self._rows(indices)
        return [*map(number_of, indices)]

    def draws(self) -> AnyDraws:
        return AnyDraws()


class _Kept(Choice):
    """A choice that keeps the indices as the sampler gave them."""

    def __init__(self, choices: Choices, place: Place, resumed: bool) -> None:
        self.said: Any = None
        known = place.base_seed
        super().__init__(choices.sampled, choices, place, resumed)
        self.progress.place.base_seed = known
        self.progress.persistent = choices.persistent

    def _next_rows(self, indices: Iterator[Any]) -> list[int]:
        self.said = next(indices)
        if self._loader.batch_sampler is None:
            return self._rows([self.said])
        if not isinstance(self.said, _KEPT):  # it may be possible to read it only once
            self.said = list(self.said)
        elif isinstance(self.said, np.ndarray):  # a sampler may fill the same array again
            self.said = self.said.copy()
        return self._rows(self.said)


class Pass(Iterator[Asked]):
    """One pass of torch's loader over a sampler.

    Attributes:
        progress: where it began, and what was handed out of it.
        given: how many batches torch's loader was given; a batch that is made again counts again.
        arrived: how many of those came back.
        exhausted: whether the sampler has no more.
        turns: which worker process gets the next batch; None: there are no workers.
        most: how many batches may be under way, counted from the first that was not handed out;
            None: as many as torch's loader asks for.
        withheld: how often torch's loader asked for more than ``most``, and was told that there
            are none.
    """

    def __init__(self, choices: Choices, place: Place, resumed: bool) -> None:
        self._choices = choices
        self._choice = _Kept(choices, place, resumed)
        self.progress: Progress = self._choice.progress
        self.given = self.arrived = 0
        self.exhausted = False
        self.turns: Turns | None = None
        self.most: int | None = None
        self.withheld = 0
        # The batches by their numbers, and the order in which they are given: n, or ~n for one
        # that is given again. If an exception comes between the two, `_add` finds the batch again.
        self._asked: dict[int, Asked] = {}
        self._order: list[int] = []

    def __next__(self) -> Asked:
        if self.given == len(self._order):
            if self.full:
                self.withheld += 1
                raise StopIteration
            self._add()
        number = self._order[self.given]
        asked = self._asked[number if number >= 0 else ~number]
        if number < 0 and self.turns is not None:
            self.turns.send(asked.number)
        self.given += 1
        return asked

    def _add(self) -> None:
        """Has the sampler choose one more batch."""
        choice, number = self._choice, self._fresh
        choice.fill(number, self.progress.delivery.handed_out, 1)
        forget(self._asked, self.progress.delivery.handed_out)
        if not choice.has(number):
            self.exhausted = True
            raise StopIteration
        if choice.fails(number):
            failure, choice.ended = choice.failure, True
            choice.failure = None
            assert failure is not None
            raise failure
        self._asked[number] = self._made(number)
        self._order.append(number)

    def _made(self, number: int) -> Asked:
        chosen, said = self._choice.chosen[number], self._choice.said
        batched = self._choices.sampled.batch_sampler is not None
        if batched and len(said) > len(chosen.indices):  # a state begins inside this batch
            said = said[len(said) - len(chosen.indices) :]
        place = self.progress.place
        key, passed = self._choices.key(place), self._choices.passed(place)
        return Asked(number, said, [*chosen.indices], [*chosen.draws], batched, key, passed)

    @property
    def _fresh(self) -> int:
        """The number of the batch that is chosen next."""
        return next((n + 1 for n in reversed(self._order) if n >= 0), 0)

    @property
    def full(self) -> bool:
        """Whether as many batches are under way as are allowed."""
        if self.most is None:
            return False
        return self._fresh - self.progress.delivery.handed_out >= self.most

    @property
    def upcoming(self) -> int | None:
        """The number of the batch that comes back next; None: none is under way."""
        if self.arrived == self.given:
            return None
        number = self._order[self.arrived]
        return number if number >= 0 else ~number

    def again(self, asked: Asked) -> None:
        """Has a batch given once more, before those that are not chosen yet."""
        self._asked[asked.number] = asked
        self._order.append(~asked.number)

    def back(self) -> None:
        """Has the batches given again that did not come back, because an exception ended them."""
        self.given = self.arrived


def number_of(index: Any) -> int:
    """A number for a sample's index, which may be any object; the same in every process and run."""
    try:
        number = operator.index(index)
    except TypeError:
        text = index if isinstance(index, str) else repr(index)
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
    return number % 2**63
