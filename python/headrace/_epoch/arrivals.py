"""The batches of an engine, asked for by their numbers.

``hr_next`` delivers one batch after the other. A caller that asks for a number gets that batch. The
engine may stand at another one, because an exception ended the call that took a batch, or because a
batch could not be made. Then it is moved to the number (``hr_seek``). Order and draws are functions
of the position, so a batch that is made twice is the same.
"""

from __future__ import annotations

import array
import math
import time
from collections.abc import Callable, Sequence
from ctypes import byref
from typing import Any, NamedTuple

from headrace._engine import _lib, abi, tracing
from headrace._epoch.delivery import is_of_the_batch
from headrace.errors import HeadraceError, InternalError


class Arrivals:
    """The batches that come from an engine's handle.

    Args:
        handle: the handle of a loader.
        seek: sends the engine to the batch with a number.

    Attributes:
        returned: if memory is lent, it gets the tag of a batch that was given back without being
            taken: the loan has ended (``_batch.lending``).
    """

    returned: Callable[[int], None] | None = None

    def __init__(self, handle: int, seek: Callable[[int], None]) -> None:
        self._handle, self._seek = handle, seek
        self._receive = _lib.library().hr_next
        self._batch, self._error = abi.Batch(), abi.Error()
        self._out = (byref(self._batch), byref(self._error))
        self._here = -1  # the number of the batch in _batch, if there is one
        # What the engine delivers next, if _batch is empty. hr_next either fills _batch or leaves
        # the engine where it was, so an exception after it leaves both as they should be.
        self._at = -1  # not known
        self._stands = (0, 0)  # for a trace: the epoch, and the step of it that number 0 is

    def wait(self, number: int, seconds: float | None) -> abi.Batch | None:
        """Returns the batch with a number, or None if it did not come in time (None: no limit).

        It stays the same batch until it is taken: ``views.viewer``.

        Raises:
            HeadraceError: the batch cannot be made.
        """
        batch = self._batch
        if batch.batch and self._here != number:
            self.drop()
        if not batch.batch and not self._received(number, seconds):
            return None
        self._at = number + 1  # once the batch is taken
        return batch

    def _received(self, number: int, seconds: float | None) -> bool:
        self.approach(number)
        deadline = math.inf if seconds is None else time.monotonic() + seconds
        slice_ms = _slice_ms(seconds)
        began = tracing.now()
        self._here = number
        while code := self._receive(self._handle, slice_ms, *self._out):
            if code != abi.TIMEOUT:
                self._at = -1  # it stopped at a fault; a seek makes it continue
                if code == abi.END:
                    raise InternalError(f"the engine ended its epoch before batch {number}")
                raise self._error.exception()
            if seconds is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                slice_ms = _slice_ms(left)
        if began:
            self._stands = (self._batch.epoch, self._batch.step - number)
            self.note(abi.SPAN_WAIT, number, began)
        return True

    def note(self, kind: int, number: int, began: int) -> None:
        """Adds to the trace, if one is written, what was done with a batch since ``began``."""
        epoch, first = self._stands
        tracing.note(kind, self._handle, epoch, first + number, began)

    def approach(self, number: int) -> None:
        """Makes the engine deliver a number next, before anything is taken from it."""
        if self._at != number:
            self._seek(number)
            self._at = number

    def ready(self, number: int) -> bool:
        """Whether a batch is there, so that ``wait`` would not have to wait."""
        if self._batch.batch:
            return self._here == number
        if self._at != number:
            return False
        self._here = number
        return not self._receive(self._handle, 0, *self._out)

    def drop(self) -> None:
        """Gives back a batch that came and was not taken."""
        if self._batch.batch:
            self._at = self._here = -1  # nobody gets it any more, even if the call is interrupted
            _lib.release(self._batch.batch)  # releasing it twice is harmless
            if self.returned is not None:
                self.returned(self._batch.tag)
            self._batch.batch = 0


class Chosen(NamedTuple):
    """A batch that was chosen, for an engine whose batches are submitted."""

    indices: Sequence[int]
    draws: Sequence[int]  # their draw numbers


class Submitted(Arrivals):
    """The batches of an engine that is told what they consist of (``hr_submit``).

    Batches that were submitted and not handed out are kept, because they have to be submitted again
    whenever the engine is sent to another place.

    Args:
        handle: the handle of a loader whose order is "submitted".
        epoch, first: the key of the draws: the epoch, and the number of batch 0 in it.
    """

    def __init__(self, handle: int, epoch: int, first: int = 0) -> None:
        super().__init__(handle, self._go_to)
        self.chosen: dict[int, Chosen] = {}  # by their numbers, without a gap
        self._epoch, self._first = epoch, first
        self._sent = -1  # the number that is submitted next; -1: not known
        self._refused: dict[int, HeadraceError] = {}  # batches that the engine does not take

    def wait(self, number: int, seconds: float | None) -> abi.Batch | None:
        if self._sent < 0 and not self._batch.batch:
            self._at = -1
        return super().wait(number, seconds)

    def approach(self, number: int) -> None:
        super().approach(number)
        self.submit()
        if number in self._refused:
            raise self._refused[number]

    def submit(self) -> None:
        """Submits what was chosen since. A batch that is refused raises when its turn comes."""
        while (number := self._sent) in self.chosen and number not in self._refused:
            # If the call is interrupted, nobody knows whether the batch was submitted.
            self._sent = -1
            indices, draws = self.asked(number)
            try:
                _lib.submit(self._handle, array.array("q", indices), array.array("Q", draws))
            except HeadraceError as error:
                if not is_of_the_batch(error):
                    raise
                self._refused[number] = error
                self._sent = number
            else:
                self._sent = number + 1

    def asked(self, number: int) -> Chosen:
        """Returns the samples that the engine is asked for as the batch with a number."""
        return self.chosen[number]

    def forget(self, handed_out: int) -> None:
        """Drops batches that nobody can ask for again."""
        forget(self.chosen, handed_out)

    def _go_to(self, number: int) -> None:
        _lib.call("hr_seek", self._handle, self._epoch, self._first + number)
        self._sent = number


def forget(numbered: dict[int, Any], below: int) -> None:
    """Drops entries with lower numbers; another thread may drop some meanwhile."""
    for number in list(numbered):
        if number < below:
            numbered.pop(number, None)


def _slice_ms(seconds: float | None) -> int:
    """Returns how long to wait inside the library in one call, if so much time is left."""
    return _lib.SLICE_MS if seconds is None else min(_lib.SLICE_MS, math.ceil(seconds * 1000))
