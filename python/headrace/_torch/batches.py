"""Whole batches of a ``DataLoader``, made by the engine.

The engine is told the rows of each batch by the batch's number, and makes the batch of a number, if
necessary again. A row that comes for the n-th time in an epoch is drawn with draw number n, so that
its augmentation differs each time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from headrace._batch import lending, views
from headrace._engine import _lib, living, tracing
from headrace._engine.finalizer import Finalizer
from headrace._epoch.arrivals import Chosen
from headrace._torch.pool import Pool
from headrace._torch.recipe import Recipe
from headrace._torch.single import wrapper
from headrace._torch.swapped import Swapped


class Engine:
    """A native loader of submitted batches, kept by its ``DataLoader`` from epoch to epoch."""

    def __init__(self, recipe: Recipe, trace: str | None = None) -> None:
        self.recipe = recipe
        self._trace_path = trace
        self._handle: _lib.Handle | None = None
        self._epoch = 0
        self._chosen: dict[int, Chosen] = {}
        self._arrivals: Swapped | None = None
        # The pool that makes the samples which Pillow decodes, once there are any.
        self._others: list[Pool] = []
        self._close_others = Finalizer(self, _close_all, self._others)
        dtype = recipe.translation.dtype
        self._lender = lending.lender("torch") if recipe.pin_memory else None
        self._view = views.viewer("torch", dtype, False, False, self._lender)

    def begin(self, epoch: int, chosen: dict[int, Chosen]) -> None:
        """Drops what was submitted, and begins an epoch. Its augmentations are drawn for ``epoch``.

        Args:
            chosen: the batches by their numbers from 0 on; whoever chooses them adds them here.
        """
        if self._arrivals is not None:
            self._arrivals.drop()
        self._epoch, self._chosen, self._arrivals = epoch, chosen, None
        if self._handle is not None:
            _lib.call("hr_seek", self._handle.value, epoch, 0)

    def submit(self, handed_out: int) -> None:
        """Has the engine begin with the batches that were chosen since the last call."""
        if self._arrivals is not None:
            self._arrivals.forget(handed_out)
            self._arrivals.submit()
        elif self._chosen:
            self._opened(handed_out).approach(handed_out)

    def make(self, number: int, timeout: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The images and labels of the batch of a number.

        Raises:
            TimedOut: it did not come within `timeout` seconds; 0 waits for as long as it takes.
            HeadraceError: one of its images is bad.
        """
        arrivals = self._arrivals or self._opened(number)
        return arrivals.make(number, timeout, self._view)

    def _opened(self, first: int) -> Swapped:
        recipe = self.recipe
        if self._handle is None:
            config = recipe.config() | {
                "order": "submitted",
                "scattered": scattered(self._chosen, len(recipe.samples.dataset)),
                "batch_size": max(len(self._chosen[first].indices), 1),
                "num_threads": recipe.num_threads,
                "nice": lending.niceness(self._lender),
                "prefetch": recipe.prefetch,
                "seed": recipe.seed,
                "on_error": recipe.on_error,
                "rank": 0,
                "world_size": 1,
                "epoch": self._epoch,
            }
            dataset = recipe.samples.dataset
            config |= tracing.config(self._trace_path)
            handle = _lib.opened("hr_loader_open", config, dataset.handle)
            living.add(handle)
            tracing.opened(handle, config.get("trace"))
            dataset.lend_arrays(handle)
            if self._lender is not None:
                info = _lib.info("hr_loader_info", handle.value)
                self._lender.serve(handle, int(info["slot_bytes"]), recipe.prefetch)
            self._handle = handle
        arrivals = Swapped(self._handle.value, self._epoch, recipe, self._others)
        if self._lender is not None:
            arrivals.returned = self._lender.returned
        arrivals.chosen = self._chosen
        self._arrivals = arrivals
        return arrivals

    def samples(self, images: torch.Tensor, labels: torch.Tensor) -> list[Any]:
        """A batch as the (image, label) pairs that torchvision's dataset would have returned."""
        # To autograd they are no views of one another: a write to one does not count for others.
        # unsafe_split() makes such tensors at once; of no images it makes one tensor.
        several = images.flatten(0, 1).unsafe_split(images.shape[1])[: len(images)]
        singly = map(wrapper(self.recipe.translation), several)
        return list(zip(singly, labels.tolist(), strict=True))

    def trace(self, path: str | None) -> str | None:
        """Begins to write a trace, or ends it with None; returns the file's name, if it began."""
        self._trace_path = path
        if self._handle is None:
            return None
        if path is None:
            tracing.end(self._handle)
            return None
        return tracing.begin(self._handle, path)

    def stats(self) -> dict[str, Any]:
        """As ``Loader.stats``; empty if the engine is not open."""
        if self._handle is None or not self._handle.close.alive:
            return {}
        return dict(_lib.info("hr_loader_info", self._handle.value)["stats"])

    def note(self, kind: int, number: int, began: int) -> None:
        """Adds to the trace, if one is written, what was done with a batch since ``began``."""
        if self._arrivals is not None:
            self._arrivals.note(kind, number, began)

    def close(self) -> None:
        _close_all(self._others)
        if self._handle is not None:
            tracing.close(self._handle)
            self._handle.close()


def _close_all(pools: list[Pool]) -> None:
    while pools:
        pools.pop().close()


def scattered(chosen: Mapping[int, Chosen], samples: int) -> bool:
    """Whether samples that are chosen one after the other lie far apart in the dataset.

    It does not matter which sampler chose them. After a full shuffle, neighbours lie a third of all
    samples apart on average.
    """
    order = np.array([index for number in sorted(chosen) for index in chosen[number].indices])
    if len(order) < 2:
        return False
    return float(np.abs(np.diff(order)).mean()) > samples / 8
