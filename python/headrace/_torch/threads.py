"""Threads that make samples for a ``DataLoader``, and results that can be waited for.

An exception may come at any time to the thread that asks (``_epoch.delivery``). The locks of
``concurrent.futures`` are taken and given back by functions in Python, and what ends one of those
in between leaves its lock taken: the next wait would have no end. So what is called here on the
side that asks is one call of C each: ``SimpleQueue.put``, ``Lock.acquire``.
"""

from __future__ import annotations

import _thread
import contextlib
import queue
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from headrace._engine import scarce
from headrace.errors import ClosedError

_Tasks = queue.SimpleQueue["Result | None"]


class Result:
    """What a function gives that one of the threads runs."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._function: Callable[..., Any] | None = function
        self._arguments = arguments
        self._value: Any = None
        self._failure: BaseException | None = None
        self._ready = False
        self._finished = threading.Lock()  # taken until it is ready
        self._finished.acquire()

    def run(self) -> None:
        """In one of the threads, once."""
        function, self._function = self._function, None
        try:
            if function is not None:
                self._value = function(*self._arguments)
        except BaseException as failure:
            # Without this call, whose frame refers to the result: that would be a cycle.
            behind = failure.__traceback__ and failure.__traceback__.tb_next
            self._failure = failure.with_traceback(behind)
        self._arguments = ()
        self._ready = True
        self._finished.release()

    def cancel(self) -> None:
        """Has it not run, where it does not run yet. Nobody may wait for it then."""
        self._function = None

    def drop(self) -> None:
        """Ends the wait for one that will not run."""
        self._failure = ClosedError("the DataLoader was closed")
        self._ready = True
        self._finished.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether it is ready within that time (None: as long as it takes)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ready:
            left = -1 if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._finished.acquire(timeout=left):
                return self._ready
            self._finished.release()
        return True

    def get(self) -> Any:
        """The value of one that is ready.

        Raises:
            BaseException: what the function raised.
        """
        if self._failure is not None:
            raise self._failure
        return self._value


class Threads:
    """So many threads, or as many as the system allows, with a warning.

    Attributes:
        close: ends them, each behind what it is at; also when nobody refers to them any more. What
            waits for its turn is dropped.

    Raises:
        LimitError, MemoryShortError: it allows none.
    """

    def __init__(self, wanted: int) -> None:
        self._tasks: _Tasks = queue.SimpleQueue()
        self.close = weakref.finalize(self, _end, self._tasks, wanted)
        self.close.atexit = False
        _alive.add(self)
        start = _Start(self._tasks, wanted)
        try:
            # A call of C, and so is the wait. Thread.start goes through many lines of Python: an
            # exception among them leaves a thread in threading's list that never was, or one that
            # waits for ever for a lock of its own. None comes in a thread that nobody knows.
            _thread.start_new_thread(start.run, ())
            start.over.acquire()
        except RuntimeError as failure:
            raise scarce.no_thread(wanted, str(failure)) from None
        except BaseException:
            self.close()
            raise
        if start.failure is not None and not start.count:
            raise scarce.no_thread(wanted, start.failure)
        if start.failure is not None:
            text = f"{start.count} threads work where {wanted} were to: {start.failure}"
            scarce.warn_of(text.encode())

    def submit(self, result: Result) -> None:
        """Has it run behind what was submitted before.

        Raises:
            ClosedError: the threads were ended.
        """
        if not self.close.alive:
            raise ClosedError("the DataLoader was closed")
        self._tasks.put(result)


class _Start:
    """Starts so many threads, in one more that ends with it; ``over`` can be taken behind it."""

    def __init__(self, tasks: _Tasks, wanted: int) -> None:
        self._tasks, self._wanted = tasks, wanted
        self.count = 0
        self.failure: str | None = None  # why it began fewer
        self.over = threading.Lock()
        self.over.acquire()

    def run(self) -> None:
        try:
            while self.count < self._wanted:
                name = f"DataLoader_{self.count}"
                # daemon: else threading would make an object for this thread, too, to ask it.
                threading.Thread(target=_work, args=(self._tasks,), name=name, daemon=False).start()
                self.count += 1
        except (RuntimeError, MemoryError) as failure:
            self.failure = str(failure) or type(failure).__name__
        finally:
            self.over.release()


def _work(tasks: _Tasks) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # before the next one comes, which may take long


def _end(tasks: _Tasks, count: int) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            if (waiting := tasks.get_nowait()) is not None:
                waiting.drop()
    for _ in range(count):
        tasks.put(None)


_alive: weakref.WeakSet[Threads] = weakref.WeakSet()


def _end_all() -> None:
    for threads in list(_alive):
        threads.close()


# The interpreter waits for threads before it calls atexit's functions. The way to be told earlier
# has no public name; concurrent.futures goes it, too.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]
