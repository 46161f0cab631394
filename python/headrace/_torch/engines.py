"""Keeps the engine of a ``DataLoader`` for later epochs, as long as it fits them."""

from __future__ import annotations

import weakref
from typing import Any

from headrace._torch.batches import Engine
from headrace._torch.pool import Pool
from headrace._torch.recipe import Recipe
from headrace.errors import HeadraceError, UnsupportedError


class Engines:
    """The engines of one loader: one that waits for the next epoch, and those that are in use."""

    def __init__(self) -> None:
        self._spare: Engine | None = None
        self._alive: weakref.WeakSet[Engine | Pool] = weakref.WeakSet()
        self._trace: str | None = None

    def take(self, recipe: Recipe) -> Engine | Pool:
        """What makes batches: the engine of the last epoch, if it still fits, or a new one."""
        spare, self._spare = self._spare, None
        whole = makes_batches(recipe)
        if spare is not None and whole and spare.recipe.same_as(recipe):
            return spare
        if spare is not None:
            spare.close()
        taken = Engine(recipe, self._trace) if whole else Pool(recipe)
        self._alive.add(taken)
        return taken

    def give_back(self, engine: Engine | Pool) -> None:
        """Keeps an engine for the next epoch, unless there is one already."""
        if isinstance(engine, Engine) and self._spare is None:
            try:
                engine.begin(0, {})
                self._spare = engine
                return
            except HeadraceError:  # it was closed, or belongs to the parent of a forked process
                pass
        engine.close()

    def trace(self, path: str | None, recipe: Recipe | None) -> str | None:
        """Has all engines begin to write traces, or end them; returns the name of the last begun.

        Raises:
            UnsupportedError: the loader's batches are not the engine's.
        """
        if path is not None and (recipe is None or not makes_batches(recipe)):
            raise UnsupportedError(
                "trace: the engine does not make this loader's batches (explain() says why), and "
                "a trace shows the engine's threads"
            )
        self._trace = path
        name = None
        for engine in [one for one in self._alive if isinstance(one, Engine)]:
            name = engine.trace(path) or name
        return name

    def stats(self) -> list[dict[str, Any]]:
        """What each engine that is open has measured."""
        found = [one.stats() for one in self._alive if isinstance(one, Engine)]
        return [stats for stats in found if stats]

    def close(self) -> None:
        """Stops the threads; the next ``take`` starts new ones."""
        for engine in list(self._alive):
            engine.close()
        self._spare = None


def makes_batches(recipe: Recipe) -> bool:
    """Whether the engine makes whole batches: images of one size, with no work left to Python."""
    made = recipe.translation
    return made.gives != "PIL image" and made.size is not None and not made.rest
