"""Which part of the work is this process's: torch.distributed's word, else the launcher's."""

from __future__ import annotations

import os
import sys

from headrace.errors import ArgumentError


def resolve(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """The rank and the number of ranks, where the caller left them open.

    Asked for at each iteration and not when a loader is made: programs make their loaders before
    they call ``init_process_group``.
    """
    if rank is None and world_size is None:
        # Without torch in the process there is no process group, so it need not be imported.
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        if distributed and distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        rank, world_size = _environment("RANK"), _environment("WORLD_SIZE")
        if rank is None or world_size is None:
            return 0, 1
    elif rank is None or world_size is None:
        raise ArgumentError("rank and world_size are given together or not at all")
    if not 0 <= rank < world_size:
        raise ArgumentError(f"rank={rank} is not in [0, world_size={world_size})")
    return rank, world_size


def _environment(name: str) -> int | None:
    text = os.environ.get(name)
    try:
        return int(text) if text else None
    except ValueError:
        raise ArgumentError(f"the environment says {name}={text!r}, which is no number") from None
