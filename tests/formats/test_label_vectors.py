"""Labels that are no classes: fractions and vectors become a field, and every label is -1."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import headrace.transforms as T
import images
import tfrecords

ROWS = 6
IMAGES = [images.jpeg(24, 24, seed=number) for number in range(ROWS)]
FRACTIONS = [number / 4 for number in range(ROWS)]
VECTORS = [[number / 4, 1.0 - number, 0.5] for number in range(ROWS)]
COUNTS = [[number, 2, -number] for number in range(ROWS)]


def tar(path: Path, suffix: str, labels: list[bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for number, label in enumerate(labels):
            for ending, data in (("jpg", IMAGES[number]), (suffix, label)):
                member = tarfile.TarInfo(f"{number:04d}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return path


def npy(values: list[float]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(values, np.float32))
    return file.getvalue()


def mds(path: Path, encoding: str, size: int | None, labels: list[bytes]) -> Path:
    """A shard as by streaming's MDSWriter (streaming/base/format/mds)."""
    names = {"column_names": ["image", "label"], "column_encodings": ["jpeg", encoding]}
    config = {**names, "column_sizes": [None, size], "format": "mds", "version": 2}
    text = json.dumps(config, sort_keys=True).encode()
    body, table = b"", []
    first = 4 + 4 * (ROWS + 1) + len(text)
    for image, label in zip(IMAGES, labels, strict=True):
        table.append(first + len(body))
        sizes = [len(image)] + ([] if size else [len(label)])
        body += struct.pack(f"<{len(sizes)}I", *sizes) + image + label
    table.append(first + len(body))
    path.write_bytes(struct.pack(f"<I{len(table)}I", ROWS, *table) + text + body)
    return path


def litdata(root: Path, form: str, labels: list[bytes], codec: str | None = None) -> Path:
    """A folder as by litdata.optimize for pairs of a JPEG and an array."""
    root.mkdir()
    items = []
    for image, label in zip(IMAGES, labels, strict=True):
        items.append(struct.pack("<2I", len(image), len(label)) + image + label)
    offsets = np.cumsum([4 + 4 * (ROWS + 1), *map(len, items)])
    chunk = struct.pack(f"<{ROWS + 2}I", ROWS, *offsets) + b"".join(items)
    spec = {"type": "builtins.dict", "context": json.dumps(["image", "label"])}
    leaf = {"type": None, "context": None, "children_spec": []}
    tree = json.dumps([1, {**spec, "children_spec": [leaf, leaf]}])
    config = {"data_format": ["jpeg", form], "data_spec": tree, "compression": None}
    chunks = [{"filename": "chunk-0-0.bin", "chunk_size": ROWS}]
    (root / "chunk-0-0.bin").write_bytes(chunk)
    (root / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))
    return root


def table(labels: list[Any], of: Any) -> Any:
    return pa.table({"image": pa.array(IMAGES, pa.binary()), "label": pa.array(labels, of)})


def arrow(path: Path, labels: list[Any], of: Any, codec: str | None = None) -> Path:
    made = table(labels, of)
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(str(path), made.schema, options=options) as writer:
        writer.write_table(made, max_chunksize=4)
    return path


def parquet(path: Path, labels: list[Any], of: Any, **options: Any) -> Path:
    pq.write_table(table(labels, of), path, row_group_size=4, **options)
    return path


def examples(path: Path, labels: list[Any]) -> Path:
    rows = [{"image": IMAGES[n], "label": label} for n, label in enumerate(labels)]
    return tfrecords.write(path, rows)


