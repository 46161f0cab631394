"""How the values of a Parquet manifest, made by Arrow's own writer, are read."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import headrace as hr
from headrace import errors
from images import jpeg


def manifest(folder: Path, count: int = 2, **columns: Any) -> Path:
    """A Parquet manifest of ``count`` images, one row group each."""
    paths = [f"{number}.jpg" for number in range(count)]
    for number, path in enumerate(paths):
        (folder / path).write_bytes(jpeg(16, 16, seed=number))
    table = pyarrow.table({"path": pyarrow.array(paths, pyarrow.string()), **columns})
    pyarrow.parquet.write_table(table, folder / "list.parquet", row_group_size=1)
    return folder / "list.parquet"


def values(source: Path, name: str) -> list[Any]:
    destination = source.parent / "packed"
    hr.pack(source, destination)
    with hr.Dataset(destination) as dataset:
        return [sample.fields[name] for sample in dataset]


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_unsigned_numbers_keep_their_value(tmp_path: Path, bits: int) -> None:
    kind = getattr(pyarrow, f"uint{bits}")()
    largest = 2**bits - 1
    numbers = pyarrow.array([largest, 1], kind)
    assert values(manifest(tmp_path, n=numbers), "n") == [largest, 1]


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_unsigned_numbers_in_lists_keep_their_value(tmp_path: Path, bits: int) -> None:
    kind = getattr(pyarrow, f"uint{bits}")()
    largest = 2**bits - 1
    lists = pyarrow.array([[largest, 1], []], pyarrow.list_(kind))
    first, second = values(manifest(tmp_path, n=lists), "n")
    assert first.tolist() == [largest, 1]
    assert second.shape == (0,)


def test_labels_are_unsigned_numbers_too(tmp_path: Path) -> None:
    source = manifest(tmp_path, label=pyarrow.array([2**32 - 1, 0], pyarrow.uint32()))
    hr.pack(source, tmp_path / "packed")
    with hr.Dataset(tmp_path / "packed") as dataset:
        assert [sample.label for sample in dataset] == [2**32 - 1, 0]


def test_a_null_in_a_list_of_floats_becomes_nan(tmp_path: Path) -> None:
    lists = pyarrow.array([[1.5, None, 2.5], [None], None, []], pyarrow.list_(pyarrow.float32()))
    found = values(manifest(tmp_path, 4, n=lists), "n")
    assert [array.dtype for array in found] == [np.float32] * 4
    wanted = ([1.5, np.nan, 2.5], [np.nan], [], [])
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(found, wanted, strict=True))


def test_a_null_in_a_list_of_whole_numbers_is_refused_with_its_row(tmp_path: Path) -> None:
    source = manifest(tmp_path, n=pyarrow.array([[1], [2, None]], pyarrow.list_(pyarrow.int32())))
    with pytest.raises(errors.BadFileError, match=r'list.parquet: record 1: bad: the column "n"'):
        hr.pack(source, tmp_path / "packed")


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([decimal.Decimal("1.50")] * 2),
        pyarrow.array([np.float16(1.5)] * 2, pyarrow.float16()),
    ],
    ids=["decimal", "float16"],
)
def test_decimals_and_float16_numbers_are_refused_by_name(tmp_path: Path, column: Any) -> None:
    with pytest.raises(errors.UnsupportedError, match='the column "n" is of the type'):
        hr.pack(manifest(tmp_path, n=column), tmp_path / "packed")


def test_text_that_is_not_utf8_is_refused_with_its_row(tmp_path: Path) -> None:
    ends = np.array([0, 1, 2], np.int32).tobytes()
    text = pyarrow.Array.from_buffers(
        pyarrow.string(), 2, [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"a\xff")]
    )
    with pytest.raises(errors.BadFileError, match=r'list.parquet: record 1: bad: field "n": the'):
        hr.pack(manifest(tmp_path, n=text), tmp_path / "packed")


def test_a_table_without_rows_is_an_empty_dataset_error(tmp_path: Path) -> None:
    with pytest.raises(errors.EmptyDatasetError, match="the list of files has no rows"):
        hr.pack(manifest(tmp_path, 0), tmp_path / "packed")
