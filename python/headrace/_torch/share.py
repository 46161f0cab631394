"""Makes one worker's part of a rank's batches, for a DataLoader that has worker processes.

A DataLoader takes one batch from each worker in turn. So worker w of W makes batches w, w + W,
w + 2 W, ... of its rank, and together these are what one process would have made.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections.abc import Mapping
from multiprocessing import context, reduction
from typing import Any

from headrace import samplers
from headrace._batch import mixing
from headrace._epoch import ranks
from headrace._epoch.delivery import Delivery
from headrace._epoch.epoch import Batches, Source, check_is_latest
from headrace._epoch.position import Pass, Position
from headrace.errors import ArgumentError, UnsupportedError
from headrace.loader import Loader

MAX_WORKERS = 1024


class Epochs:
    """A number for each worker, in memory that this process shares with its workers.

    A worker gets a copy of the parent's dataset, and there are new workers for each epoch. What
    they write here outlives them. The memory is a memfd, which needs no ``/dev/shm``; if that is
    refused, it is a file without a name.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        if descriptor is None:
            descriptor = _nameless()
            os.ftruncate(descriptor, 8 * MAX_WORKERS)
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        self._numbers = memoryview(mmap.mmap(descriptor, 8 * MAX_WORKERS)).cast("q")

    def __getitem__(self, worker: int) -> int:
        return self._numbers[worker]

    def __setitem__(self, worker: int, number: int) -> None:
        self._numbers[worker] = number

    def fill(self, number: int) -> None:
        for worker in range(MAX_WORKERS):
            self._numbers[worker] = number

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return _copied, (self._numbers.tolist(),)
        return _shared, (reduction.DupFd(self._descriptor),)


def _nameless() -> int:
    try:
        return os.memfd_create("headrace-epochs")
    except OSError:  # of an old kernel or a sandbox
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


def _copied(numbers: list[int]) -> Epochs:
    made = Epochs()
    for worker, number in enumerate(numbers):
        made[worker] = number
    return made


def _shared(duplicate: Any) -> Epochs:
    return Epochs(duplicate.detach())


