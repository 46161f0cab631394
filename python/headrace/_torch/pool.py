"""Samples of a ``DataLoader``, made one by one in Python threads.

Whole batches of them where the engine makes none, and those that Pillow decodes where it does.
"""

from __future__ import annotations

import concurrent.futures.thread  # now: its end of the interpreter has to come behind ours
import threading
import time
import weakref
from typing import Any

from headrace._engine import scarce
from headrace._epoch import ranks
from headrace._epoch.arrivals import Chosen, forget
from headrace._torch.recipe import Recipe
from headrace._torch.single import Work
from headrace.errors import WaitTimeoutError

# Set when the interpreter begins to end. It joins the threads of executors before it calls atexit's
# functions, and they would first make all samples that are still asked for. The way to be told
# earlier has no public name; without it the end only comes later.
_ending = threading.Event()
getattr(threading, "_register_atexit", lambda _: None)(_ending.set)


class TimedOut(WaitTimeoutError, RuntimeError):
    """No batch came within ``timeout``: a ``RuntimeError``, as torch's loader raises."""


class Pool:
    """Threads that make sample by sample: the known transforms natively, the rest in Python."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._epoch = 0
        self._chosen: dict[int, Chosen] = {}
        self._futures: dict[int, list[concurrent.futures.Future[Any]]] = {}
        self._threads = _started(recipe.num_threads or ranks.allowed_threads())
        self._stop = threading.Event()
        self.close = weakref.finalize(self, _stop, self._threads, self._stop)

    def begin(self, epoch: int, chosen: dict[int, Chosen]) -> None:
        """As ``Engine.begin``."""
        for future in (future for batch in self._futures.values() for future in batch):
            future.cancel()
        self._futures.clear()
        self._epoch, self._chosen = epoch, chosen

    def submit(self, handed_out: int) -> None:
        """As ``Engine.submit``."""
        forget(self._futures, handed_out)
        for number, batch in self._chosen.items():
            if number not in self._futures:
                self._futures[number] = self._begun(batch, {})

    def add(self, number: int, batch: Chosen) -> None:
        """Begins with the batch of a number; samples of it that are under way already stay so."""
        before = self._chosen.get(number, Chosen((), ()))
        keys = zip(before.indices, before.draws, strict=True)
        begun = dict(zip(keys, self._futures.get(number, ()), strict=False))
        self._futures[number] = self._begun(batch, begun)
        self._chosen[number] = batch

    def forget(self, handed_out: int) -> None:
        """Drops what nobody can ask for again, of what was added."""
        forget(self._chosen, handed_out)
        forget(self._futures, handed_out)

    def _begun(
        self, batch: Chosen, known: dict[tuple[int, int], concurrent.futures.Future[Any]]
    ) -> list[concurrent.futures.Future[Any]]:
        work, recipe, stop = Work(self.recipe), self.recipe, self._stop
        key = {"seed": recipe.seed, "epoch": self._epoch}
        return [
            known.get((row, draw))
            or self._threads.submit(_unless, stop, work, row, key | {"sample": row, "draw": draw})
            for row, draw in zip(batch.indices, batch.draws, strict=True)
        ]

    def make(self, number: int, timeout: float) -> list[Any]:
        """The (image, label) pairs of the batch of a number, as ``Engine.make``."""
        if number not in self._futures:
            self._futures[number] = self._begun(self._chosen[number], {})
        deadline = time.monotonic() + timeout if timeout else None
        futures = self._futures[number]
        for future in futures:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not concurrent.futures.wait([future], left).done:
                raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
        try:
            return [future.result() for future in futures]
        except Exception:
            del self._futures[number]  # a lack of memory, say, is tried once more
            futures.clear()  # which hold the exception, and its traceback would hold them
            raise


def _started(wanted: int) -> concurrent.futures.ThreadPoolExecutor:
    """So many threads, or as many as the system allows, with a warning.

    Raises:
        LimitError, MemoryShortError: it allows none.
    """
    count, failure = wanted, ""
    while count > 0:
        threads = concurrent.futures.ThreadPoolExecutor(count, thread_name_prefix="DataLoader")
        begin, started = threading.Event(), 0
        try:
            while started < count:  # a task that finds no idle thread begins one
                threads.submit(begin.wait)
                started += 1
        except RuntimeError as error:
            failure = str(error)
        finally:
            begin.set()
        if started == count:
            if count < wanted:
                scarce.warn_of(f"{count} threads work where {wanted} were to: {failure}".encode())
            return threads
        threads.shutdown()
        count = started
    raise scarce.no_thread(wanted, failure)


def _unless(stop: threading.Event, work: Work, row: int, key: dict[str, int]) -> Any:
    # Without a reference to the pool, which can be collected.
    return None if stop.is_set() or _ending.is_set() else work.sample(row, key)


def _stop(threads: concurrent.futures.ThreadPoolExecutor, stop: threading.Event) -> None:
    stop.set()
    threads.shutdown(wait=False, cancel_futures=True)
