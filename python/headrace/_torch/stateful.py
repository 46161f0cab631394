"""torchdata's ``StatefulDataLoader``, which reads in torch's place where its argument was given."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

from headrace._engine import arguments
from headrace._torch.kind import SETTABLE


def steps(snapshot_every_n_steps: Any) -> int | None:
    """The argument, as it was given; None: it was not.

    Raises:
        TypeError: torchdata is not installed, and to torch's loader the argument is unknown.
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
    """torchdata's loader of torch's arguments.

    Args:
        given, options: those with a place, and those by name.
        every: ``snapshot_every_n_steps``.
    """
    kind = importlib.import_module("torchdata.stateful_dataloader").StatefulDataLoader
    return kind(*given, **options, snapshot_every_n_steps=every)


def follow(inner: Any, loader: Any) -> None:
    """Hands to torchdata's loader what was set on the one in front, and that its length is known.

    A stream that has more samples than that is warned of.
    """
    for name in (*SETTABLE, "prefetch_factor", "multiprocessing_context"):
        if getattr(inner, name) is not getattr(loader, name):  # some refuse to be set
            setattr(inner, name, getattr(loader, name))
    inner._IterableDataset_len_called = loader._IterableDataset_len_called
