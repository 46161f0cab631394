"""Keeps the states that random generators had before each batch that is not delivered yet.

A file turns out to be bad when its batch is decoded, which may be some batches later. The program's
code then runs again for the batch, and draws what it drew the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace._deferred.drawn import States, generators_of, go_back, moved, states
from headrace._deferred.recording import Asked

# A process that makes a batch only when it is asked for has so many under way (iteration.py).
_NONE_AHEAD = 2
# To look for a dataset's generators takes as long as ten samples, to note where they stand as one.
# The first batches, in which a dataset may make its generators, look each.
_LOOK_EVERY, _LOOK_FIRST = 4_096, 4


class _Stood:
    """What was asked for in one batch, and the generators' states before and after it.

    The state after it is known only if no batch is made ahead: others may have drawn since.
    """

    __slots__ = ("after", "asked", "before")

    def __init__(self, asked: Asked, before: States) -> None:
        self.asked, self.before = asked, before
        self.after: States | None = None


class Keeping:
    """The batches that a process has made last.

    Args:
        most: how many may be under way.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._stood: dict[int, _Stood] = {}
        self._since: States | None = None
        self._own: list[Any] = []
        self._batches = self._samples = 0  # begun, and made since generators were looked for

    def begin(self, asked: Asked, dataset: Any) -> None:
        """A batch is to be made: for the first time, or with the draws of that time.

        Args:
            dataset: the program's, which may have generators of its own.
        """
        self._since = None  # of a batch whose collate function was never called
        known = self._stood.get(asked.number) if asked.eager else None
        if known is not None and _bare(known.asked) == _bare(asked):
            # What was drawn since goes on where it was, behind the batch.
            if known.after is None or moved(known.after):
                self._since = states(_own(known.before))
            go_back(known.before)
            return
        self._batches += 1
        self._samples += len(asked.samples)
        if self._batches <= _LOOK_FIRST or self._samples > _LOOK_EVERY:
            self._own, self._samples = generators_of(dataset), 0
        self._stood.pop(asked.number, None)
        self._stood[asked.number] = _Stood(asked, states(self._own))
        while len(self._stood) > self.most:
            del self._stood[next(iter(self._stood))]

    def look_anew(self) -> None:
        """An epoch begins, for which a dataset may have made other generators."""
        self._batches = 0

    def again(self, number: int) -> None:
        """A batch that was begun is begun anew."""
        go_back(self._stood[number].before)

    def end(self, number: int) -> None:
        """A batch was made, or cannot be. Where nobody has drawn since it was made first, the
        generators stand where torch's loader leaves them."""
        since, self._since = self._since, None
        if since is not None:
            go_back(since)
        elif self.most <= _NONE_AHEAD and number in self._stood:
            stood = self._stood[number]
            stood.after = states(_own(stood.before))

    def forget(self, number: int) -> None:
        """A batch has all its values, and is not asked for again."""
        self._stood.pop(number, None)


def _own(before: States) -> list[Any]:
    """The generators besides those of the process."""
    return [generator for generator, _ in before[3]]


def _bare(asked: Asked) -> Asked:
    """Without what is compared slowly, or differs where a batch is asked for again."""
    return asked._replace(indices=None, eager=frozenset())


class Turns(Iterator[int]):
    """Which worker process torch's loader gives the next batch; one may be sent where it was made.

    torch's loader asks its sampler for a batch, and then this for the worker (``_try_put_index``).
    Of a worker that has ended it asks again.

    Attributes:
        made_by: the workers of batches that are made again, by their numbers.
    """

    def __init__(self, own: Iterator[int]) -> None:
        self._own = own
        self._next: int | None = None
        self.made_by: dict[int, int] = {}

    def send(self, number: int) -> None:
        """Has a batch go where it was made, as the next one."""
        self._next = self.made_by.pop(number, None)

    def __next__(self) -> int:
        chosen, self._next = self._next, None
        return next(self._own) if chosen is None else chosen
