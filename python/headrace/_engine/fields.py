"""Values of user fields on their way through JSON: bytes as base64, arrays with their dtype."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import arguments
from headrace.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from headrace.dataset import Dataset

TYPES = ("int", "float", "str", "bytes", "array")
# What every sample has, and a batch may be asked for beside the user's own fields.
OF_EVERY_SAMPLE = ("index", "key", "path")


def to_json(name: str, value: Any) -> Any:
    """A field's value as the engine takes it.

    Raises:
        ArgumentError: the value is no int of 64 bits, float, str, bytes or numeric array.
    """
    if isinstance(value, bool | np.bool_):
        return int(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(float(value))}
    if isinstance(value, int):
        return arguments.integer(name, value)
    if isinstance(value, str):
        return arguments.text(name, value)
    if isinstance(value, float):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return {"bytes": base64.b64encode(bytes(value)).decode("ascii")}
    try:
        array = np.asarray(value, order="C")  # ascontiguousarray adds a dimension to one of none
    except (TypeError, ValueError, RuntimeError):  # ragged; or a tensor that NumPy cannot have
        array = np.empty(0, object)
    if array.dtype.kind not in "biuf":
        raise ArgumentTypeError(
            f"field {name!r} is a {type(value).__name__}; a field is an int, a float, a str, "
            "bytes or a numeric array"
        )
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(array.tobytes()).decode("ascii"),
    }


def from_json(values: Mapping[str, Any], types: Mapping[str, str]) -> dict[str, Any]:
    """The values that ``hr_dataset_info`` gave for one sample, by their fields' types."""
    return {name: _value(value, types.get(name, "")) for name, value in values.items()}


def _value(value: Any, kind: str) -> Any:
    if kind == "bytes":
        return base64.b64decode(value)
    if kind == "array":
        flat = np.frombuffer(base64.b64decode(value["data"]), np.dtype(value["dtype"]))
        return flat.reshape(value["shape"]).copy()
    if kind == "float":  # JSON writes 1.0 as 1
        return float(value["float"] if isinstance(value, dict) else value)
    return value


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
