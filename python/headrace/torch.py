"""For code that wants a ``torch.utils.data.IterableDataset``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch.utils.data

from headrace.errors import UnsupportedError
from headrace.loader import Loader


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """A ``Loader`` as an iterable dataset of whole batches.

    For ``DataLoader(ds, batch_size=None, num_workers=0)``: the threads are Headrace's own, so
    worker processes would only copy. Takes the arguments of ``Loader``.

    Raises:
        UnsupportedError: when it is iterated in a DataLoader's worker process.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        self.loader = Loader(*args, **kwargs)

    def __iter__(self) -> Iterator[Any]:
        # Each worker would yield the whole epoch: every sample several times, and nobody told.
        if torch.utils.data.get_worker_info() is not None:
            raise UnsupportedError(
                "IterableDataset in a DataLoader's worker is not yet part of this version; it has "
                "threads of its own, so give the DataLoader num_workers=0"
            )
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def set_epoch(self, epoch: int) -> None:
        """As ``Loader.set_epoch``."""
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """As ``Loader.state_dict``."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As ``Loader.load_state_dict``."""
        self.loader.load_state_dict(state)
