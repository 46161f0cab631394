"""Decides whether a loader's dataset can run with its images deferred."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import torch.utils.data

from headrace._engine import _lib
from headrace._torch.kind import has_own_iterator
from headrace._torch.notices import is_a_pipe

if TYPE_CHECKING:
    from headrace._deferred.iteration import Deferring


def behind(loader: Any, rows: Any) -> Deferring | None:
    """What runs a ``DataLoader``'s dataset with its images deferred; None: torch's loader has to.

    Args:
        rows: gives the numbers of samples by their indices, if the samples are known; else None.
    """
    if not possible(loader.dataset):
        return None
    # Here and not above, because it imports Pillow.
    from headrace._deferred.iteration import Deferring

    return Deferring(loader, rows)


def possible(dataset: Any) -> bool:
    """Whether images of a dataset can be deferred, if there are any.

    Before torch 2.3 a tensor cannot take another one's values. Without Pillow no image can be
    opened. torch's loader changes torch's data pipes itself. And a process that was forked from one
    with the engine cannot use the engine.
    """
    return obstacle(dataset) is None


class Obstacle(NamedTuple):
    """Why torch's loader has to read, and what the user can do about it."""

    why: str
    cure: str

    def __str__(self) -> str:
        return f"{self.why}; {self.cure}"


SNAPSHOTS = Obstacle(
    "snapshot_every_n_steps= needs torchdata's loader",
    "without it state_dict() is the state after the last batch, unless the dataset is a stream",
)
ASKED = Obstacle(
    "its class creates torch's iterator itself",
    "leave __iter__ to DataLoader, or call super().__iter__()",
)
OWN_ITERATOR = Obstacle(
    "its class has a _get_iterator of its own",
    "write __iter__ instead, and call super().__iter__() there",
)


def asked(kind: type) -> Obstacle:
    """Why torch's loader reads if a class of loaders asks for torch's iterator."""
    return OWN_ITERATOR if has_own_iterator(kind) else ASKED


def obstacle(dataset: Any) -> Obstacle | None:
    """Why no image of a dataset can be deferred; None: it can."""
    if find_spec("PIL") is None:
        return Obstacle("Pillow is not installed", "install it: pip install pillow")
    if not hasattr(torch._C, "_swap_tensor_impl"):
        why = "this version of torch cannot swap the values of tensors"
        return Obstacle(why, "install torch 2.3 or later")
    if is_a_pipe(dataset):
        why = "torch's loader changes data pipes itself"
        return Obstacle(why, "make a Dataset that opens the images itself")
    if _lib.came_by_fork():
        why = "this process was forked from one that uses the engine, which does not survive a fork"
        return Obstacle(why, "use the start method spawn or forkserver")
    return None
