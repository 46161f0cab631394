"""Wraps a program's dataset for torch's loader so that its images open without being decoded.

It runs where torch's loader runs it: in the process that iterates, or in worker processes, which
then send what was recorded instead of pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch.utils.data

from headrace._deferred import (
    limits,
    opening,
    pixels,
    recording,
    switches,
    tensor,
    transforming,
)
from headrace._deferred.altering import Altering
from headrace._deferred.arriving import sendable
from headrace._deferred.keeping import Keeping
from headrace._deferred.known import Transforms
from headrace._deferred.parts import leaves_of
from headrace._deferred.recording import Asked, Draws, Recording
from headrace._deferred.source import bytes_of
from headrace._deferred.spoken import Spoken
from headrace._torch.failures import noted
from headrace._torch.place import spread


class Fetching:
    """Records while torch's loader makes a batch, from its first sample to the collated batch.

    Attributes:
        seed: the loader's seed; None: torch's base seed takes its place.
        eager_open: whether images are decoded as they are opened.
        own_limits: the loader's limits; None: it has none.
        workers: how many worker processes the loader has.
        base_seed: torch's, in the process that iterates; workers know it themselves.
        recorded: the recording of the batch that is being made, until it is collated.
        explains, altering: what new recordings get as ``Recording.explains`` and ``altering``.
        keeping: where generators stood before the batches that are under way.
        spoken: the transforms of the program that say what they equal.
    """

    def __init__(
        self,
        seed: int | None,
        eager_open: bool,
        own_limits: dict[str, int] | None,
        workers: int,
        keeps: int,
    ) -> None:
        self.seed, self.eager_open, self.own_limits = seed, eager_open, own_limits
        self.keeping = Keeping(keeps)
        self.workers = workers
        self.base_seed = 0
        self.recorded: Recording | None = None
        self._latest: Recording | None = None
        self.explains = False
        self.altering: Altering | None = None
        self._transforms = Transforms()
        self.spoken = Spoken()

    def __reduce__(self) -> Any:
        told = (self.seed, self.eager_open, self.own_limits, self.workers, self.keeping.most)
        return Fetching, told

    def new(self, passed: int, asked: Asked | None = None) -> Recording:
        """The recording of the next batch."""
        worker = torch.utils.data.get_worker_info()
        base_seed = self.base_seed if worker is None else worker.seed - worker.id
        if asked is not None and asked.key is not None:
            draws = asked.key
        elif asked is None and self.seed is not None:
            draws = Draws(self.seed, passed)
        else:
            draws = Draws(0, spread(base_seed, passed))
        allowed = limits.now(self.own_limits)
        self.recorded = Recording(draws, worker is None, self._transforms, asked, allowed)
        self.recorded.eager_open = self.eager_open
        self.recorded.explains, self.recorded.altering = self.explains, self.altering
        # A loader that a dataset uses inside a worker of another loader has no workers of its own.
        self.recorded.travels = worker is not None and self.workers > 0
        self._latest = self.recorded
        return self.recorded

    def ask_anew(self) -> None:
        """Forgets what transforms were found to be, because a new epoch may have others."""
        self._transforms = Transforms()
        self.spoken.look_anew()
        self.keeping.look_anew()

    def leave(self) -> None:
        """Makes sure that nothing more is recorded, however the making of a batch ended."""
        if self._latest is not None:
            leave(self._latest)


class RecordedDataset(torch.utils.data.Dataset[Any]):
    """A map-style dataset that gets an ``Asked`` in the place of indices."""

    def __init__(self, dataset: Any, fetching: Fetching) -> None:
        self.dataset, self._fetching = dataset, fetching

    def __getitems__(self, asked: Asked) -> Any:
        return self._made(asked, self._batch)

    def __getitem__(self, asked: Asked) -> Any:
        return self._made(asked, self._alone)

    def _made(self, asked: Asked, make: Callable[[Recording, Asked], Any]) -> Any:
        """What the program's code makes for a request.

        With Pillow, which decodes earlier than the engine, the program would have met the error of
        a bad file elsewhere, and may have caught it there. So if a file is bad, everything is made
        again, and Pillow opens that sample's images.
        """
        fetching, keeping = self._fetching, self._fetching.keeping
        keeping.begin(asked, self.dataset)
        fetching.spoken.look(self.dataset)
        every = frozenset(range(len(asked.samples)))
        reasons: dict[Any, None] = {}
        tried = 0
        try:
            while True:
                with Recorder(fetching.new(asked.passed, asked)) as found:
                    try:
                        made = make(found, asked)
                    except Exception:
                        last = asked.eager == every or not found.opened or found.eager_open
                        if last or not (found.failed - asked.eager or _has_bad_file(found)):
                            raise
                    else:
                        if found.begun and not found.failed and asked.eager != every:
                            _look_at_what_was_dropped(found)
                        if not found.failed - asked.eager:
                            found.reasons = reasons | found.reasons
                            return made
                tried += 1
                reasons |= found.reasons
                # The second try opens the failed samples with Pillow, and the third opens all: many
                # bad files would take many tries. All are opened, too, if the code raised an error
                # and no new bad file is known: it may then belong to an earlier sample.
                wanted = asked.eager | found.failed
                asked = asked._replace(
                    eager=wanted if tried == 1 and wanted != asked.eager else every
                )
                keeping.again(asked.number)
        except BaseException:
            keeping.end(asked.number)
            raise

    def _batch(self, found: Recording, asked: Asked) -> Any:
        many = getattr(self.dataset, "__getitems__", None)
        if many:
            return self._many(found, many, asked)
        samples = []
        for place, told in enumerate(zip(asked.indices, asked.samples, asked.draws, strict=True)):
            samples.append(self._sample(found, *told, place in asked.eager))
            if found.failed and found.failed - asked.eager:
                break  # all samples are made anew
        return samples

    def _alone(self, found: Recording, asked: Asked) -> Any:
        (number,), (draw,) = asked.samples, asked.draws
        return self._sample(found, asked.indices, number, draw, 0 in asked.eager)

    def _sample(self, found: Recording, index: Any, number: int, draw: int, eager: bool) -> Any:
        found.begin(number, draw, eager)
        try:
            sample = self.dataset[index]
            _make_the_rest_of_what_was_drawn(found)
            settled = found.settle()
        except BaseException as failure:
            found.settle()
            if isinstance(failure, OSError):
                noted(failure, f"index {index!r} of the dataset")
            raise
        if not settled:
            found.failed.add(found.place)
        return sample

    def _many(self, found: Recording, many: Callable[[Any], Any], asked: Asked) -> Any:
        """The samples of a dataset that makes a batch at once. Their draws have the same key."""
        first, draw = (asked.samples[0], asked.draws[0]) if asked.draws else (0, 0)
        found.begin(first, draw, bool(asked.eager))
        try:
            samples = many(asked.indices)
            _make_the_rest_of_what_was_drawn(found)
            settled = found.settle()
        finally:
            found.settle()
        if not settled:
            found.failed.add(found.place)
        return samples


def _look_at_what_was_dropped(found: Recording) -> None:
    """Finds the bad files among those that the program had decoded and kept nothing of.

    Nothing else would find them: a program that only looks whether its files are whole keeps none.
    """
    for source, place in found.let_go():
        try:
            pixels.read_by_pillow(bytes_of(source))
        except Exception:
            found.failed.add(place)


def _has_bad_file(found: Recording) -> bool:
    """Whether an image that is still to be decoded is bad, so that Pillow would have raised."""
    alive = [value for value in found.pending if isinstance(value, tensor.PendingTensor)]
    chains = [part.chain for value in alive for part in leaves_of(value.parts)]
    for known in found.made:
        if (image := known()) is not None and image.chain is not None:
            chains.append(image.chain)
    for source in {id(chain.source): chain.source for chain in chains}.values():
        try:
            pixels.read_by_pillow(bytes_of(source))
        except Exception:
            return True
    return False


def _make_the_rest_of_what_was_drawn(found: Recording) -> None:
    """Makes the rest of a sample with torchvision's draws if torchvision had to draw for it.

    That happens in a process without the engine, when code needs pixels at once. All images of the
    sample that share those draws must then be made of them. Other samples stay the engine's,
    because the draws of one sample change no draws of another.
    """
    if not found.repeated or all(repeated.before is None for repeated in found.repeated):
        return
    for image in found.images:
        if image.chain is not None and image.chain.drawn_in_python:
            image.materialise()
    for value in found.pending:
        tensor.make(value, lambda part: part.chain.drawn_in_python)


class RecordedStream(torch.utils.data.IterableDataset[Any]):
    """An iterable dataset. Its samples are numbered in the order in which they come."""

    def __init__(self, dataset: Any, fetching: Fetching) -> None:
        self.dataset, self._fetching = dataset, fetching
        self._passed = -1

    def __str__(self) -> str:
        """The dataset's own text, which torch's warnings show."""
        return str(self.dataset)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A context in which the passes that begin do not count."""
        passed = self._passed
        try:
            yield
        finally:
            self._passed = passed

    def __iter__(self) -> Iterator[Any]:
        worker, fetching = torch.utils.data.get_worker_info(), self._fetching
        self._passed += 1
        fetching.spoken.look_anew()
        fetching.spoken.look(self.dataset)
        number, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        samples = iter(self.dataset)
        mine: Recording | None = None
        while True:
            # A pass that ended or failed may have left a recording that no batch took. It has the
            # draws of that pass, so this one needs a new recording.
            if mine is None or mine is not fetching.recorded:
                mine = fetching.new(self._passed)
            with Recorder(mine) as found:
                found.begin(number, 0)
                try:
                    sample = next(samples)
                    _make_the_rest_of_what_was_drawn(found)
                except StopIteration:
                    return
                except OSError as failure:
                    if found.foreign:
                        noted(failure, found.foreign[-1][1])
                    raise
                finally:
                    found.settle()
                    found.begun.clear()  # a stream makes no sample again
            yield sample
            number += step


class WorkerStart:
    """Calls the program's ``worker_init_fn``, after the worker got the program's own dataset.

    So ``get_worker_info().dataset`` is what it is with torch's loader.
    """

    def __init__(self, function: Callable[[int], None] | None) -> None:
        self._function = function

    def __call__(self, number: int) -> None:
        worker: Any = torch.utils.data.get_worker_info()
        # Not by its own __setattr__, which refuses, because programs are not to change it.
        object.__setattr__(worker, "dataset", worker.dataset.dataset)
        if self._function is not None:
            self._function(number)


class Recorder:
    """A context in which this thread records."""

    def __init__(self, found: Recording) -> None:
        self._found = found

    def __enter__(self) -> Recording:
        opening.switch()
        transforming.switch()
        switches.on(self._found)
        recording.change(self._found)
        return self._found

    def __exit__(self, kind: Any, failure: BaseException | None, trace: Any) -> None:
        leave(self._found)
        if self._found.travels and isinstance(failure, Exception):
            sent = sendable(failure)
            if sent is not failure:
                raise sent


def leave(found: Recording) -> None:
    """Ends a recording in this thread. It may be called again."""
    recording.change(found.before)
    switches.off(found)