Source = tuple[Callable[[Path], Any], dict[str, Any], list[Any]]
AS_JSON = [json.dumps({"label": vector}).encode() for vector in VECTORS]
FLOATS = [np.array(vector, np.float32).tobytes() for vector in VECTORS]
LONGS = [np.array(vector, np.int64).tobytes() for vector in COUNTS]
SOURCES: dict[str, Source] = {
    "webdataset's cls that is a fraction": (
        lambda root: tar(root / "a.tar", "cls", [str(x).encode() for x in FRACTIONS]),
        {},
        FRACTIONS,
    ),
    "webdataset's json": (lambda root: tar(root / "a.tar", "json", AS_JSON), {}, VECTORS),
    "webdataset's npy": (
        lambda root: tar(root / "a.tar", "npy", [npy(vector) for vector in VECTORS]),
        {"label": "npy"},
        VECTORS,
    ),
    "TFRecord's list of floats": (lambda root: examples(root / "a", VECTORS), {}, VECTORS),
    "TFRecord's list of integers": (lambda root: examples(root / "a", COUNTS), {}, COUNTS),
    "TFRecord's fraction": (lambda root: examples(root / "a", FRACTIONS), {}, FRACTIONS),
    "MDS's array of a type and a shape": (
        lambda root: mds(root / "a.mds", "ndarray:float32:3", 12, FLOATS),
        {},
        VECTORS,
    ),
    "MDS's array that says its type and shape": (
        lambda root: mds(root / "a.mds", "ndarray", None, [b"\x41\x04\x03" + x for x in LONGS]),
        {},
        COUNTS,
    ),
    "LitData's array": (
        lambda root: litdata(root / "lit", "no_header_numpy:9", FLOATS),
        {},
        VECTORS,
    ),
    "LitData's tensor": (
        lambda root: litdata(root / "lit", "no_header_tensor:17", LONGS),
        {},
        COUNTS,
    ),
    "Arrow's list": (
        lambda root: arrow(root / "a.arrow", VECTORS, pa.list_(pa.float32())),
        {},
        VECTORS,
    ),
    "Arrow's list of a fixed size": (
        lambda root: arrow(root / "a.arrow", COUNTS, pa.list_(pa.int64(), 3)),
        {},
        COUNTS,
    ),
    "Arrow's list in compressed buffers": (
        lambda root: arrow(root / "a.arrow", VECTORS, pa.large_list(pa.float64()), "zstd"),
        {},
        VECTORS,
    ),
    "Arrow's fraction": (
        lambda root: arrow(root / "a.arrow", FRACTIONS, pa.float32()),
        {},
        FRACTIONS,
    ),
    "Parquet's fraction": (
        lambda root: parquet(root / "a.parquet", FRACTIONS, pa.float32()),
        {},
        FRACTIONS,
    ),
    "Parquet's list": (
        lambda root: parquet(
            root / "a.parquet",
            VECTORS,
            pa.list_(pa.float32()),
            compression="none",
            use_dictionary=False,
        ),
        {},
        VECTORS,
    ),
    "Parquet's list of a fixed size, of a dictionary in compressed pages": (
        lambda root: parquet(root / "a.parquet", COUNTS, pa.list_(pa.int8(), 3)),
        {},
        COUNTS,
    ),
    "Parquet's list by differences": (
        lambda root: parquet(
            root / "a.parquet",
            COUNTS,
            pa.large_list(pa.int64()),
            use_dictionary=False,
            column_encoding={"label.list.element": "DELTA_BINARY_PACKED"},
        ),
        {},
        COUNTS,
    ),
}


def located(root: Path, labels: Any) -> hr.Dataset:
    sizes = [len(image) for image in IMAGES]
    (root / "images.bin").write_bytes(b"".join(IMAGES))
    places = {"file": [0] * ROWS, "offset": np.cumsum([0, *sizes[:-1]]), "length": sizes}
    return hr.Dataset.from_locations([root / "images.bin"], {**places, "label": labels})


def check(dataset: hr.Dataset, expected: list[Any]) -> None:
    assert dataset.classes == []
    assert [sample.label for sample in dataset] == [-1] * ROWS
    found = [np.asarray(sample.fields["label"]).tolist() for sample in dataset]
    assert found == expected
    with hr.Loader(dataset, ROWS, transform=[T.CenterCrop(16)], fields=["label"]) as loader:
        _, labels, fields = next(iter(loader))
    assert labels.tolist() == [-1] * ROWS
    assert np.asarray(fields["label"]).tolist() == expected


@pytest.mark.filterwarnings("ignore:.*which are no classes")
@pytest.mark.parametrize("name", SOURCES)
def test_a_label_that_is_no_class_is_a_field_in_place_indexed_and_packed(
    tmp_path: Path, name: str
) -> None:
    make, words, expected = SOURCES[name]
    source = make(tmp_path)
    hr.index(source, tmp_path / "index.hr", **words)
    hr.pack(tmp_path / "index.hr", tmp_path / "packed.hr")
    with hr.Dataset(source, **words) as dataset:
        check(dataset, expected)
    for path in (tmp_path / "index.hr", tmp_path / "packed.hr"):
        with hr.Dataset(path) as dataset:
            check(dataset, expected)


@pytest.mark.parametrize("expected", [FRACTIONS, VECTORS, COUNTS])
def test_a_label_given_to_from_locations_that_is_no_class_is_a_field(
    tmp_path: Path, expected: list[Any]
) -> None:
    with located(tmp_path, expected) as dataset:
        check(dataset, expected)
        hr.pack(dataset, tmp_path / "packed.hr")
    with hr.Dataset(tmp_path / "packed.hr") as dataset:
        check(dataset, expected)


