"""Labels that are texts, or texts that are numbers: one rule for all containers."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
from headrace import errors

NAN = float("nan")


def labels(source: Path, **words: Any) -> tuple[list[int], list[str]]:
    with hr.Dataset(source, **words) as dataset:
        return [dataset[number].label for number in range(len(dataset))], dataset.classes


def table(path: Path, texts: list[str]) -> Path:
    rows = {"image": [images.jpeg(8 + number, 8) for number in range(len(texts))], "label": texts}
    pq.write_table(pa.table(rows), path)
    return path


@pytest.mark.parametrize(
    ("texts", "expected", "classes"),
    [
        (["cat", "1.5", "dog", "007", "7"], [3, 1, 4, 0, 2], ["007", "1.5", "7", "cat", "dog"]),
        (["1e3", "1000", "x"], [1, 0, 2], ["1000", "1e3", "x"]),
        (["2", "0", "1"], [2, 0, 1], []),
    ],
)
def test_if_some_labels_are_texts_numbers_among_them_are_texts_too(
    tmp_path: Path, texts: list[str], expected: list[int], classes: list[str]
) -> None:
    assert labels(table(tmp_path / "t.parquet", texts)) == (expected, classes)


def test_texts_that_are_all_in_classes_are_class_names(tmp_path: Path) -> None:
    source = table(tmp_path / "t.parquet", ["0", "1", "1.5"])
    named = ["1.5", "1", "0"]
    assert labels(source, classes=named) == ([2, 1, 0], named)
    source = table(tmp_path / "u.parquet", ["0", "1"])
    named = ["cat", "dog"]
    assert labels(source, classes=named) == ([0, 1], named)
    source = table(tmp_path / "v.parquet", ["cat", "7"])
    with pytest.raises(errors.ArgumentError, match='the label "7" is none of classes'):
        labels(source, classes=named)


def test_json_with_nan_and_infinity_as_python_writes_them_has_its_label(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        for number, more in enumerate([0.5, NAN, float("inf"), -float("inf"), [1, NAN]]):
            said = json.dumps({"text": 'NaN "Infinity\\', "label": number + 5, "more": more})
            for ending, data in (("jpg", images.jpeg(8, 8)), ("json", said.encode())):
                member = tarfile.TarInfo(f"{number:04}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    assert labels(tmp_path / "t.tar") == ([5, 6, 7, 8, 9], [])
    assert labels(tmp_path / "t.tar", label="json.label") == ([5, 6, 7, 8, 9], [])


def test_a_json_label_in_mds_is_its_decoded_value(tmp_path: Path) -> None:
    config = {
        "column_encodings": ["jpeg", "json"],
        "column_names": ["image", "label"],
        "column_sizes": [None, None],
        "format": "mds",
        "version": 2,
    }
    text = json.dumps(config, sort_keys=True).encode()
    values = ["cat", None, "dog", "cat"]
    places, body = [], b""
    first = 4 + 4 * (len(values) + 1) + len(text)
    for value in values:
        places.append(first + len(body))
        image, said = images.jpeg(8, 8), json.dumps(value).encode()
        body += struct.pack("<II", len(image), len(said)) + image + said
    places.append(first + len(body))
    packed = struct.pack(f"<I{len(places)}I", len(values), *places) + text + body
    (tmp_path / "shard.00000.mds").write_bytes(packed)
    assert labels(tmp_path / "shard.00000.mds") == ([0, -1, 1, 0], ["cat", "dog"])


def test_a_bytes_field_that_is_always_empty_is_empty_bytes(tmp_path: Path) -> None:
    rows = {"image": [images.jpeg(8, 8)] * 2, "label": [0, 1], "note": [b"", b""]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet", compression="snappy")
    with hr.Dataset(tmp_path / "t.parquet") as dataset:
        assert dataset[1].label == 1
        assert dataset.facts(1)["fields"]["note"] == b""


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_growing_categories_of_an_arrow_stream_are_classes_in_place_indexed_and_packed(
    tmp_path: Path, codec: str | None
) -> None:
    words: list[str] = []
    options = pa.ipc.IpcWriteOptions(compression=codec, emit_dictionary_deltas=True)
    kind = pa.dictionary(pa.int8(), pa.string())
    schema = pa.schema([("image", pa.binary()), ("label", kind), ("note", kind)])
    with pa.ipc.new_stream(str(tmp_path / "a.arrow"), schema, options=options) as writer:
        for more in (["dog"], ["cat", "ant"], ["bee"]):
            words += more
            numbers = pa.array([len(words) - 1, 0, None], pa.int8())
            column = pa.DictionaryArray.from_arrays(numbers, pa.array(words))
            shown = pa.array([images.jpeg(8 + number, 8) for number in range(3)])
            writer.write_batch(pa.record_batch([shown, column, column], schema))
    hr.index(tmp_path / "a.arrow", tmp_path / "index.hr")
    hr.pack(tmp_path / "index.hr", tmp_path / "packed.hr")
    texts = ["dog", "dog", "", "ant", "dog", "", "bee", "dog", ""]
    for name in ("a.arrow", "index.hr", "packed.hr"):
        assert labels(tmp_path / name) == ([2, 2, -1, 0, 2, -1, 1, 2, -1], ["ant", "bee", "dog"])
        with hr.Dataset(tmp_path / name) as dataset:
            assert [sample.fields["note"] for sample in dataset] == texts
