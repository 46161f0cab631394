"""Runs threads that make samples for a ``DataLoader``, with results that can be waited for.

An exception may come at any time in the thread that asks (``_epoch.delivery``). Functions written
in Python take and release the locks of ``concurrent.futures``. An exception in between would leave
a lock taken, and the next wait would never end. So each call on the side that asks is one call of
C: ``SimpleQueue.put``, ``Lock.acquire``.
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
from headrace._engine.finalizer import Finalizer
from headrace.errors import ClosedError

_Tasks = queue.SimpleQueue["Result | None"]


class Result:
    """The result of a function that one of the threads runs."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._function: Callable[..., Any] | None = function
        self._arguments = arguments
        self._value: Any = None
        self._failure: BaseException | None = None
        self._ready = False
        self._finished = threading.Lock()  # taken until it is ready
        self._finished.acquire()

    def run(self) -> None:
        """Runs the function, once, in one of the threads."""
        function, self._function = self._function, None
        try:
            if function is not None:
                self._value = function(*self._arguments)
        except BaseException as failure:
            # Without this frame, which refers to the result: that would be a cycle.
            behind = failure.__traceback__ and failure.__traceback__.tb_next
            self._failure = failure.with_traceback(behind)
        self._arguments = ()
        self._ready = True
        self._finished.release()

    def cancel(self) -> None:
        """Keeps the function from running, if it does not run yet. Nobody may wait for it then."""
        self._function = None

    def drop(self) -> None:
        """Ends the wait for a result whose function will not run."""
        self._failure = ClosedError("the DataLoader was closed")
        self._ready = True
        self._finished.release()

    def wait(self, timeout_s: float | None) -> bool:
        """Waits, and returns whether it is ready within that time (None: as long as it takes)."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._ready:
            left = -1 if deadline is None else max(0.0, deadline - time.monotonic())
            if not self._finished.acquire(timeout=left):
                return self._ready
            self._finished.release()
        return True

    def get(self) -> Any:
        """The value, once it is ready.

        Raises:
            BaseException: what the function raised.
        """
        if self._failure is not None:
            raise self._failure
        return self._value


class Threads:
    """As many threads as are wanted. If the system allows fewer, it warns.

    Attributes:
        close: ends the threads, each after its present task, and drops the tasks that wait. It is
            called, too, when nobody refers to this object any more.

    Raises:
        LimitError, MemoryShortError: the system allows no thread.
    """

    def __init__(self, wanted: int) -> None:
        self._tasks: _Tasks = queue.SimpleQueue()
        self.close = Finalizer(self, _end, self._tasks, wanted)
        self.close.atexit = False
        _alive.add(self)
        start = _Start(self._tasks, wanted)
        try:
            # This is one call of C, and so is the wait. Thread.start has many lines of Python. An
            # exception in these would leave a thread in threading's list that never ran, or one
            # that waits for its own lock for ever. So _Start calls it in a thread that nobody
            # knows, where no exception comes.
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
        """Has the result's function run after those that were submitted before.

        Raises:
            ClosedError: the threads were ended.
        """
        if not self.close.alive:
            raise ClosedError("the DataLoader was closed")
        self._tasks.put(result)


class _Start:
    """Starts the threads, in one more thread that ends then; ``over`` is released at the end."""

    def __init__(self, tasks: _Tasks, wanted: int) -> None:
        self._tasks, self._wanted = tasks, wanted
        self.count = 0
        self.failure: str | None = None  # why it started fewer
        self.over = threading.Lock()
        self.over.acquire()

    def run(self) -> None:
        try:
            while self.count < self._wanted:
                name = f"DataLoader_{self.count}"
                # With daemon given, threading need not ask the current thread, for which it would
                # have to make an object.
                threading.Thread(target=_work, args=(self._tasks,), name=name, daemon=False).start()
                self.count += 1
        except (RuntimeError, MemoryError) as failure:
            self.failure = str(failure) or type(failure).__name__
        finally:
            self.over.release()


def _work(tasks: _Tasks) -> None:
    while (task := tasks.get()) is not None:
        task.run()
        del task  # it would be kept until the next one comes, which may take long


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


# The interpreter waits for threads before it calls atexit's functions. The function that registers
# for an earlier call is not public; concurrent.futures uses it, too.
threading._register_atexit(_end_all)  # type: ignore[attr-defined]