@pytest.mark.filterwarnings("ignore:.*which are no classes")
@pytest.mark.parametrize("make", [arrow, parquet])
def test_vectors_of_different_lengths_and_nulls_are_arrays_of_their_own_length(
    tmp_path: Path, make: Callable[..., Path]
) -> None:
    labels = [[1.5], [], [2.5, 3.5], [0.5], None, [4.5, 5.5, 6.5]]
    source = make(tmp_path / f"a.{make.__name__}", labels, pa.list_(pa.float32()))
    hr.index(source, tmp_path / "index.hr")
    for path in (source, tmp_path / "index.hr"):
        with hr.Dataset(path) as dataset:
            assert [s.fields["label"].tolist() for s in dataset] == [x or [] for x in labels]


@pytest.mark.filterwarnings("ignore:.*which are no classes")
@pytest.mark.parametrize("make", [arrow, parquet])
def test_vectors_that_are_all_empty_are_empty_arrays(
    tmp_path: Path, make: Callable[..., Path]
) -> None:
    source = make(tmp_path / f"a.{make.__name__}", [[]] * ROWS, pa.list_(pa.float32()))
    hr.index(source, tmp_path / "index.hr")
    hr.pack(source, tmp_path / "packed.hr")
    for path in (source, tmp_path / "index.hr", tmp_path / "packed.hr"):
        with hr.Dataset(path) as dataset:
            assert [sample.fields["label"].tolist() for sample in dataset] == [[]] * ROWS


@pytest.mark.filterwarnings("ignore:.*which are no classes")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (arrow, {}),
        (arrow, {"codec": "lz4"}),
        (parquet, {}),
        (parquet, {"compression": "none", "use_dictionary": False}),
    ],
)
@pytest.mark.parametrize(
    "of", [pa.list_(pa.float32()), pa.list_(pa.float32(), 3), pa.large_list(pa.int64())]
)
def test_a_column_with_nulls_inside_a_list_is_no_field_and_gives_a_warning(
    tmp_path: Path, of: Any, make: Callable[..., Path], words: dict[str, Any]
) -> None:
    labels = [[1, 2, 3], [4, None, 6], None, [7, 8, 9], [10, 11, None], [13, 14, 15]]
    source = make(tmp_path / f"a.{make.__name__}", labels, of, **words)
    with pytest.warns(UserWarning, match='"label" has lists with nulls inside, so it is no field'):
        hr.index(source, tmp_path / "index.hr")
    for path in (source, tmp_path / "index.hr"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dataset = hr.Dataset(path)
        with dataset:
            assert [(s.label, s.fields) for s in dataset] == [(-1, {})] * len(labels)
    with pytest.raises(hr.errors.UnsupportedError, match='"label" has lists with nulls inside'):
        hr.Dataset(source, fields=["label"])


@pytest.mark.filterwarnings("ignore:.*which are no classes")
@pytest.mark.parametrize("of", [pa.float32(), pa.int16()])
def test_a_null_in_place_of_a_list_is_an_empty_array(tmp_path: Path, of: Any) -> None:
    labels = [[1, 2, 3], None, [4, 5, 6], [], None, [7]]
    source = arrow(tmp_path / "a.arrow", labels, pa.list_(of))
    with hr.Dataset(source) as dataset:
        assert [s.fields["label"].tolist() for s in dataset] == [row or [] for row in labels]


@pytest.mark.filterwarnings("ignore:.*which are no classes")
@pytest.mark.parametrize("missing", [0, 32767, 32768, 70000])
def test_a_null_far_inside_a_long_list_is_found(tmp_path: Path, missing: int) -> None:
    longest: list[float | None] = [0.5] * 70001
    longest[missing] = None
    around = [[1.5], longest[missing + 1 :], [2.5], longest[:missing], [3.5], []]
    labels = [[1.5], longest, [2.5], [], [3.5], []]
    source = arrow(tmp_path / "a.arrow", labels, pa.list_(pa.float32()))
    with pytest.warns(UserWarning, match="has lists with nulls inside"):
        hr.Dataset(source).close()
    source = arrow(tmp_path / "b.arrow", around, pa.list_(pa.float32()))
    with hr.Dataset(source) as dataset:
        found = [len(sample.fields["label"]) for sample in dataset]
    assert found == [1, 70000 - missing, 1, missing, 1, 0]


@pytest.mark.filterwarnings("ignore:.*no column is known as the label")
def test_other_columns_of_vectors_are_fields_if_they_are_named(tmp_path: Path) -> None:
    rows = [{"image": IMAGES[n], "box": VECTORS[n]} for n in range(ROWS)]
    source = tfrecords.write(tmp_path / "a", rows)
    with hr.Dataset(source) as dataset:
        assert dataset[1].fields == {}
    with hr.Dataset(source, fields=["box"]) as dataset:
        assert [sample.fields["box"].tolist() for sample in dataset] == VECTORS
