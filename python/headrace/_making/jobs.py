"""Jobs of the engine: what all of them are told, and how one is waited for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from ctypes import byref
from typing import TYPE_CHECKING, Any

from headrace._engine import _lib, abi, arguments, away, containers, scarce

if TYPE_CHECKING:
    Path = str | os.PathLike[str]
    OnProgress = Callable[[int, int, int, int], None]

LONGEST_SIDE = 65500  # the longest side of a JPEG (docs/limits.md)
LEAST_SHARD = 10_240  # bytes: the engine's own limit (docs/format.md)
ON_FAULT = ("keep", "raise")


def run(
    job: str,
    config: dict[str, Any],
    num_threads: int | None,
    on_progress: OnProgress | None,
) -> dict[str, Any]:
    """Makes the engine do a job, and returns its result."""
    arguments.callback("on_progress", on_progress)
    config["job"] = job
    config["threads"] = threads(num_threads)
    given = {name: value for name, value in config.items() if value is not None}
    handle = _lib.opened("hr_job_start", given)
    progress, error = abi.Progress(), abi.Error()
    wait = _lib.library().hr_job_wait
    try:
        code, slice_ms = abi.TIMEOUT, 0  # answers at once, so that a bar can begin
        while code == abi.TIMEOUT:
            code = wait(handle.value, slice_ms, byref(progress), byref(error))
            slice_ms = _lib.SLICE_MS
            if on_progress is not None:
                on_progress(progress.done, progress.total, progress.bytes, progress.faults)
        if code:
            raise error.exception()
        scarce.warn_of(error.text)
        made = _lib.info("hr_job_result", handle.value)
        containers.warn_of(made)
        return made
    finally:
        _lib.end(handle)  # cancels the job if an exception (Ctrl-C) ended the wait


def threads(num_threads: int | None) -> int | None:
    return None if num_threads is None else arguments.integer("num_threads", num_threads, 1, 1024)


def limits(given: Mapping[str, int] | None) -> dict[str, Any]:
    """Returns what a job is told of limits."""
    return {} if given is None else {"limits": arguments.limits(given)}


def output(
    destination: Path,
    shard_size: int | str,
    seek: bool,
    overwrite: bool,
    on_fault: str,
    storage: Mapping[str, Any] | None,
    timeout: float | None,
) -> dict[str, Any]:
    """Returns what ``pack`` and ``Writer`` have in common."""
    shard_bytes = parse_size(shard_size)
    if shard_bytes < LEAST_SHARD:
        raise arguments.refuse("shard_size", shard_size, f"at least {LEAST_SHARD:,} bytes")
    return {
        "destination": arguments.path("destination", destination),
        "shard_bytes": shard_bytes,
        "no_seek": not arguments.flag("seek", seek),
        "overwrite": arguments.flag("overwrite", overwrite),
        "on_fault": arguments.choice("on_fault", on_fault, ON_FAULT),
        **of_store(storage, timeout),
    }


def of_store(storage: Mapping[str, Any] | None, timeout: float | None) -> dict[str, Any]:
    """Returns what a job is told of an object store."""
    return {
        "storage": None if storage is None else away.storage(storage),
        "timeout": away.timeout(timeout),
    }


def recoding(resize: int | None, quality: int | None, baseline: bool, raw: bool) -> dict[str, Any]:
    """Returns which bytes images should have in place of their own."""
    return {
        "resize": None if resize is None else arguments.integer("resize", resize, 1, LONGEST_SIDE),
        "quality": None if quality is None else arguments.integer("quality", quality, 1, 100),
        "baseline": arguments.flag("baseline", baseline),
        "raw": arguments.flag("raw", raw),
    }


def parse_size(size: int | str) -> int:
    """Returns bytes, given a number or text such as "256MB" (10**6) or "256MiB" (2**20).

    Raises:
        ArgumentError: it is neither, or not positive.
    """
    return arguments.size("shard_size", size)
