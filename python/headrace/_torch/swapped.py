"""Makes an engine's batches in which Pillow decodes some of the samples.

In the place of each such sample the engine is asked for another one. Then the image and the label
that Pillow's sample has are put there. So the rest of the batch is native, and its draws stay what
they would be, because they are keyed by the sample. Such samples are known by the names of their
files, or because the engine refuses a batch with them. It is then asked for that batch again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from headrace._engine import _lib
from headrace._epoch.arrivals import Chosen, Submitted, forget
from headrace._torch.failures import joined
from headrace._torch.pool import Pool, TimedOut
from headrace._torch.recipe import Recipe
from headrace._torch.single import Work
from headrace.errors import HeadraceError, WaitTimeoutError

Pair = tuple[torch.Tensor, torch.Tensor]


class Swapped(Submitted):
    """As ``Submitted``, with samples that Pillow decodes.

    Args:
        handle: the handle of a loader whose order is "submitted".
        epoch: the epoch that its draws are keyed by.
        others: a list for the pool that makes samples one by one. The pool is begun when it is
            needed; the owner of the list closes it.
    """

    def __init__(self, handle: int, epoch: int, recipe: Recipe, others: list[Pool]) -> None:
        super().__init__(handle, epoch)
        self._others, self._recipe = others, recipe
        self._foreign = recipe.samples.foreign
        # For each batch: the places that were swapped when the engine was asked, and the samples
        # that it was asked for. By now more samples may be known to be Pillow's.
        self._places: dict[int, list[int]] = {}
        self._asked: dict[int, Sequence[int]] = {}
        for pool in others:
            pool.begin(epoch, {})

    def asked(self, number: int) -> Chosen:
        chosen = self.chosen[number]
        if self._foreign is None or self._recipe.strict:
            return chosen
        places = self._foreign.among(chosen.indices)
        if not places:
            self._places.pop(number, None)
            self._asked[number] = chosen.indices
            return chosen
        pillows = set(places)
        # Any sample that the engine decodes will do. If there is none, the engine makes no image.
        first = next((place for place in range(len(chosen.indices)) if place not in pillows), None)
        order = []
        if first is not None:
            order = [first if place in pillows else place for place in range(len(chosen.indices))]
        asked = _of(chosen, order)
        self._begin(number, _of(chosen, places))
        self._places[number] = places
        self._asked[number] = asked.indices
        return asked

    def _begin(self, number: int, pillows: Chosen) -> None:
        if not self._others:
            self._others.append(Pool(self._recipe))
            self._others[0].begin(self._epoch, {})
        self._others[0].add(number, pillows)

    def make(self, number: int, timeout: float, view: Callable[[Any], Any]) -> Pair:
        """The images and labels of the batch of a number.

        Raises:
            TimedOut: it did not come within `timeout` seconds; 0 waits for as long as it takes.
            HeadraceError: one of its images is bad.
        """
        while True:
            try:
                # Pillow's samples first: if these fail, no batch of the engine is held.
                places = self._places.get(number)
                others = self._by_pillow(number, timeout)
                batch = self.wait(number, timeout or None)
                if batch is None:
                    raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
                if batch.replaced and self._is_pillows(number, batch.replaced):
                    self._anew(number)
                    continue
                if self._places.get(number) is not places:  # the batch was asked for again
                    others = self._by_pillow(number, timeout)
                    places = self._places.get(number)
            except WaitTimeoutError:
                raise
            except HeadraceError as failure:
                self._anew(number)
                if failure.record is None or not self._goes_on(number, failure, failure.record):
                    raise
            else:
                break
        images, labels = view(batch)
        return _put_back(images, labels, places, others) if places else (images, labels)

    def _anew(self, number: int) -> None:
        """Has the engine asked for a batch again, without the samples that are Pillow's by then."""
        self.drop()
        self._at = -1
        self._places.pop(number, None)

    def _by_pillow(self, number: int, timeout: float) -> list[Any]:
        return self._others[0].make(number, timeout) if self._places.get(number) else []

    def _goes_on(self, number: int, failure: HeadraceError, row: int) -> bool:
        """Whether a batch can be made without the sample that it failed at.

        Raises:
            HeadraceError: the loader is strict, and Pillow would have to be asked. The error is an
                ``OSError``, too, as Pillow's.
        """
        foreign, replaces = self._foreign, self._recipe.on_error == "replace"
        if foreign is None:
            return False
        if self._recipe.strict:
            if foreign.refused(failure):
                raise joined(failure, OSError()) from failure
            return False
        if row in self._asked.get(number, ()):  # the engine was asked for it, perhaps too early
            return foreign.take(failure) or row in foreign.rows
        if replaces:  # Pillow does not decode it either, so the engine has to replace it
            foreign.give_up(row)
        return replaces

    def _is_pillows(self, number: int, replaced: int) -> bool:
        """Whether the engine has replaced a sample of a batch that Pillow might decode."""
        foreign, rows = self._foreign, self.chosen[number].indices
        if foreign is None or self._recipe.strict:
            return False
        if replaced <= sum(row in foreign.hopeless for row in rows):
            return False
        found, work = False, Work(self._recipe)
        for line in _lib.info("hr_loader_info", self._handle)["report"]:
            row = line["index"]
            if row not in rows or row in foreign.rows or row in foreign.hopeless:
                continue
            try:
                work.native(row, {})
            except HeadraceError as failure:
                found = foreign.take(failure) or found
            if row not in foreign.rows:
                foreign.hopeless.add(row)
        return found

    def forget(self, handed_out: int) -> None:
        forget(self._places, handed_out)
        forget(self._asked, handed_out)
        for pool in self._others:
            pool.forget(handed_out)


def _put_back(
    images: torch.Tensor, labels: torch.Tensor, places: list[int], others: list[Any]
) -> Pair:
    plain = [image.as_subclass(torch.Tensor) for image, _ in others]
    if not len(images):  # all of them are Pillow's
        return torch.stack(plain), torch.tensor([label for _, label in others])
    for place, image, (_, label) in zip(places, plain, others, strict=True):
        images[place] = image
        labels[place] = label
    return images, labels


def _of(chosen: Chosen, places: Sequence[int]) -> Chosen:
    """The part of a batch at some places."""
    indices, draws = chosen
    return Chosen([indices[place] for place in places], [draws[place] for place in places])
