"""Where a loader stands: which epoch, and how many of its samples were handed out."""

from __future__ import annotations

from typing import NamedTuple

from headrace._epoch.delivery import Delivery


class Reached(NamedTuple):
    """A position, counted in samples of all ranks together, so that it holds for any batch size."""

    epoch: int
    samples: int
    drawn: list[int] | None = None  # of a user's sampler: its rerun.checksum, and whose it is


class Pass:
    """One iteration: where it began, and how far it has come.

    Args:
        origin: where it begins.
        before: what the loader's place was before it.
        step_samples: samples that all ranks together take a batch.
        steps: how many batches it has; infinity where that is not known yet.
    """

    def __init__(self, origin: Reached, before: Reached, step_samples: int, steps: float) -> None:
        self.origin, self.before = origin, before
        self.step_samples, self.steps = step_samples, steps
        self.delivery = Delivery()
        self.drawn: dict[int, list[int]] | None = None  # of a user's sampler, behind each batch

    @property
    def moved(self) -> int:
        """Grows with every batch that is handed out, and at the end."""
        handed_out = self.delivery.handed_out
        return handed_out + (handed_out >= self.steps)

    @property
    def reached(self) -> Reached:
        """The place behind what was handed out; behind the last batch the start of what follows."""
        epoch, begin, _ = self.origin
        handed_out = self.delivery.handed_out
        if handed_out >= self.steps:
            return Reached(epoch + 1, 0)
        if not handed_out:
            return self.before
        drawn = None if self.drawn is None else self.drawn.get(handed_out - 1)
        return Reached(epoch, begin + handed_out * self.step_samples, drawn)


class Position:
    """The place reached, and the place where the next iteration begins.

    The two differ after an early ``break``: a checkpoint then goes on behind the last batch, while
    the next ``iter`` is the next epoch. An iteration that has handed nothing out has not begun.
    """

    def __init__(self) -> None:
        self.latest: Pass | None = None  # the latest iteration
        # What was said, while which iteration was the latest, and how far that had come.
        self._said = Reached(0, 0)
        self._during: Pass | None = None
        self._moved = 0

    @property
    def reached(self) -> Reached:
        """The place behind the last batch handed out, or what was said since."""
        latest = self.latest
        if latest is None or (latest is self._during and latest.moved == self._moved):
            return self._said
        return latest.reached

    @property
    def place(self) -> tuple[int, int]:
        """Its epoch and samples."""
        return self.reached[:2]

    @property
    def upcoming(self) -> Reached:
        """Where the next iteration begins."""
        latest = self.latest
        if latest is None or latest is self._during:
            return self._said
        return Reached(latest.origin.epoch + 1, 0) if latest.moved else latest.origin

    @property
    def next_epoch(self) -> int:
        """The epoch of the next iteration."""
        return self.upcoming.epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the next one; a place already waiting in that epoch is kept."""
        latest = self.latest
        waiting = latest is None or latest is self._during or not latest.moved
        if not waiting or self.upcoming.epoch != epoch:
            self.go_to(epoch, 0)

    def go_to(self, epoch: int, samples: int, drawn: list[int] | None = None) -> None:
        """Makes a place the current one, and the start of the next iteration."""
        said, latest = Reached(epoch, samples, drawn), self.latest
        moved = 0 if latest is None else latest.moved
        # No exception comes between these.
        self._said = said
        self._during = latest
        self._moved = moved
