"""Has torchdata's ``StatefulDataLoader`` read instead of torch's, if its argument was given."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from headrace._engine import arguments
from headrace._torch.kind import SETTABLE


def steps(snapshot_every_n_steps: Any) -> int | None:
    """The argument, checked; None: it was not given.

    Raises:
        TypeError: torchdata is not installed, so the argument is unknown, as it is to torch's
            loader.
    """
    if snapshot_every_n_steps is None:
        return None
    every = arguments.count("snapshot_every_n_steps", snapshot_every_n_steps, 1)
    if importlib.util.find_spec("torchdata") is None:
        raise TypeError(
            "DataLoader.__init__() got an unexpected keyword argument 'snapshot_every_n_steps' "
            "(it is that of torchdata's StatefulDataLoader, and torchdata is not installed)"
        )
    return every


def loader(given: tuple[Any, ...], options: Mapping[str, Any], every: int | None) -> Any:
    """torchdata's loader, made with torch's arguments.

    Args:
        given, options: the positional arguments, and those by name.
        every: ``snapshot_every_n_steps``.
    """
    kind = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    return kind(*given, **options, snapshot_every_n_steps=every)


def follow(inner: Any, loader: Any) -> None:
    """Hands to torchdata's loader what was set on the loader in front, and its length, if known.

    torchdata's loader warns if a stream has more samples than that.
    """
    for name in (*SETTABLE, "prefetch_factor", "multiprocessing_context"):
        if getattr(inner, name) is not getattr(loader, name):  # some attributes refuse to be set
            setattr(inner, name, getattr(loader, name))
    inner._IterableDataset_len_called = loader._IterableDataset_len_called
