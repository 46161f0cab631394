"""Places of samples in files: a table that the caller has, turned into the engine's form."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._engine import arguments
from headrace.errors import ArgumentError, ArgumentTypeError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PLACES = ("file", "offset", "length")
OF_EVERY_SAMPLE = ("index", "path", "key", "image", "label")


def config(files: Iterable[Any], table: Any, classes: Sequence[str] | None) -> dict[str, Any]:
    """Returns the configuration of a dataset made of a table's rows.

    Raises:
        ArgumentError, UnsupportedError: it is not a table, or a column is not what it has to be.
    """
    found: dict[str, Any] = {"files": arguments.each("files", files, arguments.path)}
    columns = _columns(table)
    missing = [name for name in PLACES if name not in columns]
    if missing:
        known = arguments.shown(sorted(columns))
        raise ArgumentError(f"table has no column {missing[0]!r} (found {known})")
    rows = len(columns["file"])
    for name, column in columns.items():
        if len(column) != rows:
            raise ArgumentError(
                f"table[{name!r}] has {len(column)} rows, table['file'] {rows}; all have as many"
            )
    for name in PLACES:
        found[name] = _integers(name, columns.pop(name))
    made: dict[str, Any] = {"locations": found}
    fields = [_field(name, column) for name, column in columns.items() if name not in _OWN]
    own: list[dict[str, Any]] = []
    if "key" in columns:
        found["keys"] = _texts("key", _as_texts("key", columns["key"]))
    if "label" in columns:
        labels, names, more = _labels(columns["label"], classes)
        if labels is not None:
            found["label"] = labels
        if names is not None:
            made["classes"] = names
        own += more
    if classes is not None:
        made["classes"] = arguments.each("classes", classes, arguments.name)
    taken: set[str] = set()
    for field in fields:
        while field["name"] in OF_EVERY_SAMPLE or field["name"] in taken:
            field["name"] += "_"
        taken.add(field["name"])
    found["fields"] = fields + own
    return made


_OWN = ("key", "label")


def _columns(table: Any) -> dict[str, Array]:
    """Returns the columns by name. They have one dimension, or two if a field has vectors."""
    if hasattr(table, "column_names") and hasattr(table, "column"):  # Arrow's tables and batches
        return {name: _of_arrow(table.column(name)) for name in table.column_names}
    if not isinstance(table, Mapping):
        raise arguments.refuse_type("table", table, "a dict of arrays, or an Arrow table,")
    found = {}
    for name, values in table.items():
        try:
            column = np.asarray(values)
        except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor on another device
            column = np.empty(())
        vectors = column.ndim == 2 and column.shape[1] > 0 and column.dtype.kind in "iufb"
        if column.ndim != 1 and not (vectors and name not in (*PLACES, "key")):
            raise ArgumentError(
                f"table[{arguments.shown(name)}] has the shape {np.shape(column)} (expected one "
                "dimension, a value for each row; fields and labels may have vectors of numbers)"
            )
        found[arguments.name("the name of a column of table", name)] = column
    return found


def _of_arrow(column: Any) -> Array:
    kind = str(column.type)
    if kind.startswith(("string", "large_string", "binary", "large_binary", "dictionary")):
        # NumPy's own text type would end at the first NUL, and its fixed bytes lose NULs at their
        # end.
        found: Array = np.empty(len(column), object)
        found[:] = column.to_pylist()
        return found
    if column.null_count and kind == "bool":
        column = column.cast("int8")
    made: Array = np.asarray(column)
    return made


def _integers(name: str, column: Array) -> str:
    """Returns whole numbers of 64 bits; larger ones are refused and do not wrap around."""
    if column.dtype.kind not in "iu":
        first = f", row 0 is {arguments.shown(column[0])}" if len(column) else ""
        raise ArgumentTypeError(
            f"table[{name!r}] is of dtype {column.dtype}{first} (expected whole numbers)"
        )
    if column.dtype.kind == "u" and len(column) and int(column.max()) > arguments.INT64_MAX:
        row = int(np.argmax(column > arguments.INT64_MAX))
        raise ArgumentError(
            f"table[{name!r}]: row {row} is {column[row]} (expected at most {arguments.INT64_MAX})"
        )
    return _base64(column.astype("<i8"))


def _base64(column: Any) -> str:
    return base64.b64encode(column.tobytes()).decode("ascii")


def _texts(name: str, values: Sequence[bytes]) -> dict[str, str]:
    ends = np.cumsum([len(value) for value in values], dtype="<i8")
    return {"ends": _base64(ends), "data": base64.b64encode(b"".join(values)).decode("ascii")}


def _as_texts(name: str, column: Array) -> list[bytes]:
    """Returns texts as UTF-8; None becomes an empty text."""
    if column.dtype.kind in "iu":
        return [str(value).encode() for value in column.tolist()]
    found = []
    for row, value in enumerate(column.tolist()):
        if value is not None and not isinstance(value, str):
            raise ArgumentTypeError(
                f"table[{name!r}]: row {row} is {arguments.shown(value)} (expected text)"
            )
        found.append(arguments.text(f"table[{name!r}][{row}]", value or "").encode())
    return found


def _labels(
    column: Array, classes: Sequence[str] | None
) -> tuple[str | None, list[str] | None, list[dict[str, Any]]]:
    """Labels as numbers, the names of their classes, and, as a field, what is not a class."""
    if column.ndim == 2:
        return None, None, [_field("label", column)]
    if column.dtype.kind in "iub":
        return (
            _integers("label", column.astype("i8") if column.dtype.kind == "b" else column),
            None,
            [],
        )
    if column.dtype.kind == "f":
        return _of_floats(column)
    texts = [text.decode() for text in _as_texts("label", column)]
    names = sorted({*texts} - {""}) if classes is None else [*map(str, classes)]
    numbers = {name: number for number, name in enumerate(names)}
    for row, text in enumerate(texts):
        if text and text not in numbers:
            raise ArgumentError(
                f"table['label']: row {row} is {arguments.shown(text)} (expected one of classes)"
            )
    labels = np.array([numbers.get(text, -1) for text in texts], "<i8")
    return _base64(labels), names, []


def _of_floats(column: Array) -> tuple[str | None, None, list[dict[str, Any]]]:
    """Whole floats become numbers, and NaN means no label. If any has a fraction, all become a
    field."""
    given = column[~np.isnan(column)]
    whole = np.isfinite(given) & (given == np.trunc(given)) & (np.abs(given) < 2.0**53)
    if not whole.all():
        return None, None, [_field("label", column)]
    return _base64(np.where(np.isnan(column), -1, column).astype("<i8")), None, []


def _field(name: str, column: Array) -> dict[str, Any]:
    kind = column.dtype.kind
    if column.ndim == 2:
        little = column.astype(column.dtype.newbyteorder("<"))
        shape = {"dtype": column.dtype.name, "shape": [column.shape[1]]}
        rows = [row.tobytes() for row in little]
        return {"name": name, "type": "array", **shape, "texts": _texts(name, rows)}
    if kind == "b":
        column, kind = column.astype("i8"), "i"
    if kind in "iu":
        return {"name": name, "type": "int", "numbers": _integers(name, column)}
    if kind == "f":
        return {"name": name, "type": "float", "numbers": _base64(column.astype("<f8"))}
    values = column.tolist() if kind in "USO" else []
    if kind not in "USO" or not all(isinstance(value, str | bytes | None) for value in values):
        raise UnsupportedError(
            f"table[{name!r}] is of dtype {column.dtype}: a field is of whole numbers, floats, "
            "texts or bytes"
        )
    if kind == "S" or any(isinstance(value, bytes) for value in values):
        parts = [value.encode() if isinstance(value, str) else value or b"" for value in values]
        return {"name": name, "type": "bytes", "texts": _texts(name, parts)}
    return {"name": name, "type": "str", "texts": _texts(name, _as_texts(name, column))}
