"""Which batches of an iteration were handed out, even if exceptions come in between.

A signal may come at any time. Python then runs its handler between two instructions: after a call,
at the beginning of a function, at the end of a loop's body. What the handler raises, such as
Ctrl-C's KeyboardInterrupt or an exception of the program's own, ends whatever the thread was doing.
So does a MemoryError. None of them may lose a batch, so every iterator of this package does the
same:

1. It reserves the number of the next batch for the thread that asks.
2. It makes the batch of that number, which can be repeated.
3. It drops the reservation and returns: two instructions in a row, without a call between them.

An exception before the third step leaves the reservation. So the next call makes the same batch,
and a saved state is the one before it. After the third step the batch belongs to the caller.
"""

from __future__ import annotations

import signal
from types import CodeType, TracebackType
from typing import Any

from headrace.errors import ClosedError, ForkedError, WaitTimeoutError


class Delivery:
    """The numbers of an iteration's batches: reserved, and handed out."""

    def __init__(self) -> None:
        # The numbers are kept by thread. An iterator deletes an entry itself, because a call would
        # be one instruction more.
        self.reserved: dict[int, int] = {}
        self._behind = 0  # the number that nobody has reserved yet

    def upcoming(self, thread: int) -> int:
        """Returns the number that a thread gets next: the one it has reserved, or a new one."""
        return self.reserved.get(thread, self._behind)

    def reserve(self, thread: int, number: int) -> None:
        """Reserves the number that ``upcoming`` returned."""
        behind = max(number + 1, self._behind)
        # Neither an exception nor another thread can come between these two.
        self.reserved[thread] = number
        self._behind = behind

    def told(self, number: int) -> bool:
        """Whether a thread has asked for a batch and has got it, or the error of it."""
        return number < self._behind

    @property
    def handed_out(self) -> int:
        """How many batches were handed out, up to the first that was not."""
        return min([self._behind, *self.reserved.values()])


def is_of_the_batch(error: BaseException) -> bool:
    """Whether an exception concerns one batch only, so that iterating continues behind that batch.

    A bad file or the program's own function raises such exceptions. Others come from outside:
    anything that is not an ``Exception``, a lack of memory, what a signal handler raised, the end
    of a wait, a closed loader.
    """
    outside = (MemoryError, StopIteration, ClosedError, ForkedError, WaitTimeoutError)
    if not isinstance(error, Exception) or isinstance(error, outside):
        return False
    return not _passed_through(error.__traceback__, _handlers())


def _handlers() -> set[CodeType]:
    """Returns the code of all signal handlers that are written in Python."""
    found = set()
    for number in signal.valid_signals():
        handler: Any = signal.getsignal(number)
        handler = getattr(handler, "func", handler)  # the function of a functools.partial
        if not hasattr(handler, "__code__") and callable(handler):
            handler = type(handler).__call__  # an object that can be called
        code = getattr(handler, "__code__", None)
        if code is not None:
            found.add(code)
    return found


def _passed_through(traceback: TracebackType | None, codes: set[CodeType]) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False
