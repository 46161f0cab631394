"""Folders of images with a list of them, as Hugging Face's ImageFolder has it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import images
from headrace import errors

NAMES = ["c.jpg", "a.jpg", "b.png"]
LABELS = ["dog", "cat", "dog"]
TEXTS = ["one", "zwei, drei", ""]


def content(number: int) -> bytes:
    if NAMES[number].endswith("png"):
        return images.png(24, 16, 2, seed=number)
    return images.jpeg(24, 16, seed=number)


def folder(root: Path, below: str = "", ending: str = "csv") -> Path:
    images.write_tree(root, {below + name: content(at) for at, name in enumerate(NAMES)})
    rows = [
        {"file_name": below + name, "label": label, "text": text, "score": at + 0.5}
        for at, (name, label, text) in enumerate(zip(NAMES, LABELS, TEXTS, strict=True))
    ]
    if ending == "csv":
        lines = ["file_name,label,text,score"]
        lines += [
            f'{row["file_name"]},{row["label"]},"{row["text"]}",{row["score"]}' for row in rows
        ]
    else:
        lines = [json.dumps(row) for row in rows]
    (root / f"metadata.{ending}").write_text("\n".join(lines) + "\n")
    return root


def facts(dataset: hr.Dataset) -> list[tuple[str, int, dict[str, Any], bytes]]:
    return [
        (one.key, one.label, dict(one.fields), one.image.tobytes())
        for one in (dataset[number] for number in range(len(dataset)))
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("below", ["", "images/"])
def test_a_list_in_a_folder_gives_its_images_their_order_labels_and_fields(
    tmp_path: Path, below: str, ending: str
) -> None:
    root = folder(tmp_path / "photos", below, ending)
    hr.pack(root / f"metadata.{ending}", tmp_path / "packed.hr")
    with hr.Dataset(tmp_path / "packed.hr") as packed:
        expected = facts(packed)
    with hr.Dataset(root) as dataset:
        assert dataset.kind == "listed"
        assert dataset.classes == ["cat", "dog"]
        assert [one.label for one in (dataset[n] for n in range(3))] == [1, 0, 1]
        assert [dataset[n].fields["text"] for n in range(3)] == TEXTS
        assert facts(dataset) == expected
    hr.pack(root, tmp_path / "again.hr")
    with hr.Dataset(tmp_path / "again.hr") as packed:
        assert facts(packed) == expected
    hr.index(root)
    with hr.Dataset(root) as dataset:
        assert dataset.kind == "indexed"
        assert facts(dataset) == expected
    assert hr.verify(root)["ok"]


def test_fields_of_a_list_are_in_the_batches_of_a_loader(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    steps = [hr.transforms.Resize((8, 8))]
    with hr.Loader(root, 3, transform=steps, fields=["text", "score"], output="numpy") as loader:
        pixels, labels, fields = next(iter(loader))
    assert pixels.shape == (3, 3, 8, 8)
    assert labels.tolist() == [1, 0, 1]
    assert list(fields["text"]) == TEXTS
    assert np.asarray(fields["score"]).tolist() == [0.5, 1.5, 2.5]


def test_a_list_without_labels_says_so_once(tmp_path: Path) -> None:
    images.write_tree(tmp_path, {"a.jpg": content(0)})
    (tmp_path / "metadata.csv").write_text("file_name,text\na.jpg,x\n")
    with pytest.warns(UserWarning, match='no column "label", so every label is -1'):
        dataset = hr.Dataset(tmp_path)
    assert dataset[0].label == -1
    dataset.close()


def test_folders_that_have_a_list_each_are_splits(tmp_path: Path) -> None:
    for name in ("test", "train"):
        folder(tmp_path / name)
    for call in (hr.Dataset, hr.index, lambda path: hr.pack(path, tmp_path / "packed.hr")):
        with pytest.raises(errors.ArgumentError, match=r'several splits: \["test" "train"\]'):
            call(tmp_path)
    with hr.Dataset(tmp_path / "train") as alone:
        expected = facts(alone)
    with hr.Dataset(tmp_path, split="train") as dataset:
        assert facts(dataset) == expected
    hr.index(tmp_path, split="train")
    with hr.Dataset(tmp_path, split="train") as dataset:
        assert dataset.kind == "indexed"
        assert facts(dataset) == expected


def test_several_class_folders_are_the_labels_whatever_list_lies_beside_them(
    tmp_path: Path,
) -> None:
    images.write_tree(tmp_path, {"x/a.jpg": content(0), "y/b.jpg": content(1)})
    (tmp_path / "metadata.csv").write_text("file_name,label\nx/a.jpg,7\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = hr.Dataset(tmp_path)
    assert dataset.classes == ["x", "y"]
    assert len(dataset) == 2
    dataset.close()


def test_a_list_in_a_folder_names_no_file_outside(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    (root / "metadata.csv").write_text("file_name,label\n../a.jpg,1\n")
    for call in (hr.Dataset, hr.index):
        with pytest.raises(errors.BadFileError, match=r"metadata\.csv.*not below the folder"):
            call(root)


def test_words_for_containers_are_refused_of_a_folder_with_a_list(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    with pytest.raises(errors.ArgumentError, match="are for containers"):
        hr.Dataset(root, label="text")
