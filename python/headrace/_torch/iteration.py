"""Iterates over a ``DataLoader``: its sampler's indices come in, its batches go out."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Any

import torch.utils.data
from torch.utils.data import default_collate

from headrace._batch import lending
from headrace._engine import _lib, abi, tracing
from headrace._epoch.delivery import is_of_the_batch
from headrace._torch.batches import Engine
from headrace._torch.choosing import Choice
from headrace._torch.iterated import Iterated
from headrace._torch.place import Place, spread
from headrace._torch.pool import Pool
from headrace._torch.recipe import Recipe

# It goes into lists, tuples, mappings and objects with a pin_memory() of their own.
_pinned: Any = torch.utils.data._utils.pin_memory.pin_memory
_MOST_AHEAD = 1024  # batches; the engine lets 4,096 wait


class Iteration:
    """The iterator of a ``DataLoader``.

    An exception from outside that ends a call loses no batch (``delivery``).
    """

    def __init__(self, loader: Iterated, recipe: Recipe) -> None:
        # While this thread waits for a batch, other threads may ask for one as well.
        self._turn = threading.RLock()
        self._loader = loader
        place, self._resumed = loader.standing.begins(loader.epoch_sampler)
        self._choice = Choice(loader, recipe.samples, place, self._resumed is not None)
        self._progress = self._choice.progress
        ahead = recipe.prefetch * max(1, loader.num_workers)
        self._ahead = min(_MOST_AHEAD, ahead)
        self._maker = loader.take(recipe)
        self._foreign = recipe.samples.foreign
        self._decoded = 0 if self._foreign is None else self._foreign.decoded
        self._finish = weakref.finalize(self, _give_back, weakref.ref(loader), self._maker)
        self._finish.atexit = False
        self._maker.begin(self._draw_epoch(), self._choice.chosen)
        # torch asks the sampler now if it has workers, and otherwise with the first batch.
        if loader.num_workers:
            self._choose(0)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        _lib.library()  # refuses a forked child, in which nobody releases the lock
        thread, progress, standing = threading.get_ident(), self._progress, self._loader.standing
        began = tracing.now()
        reserved = progress.delivery.reserved
        try:
            with self._turn:
                received = self._received(thread)
            batch = self._collated(received)
            self._tell()
            if self._loader.pin_memory and lending.available():
                copying = tracing.now()
                batch = _pinned(batch)  # but not what the engine made in such memory
                self._note(abi.SPAN_COPY, reserved[thread], copying)
            self._note(abi.SPAN_NEXT, reserved[thread], began)
            resume, epoch = self._behind()
        except Exception as error:
            if not is_of_the_batch(error) or thread not in reserved:
                raise
            # The error is of this batch, or it is the sampler's own error, which ends the pass.
            if self._choice.fails(reserved[thread]):
                del reserved[thread]
                self._choice.ended = True
                self._choice.failure = None
            else:
                resume, epoch = self._behind()
                standing.resume = resume
                standing.next_epoch = epoch
                standing.latest = progress
                del reserved[thread]
            raise
        # No exception comes between these.
        standing.resume = resume
        standing.next_epoch = epoch
        standing.latest = progress
        del reserved[thread]
        return batch

    def _tell(self) -> None:
        """Warns once an epoch that Pillow decodes some files, at the first such file."""
        if self._foreign is not None and self._foreign.decoded > self._decoded >= 0:
            self._decoded = -1
            text, known = self._foreign.news
            self._loader.notices.say(text, stacklevel=3, topic=f"{known} files for Pillow")

    def _note(self, kind: int, number: int, began: int) -> None:
        if began and isinstance(self._maker, Engine):
            self._maker.note(kind, number, began)

    def _behind(self) -> tuple[Place | None, int]:
        """Where the loader's next iteration begins, once a batch was handed out."""
        return self._loader.standing.behind(self._resumed, self._progress.place.epoch)

    def _received(self, thread: int) -> Any:
        """A thread's next batch, as the engine or the pool made it."""
        delivery, choice = self._progress.delivery, self._choice
        number = delivery.upcoming(thread)
        self._choose(number)
        if not choice.has(number):
            if not delivery.reserved:  # else another thread still waits for its batch
                self._finish()
            self._loader.standing.end(self._progress, self._resumed)
            raise StopIteration
        delivery.reserve(thread, number)
        choice.check(number)
        received = self._maker.make(number, self._loader.timeout)
        self._choose(number + 1)
        return received

    def _choose(self, number: int) -> None:
        """Has as many batches under way as are allowed, from a number on."""
        if self._finish.alive:
            handed_out = self._progress.delivery.handed_out
            self._choice.fill(number, handed_out, self._ahead)
            self._maker.submit(handed_out)

    def _collated(self, received: Any) -> Any:
        loader, collate = self._loader, self._loader.collate_fn
        if isinstance(self._maker, Engine):
            images, labels = received
            if collate is default_collate and len(labels):
                return [images, labels]
            received = self._maker.samples(images, labels)
        return collate(received if loader.batch_sampler is not None else received[0])

    def _draw_epoch(self) -> int:
        """The epoch in the key of the augmentations; the seed in it is the loader's."""
        loader, place = self._loader, self._progress.place
        if loader.seed is not None:
            return place.epoch
        assert place.base_seed is not None
        # Persistent workers keep the base seed, so its epochs are counted: draws must not repeat.
        passed = place.epoch if loader.persistent_workers else 0
        return spread(place.base_seed, passed)


def _give_back(loader: weakref.ref[Iterated], maker: Engine | Pool) -> None:
    owner = loader()
    if owner is None:
        maker.close()
    else:
        owner.give_back(maker)
