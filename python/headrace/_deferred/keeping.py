"""Keeps the states that random generators had before each batch that is not handed out yet.

A file turns out to be bad when its batch is decoded, which may be some batches later. The program's
code then runs again for that batch, and must draw what it drew the first time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace._deferred.drawn import States, generators_of, go_back, moved, states
from headrace._deferred.recording import Asked

# With so many batches under way, a process makes a batch only when it is asked for (iteration.py).
_NONE_AHEAD = 2
# To look for a dataset's generators takes as long as ten samples; to note their states takes as
# long as one. Each of the first batches looks for them, because a dataset may make them there.
_LOOK_EVERY, _LOOK_FIRST = 4_096, 4


class _Stood:
    """What was asked for in one batch, and the generators' states before and after it.

    The states after it are noted only if no batch is made ahead: else others may have drawn since.
    """

    __slots__ = ("after", "asked", "before")

    def __init__(self, asked: Asked, before: States) -> None:
        self.asked, self.before = asked, before
        self.after: States | None = None


class Keeping:
    """The generators' states before the batches that a process made last.

    Args:
        most: how many batches may be under way.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._stood: dict[int, _Stood] = {}
        self._since: States | None = None
        self._own: list[Any] = []
        self._batches = self._samples = 0  # begun; and made since the last look for generators

    def begin(self, asked: Asked, dataset: Any) -> None:
        """Notes the states before a batch is made, or goes back to them if it is made again.

        Args:
            dataset: the program's dataset, which may have generators of its own.
        """
        self._since = None  # it may be left of a batch whose collate function was never called
        known = self._stood.get(asked.number) if asked.eager else None
        if known is not None and _bare(known.asked) == _bare(asked):
            # After the batch, what was drawn since goes on where it stood.
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
        """Looks for generators again, because a dataset may have made others for a new epoch."""
        self._batches = 0

    def again(self, number: int) -> None:
        """Goes back to the states before a batch that was begun, because it is begun anew."""
        go_back(self._stood[number].before)

    def end(self, number: int) -> None:
        """Ends the making of a batch, also of one that cannot be made.

        If nobody has drawn since the batch was first made, the generators stay where they are,
        which is where torch's loader would leave them.
        """
        since, self._since = self._since, None
        if since is not None:
            go_back(since)
        elif self.most <= _NONE_AHEAD and number in self._stood:
            stood = self._stood[number]
            stood.after = states(_own(stood.before))

    def forget(self, number: int) -> None:
        """Forgets a batch that has all its values, because it is not made again."""
        self._stood.pop(number, None)


def _own(before: States) -> list[Any]:
    """The generators besides those of the process."""
    return [generator for generator, _ in before[3]]


def _bare(asked: Asked) -> Asked:
    """The request without what is slow to compare, or differs when a batch is asked for again."""
    return asked._replace(indices=None, eager=frozenset())


class Turns(Iterator[int]):
    """Says which worker process gets the next batch; one that is made again goes where it was made.

    torch's loader asks its sampler for a batch, and then this for the worker (``_try_put_index``).
    If that worker has ended, it asks again.

    Attributes:
        made_by: by the numbers of batches that are made again, the workers that made them.
    """

    def __init__(self, own: Iterator[int]) -> None:
        self._own = own
        self._next: int | None = None
        self.made_by: dict[int, int] = {}

    def send(self, number: int) -> None:
        """Has the next batch, which is made again, go to the worker that made it."""
        self._next = self.made_by.pop(number, None)

    def __next__(self) -> int:
        chosen, self._next = self._next, None
        return next(self._own) if chosen is None else chosen