class Share:
    """The batches of one worker of several. It is iterated, saved and loaded like a ``Loader``."""

    def __init__(self, worker: int, workers: int, arguments: Mapping[str, Any]) -> None:
        """Takes the arguments of ``Loader``, all by name.

        Raises:
            UnsupportedError: the order cannot be split without knowing all of it, or there are more
                than 1,024 workers.
        """
        if workers > MAX_WORKERS:
            raise UnsupportedError(
                f"num_workers={workers}: an IterableDataset has at most {MAX_WORKERS} workers"
            )
        sampler = arguments.get("sampler")
        known = samplers.Subset | samplers.Weighted | samplers.ClassBalanced | samplers.Mix
        # With these, a sample's position does not depend on the size of a step. With Repeated it
        # does.
        unknown = sampler is not None and not isinstance(sampler, known)
        for name, given in (("sampler", unknown), ("pad", arguments.get("pad"))):
            if given:
                raise UnsupportedError(
                    f"{name}= does not work in worker processes of a DataLoader; use num_workers=0"
                )
        if mixing.mixes_any(arguments.get("transform")):
            raise UnsupportedError(
                "MixUp and CutMix do not work in worker processes of a DataLoader, because the "
                "first image of a batch is mixed with one of another worker's; use num_workers=0"
            )
        part = ranks.resolve(arguments.get("rank"), arguments.get("world_size"))
        rank, world_size = part
        own = dict(arguments, rank=rank, world_size=world_size)
        if own.get("num_threads") is None:
            own["num_threads"] = max(1, ranks.allowed_threads() // workers)
        # A round is one batch of each worker of each rank. In whole rounds, this worker's batches
        # are those of one rank among ranks times workers.
        among = {"rank": worker * world_size + rank, "world_size": world_size * workers}
        self._rounds = Loader(**dict(own, **among, drop_last=True))
        self._rest_of: Loader | None = None
        self._arguments, self._function = own, own.get("batch_fn")
        self._step_samples = self._rounds.batch_size * world_size
        self._round_samples = self._step_samples * workers
        samples = self._rounds.places
        self._whole_rounds = samples // self._round_samples
        steps = samples // self._step_samples
        if samples % self._step_samples and not own.get("drop_last", False):
            steps += 1
        # Whole rounds leave over fewer batches than there are workers.
        self._has_rest = worker < steps - self._whole_rounds * workers
        self._rest_begins = self._whole_rounds * self._round_samples + worker * self._step_samples
        self.position = Position()

    def __len__(self) -> int:
        return self._whole_rounds + self._has_rest

    def __iter__(self) -> Batches:
        return Batches(_ShareOfAnEpoch(self), self._function)

    def begin(self) -> tuple[Pass, int]:
        """The next iteration, and how many rounds lie before it. This changes nothing.

        Raises:
            ArgumentError: the place of a state is not between two rounds.
        """
        origin = self.position.upcoming
        rounds, rest = divmod(origin.samples, self._round_samples)
        if rest:
            raise ArgumentError(
                f"the state was saved at sample {origin.samples} of its epoch, which is not a "
                f"whole number of rounds of {self._round_samples} samples (batch_size * world_size "
                "* num_workers)"
            )
        left = max(0, len(self) - rounds)
        return Pass(origin, self.position.reached, self._round_samples, left), rounds

    def source_of(self, epoch: int, batch: int) -> tuple[Source, int]:
        """What makes a batch of an epoch and those after it, and the number of its first batch."""
        if batch < self._whole_rounds:
            self._rounds.position.go_to(epoch, batch * self._round_samples)
            return self._rounds.source(), batch
        if self._rest_of is None:
            self._rest_of = Loader(**self._arguments)
        self._rest_of.seed = self._rounds.seed
        self._rest_of.position.go_to(epoch, self._rest_begins)
        return self._rest_of.source(), self._whole_rounds

    def is_rest(self, batch: int) -> bool:
        """Whether a batch is one of those that whole rounds leave over."""
        return batch >= self._whole_rounds

    def set_epoch(self, epoch: int) -> None:
        self.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        epoch, samples = self.position.place
        return {**self._rounds.state_dict(), "epoch": epoch, "position": samples}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._rounds.load_state_dict(state)
        self.position.go_to(*self._rounds.position.place)

    def close(self) -> None:
        self._rounds.close()
        if self._rest_of is not None:
            self._rest_of.close()


class _ShareOfAnEpoch:
    """The batches of one iteration over a ``Share``; it is an ``epoch.Source``."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self._pass: Pass | None = None  # None until the iteration has begun
        self._rounds = 0  # how many rounds lie before it
        # The source of whole rounds (False) and of the rest (True), each with its first batch.
        self._sources: dict[bool, tuple[Source, int]] = {}

    def begin(self) -> Delivery:
        share, latest = self._share, self._share.position.latest
        if self._pass is None:
            begun, rounds = share.begin()
            # No exception comes between these.
            self._rounds = rounds
            self._pass = begun
            share.position.latest = begun
            return begun.delivery
        check_is_latest(self._pass, latest)
        return self._pass.delivery

    def has(self, number: int) -> bool:
        assert self._pass is not None
        return number < self._pass.steps

    def ready(self, number: int) -> bool:
        batch = self._rounds + number
        source = self._sources.get(self._share.is_rest(batch))
        return source is not None and source[0].ready(batch - source[1])

    def note(self, kind: int, number: int, began: int) -> None:
        batch = self._rounds + number
        source, first = self._sources[self._share.is_rest(batch)]
        source.note(kind, batch - first, began)

    def make(self, number: int) -> Any:
        assert self._pass is not None
        batch = self._rounds + number
        rest = self._share.is_rest(batch)
        if rest not in self._sources:
            first = batch if rest else self._rounds
            self._sources[rest] = self._share.source_of(self._pass.origin.epoch, first)
        source, first = self._sources[rest]
        source.begin()
        return source.make(batch - first)
