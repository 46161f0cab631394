"""One pass over a loader, and a user's function on its batches."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from ctypes import byref
from typing import TYPE_CHECKING, Any

from headrace import _lib
from headrace.errors import HeadraceError, WaitTimeoutError

if TYPE_CHECKING:
    from headrace.feed import Feed
    from headrace.loader import Loader


class Epoch:
    """The iterator of a loader.

    The engine is not touched before the first batch is asked for: trainers make an iterator just
    to see whether they can. A loader has one engine, so a newer iteration ends an older one.
    Several threads may take batches from one iterator, each batch going to one of them.
    """

    def __init__(self, loader: Loader) -> None:
        self._loader = loader
        # hr_next waits without the interpreter's lock, and two threads would share its answer.
        # Reentrant, for a sampler of the user's own runs under it.
        self._turn = threading.RLock()
        self._number = -1  # of the iteration begun, -1 before
        self._handle = self._epoch = self._origin = self._step_samples = 0
        self._step = 0  # batches of this iteration, and how many there are
        self._steps: float = 0
        self._feed: Feed | None = None
        self._slice_ms = _lib.SLICE_MS
        self._receive: Any = None
        self._batch = _lib.Batch()
        self._error = _lib.Error()
        self._out = (byref(self._batch), byref(self._error))

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        _lib.library()  # refuses a forked child, where nobody gives the lock back
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        loader = self._loader
        if self._number != loader.iteration:
            self._begin()
        step = self._step
        if self._feed is not None:
            self._steps = self._feed.fill(step)
        if step >= self._steps:
            loader.position.end(self._epoch)
            raise StopIteration
        batch = self._batch
        # A batch is still here where Ctrl-C came between its arrival and its delivery.
        if not batch.batch:
            code = self._receive(self._handle, self._slice_ms, *self._out)
            if code:
                self._wait(code)
        try:
            parts = loader.view(batch)
        except BaseException:
            # Once taken it is behind us: the engine's next batch is that of the next step.
            if not batch.batch:
                self._pass()
            raise
        self._pass()
        return parts

    def _pass(self) -> None:
        """Counts a batch as handed out."""
        loader = self._loader
        self._step = step = self._step + 1
        if self._feed is not None:
            loader.note(self._feed.delivered())
        if step < self._steps:
            loader.position.reach(self._epoch, self._origin + step * self._step_samples)
        else:
            loader.position.finish(self._epoch)

    @property
    def superseded(self) -> bool:
        """Whether a newer iteration over the loader has begun."""
        return 0 <= self._number != self._loader.iteration

    def ready(self) -> bool:
        """Whether a batch is there, so that ``next`` would not wait for one."""
        with self._turn:
            if self._number != self._loader.iteration or self._step >= self._steps:
                return False
            return bool(self._batch.batch) or not self._receive(self._handle, 0, *self._out)

    def _begin(self) -> None:
        if self._number >= 0:
            if self._step >= self._steps:
                raise StopIteration
            raise HeadraceError(
                "a newer iteration over this loader has begun, and a loader has one at a time; "
                "make a second loader to go over a dataset twice at once"
            )
        loader = self._loader
        self._handle, self._epoch, self._origin, self._feed = loader.begin()
        self._step_samples = loader.step_samples
        if self._feed is None:
            self._steps = loader.steps_from(self._origin)
        self._receive = _lib.library().hr_next
        if loader.timeout is not None:
            self._slice_ms = min(self._slice_ms, math.ceil(loader.timeout * 1000))
        self._number = loader.iteration

    def _wait(self, code: int) -> None:
        """Goes on after a first answer that was no batch; returns when one is there."""
        timeout, waited_ms = self._loader.timeout, self._slice_ms
        while code == _lib.TIMEOUT:
            if timeout is not None and waited_ms >= timeout * 1000:
                raise WaitTimeoutError(
                    f"no batch came within {timeout:g} s; the engine says {self._loader.stats()}"
                )
            slice_ms = self._slice_ms
            if timeout is not None:
                slice_ms = min(slice_ms, math.ceil(timeout * 1000 - waited_ms))
            code = self._receive(self._handle, slice_ms, *self._out)
            waited_ms += slice_ms
        if code == _lib.END:
            raise StopIteration
        if code:
            raise self._error.exception()

    def __del__(self) -> None:
        batch = getattr(self, "_batch", None)
        if batch is not None and batch.batch:
            _lib.release(batch.batch)


class Applied:
    """What a function makes of each batch.

    No generator, which an exception would end: the caller may go on with the next batch. The batch
    is held by nothing but the function's frame and its result, so it goes back when they do.
    """

    def __init__(self, function: Callable[[Any], Any], batches: Iterator[Any]) -> None:
        self._function = function
        self._batches = batches

    def __iter__(self) -> Applied:
        return self

    def __next__(self) -> Any:
        batch = next(self._batches)
        try:
            return self._function(batch)
        except StopIteration as stop:  # would end the epoch as if there were no more batches
            raise RuntimeError("batch_fn raised StopIteration") from stop
