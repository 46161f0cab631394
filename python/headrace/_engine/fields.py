"""Values of user fields on their way through JSON: bytes as base64, arrays with their dtype."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace._engine import arguments
from headrace.errors import ArgumentTypeError

TYPES = ("int", "float", "str", "bytes", "array")


def to_json(name: str, value: Any) -> Any:
    """Returns a field's value as the engine takes it.

    Raises:
        ArgumentError: the value is not an int of 64 bits, a float, str, bytes or numeric array.
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
    if value is None:
        raise ArgumentTypeError(
            f"field {name!r} is None, and every sample has every field: give a value of the "
            "field's type that stands for none, such as nan, -1 or an empty text"
        )
    try:
        array = np.asarray(value, order="C")  # ascontiguousarray would add a dimension to a scalar
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that NumPy cannot read
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
