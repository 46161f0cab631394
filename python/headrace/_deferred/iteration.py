"""Runs torch's loader over a dataset whose images the engine makes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import torch.utils.data

from headrace._deferred import curing, recording
from headrace._deferred.altering import Altering
from headrace._deferred.arriving import Recorded
from headrace._deferred.choosing import Choices, Rows
from headrace._deferred.collating import Collating
from headrace._deferred.counting import Counts
from headrace._deferred.curing import ARRAY, ELSEWHERE, cure
from headrace._deferred.dataset import Fetching, RecordedDataset, RecordedStream, WorkerStart
from headrace._deferred.drawn import go_back, states
from headrace._deferred.epoch import Epoch
from headrace._deferred.leftover import Pillows
from headrace._deferred.making import Batch, Means, images_of
from headrace._deferred.memory import Blocks
from headrace._deferred.recording import Asked, Reason
from headrace._engine import living, measured, tracing
from headrace._engine.decoder import Decoder
from headrace._torch.kind import TorchDataLoader
from headrace._torch.notices import Notices, may_have_images
from headrace._torch.record import Record
from headrace._torch.states import State
from headrace.errors import UnsupportedError


class Front(Protocol):
    """What is needed of the ``DataLoader`` in front, besides torch's attributes."""

    strict: bool
    eager_open: bool
    mode: str
    limits: dict[str, int] | None
    ahead: int
    notices: Notices
    state: State

    def __getattr__(self, name: str) -> Any: ...


