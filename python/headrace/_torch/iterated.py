"""What an iteration needs of the ``DataLoader`` that it goes over."""

from __future__ import annotations

from typing import Any, Protocol

import torch

from headrace._torch.batches import Engine
from headrace._torch.generators import Tracker
from headrace._torch.notices import Notices
from headrace._torch.place import Standing
from headrace._torch.pool import Pool
from headrace._torch.recipe import Recipe


class Iterated(Protocol):
    """``headrace.DataLoader``: torch's attributes first, which torch's documentation describes."""

    sampler: Any
    batch_sampler: Any
    generator: torch.Generator | None
    collate_fn: Any
    num_workers: int
    persistent_workers: bool
    pin_memory: bool
    timeout: float

    seed: int | None
    base_seed: int | None  # torch's for its workers, once an iteration has drawn it
    standing: Standing
    notices: Notices
    tracker: Tracker

    def __len__(self) -> int:
        """Batches an epoch."""

    @property
    def epoch_sampler(self) -> Any:
        """The sampler whose order ``set_epoch`` chooses, or None."""

    def take(self, recipe: Recipe) -> Engine | Pool:
        """Something that makes batches."""

    def give_back(self, engine: Engine | Pool) -> None:
        """Takes it back behind the last batch."""
