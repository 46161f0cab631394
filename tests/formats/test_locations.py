"""Datasets from a table of file, offset and length: a container of one's own."""

from __future__ import annotations

import pickle
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from torchvision.transforms import v2

import headrace as hr
import headrace.transforms as T
from headrace import errors
from images import jpeg

ROOT = Path(__file__).parents[2]
COUNT = 12


@pytest.fixture(scope="module")
def images() -> list[bytes]:
    return [jpeg(30 + number, 40, seed=number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def files(images: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two files of records: label, length, image."""
    root = tmp_path_factory.mktemp("own")
    paths = [root / "a.bin", root / "below" / "b.bin"]
    for number, path in enumerate(paths):
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            for index in range(number, COUNT, 2):
                file.write(struct.pack("<II", index % 3, len(images[index])) + images[index])
    return paths


def places(images: list[bytes]) -> dict[str, Any]:
    at = [0, 0]
    table: dict[str, list[int]] = {"file": [], "offset": [], "length": [], "label": []}
    for index, data in enumerate(images):
        row = (index % 2, at[index % 2] + 8, len(data), index % 3)
        for name, value in zip(table, row, strict=True):
            table[name].append(value)
        at[index % 2] += 8 + len(data)
    return {name: np.array(values) for name, values in table.items()}


def further(images: list[bytes]) -> dict[str, Any]:
    return {
        **places(images),
        "key": [f"k{number}" for number in range(COUNT)],
        "n": np.arange(COUNT, dtype=np.uint8),
        "score": np.arange(COUNT) / 4,
        "text": [f"été {number}" for number in range(COUNT)],
        "data": np.array([bytes([number, 0]) for number in range(COUNT)], object),
        "path": [True] * COUNT,
    }


@pytest.mark.parametrize("kind", ["numpy", "arrow"])
def test_each_row_of_a_table_is_a_sample(files: list[Path], images: list[bytes], kind: str) -> None:
    table: Any = further(images)
    if kind == "arrow":
        table = pa.table(table)
    with hr.Dataset.from_locations(files, table) as dataset:
        assert (dataset.kind, len(dataset), dataset.classes) == ("scanned", COUNT, [])
        for number, sample in enumerate(dataset):
            assert bytes(dataset.read(number)) == images[number]
            assert (sample.key, sample.label) == (f"k{number}", number % 3)
            assert sample.path == str(files[number % 2])
            assert sample.fields == {
                "n": number,
                "score": number / 4,
                "text": f"été {number}",
                "data": bytes([number, 0]),
                "path_": 1,
            }


def test_without_keys_and_labels_the_key_is_the_row_and_the_label_minus_one(
    files: list[Path], images: list[bytes]
) -> None:
    table = places(images)
    del table["label"]
    with hr.Dataset.from_locations(files, table) as dataset:
        assert [sample.label for sample in dataset] == [-1] * COUNT
        assert [dataset[number].key for number in (0, 1, 2, 3)] == [
            "a/0",
            "below/b/0",
            "a/1",
            "below/b/1",
        ]


@pytest.mark.parametrize(
    ("labels", "numbers", "classes", "field"),
    [
        (["b", "a"] * 6, [1, 0] * 6, ["a", "b"], False),
        (["b", None] * 6, [0, -1] * 6, ["b"], False),
        ([1.0, np.nan] * 6, [1, -1] * 6, [], False),
        ([0.5, 1.0] * 6, [-1, -1] * 6, [], True),
    ],
)
def test_labels_follow_the_same_rule_as_in_any_container(
    files: list[Path],
    images: list[bytes],
    labels: list[Any],
    numbers: list[int],
    classes: list[str],
    field: bool,
) -> None:
    column = np.array(labels, object if isinstance(labels[0], str) else float)
    with hr.Dataset.from_locations(files, {**places(images), "label": column}) as dataset:
        assert [sample.label for sample in dataset] == numbers
        assert dataset.classes == classes
        if field:
            assert [sample.fields for sample in dataset] == [{"label": one} for one in labels]


def batches(dataset: hr.Dataset, state: Any = None) -> list[Any]:
    with hr.Loader(dataset, 5, transform=[T.RandomResizedCrop(16)], shuffle=True, seed=3) as loader:
        if state is not None:
            loader.load_state_dict(state)
        return [[torch.as_tensor(part).clone() for part in batch] for batch in loader]


def test_indexed_packed_and_pickled_datasets_give_the_same_batches(
    files: list[Path], images: list[bytes], tmp_path: Path
) -> None:
    with hr.Dataset.from_locations(files, further(images)) as dataset:
        want, fields = batches(dataset), [sample.fields for sample in dataset]
        made = hr.index(dataset, tmp_path / "index.hr")
        assert (made["kind"], made["counts"]["verdict"]) == ("contained", {"good": COUNT})
        hr.pack(dataset, tmp_path / "packed.hr")
        again = pickle.loads(pickle.dumps(dataset))
        assert again.fingerprint == dataset.fingerprint
    for other in (hr.Dataset(tmp_path / "index.hr"), hr.Dataset(tmp_path / "packed.hr"), again):
        with other:
            found = batches(other)
            assert [sample.fields for sample in other] == fields
        assert all(
            torch.equal(a, b)
            for one, two in zip(want, found, strict=True)
            for a, b in zip(one, two, strict=True)
        )
    for name in ("index.hr", "packed.hr"):
        assert hr.verify(tmp_path / name, decode=True)["ok"]


def test_an_epoch_goes_on_where_its_state_was_saved(files: list[Path], images: list[bytes]) -> None:
    with hr.Dataset.from_locations(files, places(images)) as dataset:
        whole = batches(dataset)
        with hr.Loader(
            dataset, 5, transform=[T.RandomResizedCrop(16)], shuffle=True, seed=3
        ) as loader:
            next(iter(loader))
            state = loader.state_dict()
        rest = batches(dataset, state)
        assert [batch[1].tolist() for batch in rest] == [batch[1].tolist() for batch in whole[1:]]
        moved = {**places(images), "label": np.zeros(COUNT, int)}
        with hr.Dataset.from_locations(files, moved) as other:
            assert other.fingerprint != dataset.fingerprint


def test_a_data_loader_reads_datasets_from_locations(
    files: list[Path], images: list[bytes]
) -> None:
    transform = v2.Compose([v2.CenterCrop(16), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    with hr.Dataset.from_locations(files, places(images)) as dataset:
        loader = hr.DataLoader(dataset, batch_size=4, transform=transform)
        assert [label for _, labels in loader for label in labels.tolist()] == [
            number % 3 for number in range(COUNT)
        ]


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("file", 2, "record 1: file is 2 (expected 0 to 1"),
        ("file", -1, "record 1: file is -1"),
        ("offset", 2**63 - 1, f"record 1: offset is {2**63 - 1}"),
        ("offset", -1, "record 1: offset is -1"),
        ("length", 2**63 - 1, f"record 1: length is {2**63 - 1}"),
        ("length", -(2**63), f"record 1: length is {-(2**63)}"),
        ("length", 10**6, "record 1: length is 1000000"),
        ("label", -2, "record 1: label is -2"),
        ("key", "k0", 'record 1: bad: key is "k0", which row 0 has already'),
    ],
)
def test_a_value_out_of_range_is_an_error_with_its_row(
    files: list[Path], images: list[bytes], column: str, value: Any, words: str
) -> None:
    table = {name: list(values) for name, values in further(images).items()}
    table[column][1] = value
    with pytest.raises((errors.ArgumentError, errors.DuplicateKeyError), match=re.escape(words)):
        hr.Dataset.from_locations(files, table)


@pytest.mark.parametrize(
    ("column", "values", "words"),
    [
        ("offset", np.zeros(COUNT), r"table\['offset'\] is of dtype float64, row 0 is"),
        ("file", ["a.bin"] * COUNT, r"table\['file'\] is of dtype <U5, row 0 is"),
        ("length", np.full(COUNT, 2**63, np.uint64), r"row 0 is 9223372036854775808"),
        ("label", np.zeros(COUNT - 1, int), r"table\['label'\] has 11 rows, table\['file'\] 12"),
        ("label", np.zeros((COUNT, 2, 2), int), r"table\['label'\] has the shape \(12, 2, 2\)"),
        ("label", [b"a"] * COUNT, r"table\['label'\]: row 0 is"),
        ("key", [1.5] * COUNT, r"table\['key'\]: row 0 is 1.5"),
        ("key", ["\ud800"] * COUNT, r"table\['key'\]\[0\]"),
        ("when", np.zeros(COUNT, "M8[s]"), r"table\['when'\] is of dtype datetime64"),
        ("many", np.array([[1], None] * 6, object), r"table\['many'\] is of dtype object"),
    ],
)
def test_a_column_of_another_type_is_refused_by_name(
    files: list[Path], images: list[bytes], column: str, values: Any, words: str
) -> None:
    with pytest.raises((errors.ArgumentError, errors.UnsupportedError), match=words):
        hr.Dataset.from_locations(files, {**places(images), column: values})


def test_files_that_are_missing_repeated_or_none_are_refused(
    files: list[Path], images: list[bytes], tmp_path: Path
) -> None:
    table = places(images)
    with pytest.raises(errors.MissingFileError, match=r"nothing.*files\[1\]"):
        hr.Dataset.from_locations([files[0], tmp_path / "nothing"], table)
    with pytest.raises(errors.ArgumentError, match=r"files\[1\] is files\[0\] once more"):
        hr.Dataset.from_locations([files[0], files[0]], table)
    with pytest.raises(errors.BadFileError, match=r"files\[1\]"):
        hr.Dataset.from_locations([files[0], tmp_path], table)
    with pytest.raises(errors.EmptyDatasetError):
        hr.Dataset.from_locations(files, {name: values[:0] for name, values in table.items()})
    with pytest.raises(errors.ArgumentError, match=r"row 0 is 'x' \(expected one of classes\)"):
        hr.Dataset.from_locations(files, {**table, "label": ["x"] * COUNT}, classes=["a"])


def test_the_example_of_the_documentation_reads_a_custom_format(
    files: list[Path], images: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (ROOT / "docs/formats.md").read_text().partition("## A format of your own")[2]
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photos.bin").write_bytes(files[0].read_bytes())
    made: dict[str, Any] = {}
    exec(example[1], made)
    with made["dataset"] as dataset:
        assert [bytes(dataset.read(number)) for number in range(COUNT // 2)] == images[::2]
        assert [sample.label for sample in dataset] == [n % 3 for n in range(0, COUNT, 2)]
