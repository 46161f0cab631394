"""The fields of a batch's samples that a loader is asked for, one column for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import arguments
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    from headrace.dataset import Dataset

# What every sample has, and a batch may be asked for beside the user's own fields.
OF_EVERY_SAMPLE = ("index", "key", "path")


def known(dataset: Dataset, names: Sequence[str], beside: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names, where the dataset has them all, or they are among those ``beside``.

    Raises:
        ArgumentError: it has not; the sentence says what it has.
    """
    names = arguments.each("fields", names, arguments.text)
    own = [field["name"] for field in dataset.info["fields"]]
    for name in names:
        if name not in own and name not in OF_EVERY_SAMPLE and name not in beside:
            choice = ", ".join([*own, *OF_EVERY_SAMPLE, *beside])
            raise ArgumentError(f"fields: the dataset has no {name!r}; it has {choice}")
    return tuple(names)


def of_batch(
    dataset: Dataset, indices: Any, names: Sequence[str], batch: Mapping[str, Any]
) -> dict[str, Any]:
    """The named fields of a batch's samples.

    Args:
        batch: what the batch itself holds by these names, "index" among it; a field of the
            dataset's own goes before that.

    Returns:
        What the batch holds as it is; numbers as an array or tensor of shape (batch,), arrays of
        one shape stacked, in what ``indices`` is made of; anything else as a list.
    """
    own = {field["name"] for field in dataset.info["fields"]}
    held = {name: value for name, value in batch.items() if name not in own or name == "index"}
    wanted = [name for name in names if name not in held]
    rows = [dataset.facts(index) for index in indices.tolist()] if wanted else []
    return {name: held[name] if name in held else _column(rows, name, indices) for name in names}


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
