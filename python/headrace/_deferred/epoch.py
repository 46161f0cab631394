"""The batches of an epoch whose images are deferred, with some of them under way."""

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
    """The loader behind, as ``iteration.Deferring`` is one."""

    ahead: int
    timeout: float
    counts: Counts

    @property
    def workers(self) -> int:
        """Processes that run the dataset's code."""

    @property
    def under_way(self) -> int:
        """How many batches may be on their way to be handed out."""

    def fetched(self, batches: Iterator[Any]) -> Recorded:
        """What torch's loader makes of the next batch."""

    def begun(self, recorded: Recorded) -> Batch:
        """A batch as the program's code left it, with its values under way."""

    def made_here(self, asked: Asked) -> Batch:
        """A batch made in this process."""

    def done(self, number: int) -> None:
        """A batch has its values."""

    def collated(self, samples: Any, tries: bool) -> tuple[Any, bool]:
        """The batch of samples whose collate function needs values, and whether a file is bad."""

    def tell(self) -> None:
        """Says what there is to say once a batch came."""

    def note(self, kind: int, batch: Batch, began: int) -> None:
        """Adds to the trace what was done with a batch."""


class Epoch(Iterator[Any]):
    """The iterator of a ``DataLoader`` whose images are deferred.

    What ends a call from outside takes no batch along (``_epoch.delivery``).

    Args:
        batches: torch's iterator, of ``Recorded``.
        chosen: what its sampler chooses; None of a stream.
        standing: of the loader in front; None of a stream, which has no place to go to.
    """

    def __init__(
        self,
        behind: Behind,
        batches: Iterator[Any],
        chosen: Pass | None,
        standing: Standing | None,
    ) -> None:
        # Waiting for a batch lets other threads run, and they may ask for one, too.
        self._turn = threading.RLock()
        self._loader, self._batches, self._pass = behind, batches, chosen
        self._standing = standing
        self._resumed = None if standing is None else standing.resume
        self._delivery = Delivery() if chosen is None else chosen.progress.delivery
        self._received: Recorded | None = None  # and not begun
        self._begun: dict[int, Batch | Exception] = {}
        self._count = 0  # the number behind those
        # Where no image is deferred, the program's code runs when torch's loader would run it.
        self._ahead = 0
        self._ended = False
        turns = getattr(batches, "_worker_queue_idx_cycle", None)  # of torch, and not public
        if turns is not None and chosen is not None:
            chosen.turns = Turns(turns)
            batches._worker_queue_idx_cycle = chosen.turns  # type: ignore[attr-defined]
        # torch's loader has no public way to ask for a batch besides its order.
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
        # A stream's own place is nowhere, and goes to a standing that nobody asks.
        standing = self._standing or Standing()
        latest = None if self._pass is None else self._pass.progress
        try:
            with self._turn:
                data = self._counted(thread)
            resume, epoch = self._behind(standing)
        except Exception as error:
            if not is_of_the_batch(error) or thread not in reserved:
                raise
            resume, epoch = self._behind(standing)
            number = reserved[thread]
            standing.resume = resume
            standing.next_epoch = epoch
            standing.latest = latest
            del reserved[thread]
            # Its traceback leads here: kept, it would keep this and torch's workers, and if garbage
            # is collected then, torch waits for them (dataloader.py, _shutdown_workers).
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
        """The same as ``_next``, noted in statistics and trace."""
        counts, noted_from = self._loader.counts, tracing.now()
        began = counts.began()
        data, made = self._next(thread)
        counts.handed_out(samples_of(data, made.asked), began)
        self._loader.note(abi.SPAN_NEXT, made, noted_from)
        return data

    def _next(self, thread: int) -> tuple[Any, Batch]:
        """The data of the batch that is a thread's next one."""
        number = self._delivery.upcoming(thread)
        forget(self._begun, self._delivery.handed_out)
        self._fill(number + 1)
        if number not in self._begun:
            next(self._batches, None)  # torch's workers end here
            if self._standing is not None and self._pass is not None:
                self._standing.end(self._pass.progress, self._resumed)
            raise StopIteration
        self._delivery.reserve(thread, number)
        return self._finished(number)

    def _behind(self, standing: Standing) -> tuple[Place | None, int]:
        """What the loader's next iteration begins with, once a batch was handed out."""
        epoch = 0 if self._pass is None else self._pass.progress.place.epoch
        return standing.behind(self._resumed, epoch)

    def _finished(self, number: int) -> tuple[Any, Batch]:
        """The data of a batch that was begun, once its values came."""
        first = self._begun[number]
        if isinstance(first, Exception):
            try:
                raise first
            finally:
                del first  # of the frame that its traceback leads to
        if first.native:
            self._ahead = self._loader.ahead
        self._fill(number + 1 + self._ahead)
        for begun in list(self._begun.values()):  # a thread whose batch failed takes that away
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
        """The data of a batch; or the places of samples that have to be made anew."""
        bad = first.finish()
        if bad or first.collated:
            return first.data, bad
        # Where the function meets a bad file in an image of a sample, the program's code would have
        # met it with torch's loader.
        asked = first.asked
        left = [] if asked is None else [*{*range(len(asked.samples))} - asked.eager]
        data, failed = self._loader.collated(first.data, bool(left))
        if first.pins and not failed:
            data = pin_memory(data)  # type: ignore[no-untyped-call]
        return data, left if failed else []

    def _made_again(self, first: Batch, bad: list[int]) -> Batch:
        """A batch some of whose files cannot be decoded: those are left to the program's code.

        Programs that meet bad files try another, or leave them out, where they open them. It runs
        where it ran before, in that worker process if there are any, and draws what it drew there
        (``keeping``). Batches that come meanwhile are begun, and of others torch's loader asks for
        no more than may be under way.
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
        """Has so many batches begun, up to one that failed: what is behind it may depend on it.

        Once a thread is being told of that one, others go on behind it.
        """
        chosen = self._pass
        self._put_withheld()
        while not self._ended and self._count < count:
            last = self._count - 1
            if isinstance(self._begun.get(last), Exception) and not self._delivery.told(last):
                return
            self._put_withheld()
            if chosen is not None and chosen.exhausted and chosen.upcoming is None:
                return  # asked again, torch's loader would end its workers: one may be needed yet
            self._ended = not self._receive()

    def _has_room(self) -> bool:
        """Whether torch's loader may give its workers another batch: it refuses to give more."""
        batches: Any = self._batches
        return bool(batches._tasks_outstanding < batches._prefetch_factor * batches._num_workers)

    def _put_withheld(self) -> None:
        """Has torch's loader ask again for batches that were withheld, as others were handed out.

        It would end its workers if none were to come.
        """
        chosen, put = self._pass, self._put
        if self._ended or chosen is None or chosen.most is None or put is None:
            return
        while chosen.withheld and not (chosen.exhausted or chosen.full) and self._has_room():
            chosen.withheld -= 1  # before: an interrupted put asks for one less, never for one more
            put()
        if chosen.upcoming is None and not chosen.exhausted:
            most, chosen.most = chosen.most, None
            chosen.withheld = max(0, chosen.withheld - 1)
            try:
                put()
            finally:
                chosen.most = most

    def _receive(self) -> bool:
        """Takes the next batch from torch's loader; false where there is none."""
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
            # torch's loader may give up waiting for a batch that is still to come.
            still = waits and place == getattr(self._batches, "_rcvd_idx", None)
            if still or not is_of_the_batch(failure):
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
        del got  # an exception's traceback leads to this frame
        if chosen is not None and upcoming is not None:
            chosen.arrived += 1
        return True


def _more_eager(first: Batch, bad: list[int]) -> Asked:
    """A batch with more samples that open their images as ever.

    Raises:
        Exception: all do already, as of an image that the program keeps: what Pillow raised.
    """
    asked = first.asked
    assert asked is not None, "a stream's batch is not made again"
    every = frozenset(range(len(asked.samples)))
    if asked.eager == every:
        failure, first.failure = first.failure, None
        try:
            raise failure or OSError("; ".join(first.why))
        finally:
            del failure  # its traceback leads here, and to the batch
    wanted = asked.eager.union(bad)
    # It may be another sample's image, which the collate function was given.
    return asked._replace(eager=every if wanted == asked.eager else wanted)


def _forget_itself(failure: Exception) -> None:
    """Takes a worker's error out of the frame in which torch raises it.

    A variable of that frame has it (torch/_utils.py, ``ExceptionWrapper.reraise``), and so it would
    keep itself and torch's iterator until garbage is collected.
    """
    traceback = failure.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code is torch._utils.ExceptionWrapper.reraise.__code__:
            traceback.tb_frame.clear()
        traceback = traceback.tb_next
