"""Arguments that say which column is image and label work the same wherever a path is taken."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
import headrace.transforms as T
import images
import tfrecords
from headrace import errors
from headrace._engine import containers

ROWS = 6
WORDS = containers.Words._fields
CHOSEN: dict[str, Any] = {
    "format": "tfrecord",
    "image": "front",
    "label": "kind",
    "classes": ["a", "b", "c"],
    "split": "train",
}


def write(root: Path) -> Path:
    """Two splits of records with two image columns and two label columns."""
    root.mkdir()
    for split in ("train", "test"):
        rows = [
            {"front": images.jpeg(32, 32, seed=n), "back": b"", "kind": n % 3, "age": n}
            for n in range(ROWS)
        ]
        tfrecords.write(root / f"{split}-00000-of-00001", rows)
    return root


def labels_of(source: Any, **words: Any) -> list[int]:
    with hr.Loader(source, 4, transform=[T.CenterCrop(16)], **words) as loader:
        return torch.cat([labels for _, labels in loader]).tolist()


def test_loader_index_and_pack_have_all_of_datasets_arguments() -> None:
    for function in (hr.Dataset, hr.Loader, hr.index, hr.pack):
        assert set(WORDS) <= set(inspect.signature(function).parameters), function


def test_a_loader_over_a_path_takes_the_arguments_of_dataset(tmp_path: Path) -> None:
    root = write(tmp_path / "records")
    assert labels_of(root, **CHOSEN) == [n % 3 for n in range(ROWS)]
    twice = {**CHOSEN, "fields": ["age"]}
    with hr.Loader([root, root], ROWS, transform=[T.CenterCrop(16)], **twice) as loader:
        assert loader.dataset.classes == ["a", "b", "c"]
        ages = [fields["age"].tolist() for _, _, fields in loader]
    assert ages == [[*range(ROWS)]] * 2


@pytest.mark.parametrize("word", WORDS)
def test_such_an_argument_beside_an_open_dataset_is_an_error_that_says_so(
    tmp_path: Path, word: str
) -> None:
    root = write(tmp_path / "records")
    value = {**CHOSEN, "fields": ["age"], "root": str(tmp_path)}[word]
    with hr.Dataset(root, **CHOSEN) as dataset:
        calls: list[Callable[[], Any]] = [
            lambda: hr.index(dataset, tmp_path / "index", **{word: value}),
            lambda: hr.pack(dataset, tmp_path / "packed", **{word: value}),
        ]
        if word != "fields":  # in a loader these are the fields of its batches
            calls += [lambda: hr.Loader(dataset, **{word: value})]
            calls += [lambda: hr.Loader([root, dataset], **{word: value})]
        for call in calls:
            with pytest.raises(errors.ArgumentError, match=f"{word}=.*open already"):
                call()
    assert not (tmp_path / "index").exists()


def test_root_finds_moved_containers_for_a_loader_over_an_index_and_for_a_new_index(
    tmp_path: Path,
) -> None:
    root = write(tmp_path / "records")
    hr.index(root, tmp_path / "there" / "train.hr", **CHOSEN)
    moved = root.rename(tmp_path / "moved")
    index = tmp_path / "there" / "train.hr"
    expected = [n % 3 for n in range(ROWS)]
    assert labels_of(index, root=moved) == expected
    hr.pack(index, tmp_path / "packed", root=moved)
    assert labels_of(tmp_path / "packed") == expected
    hr.index(index, tmp_path / "again.hr", root=moved)  # permanently
    assert labels_of(tmp_path / "again.hr") == expected
    for function in (hr.Dataset, hr.Loader, hr.index):
        with pytest.raises(errors.ArgumentError, match="root"):
            function(moved / "train-00000-of-00001", root=moved)


def test_a_loader_takes_arrays_with_labels_from_another_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((ROWS, 16, 16, 3), np.uint8))
    np.save(tmp_path / "y.npy", np.arange(ROWS))
    assert labels_of(tmp_path / "x.npy", label=tmp_path / "y.npy") == [*range(ROWS)]
