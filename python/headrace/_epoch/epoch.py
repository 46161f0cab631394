"""One pass over a loader: the batches of an epoch by number, and their iterator."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from headrace._engine import _lib, abi, tracing
from headrace._epoch.arrivals import Arrivals
from headrace._epoch.delivery import Delivery, is_of_the_batch
from headrace._epoch.position import Pass, Position
from headrace.errors import HeadraceError, WaitTimeoutError

if TYPE_CHECKING:
    from headrace._epoch.feed import Feed


class Iterated(Protocol):
    """What is iterated over: ``headrace.Loader``."""

    dataset: Any  # its name is part of errors
    position: Position
    timeout: float | None

    def begin(self) -> tuple[Pass, Arrivals, Feed | None]:
        """Returns the place of the next iteration, its batches, and what submits them."""

    def view(self, batch: abi.Batch, left: float | None) -> Any:
        """Returns what is handed out for a batch that came, within so many seconds."""

    def stats(self) -> dict[str, Any]:
        """Returns what the engine measured."""


class Source(Protocol):
    """What makes the batches that an iterator hands out."""

    def begin(self) -> Delivery:
        """Begins if it has not begun yet, and returns what was handed out."""

    def has(self, number: int) -> bool:
        """Whether there is a batch with that number."""

    def make(self, number: int) -> Any:
        """Makes the batch with a number, also if it was made before."""

    def ready(self, number: int) -> bool:
        """Whether a batch is there, so that ``make`` would not have to wait."""

    def note(self, kind: int, number: int, began: int) -> None:
        """Adds to a trace what was done with a batch that was made."""


def check_is_latest(begun: Pass, latest: Pass | None) -> None:
    """Ends an iteration if a newer one over the same loader has begun.

    Raises:
        StopIteration: it had handed out all its batches.
        HeadraceError: it had not.
    """
    if begun is latest:
        return
    if begun.delivery.handed_out >= begun.steps:
        raise StopIteration
    raise HeadraceError(
        "a newer iteration over this loader has begun, and a loader has one at a time; make a "
        "second loader to go over a dataset twice at once"
    )


class Epoch:
    """The batches of one iteration over a loader; each is made when its number is asked for.

    The engine is not touched before, because trainers make an iterator just to see whether they
    can. A loader has one engine, so a newer iteration ends an older one.
    """

    def __init__(self, loader: Iterated) -> None:
        self._loader = loader
        self._pass: Pass | None = None  # once it has begun
        self._arrivals: Arrivals
        self._feed: Feed | None = None

    def begin(self) -> Delivery:
        loader, latest = self._loader, self._loader.position.latest
        if self._pass is None:
            begun, arrivals, feed = loader.begin()
            # These two follow each other without a call, so an exception comes before both or after
            # both.
            self._arrivals = arrivals
            self._feed = feed
            self._pass = begun
            loader.position.latest = begun
            return begun.delivery
        check_is_latest(self._pass, latest)
        return self._pass.delivery

    def has(self, number: int) -> bool:
        made = self._pass
        assert made is not None
        if self._feed is not None:
            made.steps = self._feed.fill(number, made.delivery.handed_out)
        return number < made.steps

    def make(self, number: int) -> Any:
        timeout, began = self._loader.timeout, time.monotonic()
        batch = self._arrivals.wait(number, timeout)
        if batch is None:
            raise WaitTimeoutError(
                f"no batch of {self._loader.dataset!r} came within {timeout:g} s; "
                f"the engine says {self._loader.stats()}"
            )
        # The fields of its samples may have to come from a store as well.
        left = None if timeout is None else max(0.0, timeout - (time.monotonic() - began))
        return self._loader.view(batch, left)

    def ready(self, number: int) -> bool:
        if self._pass is None or self._pass is not self._loader.position.latest:
            return False
        return number < self._pass.steps and self._arrivals.ready(number)

    def note(self, kind: int, number: int, began: int) -> None:
        self._arrivals.note(kind, number, began)

    @property
    def superseded(self) -> bool:
        """Whether a newer iteration over the loader has begun."""
        return self._pass is not None and self._pass is not self._loader.position.latest

    def __del__(self) -> None:
        if getattr(self, "_arrivals", None) is not None:
            self._arrivals.drop()


class Batches:
    """The iterator of a loader.

    Several threads may take batches from one iterator; each batch goes to one of them. An exception
    that ends a call from outside loses no batch (``delivery``): the thread's next call gets it.

    Args:
        source: makes the batches.
        function: processes each batch, in the thread that asks for it; None leaves it as it is.
    """

    def __init__(self, source: Source, function: Callable[[Any], Any] | None) -> None:
        self._source, self._function = source, function
        self._delivery: Delivery | None = None  # the source's, once it has begun
        # hr_next waits without the interpreter's lock, and two threads would share its answer. The
        # lock is reentrant, because a user's own sampler runs while it is held.
        self._turn = threading.RLock()

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        _lib.library()  # refuses a forked child, where nobody would release the lock
        began, thread = tracing.now(), threading.get_ident()
        reserved: dict[int, int] = {}
        try:
            with self._turn:
                delivery = self._delivery = self._source.begin()
                number = delivery.upcoming(thread)
                if thread not in delivery.reserved and not self._source.has(number):
                    raise StopIteration
                delivery.reserve(thread, number)
                reserved = delivery.reserved
                batch = self._source.make(number)
            if self._function is not None:
                batch = self._applied(batch)
            if began:
                self._source.note(abi.SPAN_NEXT, number, began)
        except Exception as error:
            if is_of_the_batch(error) and thread in reserved:
                del reserved[thread]  # the error takes the place of this batch
            raise
        del reserved[thread]
        return batch

    def ready(self) -> bool:
        """Whether a batch is there, so that ``next`` would not have to wait."""
        with self._turn:
            if self._delivery is None:
                return False
            return self._source.ready(self._delivery.upcoming(threading.get_ident()))

    def _applied(self, batch: Any) -> Any:
        assert self._function is not None
        try:
            return self._function(batch)
        except StopIteration as stop:  # it would end the epoch as if there were no more batches
            raise RuntimeError("batch_fn raised StopIteration") from stop
