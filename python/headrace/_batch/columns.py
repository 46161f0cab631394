"""The fields of samples that a loader is asked for: one column of a batch for each."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import _lib, abi, arguments
from headrace._engine import fields as values
from headrace.errors import ArgumentError, WaitTimeoutError

if TYPE_CHECKING:
    from headrace.dataset import Dataset

# Every sample has these, so a batch may be asked for them beside the user's own fields.
OF_EVERY_SAMPLE = ("index", "key", "path")


def known(dataset: Dataset, names: Sequence[str], beside: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Returns the names if the dataset has all of them, or they are among those ``beside``.

    Raises:
        ArgumentError: it lacks one; the sentence says what it has.
    """
    names = arguments.each("fields", names, arguments.text)
    own = [field["name"] for field in dataset.info["fields"]]
    for name in names:
        if name not in own and name not in OF_EVERY_SAMPLE and name not in beside:
            choice = ", ".join([*own, *OF_EVERY_SAMPLE, *beside])
            raise ArgumentError(f"fields: the dataset has no {name!r}; it has {choice}")
    return tuple(names)


def of_batch(
    dataset: Dataset,
    indices: Any,
    names: Sequence[str],
    batch: Mapping[str, Any],
    left: float | None = None,
) -> dict[str, Any]:
    """The named fields of a batch's samples.

    Args:
        batch: what the batch itself holds, by name, including "index"; a field of the dataset with
            such a name takes precedence.
        left: seconds that this may take; None for no limit.

    Returns:
        What the batch holds, unchanged. Other numbers become an array or tensor of shape (batch,),
        like ``indices``, and arrays of one shape are stacked. Anything else is a list.
    """
    own = {field["name"] for field in dataset.info["fields"]}
    held = {name: value for name, value in batch.items() if name not in own or name == "index"}
    wanted = [name for name in names if name not in held]
    rows = of_samples(dataset, indices.tolist(), wanted, left) if wanted else []
    return {name: held[name] if name in held else _column(rows, name, indices) for name in names}


def of_samples(
    dataset: Dataset, indices: Sequence[int], names: Sequence[str], left: float | None = None
) -> list[dict[str, Any]]:
    """Returns for each sample its key, its path, and those of its ``fields`` that are named.

    No other field is read, because in a store of objects each value is a request.

    Raises:
        WaitTimeoutError: it took longer than ``left`` seconds.
    """
    types = {field["name"]: field["type"] for field in dataset.info["fields"]}
    own = [name for name in names if name in types and name not in OF_EVERY_SAMPLE]
    config = {"job": "fields", "dataset": dataset.handle, "indices": indices, "fields": own}
    until = math.inf if left is None else time.monotonic() + left
    job = _lib.opened("hr_job_start", config)
    try:
        _wait(job, until)
        rows: list[dict[str, Any]] = _lib.info("hr_job_result", job.value)["rows"]
    finally:
        job.close()  # ends the requests if an exception (Ctrl-C) ended the wait
    for row in rows:
        row["fields"] = values.from_json(row["fields"], types)
        row["path"] = arguments.found_path(row["path"])
    return rows


def _wait(job: _lib.Handle, until: float) -> None:
    progress, error = abi.Progress(), abi.Error()
    wait = _lib.library().hr_job_wait
    code = abi.TIMEOUT
    while code == abi.TIMEOUT:
        left_ms = max(0.0, 1000 * (until - time.monotonic()))
        code = wait(job.value, int(min(_lib.SLICE_MS, left_ms)), byref(progress), byref(error))
        if code == abi.TIMEOUT and left_ms == 0:
            raise WaitTimeoutError("the fields of a batch did not come within the loader's timeout")
    if code:
        raise error.exception()


def _column(rows: Sequence[Mapping[str, Any]], name: str, indices: Any) -> Any:
    if name in OF_EVERY_SAMPLE:
        return [row[name] for row in rows]
    values = [row["fields"][name] for row in rows]
    shapes = {np.shape(value) for value in values}
    if len(shapes) > 1 or not isinstance(values[0], int | float | np.ndarray):
        return values
    stacked = np.stack([np.asarray(value) for value in values])
    if isinstance(indices, np.ndarray):
        return stacked
    import torch

    return torch.from_numpy(stacked)
