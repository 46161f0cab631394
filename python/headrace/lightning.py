"""A callback for Lightning's ``Trainer``, for resumes that change the length of an epoch.

The ``Trainer`` asks a loader for the length of an epoch once, before it loads the loader's state,
and trains no more batches than that in any epoch. If a checkpoint from the middle of an epoch is
loaded by another number of ranks, or with another batch size, that epoch has another length. With
more ranks it would end too early, and with fewer ranks all later epochs would.

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
    """Returns the ``Callback`` of the package that the program uses; the package has two names."""
    for name in ("lightning.pytorch", "pytorch_lightning"):
        if name in sys.modules:
            return sys.modules[name].Callback
    return importlib.import_module("lightning.pytorch").Callback


_Callback: Any = _base()


class Lengths(_Callback):  # type: ignore[misc]
    """Asks Headrace's training loaders for their length when an epoch begins or is resumed.

    It changes nothing if ``limit_train_batches`` is set, or if one of the training loaders is not
    Headrace's.
    """

    def on_train_start(self, trainer: Any, _module: Any) -> None:
        """Lightning calls this after it has loaded states, before the first batch."""
        _ask(trainer)

    def on_train_epoch_start(self, trainer: Any, _module: Any) -> None:
        """Lightning calls this before each new epoch."""
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
    # len(combined) would not do: it takes the smaller of a limit and a loader's own length.
    choose = min if combined._mode == "min_size" else max
    loop.max_batches = fetcher.length = choose(combined.limits)
    if isinstance(trainer.val_check_interval, float):
        trainer.val_check_batch = max(1, int(loop.max_batches * trainer.val_check_interval))


def _length(loader: DataLoader[Any] | Loader, done: int) -> int:
    """Batches of the epoch in which a loader's next iteration continues, including those done."""
    if isinstance(loader, Loader) and loader.sampler is None:
        position = loader.state_dict()["position"]
        if position:
            return done + loader.steps_from(position)
    return len(loader)
