"""The engine of a ``Loader``, opened when it is needed, and the passes over the loader."""

from __future__ import annotations

import math
from typing import Any

from headrace._batch import lending, mixing
from headrace._engine import _lib, living, tracing
from headrace._epoch import feed, ranks, states
from headrace._epoch.arrivals import Arrivals, Submitted
from headrace._epoch.position import Pass, Position, Reached
from headrace.dataset import Dataset
from headrace.errors import ArgumentError


class Passes:
    """The base of ``Loader``: everything about engine and order, and nothing about tensors."""

    dataset: Dataset
    batch_size: int
    drop_last: bool
    seed: int
    sampler: Any  # the user's own, or one of ``headrace.samplers``
    _config: dict[str, Any]  # as hr_loader_open takes it, except for what _open adds
    _own_order: bool  # the engine draws the order; otherwise ``sampler`` gives it
    _pad: bool
    _part: tuple[int | None, int | None]  # rank and world size, if the user gave them
    _mixes: bool
    _lender: lending.Lender | None

    def _start(self) -> None:
        """Sets up what changes while the loader lives, and opens its engine."""
        self.position = Position()
        self._steps = self._length = 0  # of an epoch in Headrace's own order
        self._stretches: str | None = None  # checksum of the compressed blocks that the order uses
        self._engine: _lib.Handle | None = None
        self._trace: str | None = None  # where a requested trace is written
        self._opened_for: tuple[int, int, int] = (0, 0, 0)
        # The engine is opened now, so that an impossible transform is refused here and the first
        # batch is begun.
        self._open()

    def _open(self) -> int:
        """The engine's handle; it is opened again if rank, world size or seed have changed."""
        if self._engine is not None:
            self._engine.value  # noqa: B018 - raises if the loader was closed
        wanted = (*ranks.resolve(*self._part), self.seed)
        if self._mixes and not self._own_order:
            mixing.refuse_own_order(wanted[1])
        if self._engine is None or self._opened_for != wanted:
            if self._engine is not None:
                self._engine.close()
            config = dict(self._config, seed=self.seed)
            config["epoch"], position = self.position.place
            if self._own_order:
                config["rank"], config["world_size"] = wanted[:2]
                config["position"] = position
            config |= tracing.config(self._trace)
            self._engine = _lib.opened("hr_loader_open", config, self.dataset.handle)
            living.add(self._engine)
            tracing.opened(self._engine, config.get("trace"))
            # The engine is not closed at exit, because the process frees everything then. Closing
            # would wait for a read that hangs, and raise ClosedError in threads that still iterate.
            self.dataset.lend_arrays(self._engine)
            self._engine.close.atexit = False
            self._opened_for = wanted
            if self._own_order:
                info = self._info()
                self._steps, self._length = info["steps"], info["length"]
                self._stretches = info.get("stretches")
            if self._lender is not None:
                info = self._info()
                self._lender.serve(self._engine, int(info["slot_bytes"]), int(info["prefetch"]))
        return self._engine.value

    def _info(self) -> dict[str, Any]:
        assert self._engine is not None
        return _lib.info("hr_loader_info", self._engine.value)

    @property
    def places(self) -> int:
        """Samples of an epoch in Headrace's own order, all ranks together."""
        return self._length

    @property
    def step_samples(self) -> int:
        """Samples that all ranks together take in a step."""
        return self.batch_size * self._opened_for[1]

    def _shares(self) -> int:
        """Returns how many ranks the order is split between."""
        return 1 if feed.shards_itself(self.sampler) else self._opened_for[1]

    def steps_from(self, position: int) -> int:
        """The batches of an epoch in Headrace's own order that begins behind so many samples."""
        whole, rest = divmod(max(0, self._length - position), self.step_samples)
        return whole + (rest > 0 and not self.drop_last)

    def begin(self) -> tuple[Pass, Arrivals, feed.Feed | None]:
        """Returns the next iteration: its place, its batches, and what submits them if a user's
        sampler chooses the samples. Nothing of the loader changes.

        Raises:
            ArgumentError: the ranks do not agree on the order.
        """
        handle = self._open()
        origin = self.position.upcoming
        epoch, position = origin.epoch, origin.samples
        begun = Pass(origin, self.position.reached, self.step_samples, math.inf)
        arrivals: Arrivals
        chosen = None
        if self._own_order:
            begun.steps = self.steps_from(position)
            step_samples = self.step_samples

            def seek(number: int) -> None:
                _lib.call("hr_seek", handle, epoch, position + number * step_samples)

            arrivals = Arrivals(handle, seek)
        else:
            arrivals = Submitted(handle, epoch, position // self.step_samples)
        if self._lender is not None:
            arrivals.returned = self._lender.returned
        if isinstance(arrivals, Submitted):
            chosen = self._feed(origin, arrivals)
            begun.drawn = chosen.drawn
        if self._part == (None, None):
            ranks.agree(self._agreement(epoch, position, chosen))
        return begun, arrivals, chosen

    def _feed(self, origin: Reached, arrivals: Submitted) -> feed.Feed:
        rank, world_size, _ = self._opened_for
        epoch, position, drawn = origin
        if self._shares() < world_size:  # each rank has its own sampler
            position, rest = divmod(position, world_size)
            if rest:
                raise ArgumentError(
                    f"the state was saved after {position * world_size + rest} samples, not a "
                    f"multiple of world_size={world_size}: each rank's sampler takes as many"
                )
            rank, world_size = 0, 1
        whose = self._whose()
        return feed.Feed(
            self.sampler,
            arrivals.chosen,
            (epoch, position),
            drawn[0] if drawn and drawn[1:] == whose else None,
            whose,
            (rank, world_size),
            self.batch_size,
            self.drop_last,
            (self._config["prefetch"] or 2, self._config["read_ahead"] or self._far()),
            self._pad,
        )

    def _far(self) -> int:
        """How many samples ahead a store wants to know; 0 leaves that to the feed."""
        return feed.SAMPLES_FETCHED if self.dataset.away else 0

    def _whose(self) -> list[int]:
        """Rank and world size that a sampler's order is for; 0 and 1 if it is that of all ranks."""
        rank, world_size, _ = self._opened_for
        return [rank, world_size] if feed.shards_itself(self.sampler) else [0, 1]

    def _agreement(self, epoch: int, position: int, chosen: feed.Feed | None) -> dict[str, Any]:
        """All that the order depends on. Scripts that seed each rank differently fail at this."""
        facts = {**self._order(), "seed": self.seed, "epoch": epoch, "position": position}
        facts["batch_size"], facts["drop_last"] = self.batch_size, self.drop_last
        facts["pad"] = self._pad
        if chosen is not None and not feed.shards_itself(self.sampler):
            facts["first samples of the sampler"] = chosen.head()
        return facts

    def _order(self) -> dict[str, Any]:
        shuffle = self._config["shuffle"] if self._own_order else "sampler"
        return states.order(self.dataset, self._config | {"shuffle": shuffle}, self._stretches)
