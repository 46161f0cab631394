"""Iterates over an epoch whose images are deferred, and keeps some batches under way."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import torch
from torch.utils.data._utils.pin_memory import pin_memory

from headrace._deferred.arriving import Recorded
from headrace._deferred.choosing import Pass
from headrace._deferred.counting import Counts, samples_of
from headrace._deferred.keeping import Turns
from headrace._deferred.making import Batch
from headrace._deferred.recording import Asked
from headrace._engine import abi, tracing
from headrace._epoch.arrivals import forget
from headrace._epoch.delivery import Delivery, is_of_the_batch
from headrace._torch.failures import noted
from headrace._torch.place import Place, Standing
from headrace._torch.pool import TimedOut


class Behind(Protocol):
    """What an epoch needs of the loader behind it; ``iteration.Deferring`` is one."""

    ahead: int
    timeout: float
    counts: Counts

    @property
    def workers(self) -> int:
        """How many worker processes run the dataset's code."""

    @property
    def under_way(self) -> int:
        """How many batches may be under way, which means not handed out yet."""

    def fetched(self, batches: Iterator[Any]) -> Recorded:
        """The next batch of torch's loader."""

    def begun(self, recorded: Recorded) -> Batch:
        """A batch as the program's code left it, whose values the engine has begun to make."""

    def made_here(self, asked: Asked) -> Batch:
        """A batch made in this process."""

    def done(self, number: int) -> None:
        """Notes that a batch has its values."""

    def collated(self, samples: Any, tries: bool) -> tuple[Any, bool]:
        """Collates samples that have their values; also returns whether a file is bad."""

    def tell(self) -> None:
        """Warns, once a batch came, if there is something to warn of."""

    def note(self, kind: int, batch: Batch, began: int) -> None:
        """Adds to the trace what was done with a batch."""


