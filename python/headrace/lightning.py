"""Headrace's loaders under Lightning's ``Trainer``, where a resume changes an epoch's length.

The ``Trainer`` asks a loader for the length of an epoch once, and trains no more batches than that
in any epoch. It asks before it loads the loader's state. Where a checkpoint of the middle of an
epoch is loaded by another number of ranks, or with another batch size, that epoch has a length of
its own: more ranks would end it too early, and fewer would end all epochs behind it too early.

    trainer = lightning.Trainer(..., callbacks=[headrace.lightning.Lengths()])
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from headrace._torch.kind import is_headraces
from headrace.dataloader import DataLoader
from headrace.loader import Loader


def _base() -> Any:
    """The ``Callback`` of the package that the program uses: it has two names."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if name in sys.modules:
            return sys.modules[name].Callback
    return importlib.import_module("lightning.pytorch").Callback


_Callback: Any = _base()


class Lengths(_Callback):  # type: ignore[misc]
    """Asks Headrace's training loaders for their length when an epoch begins or goes on.

    What ``limit_train_batches`` says stays, and then nothing is changed, as with a loader among
    them that is none of Headrace's.
    """

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        """Behind the loading of states, in front of the first batch."""
        _ask(trainer)

    def on_train_epoch_start(self, trainer: Any, _module: Any) -> None:
        """In front of each epoch that begins anew."""
        _ask(trainer)


def _ask(trainer: Any) -> None:
    loop = trainer.fit_loop
    combined, fetcher = loop._combined_loader, loop._data_fetcher
    loaders = combined.flattened
    if trainer.limit_train_batches != 1.0 or trainer.overfit_batches:
        return
    if not all(is_headraces(loader) or isinstance(loader, Loader) for loader in loaders):
        return
    done = loop.epoch_loop.batch_progress.current.ready
    combined.limits = [_length(loader, done) for loader in loaders]
    combined._iterator.limits = combined.limits
    # Not len(combined), which takes the lesser of a limit and a loader's own length.
    choose = min if combined._mode == "min_size" else max
    loop.max_batches = fetcher.length = choose(combined.limits)
    if isinstance(trainer.val_check_interval, float):
        trainer.val_check_batch = max(1, int(loop.max_batches * trainer.val_check_interval))


def _length(loader: DataLoader[Any] | Loader, done: int) -> int:
    """Batches of the epoch that a loader's next iteration goes on with, those done included."""
    if isinstance(loader, Loader) and loader.sampler is None:
        position = loader.state_dict()["position"]
        if position:
            return done + loader.steps_from(position)
    return len(loader)
