"""What a loader's sampler chooses, as its dataset is asked for it."""

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
from headrace._torch.choosing import Choice
from headrace._torch.draws import AnyDraws
from headrace._torch.generators import Tracker
from headrace._torch.place import Place, Progress, spread
from headrace._torch.states import State

_KEPT = (list, tuple, range, np.ndarray, torch.Tensor)  # a dataset gets them as they are

Rows = Callable[[Iterable[Any]], list[int]]


class Sampled:
    """What chooses samples, as ``_torch.iterated.Sampled``.

    torch's loader draws the base seed, and begins twice where it has workers: here both look done.
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
        state: of the loader in front: its sampler, its seed, and where it stands.
        place: where the next epoch begins, and ``resumed``, the state's place that this is.
        latest: the pass that was begun last.
        base_seed: torch's, which workers have that persist; a state may bring another.
    """

    def __init__(self, loader: Any, rows: Rows | None) -> None:
        self.state: State = loader.state
        self.sampled = Sampled(loader)
        self._persistent: bool = loader.persistent_workers
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
        if self.place.base_seed is not None:
            self.base_seed = self.place.base_seed
        elif not self._persistent:
            self.base_seed = None

    def began(self, base_seed: int) -> None:
        """Notes torch's base seed, once its loader drew one."""
        if self.base_seed is None:
            self.base_seed = base_seed
        assert self.latest is not None
        self.latest.progress.place.base_seed = self.base_seed

    def key(self, place: Place) -> Draws | None:
        """What an epoch's draws are keyed by; None: torch's base seed, which is not drawn yet."""
        if self.state.seed is not None:
            return Draws(self.state.seed, place.epoch)
        if place.base_seed is None:
            return None
        return Draws(0, spread(place.base_seed, self.passed(place)))

    def passed(self, place: Place) -> int:
        """Epochs that a base seed serves before."""
        return place.epoch if self._persistent else 0

    # ---- samples by number: _torch.iterated.Numbered ---------------------------------------

    def rows(self, indices: Iterable[Any]) -> list[int]:
        if self._rows is not None:
            return self._rows(indices)
        return [*map(number_of, indices)]

    def draws(self) -> AnyDraws:
        return AnyDraws()


class _Kept(Choice):
    """A choice that keeps the indices as the sampler said them."""

    def __init__(self, choices: Choices, place: Place, resumed: bool) -> None:
        self.said: Any = None
        known = place.base_seed
        super().__init__(choices.sampled, choices, place, resumed)
        self.progress.place.base_seed = known

    def _next_rows(self, indices: Iterator[Any]) -> list[int]:
        self.said = next(indices)
        if self._loader.batch_sampler is None:
            return self._rows([self.said])
        if not isinstance(self.said, _KEPT):  # it may be read but once
            self.said = list(self.said)
        elif isinstance(self.said, np.ndarray):  # a sampler may fill the same one again
            self.said = self.said.copy()
        return self._rows(self.said)


class Pass(Iterator[Asked]):
    """One pass of torch's loader over a sampler.

    Attributes:
        progress: where it began, and what was handed out of it.
        given: how many batches torch's loader has asked for; some of them again.
        arrived: how many of those came back.
        exhausted: the sampler has no more.
        turns: which worker process has the batch that is given next; None: there are none.
        most: how many batches may be under way, from the first that was not handed out on; None:
            as many as torch's loader asks for.
        withheld: how often torch's loader asked for more than those, and was told that there are
            none.
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
        # The batches by their numbers, and in the order in which they were or will be given: n, or
        # ~n where it is given again. What is lost in between by an exception is found anew.
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
        """Has the sampler choose one more."""
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
        if batched and len(said) > len(chosen.indices):  # a state has left but the end of it
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
        """Whether as many batches are under way as may be."""
        if self.most is None:
            return False
        return self._fresh - self.progress.delivery.handed_out >= self.most

    @property
    def upcoming(self) -> int | None:
        """The number of the batch that comes back next; None where none was given."""
        if self.arrived == self.given:
            return None
        number = self._order[self.arrived]
        return number if number >= 0 else ~number

    def again(self, asked: Asked) -> None:
        """Has a batch come once more, before those that were not chosen yet."""
        self._asked[asked.number] = asked
        self._order.append(~asked.number)

    def back(self) -> None:
        """Has what did not come back be given once more: an exception from outside ended it."""
        self.given = self.arrived


def number_of(index: Any) -> int:
    """A number of a sample, whatever its index is: the same in every process and run."""
    try:
        number = operator.index(index)
    except TypeError:
        text = index if isinstance(index, str) else repr(index)
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        number = int.from_bytes(digest, "little")
    return number % 2**63