class Epoch(Iterator[Any]):
    """The iterator of a ``DataLoader`` whose images are deferred.

    An exception from outside that ends a call loses no batch (``_epoch.delivery``).

    Args:
        behind: the loader behind it.
        batches: torch's iterator, which gives ``Recorded``.
        chosen: what its sampler chooses; None for a stream.
        standing: where the loader in front stands; None for a stream, which cannot be resumed.
    """

    def __init__(
        self,
        behind: Behind,
        batches: Iterator[Any],
        chosen: Pass | None,
        standing: Standing | None,
    ) -> None:
        # While this thread waits for a batch, other threads may ask for one as well.
        self._turn = threading.RLock()
        self._loader, self._batches, self._pass = behind, batches, chosen
        self._standing = standing
        self._resumed = None if standing is None else standing.resume
        self._delivery = Delivery() if chosen is None else chosen.progress.delivery
        self._received: Recorded | None = None  # a batch that is not begun yet
        self._begun: dict[int, Batch | Exception] = {}
        self._count = 0  # the number of the next batch to begin
        # 0 until an image was deferred, so that the program's code runs when torch's loader would
        # run it.
        self._ahead = 0
        self._ended = False
        turns = getattr(batches, "_worker_queue_idx_cycle", None)  # not public in torch
        if turns is not None and chosen is not None:
            chosen.turns = Turns(turns)
            batches._worker_queue_idx_cycle = chosen.turns  # type: ignore[attr-defined]
        # torch's loader has no public way to ask for a batch out of its order.
        self._put = getattr(batches, "_try_put_index", None)
        if chosen is not None and self._put is not None and hasattr(batches, "_tasks_outstanding"):
            chosen.most = behind.under_way

    def __iter__(self) -> Epoch:
        return self

    @property
    def _workers(self) -> Any:
        """The worker processes of torch's iterator, which programs look at."""
        return self._batches._workers  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]

    def __next__(self) -> Any:
        thread, reserved = threading.get_ident(), self._delivery.reserved
        # A stream has no place, so what it notes goes to a standing that nobody reads.
        standing = self._standing or Standing()
        latest = None if self._pass is None else self._pass.progress
        try:
            with self._turn:
                data = self._counted(thread)
            resume, epoch = self._behind(standing)
        except Exception as error:
            kept = self._begun.get(reserved.get(thread, -1)) is error
            if not (kept or is_of_the_batch(error)) or thread not in reserved:
                raise
            resume, epoch = self._behind(standing)
            number = reserved[thread]
            standing.resume = resume
            standing.next_epoch = epoch
            standing.latest = latest
            del reserved[thread]
            # The error's traceback refers to this frame. If the error were kept, it would keep this
            # object and torch's workers, until a garbage collection, in which torch would wait for
            # them to end (dataloader.py, _shutdown_workers).
            if number in self._begun:
                del self._begun[number]
            raise
        # No exception comes between these.
        standing.resume = resume
        standing.next_epoch = epoch
        standing.latest = latest
        del reserved[thread]
        return data

    def _counted(self, thread: int) -> Any:
        """As ``_next``, and notes the batch in statistics and trace."""
        counts, noted_from = self._loader.counts, tracing.now()
        began = counts.began()
        data, made = self._next(thread)
        counts.handed_out(samples_of(data, made.asked, made.taken), began)
        self._loader.note(abi.SPAN_NEXT, made, noted_from)
        return data

    def _next(self, thread: int) -> tuple[Any, Batch]:
        """The data of the batch that is a thread's next one."""
        number = self._delivery.upcoming(thread)
        forget(self._begun, self._delivery.handed_out)
        self._fill(number + 1)
        if number not in self._begun:
            next(self._batches, None)  # with this torch ends its workers
            if self._standing is not None and self._pass is not None:
                self._standing.end(self._pass.progress, self._resumed)
            raise StopIteration
        self._delivery.reserve(thread, number)
        return self._finished(number)

    def _behind(self, standing: Standing) -> tuple[Place | None, int]:
        """Where the loader's next iteration begins, once a batch was handed out."""
        epoch = 0 if self._pass is None else self._pass.progress.place.epoch
        return standing.behind(self._resumed, epoch)

    def _finished(self, number: int) -> tuple[Any, Batch]:
        """The data of a batch that was begun; waits for its values."""
        first = self._begun[number]
        if isinstance(first, Exception):
            try:
                raise first
            finally:
                del first  # its traceback refers to this frame, which would be a cycle
        if first.native:
            self._ahead = self._loader.ahead
        self._fill(number + 1 + self._ahead)
        for begun in list(self._begun.values()):  # a copy: other threads remove failed batches
            if isinstance(begun, Batch):
                begun.look()
        timeout, began = self._loader.timeout, tracing.now()
        while True:
            if not first.wait(timeout or None):
                raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
            data, bad = self._values(first)
            if not bad:
                break
            assert first.asked is not None
            try:
                first = self._made_again(first, bad)
            except Exception as failure:
                noted(failure, "made again, for this cannot be decoded: " + "; ".join(first.why))
                raise
            self._begun[number] = first
        self._loader.done(number)
        self._loader.note(abi.SPAN_WAIT, first, began)
        self._loader.tell()
        return data, first

    def _values(self, first: Batch) -> tuple[Any, list[int]]:
        """The data of a batch, and the places of the samples that have to be made again first."""
        bad = first.finish()
        if bad or first.collated:
            return first.data, bad
        # If the collate function meets a bad file in a sample's image, the code of that sample
        # would have met it with torch's loader.
        asked = first.asked
        left = [] if asked is None else [*{*range(len(asked.samples))} - asked.eager]
        data, failed = self._collated(first, bool(left))
        if first.pins and not failed:
            data = pin_memory(data)  # type: ignore[no-untyped-call]
        return data, left if failed else []

    def _collated(self, first: Batch, tries: bool) -> tuple[Any, bool]:
        """As the loader's ``collated``. An error names the batch's worker, as torch's does."""
        try:
            return self._loader.collated(first.data, tries)
        except Exception as failure:
            if first.worker is None or not is_of_the_batch(failure):
                raise
            where = f"in DataLoader worker process {first.worker}"
            wrapper: Any = torch._utils.ExceptionWrapper(where=where)  # type: ignore[no-untyped-call]
        try:  # behind the handler, so that torch's error does not come with the same one before it
            wrapper.reraise()
        except Exception as failure:
            _forget_itself(failure)
            raise
        raise AssertionError("reraise returned")

    def _made_again(self, first: Batch, bad: list[int]) -> Batch:
        """Makes a batch again of whose files some cannot be decoded, and leaves those to Pillow.

        Programs that expect bad files skip them, or open another, where they open them. So their
        code runs again, where it ran before: in the same worker process, if there are any. It draws
        what it drew there (``keeping``). Batches that come meanwhile are begun, and torch's loader
        asks for no more of them than may be under way.
        """
        asked = _more_eager(first, bad)
        if self._pass is None or not self._loader.workers or self._put is None:
            return self._loader.made_here(asked)
        number, before = asked.number, self._begun.pop(asked.number)
        if self._pass.turns is not None and isinstance(before, Batch) and before.worker is not None:
            self._pass.turns.made_by[number] = before.worker
        try:
            self._pass.again(asked)
            if self._pass.upcoming is None or (self._pass.withheld and self._has_room()):
                self._pass.withheld = max(0, self._pass.withheld - 1)
                self._put()
            while number not in self._begun and self._receive():
                pass
            made = self._begun.get(number)
        finally:
            self._begun.setdefault(number, before)
        if isinstance(made, Exception):
            try:
                raise made
            finally:
                del made, before
        return self._loader.made_here(asked) if made is None else made

    def _fill(self, count: int) -> None:
        """Begins batches until there are ``count``, but stops at one that failed.

        Later batches may depend on what the program does then. Once a thread is being told of the
        failure, others go on after it.
        """
        chosen = self._pass
        self._put_withheld()
        while not self._ended and self._count < count:
            last = self._count - 1
            if isinstance(self._begun.get(last), Exception) and not self._delivery.told(last):
                return
            self._put_withheld()
            if chosen is not None and chosen.exhausted and chosen.upcoming is None:
                return  # torch's loader would end its workers, and one may still be needed
            self._ended = not self._receive()

    def _has_room(self) -> bool:
        """Whether torch's loader may give its workers another batch; it asserts that it may."""
        batches: Any = self._batches
        return bool(batches._tasks_outstanding < batches._prefetch_factor * batches._num_workers)

    def _put_withheld(self) -> None:
        """Has torch's loader ask again for batches that were withheld, once others are handed out.

        It would end its workers if no batch were under way, so it then gets one in any case.
        """
        chosen, put = self._pass, self._put
        if self._ended or chosen is None or chosen.most is None or put is None:
            return
        while chosen.withheld and not (chosen.exhausted or chosen.full) and self._has_room():
            chosen.withheld -= 1  # before `put`: if that is interrupted, too few are asked for
            put()
        if chosen.upcoming is None and not chosen.exhausted:
            most, chosen.most = chosen.most, None
            chosen.withheld = max(0, chosen.withheld - 1)
            try:
                put()
            finally:
                chosen.most = most

    def _receive(self) -> bool:
        """Takes the next batch from torch's loader and begins it; false: there is none."""
        chosen = self._pass
        if self._received is None and chosen is not None and not self._loader.workers:
            chosen.back()
        place = getattr(self._batches, "_rcvd_idx", None)
        got: Batch | Exception
        try:
            if self._received is None:
                self._received = self._loader.fetched(self._batches)
            got = self._loader.begun(self._received)
        except StopIteration:
            return False
        except Exception as failure:
            waits = self._received is None and place is not None
            # After a timeout of torch's loader, the batch may still come.
            still = waits and place == getattr(self._batches, "_rcvd_idx", None)
            # A worker's lack of memory has taken its batch: torch's loader is behind it.
            took = waits and not still and isinstance(failure, MemoryError)
            if still or not (took or is_of_the_batch(failure)):
                raise
            _forget_itself(failure)
            got = failure
        upcoming = None if chosen is None else chosen.upcoming
        number = self._count if upcoming is None else upcoming
        count = max(self._count, number + 1)
        # No exception comes between these.
        self._begun[number] = got
        self._count = count
        self._received = None
        del got  # if it is an exception, its traceback refers to this frame
        if chosen is not None and upcoming is not None:
            chosen.arrived += 1
        return True


def _more_eager(first: Batch, bad: list[int]) -> Asked:
    """The request for a batch in which more samples open their images with Pillow.

    Raises:
        Exception: what Pillow raised, if all samples do so already. The bad file then belongs to an
            image that the program keeps.
    """
    asked = first.asked
    assert asked is not None, "a stream's batch is not made again"
    every = frozenset(range(len(asked.samples)))
    if asked.eager == every:
        failure, first.failure = first.failure, None
        try:
            raise failure or OSError("; ".join(first.why))
        finally:
            del failure  # its traceback refers to this frame, and so to the batch
    wanted = asked.eager.union(bad)
    # If nothing is added, the bad image is another sample's, so all samples are made anew.
    return asked._replace(eager=every if wanted == asked.eager else wanted)


def _forget_itself(failure: Exception) -> None:
    """Takes a worker's error out of the frame in which torch raises it.

    A variable of that frame refers to the error (torch/_utils.py, ``ExceptionWrapper.reraise``).
    That cycle would keep the error and torch's iterator until garbage is collected.
    """
    traceback = failure.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is torch._utils.ExceptionWrapper.reraise.__code__:
            traceback.tb_frame.clear()
        traceback = traceback.tb_next
