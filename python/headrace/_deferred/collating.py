"""Calls a program's collate function with pending tensors, where torch's loader calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.utils.data

from headrace._deferred import recording, undoing
from headrace._deferred.arriving import Recorded, Sent, pickles, sendable
from headrace._deferred.dataset import Fetching, Recorder
from headrace._deferred.drawn import go_back, states
from headrace._deferred.recording import Recording, ValuesNeeded

_OF_TORCH = (torch.utils.data.default_collate, torch.utils.data.default_convert)


class Collating:
    """A collate function that gets pending tensors. The recording of a batch ends after it.

    If the function needs values, as MixUp's does, it is called again in the training process, once
    all threads have made the values of the batch. What it changed until then is put back. From the
    next batch on it is called only there. If its changes could not be put back, it is called only
    there from the first batch on.

    Args:
        batches: whether it is given lists of samples, and not single samples.
    """

    def __init__(self, collate: Callable[[Any], Any], fetching: Fetching, batches: bool) -> None:
        self._collate, self._fetching, self._batches = collate, fetching, batches
        # torch's own functions change nothing that they are given, and draw nothing.
        self._own = not any(collate is function for function in _OF_TORCH)
        self._needs_values = False

    def __call__(self, samples: Any) -> Recorded | Sent:
        found, self._fetching.recorded = self._fetching.recorded, None
        assert found is not None
        try:
            return self._collated(found, samples)
        finally:
            if found.asked is not None:
                self._fetching.keeping.end(found.asked.number)

    def _collated(self, found: Recording, samples: Any) -> Recorded | Sent:
        data, collated = samples, False
        taken = len(samples) if self._batches and found.asked is None else None
        if not self._needs_values:
            data, collated = self._early(found, samples)
        reasons = list(found.reasons)
        pending, found.pending = found.pending, []  # so that the recording does not keep them
        made = Recorded(data, pending, reasons, found.opened, found.asked, found.limits, collated)
        made.engine_made, made.foreign = found.engine_made, found.foreign
        made.taken = taken
        if not found.travels:
            made.images = found.made
            return made
        made.worker = torch.utils.data.get_worker_info().id  # type: ignore[union-attr]
        try:
            return Sent(made)
        except Exception as failure:
            raise sendable(failure)  # noqa: B904  # it has its cause already

    def _early(self, found: Recording, samples: Any) -> tuple[Any, bool]:
        """What the function makes of pending tensors, and true.

        If it needs values or has met a file that cannot be decoded: the samples, as they were, and
        false.
        """
        tried = self._own and (bool(found.pending) or undoing.waits(samples))
        before = (undoing.Before(samples, self._collate), states()) if tried else None
        if before is not None and before[0].opaque:
            if not found.travels or pickles(samples):
                self._needs_values = True
                return samples, False
            before = None
        # If the function cannot be called twice, values are made at once where it needs them.
        found.waits, found.collating = before is not None or not self._own, True
        failures, data = recording.failures(), None
        try:
            with Recorder(found):
                data = self._collate(samples)
        except ValuesNeeded:
            pass
        except Exception:  # it may be a consequence of values that the function was refused
            if not found.refused and not self._may_be_made_again(found, before, failures, samples):
                raise
        finally:
            found.settle()  # closes the files that the function opened
        if not found.refused and not self._may_be_made_again(found, before, failures, samples):
            return data, True
        if before is not None:
            before[0].restore()
            go_back(before[1])
        self._needs_values = found.refused
        return samples, False

    def _may_be_made_again(
        self, found: Recording, before: Any, failures: int, samples: Any
    ) -> bool:
        """Whether the function met a bad file, and the samples can be made again.

        With torch's loader the code of a sample would have met that file.
        """
        if recording.failures() == failures or before is None:
            return False
        # Pickling moves tensors to shared memory, so it is not tried unless the batch is sent.
        return not found.travels or pickles(samples)
