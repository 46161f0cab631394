"""Which part of the work this process has: as torch.distributed says, or else the launcher."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from headrace._engine import arguments
from headrace._epoch import gathering
from headrace.errors import ArgumentError, WaitTimeoutError

# How long a rank waits for the others at the beginning of an epoch.
AGREE_TIMEOUT_S = 300


def checked(rank: Any, world_size: Any) -> tuple[int | None, int | None]:
    """Checks the arguments; each is an int or None."""
    if rank is not None:
        rank = arguments.count("rank", rank)
    if world_size is not None:
        world_size = arguments.count("world_size", world_size, 1)
    return rank, world_size


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Returns the rank and the number of ranks, also if the caller left them open.

    They are determined at each iteration and not when a loader is made, because programs make their
    loaders before they call ``init_process_group``.
    """
    if rank is None and world_size is None:
        distributed = _distributed()
        if distributed is not None:
            return distributed.get_rank(), distributed.get_world_size()
        rank, world_size = _environment("RANK"), _environment("WORLD_SIZE")
        if rank is None or world_size is None:
            return 0, 1
    elif rank is None or world_size is None:
        raise ArgumentError("rank and world_size are given together or not at all")
    if not 0 <= rank < world_size:
        raise ArgumentError(f"rank={rank} is not in [0, world_size={world_size})")
    return rank, world_size


def agree(facts: Mapping[str, Any]) -> None:
    """Compares what the order depends on with all other ranks; does nothing without a process
    group.

    Every rank has to call this, as happens when all of them begin an epoch.

    Raises:
        ArgumentError: two ranks differ, and would have used different orders.
        WaitTimeoutError: another rank did not come within 300 s, was interrupted meanwhile, or is
            gone.
    """
    distributed = _distributed()
    if distributed is None or distributed.get_world_size() < 2:
        return
    try:
        everyone = gathering.everyones(distributed, dict(facts), AGREE_TIMEOUT_S)
    except RuntimeError as error:
        raise WaitTimeoutError(
            f"the ranks did not all begin an epoch within {AGREE_TIMEOUT_S} s, or one of them is "
            f"gone: {error}"
        ) from error
    first = everyone[0]
    for rank, theirs in enumerate(everyone):
        for name, value in first.items():
            if theirs.get(name) != value:
                raise ArgumentError(
                    f"the ranks do not agree: {name} is {value!r} on rank 0 and "
                    f"{theirs.get(name)!r} on rank {rank}; they would go over different orders"
                )


def _distributed() -> Any:
    """Returns torch.distributed if a process group exists, otherwise None."""
    # If torch was not imported there is no process group, so torch need not be imported for this.
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def _environment(name: str) -> int | None:
    text = os.environ.get(name)
    try:
        return int(text) if text else None
    except ValueError:
        raise ArgumentError(f"the environment says {name}={text!r}, which is no number") from None


def allowed_threads() -> int:
    """Cores that affinity allows, divided by the ranks of this machine."""
    local = os.environ.get("LOCAL_WORLD_SIZE", "1")
    return max(1, len(os.sched_getaffinity(0)) // max(1, int(local) if local.isdecimal() else 1))
