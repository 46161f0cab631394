"""Where a loader stands: its epoch, and how many samples of it were handed out."""

from __future__ import annotations

from typing import NamedTuple

from headrace._epoch.delivery import Delivery


class Reached(NamedTuple):
    """A position in samples of all ranks together, so that it is valid for any batch size."""

    epoch: int
    samples: int
    drawn: list[int] | None = None  # for a user's sampler: its rerun.checksum, and whose it is


class Pass:
    """One iteration: where it began, and how far it has come.

    Args:
        origin: where it begins.
        before: the loader's place before this iteration.
        step_samples: samples that all ranks together take for a batch.
        steps: how many batches it has; infinity if that is not known yet.
    """

    def __init__(self, origin: Reached, before: Reached, step_samples: int, steps: float) -> None:
        self.origin, self.before = origin, before
        self.step_samples, self.steps = step_samples, steps
        self.delivery = Delivery()
        self.drawn: dict[int, list[int]] | None = None  # a user's sampler: checksums by batch

    @property
    def moved(self) -> int:
        """Grows with every batch that is handed out, and at the end."""
        handed_out = self.delivery.handed_out
        return handed_out + (handed_out >= self.steps)

    @property
    def reached(self) -> Reached:
        """The place behind what was handed out; behind the last batch, that of the next epoch."""
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

    The two differ after an early ``break``: a checkpoint then continues behind the last batch,
    while the next ``iter`` begins the next epoch. An iteration that has handed out nothing has not
    begun.
    """

    def __init__(self) -> None:
        self.latest: Pass | None = None  # the latest iteration
        # The place that was set last, with the iteration that was the latest then and how far it
        # had come.
        self._said = Reached(0, 0)
        self._during: Pass | None = None
        self._moved = 0

    @property
    def reached(self) -> Reached:
        """The place behind the last batch that was handed out, or the place that was set since."""
        latest = self.latest
        if latest is None or (latest is self._during and latest.moved == self._moved):
            return self._said
        return latest.reached

    @property
    def place(self) -> tuple[int, int]:
        """Epoch and samples of the place reached."""
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
        """Makes ``epoch`` the next one; a place that already waits inside that epoch is kept."""
        latest = self.latest
        waiting = latest is None or latest is self._during or not latest.moved
        if not waiting or self.upcoming.epoch != epoch:
            self.go_to(epoch, 0)

    def go_to(self, epoch: int, samples: int, drawn: list[int] | None = None) -> None:
        """Makes a place the current one and the beginning of the next iteration."""
        said, latest = Reached(epoch, samples, drawn), self.latest
        moved = 0 if latest is None else latest.moved
        # No exception can come between these lines.
        self._said = said
        self._during = latest
        self._moved = moved
