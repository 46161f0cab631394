"""Makes samples of a ``DataLoader`` one by one, in Python threads.

If the engine makes no batches, whole batches are made of them. If it does, only those samples are
made here that Pillow decodes.
"""

from __future__ import annotations

import time
from typing import Any

from headrace._epoch import ranks
from headrace._epoch.arrivals import Chosen, forget
from headrace._torch.recipe import Recipe
from headrace._torch.single import Work
from headrace._torch.threads import Result, Threads
from headrace.errors import WaitTimeoutError


class TimedOut(WaitTimeoutError, RuntimeError):
    """No batch came within ``timeout``: a ``RuntimeError``, as torch's loader raises."""


class Pool:
    """Threads that do the native work for each sample; the rest is done in the thread that asks."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._work = Work(recipe)
        self._epoch = 0
        self._chosen: dict[int, Chosen] = {}
        self._results: dict[int, list[Result]] = {}
        self._threads = Threads(recipe.num_threads or ranks.allowed_threads())
        self.close = self._threads.close

    def begin(self, epoch: int, chosen: dict[int, Chosen]) -> None:
        """As ``Engine.begin``."""
        for result in (result for batch in self._results.values() for result in batch):
            result.cancel()
        self._results.clear()
        self._epoch, self._chosen = epoch, chosen

    def submit(self, handed_out: int) -> None:
        """As ``Engine.submit``."""
        forget(self._results, handed_out)
        for number, batch in self._chosen.items():
            if number not in self._results:
                self._results[number] = self._begun(batch, {})

    def add(self, number: int, batch: Chosen) -> None:
        """Begins with the batch of a number; samples of it that are under way already are kept."""
        before = self._chosen.get(number, Chosen((), ()))
        keys = zip(before.indices, before.draws, strict=True)
        begun = dict(zip(keys, self._results.get(number, ()), strict=False))
        self._results[number] = self._begun(batch, begun)
        self._chosen[number] = batch

    def forget(self, handed_out: int) -> None:
        """Drops those of the added batches that nobody can ask for again."""
        forget(self._chosen, handed_out)
        forget(self._results, handed_out)

    def _begun(self, batch: Chosen, known: dict[tuple[int, int], Result]) -> list[Result]:
        work, recipe = self._work, self.recipe
        key = {"seed": recipe.seed, "epoch": self._epoch}
        begun = []
        for row, draw in zip(batch.indices, batch.draws, strict=True):
            result = known.get((row, draw))
            if result is None:
                result = Result(work.sample, row, key | {"sample": row, "draw": draw})
                self._threads.submit(result)
            begun.append(result)
        return begun

    def make(self, number: int, timeout: float) -> list[Any]:
        """The (image, label) pairs of the batch of a number, as ``Engine.make``."""
        if number not in self._results:
            self._results[number] = self._begun(self._chosen[number], {})
        deadline = time.monotonic() + timeout if timeout else None
        results = self._results[number]
        for result in results:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not result.wait(left):
                raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
        try:
            return [self._work.rest(result.get()) for result in results]
        except BaseException:
            # The results are dropped, so that the batch can be tried again, for example after a
            # lack of memory. And if a function of the program was interrupted, it may have changed
            # an image.
            self._results.pop(number, None)
            results.clear()  # a result holds the exception, and its traceback holds this list
            raise
