"""Where a loader stands: which epoch, and how many of its samples were handed out."""

from __future__ import annotations


class Position:
    """The place reached, and the place where the next iteration begins.

    A place is ``(epoch, samples)``, the samples of all ranks together: it means the same for any
    batch size and number of ranks. The two places differ after an early ``break``: a checkpoint
    then goes on behind the last batch, while the next ``iter`` is the next epoch.
    """

    def __init__(self) -> None:
        self.place = (0, 0)
        self._next: tuple[int, int] | None = (0, 0)  # None: the epoch after the place reached

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        return (self._next or (self.place[0] + 1, 0))[0]

    def begin(self) -> tuple[int, int]:
        """Starts an iteration and returns its place."""
        self.place, self._next = self._next or (self.place[0] + 1, 0), None
        return self.place

    def reach(self, epoch: int, samples: int) -> None:
        """Notes how far an iteration has come."""
        self.place = (epoch, samples)

    def finish(self, epoch: int) -> None:
        """Notes the end of an epoch: from here on the place is the start of the next one."""
        self.place = (epoch + 1, 0)
        if self._next is None:
            self._next = self.place

    def end(self, epoch: int) -> None:
        """Notes that an epoch under way has no more batches, where its last one did not know it."""
        if self._next is None and self.place[0] == epoch:
            self.finish(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the next one; a place already waiting in that epoch is kept."""
        if self._next is None or self._next[0] != epoch:
            self.go_to(epoch, 0)

    def go_to(self, epoch: int, samples: int) -> None:
        """Makes a place the current one, and the start of the next iteration."""
        self.place = self._next = (epoch, samples)
