"""Describes what an iteration needs of its ``DataLoader``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch

from headrace._torch.batches import Engine
from headrace._torch.draws import AnyDraws, Draws
from headrace._torch.generators import Tracker
from headrace._torch.notices import Notices
from headrace._torch.place import Standing
from headrace._torch.pool import Pool
from headrace._torch.recipe import Recipe


class Sampled(Protocol):
    """What is needed to choose samples; torch's documentation describes the first five members."""

    sampler: Any
    batch_sampler: Any
    generator: torch.Generator | None
    num_workers: int
    persistent_workers: bool

    base_seed: int | None  # torch's base seed for workers, once an iteration has drawn it
    tracker: Tracker


class Numbered(Protocol):
    """The samples of a dataset by their numbers."""

    def rows(self, indices: Iterable[Any]) -> list[int]:
        """The numbers of samples that a sampler chose."""

    def draws(self) -> Draws | AnyDraws:
        """A counter of how often each sample came."""


class Iterated(Sampled, Protocol):
    """``headrace.DataLoader``: torch's attributes first."""

    collate_fn: Any
    pin_memory: bool
    timeout: float

    seed: int | None
    standing: Standing
    notices: Notices

    def __len__(self) -> int:
        """How many batches an epoch has."""

    @property
    def epoch_sampler(self) -> Any:
        """The sampler whose order ``set_epoch`` chooses, or None."""

    def take(self, recipe: Recipe) -> Engine | Pool:
        """What makes batches."""

    def give_back(self, engine: Engine | Pool) -> None:
        """Takes back what makes batches, after the last batch."""