class Deferring:
    """The loader behind a loader: torch's own, over a dataset that records.

    Its arguments are those of the loader in front, so that samplers, generators, worker processes,
    seeds and errors are torch's. It does not refer to the loader in front, which would be a cycle.

    Args:
        rows: gives the numbers of samples by their indices, if the samples are known; else None.

    Attributes:
        choices: what the sampler chooses; None for a stream.
        ahead: how many further batches the program's code makes before one is handed out.
        timeout: in seconds; 0: none.
        pillows: the images that the engine does not decode.
        counts: what was handed out.
    """

    def __init__(self, loader: Front, rows: Rows | None) -> None:
        self._strict, self._notices, self.ahead = loader.strict, loader.notices, loader.ahead
        self._state, self._dataset = loader.state, loader.dataset
        self._record: Record = loader.record
        self._fetching, self._collate = (
            Fetching(
                *(loader.state.seed, loader.eager_open, loader.limits, loader.num_workers),
                keeps=_under_way(loader),
            ),
            loader.collate_fn,
        )
        self._mode, self.timeout = loader.mode, loader.timeout
        arguments = _arguments(loader, _collating(loader, self._fetching))
        self.choices: Choices | None = None
        dataset: Any
        if isinstance(loader.dataset, torch.utils.data.IterableDataset):
            dataset = RecordedStream(loader.dataset, self._fetching)
            arguments |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
        else:
            dataset = RecordedDataset(loader.dataset, self._fetching)
            self.choices = Choices(loader, rows)
            if loader.batch_sampler is not None:
                arguments |= {"batch_sampler": self.choices}
            else:
                arguments |= {"sampler": self.choices, "batch_size": None}
        self._inner = _Inner(dataset, **arguments)
        self._threads: Decoder | None = None
        self._blocks, self.pillows, self.counts = Blocks(), Pillows(), Counts()
        self._number: int | None = None  # among the loaders of the process, from the first epoch on
        self._trace: str | None = None
        self._pins = False  # whether torch's iterator pins batches
        self._has_opened = False  # whether the program's code has opened images
        self._told = 0  # Pillow's images before this epoch; -1: the epoch's warning was given
        self.refused = ""  # why the engine does not read the dataset's array itself

    def follow(self, loader: Any) -> None:
        """Takes over what was set on the loader in front, as torch's loader does at each ``iter``.

        Persistent workers that run already keep what they began with.
        """
        inner, fetching = self._inner, self._fetching
        inner.num_workers = loader.num_workers
        if inner.persistent_workers and inner.num_workers and inner._iterator is not None:
            return
        self._strict, self._mode = loader.strict, loader.mode
        self.ahead, self.timeout = loader.ahead, loader.timeout
        fetching.seed, fetching.eager_open = loader.state.seed, loader.eager_open
        fetching.own_limits, fetching.workers = loader.limits, loader.num_workers
        fetching.keeping.most = _under_way(loader)
        if loader.collate_fn is not self._collate:
            self._collate = loader.collate_fn
            inner.collate_fn = _collating(loader, fetching)
        for name, value in _arguments(loader, inner.collate_fn).items():
            if getattr(inner, name) is not value:  # some attributes refuse to be set
                setattr(inner, name, value)

    def iterate(self, said: int | None = None) -> Epoch:
        """One epoch.

        Args:
            said: how many samples a stream has by the ``len()`` of the loader in front, if that was
                called; torch's iterator warns if there are more.
        """
        if self._number is None:
            self._number = living.add(self, Deferring.stats)
        choices, inner = self.choices, self._inner
        self._fetching.ask_anew()
        self._told = self.pillows.images
        if choices is None:
            inner._IterableDataset_len_called = said  # type: ignore[assignment]  # torch's own
            batches = iter(inner)
            self._fetching.base_seed = getattr(batches, "_base_seed", 0)
            return Epoch(self, batches, None, None)
        choices.begin()
        own = inner.generator
        if choices.base_seed is not None:
            # The base seed of a state is not drawn again. So a program that restored torch's
            # generators as well goes on as if it had not been stopped.
            inner.generator = torch.Generator()
            inner.generator.manual_seed(choices.base_seed)
        try:
            batches = iter(inner)
        finally:
            inner.generator = own
        choices.began(getattr(batches, "_base_seed", 0))
        self._pins = getattr(batches, "_pin_memory", False)
        latest, choices.latest = choices.latest, None  # its cycle would keep the dataset
        return Epoch(self, batches, latest, self._state.standing)

    @property
    def persistent(self) -> Any:
        """torch's iterator if its workers persist; else None."""
        return self._inner._iterator

    @persistent.setter
    def persistent(self, iterator: Any) -> None:
        self._inner._iterator = iterator

    @property
    def _batches(self) -> bool:
        """Whether the sampler gives torch's loader whole batches."""
        return self._inner.batch_sampler is not None

    @property
    def workers(self) -> int:
        """How many worker processes run the dataset's code."""
        return self._inner.num_workers

    @property
    def under_way(self) -> int:
        """How many batches may be under way, which means not handed out yet."""
        return self._fetching.keeping.most

    def fetched(self, batches: Iterator[Any]) -> Recorded:
        """The next batch of torch's loader."""
        try:
            recorded: Recorded = next(batches)
        finally:
            self._fetching.leave()
        return recorded

    def made_here(self, asked: Asked) -> Batch:
        """A batch made in this process."""
        dataset: Any = self._inner.dataset
        try:
            samples = dataset.__getitems__(asked) if asked.batched else dataset[asked]
            recorded = self._inner.collate_fn(samples)
        finally:
            self._fetching.leave()
        return self.begun(recorded.pin_memory() if self._pins else recorded)

    def sample(
        self, index: Any, altering: Altering | None = None
    ) -> tuple[Any, list[Reason], bool]:
        """One sample as the program's code makes it, and why that needed pixels.

        The last value is whether the code opened images.

        Args:
            altering: which line gets other pixels than the image's.
        """
        dataset: Any = self._inner.dataset
        fetching = self._fetching
        fetching.explains, fetching.altering = True, altering
        try:
            if isinstance(dataset, RecordedStream):
                with dataset.aside():
                    made = next(iter(dataset), None)
            elif self._batches and getattr(self._dataset, "__getitems__", None):
                # Batches of such a dataset are made by that method, which may do other things.
                made = dataset.__getitems__(Asked(0, [index], [0], [0], True, None, 0))
                made = made[0] if isinstance(made, list | tuple) and len(made) == 1 else made
            else:
                made = dataset[Asked(0, index, [0], [0], False, None, 0)]
        finally:
            fetching.leave()
            fetching.explains, fetching.altering = False, None
        found, fetching.recorded = fetching.recorded, None
        if found is None:
            return made, [], False
        return made, list(found.reasons), found.opened

    def unseen(self, opened: bool) -> str:
        """The cause that is given if there are images, but nothing of their making was recorded."""
        if self.refused and not opened:
            return self.refused
        kind = type(self._dataset).__name__
        if opened:
            return f"{kind} {ELSEWHERE}"
        return f"{kind} opens no image through Pillow or torchvision"

    def cure(self, cause: str, opened: bool) -> str:
        """What would make native what Python does for a cause, in a sentence or more."""
        return ARRAY if cause and cause == self.refused else cure(cause, opened)

    def done(self, number: int) -> None:
        """Notes that a batch has its values, so that nothing of it is made again."""
        self._fetching.keeping.forget(number)

    def collated(self, samples: Any, tries: bool) -> tuple[Any, bool]:
        """Collates samples that have their values, for a collate function that needs these.

        Args:
            tries: whether the samples can be made again.

        Returns:
            the batch; and whether the function met a file that cannot be decoded, so that there is
            no batch.
        """
        if not tries:
            return self._collate(samples), False
        before, failed = states(), recording.failures()
        try:
            made = self._collate(samples)
        except Exception:
            if recording.failures() == failed:
                raise
        else:
            if recording.failures() == failed:
                return made, False
        go_back(before)
        return None, True

    def begun(self, recorded: Recorded) -> Batch:
        """A batch as the program's code left it, whose values the engine begins to make."""
        self._look_at(recorded)
        for path, why in recorded.foreign:
            self.pillows.count(path, why)
        if self._threads is None and (recorded.pending or images_of(recorded)):
            self._threads = Decoder(0)
            tracing.opened(self._threads.handle, tracing.config(self._trace).get("trace"))
        means = Means(self._threads, self._blocks, self.pillows, self._mode, self._strict)
        return Batch(recorded, means)

    def stats(self) -> dict[str, Any]:
        """As ``Loader.stats``."""
        threads = self._threads
        engine = measured.nothing() if threads is None else living.of_handle(threads.handle)
        return self.counts.stats(engine)

    def trace(self, path: str | None) -> str | None:
        """Begins to write a trace, or ends it with None; returns the file's name, if it began."""
        self._trace = path
        if self._threads is None:
            return None
        if path is None:
            tracing.end(self._threads.handle)
            return None
        return tracing.begin(self._threads.handle, path)

    def note(self, kind: int, batch: Batch, began: int) -> None:
        """Adds to the trace, if one is written, what was done with a batch since ``began``."""
        if began and self._threads is not None:
            tracing.note(kind, self._threads.handle.value, 0, batch.number, began)

    def tell(self) -> None:
        """Warns once an epoch if Pillow decodes some images."""
        if self.pillows.images > self._told >= 0:
            self._told = -1
            said = f"{self.pillows.news}. {curing.of_a_file(self.pillows.latest)}".removesuffix(
                ". "
            )
            self._notices.say(said, stacklevel=0, topic=f"{self.pillows.files} files for Pillow")

    def _look_at(self, recorded: Recorded) -> None:
        """Warns once if images are made in Python, and says where first.

        Raises:
            UnsupportedError: images are made in Python, and the loader is strict.
        """
        native = bool(recorded.pending or recorded.engine_made or images_of(recorded))
        self._has_opened |= recorded.opened
        if recorded.reasons:
            first, *others = recorded.reasons
            what = f"{first.text} ({first.place})"
            more = f"; explain() lists {len(others)} more" if others else ""
            mended = self.cure(first.text, recorded.opened)
        # Not if images were opened earlier: the dataset may have kept them for this batch.
        elif not self._has_opened and may_have_images(self._dataset):
            what, more = self.unseen(opened=False), ""
            mended = self.cure(what, opened=False)
        else:
            self._record.recorded(native, "")
            return
        self._record.recorded(native, what, mended)
        if self._strict:
            raise UnsupportedError(f"strict=True, and {what}{more}. {mended}")
        foreign = {why for _, why in recorded.foreign}
        if foreign and {reason.text for reason in recorded.reasons} <= foreign:
            return  # `tell` warns of these, and counts them
        self._notices.say(
            f"{what}, so this is done in Python, one image at a time{more} (strict=True makes this "
            f"an error). {mended}",
            stacklevel=0,
            topic="in Python",
        )

    def close(self) -> None:
        """Ends the threads and the persistent workers, and gives up the batches under way."""
        self.persistent = None
        if self._number is not None:
            living.forget(self._number)
            self._number = None
        if self._threads is not None:
            tracing.close(self._threads.handle)
            self._threads.close()
            self._threads = None
        self.pillows.close()
        self._blocks.clear()


def _under_way(loader: Any) -> int:
    """How many batches may be under way (not handed out yet), the next one among them."""
    return int((loader.prefetch_factor or 0) * loader.num_workers + loader.ahead + 2)


def _collating(loader: Any, fetching: Fetching) -> Collating:
    return Collating(loader.collate_fn, fetching, batches=loader.batch_size is not None)


def _arguments(loader: Any, collate: Any) -> dict[str, Any]:
    """The arguments of the loader behind, except its order. ``in_order=False`` has no effect."""
    arguments: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "collate_fn": collate,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "multiprocessing_context": loader.multiprocessing_context,
        "generator": loader.generator,
        "prefetch_factor": loader.prefetch_factor,
        "persistent_workers": loader.persistent_workers,
    }
    if loader.num_workers:
        arguments["worker_init_fn"] = WorkerStart(loader.worker_init_fn)
    return arguments


class _Inner(TorchDataLoader[Any]):
    def check_worker_number_rationality(self) -> None:
        """Does nothing, because the loader in front has warned already."""
