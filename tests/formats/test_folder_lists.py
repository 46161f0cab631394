"""Folders of images with a list of their files, as for Hugging Face's ImageFolder."""

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


def test_a_list_without_labels_gives_a_warning(tmp_path: Path) -> None:
    root = images.write_tree(tmp_path / "of", {"a.jpg": content(0)})
    (root / "metadata.csv").write_text("file_name,text\na.jpg,x\n")
    with pytest.warns(UserWarning, match='no column "label", so every label is -1'):
        dataset = hr.Dataset(root)
    assert dataset[0].label == -1
    dataset.close()
    for call in (lambda path: hr.pack(path, tmp_path / "packed.hr"), hr.index):
        with pytest.warns(UserWarning, match='no column "label", so every label is -1'):
            call(root)


def test_folders_with_a_list_each_are_splits(tmp_path: Path) -> None:
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


def test_the_only_split_of_a_folder_may_have_the_list(tmp_path: Path) -> None:
    folder(tmp_path / "photos" / "train")
    with hr.Dataset(tmp_path / "photos" / "train") as dataset:
        expected = facts(dataset)
    for split in (None, "train"):
        with hr.Dataset(tmp_path / "photos", split=split) as dataset:
            assert facts(dataset) == expected
        hr.pack(tmp_path / "photos", tmp_path / f"{split}.hr", split=split)
        with hr.Dataset(tmp_path / f"{split}.hr") as dataset:
            assert facts(dataset) == expected
    with pytest.raises(errors.ArgumentError, match=r"split.*train"):
        hr.Dataset(tmp_path / "photos", split="test")


def test_class_folders_give_the_labels_and_a_list_beside_them_is_ignored_with_a_warning(
    tmp_path: Path,
) -> None:
    root = images.write_tree(tmp_path / "of", {"x/a.jpg": content(0), "y/b.jpg": content(1)})
    (root / "metadata.csv").write_text("file_name,label\nx/a.jpg,7\n")
    said = rf"{root}/metadata\.csv is ignored, because .* beside it: x, y; headrace pack {root}/me"
    for call in (lambda path: hr.pack(path, tmp_path / "packed.hr"), hr.Dataset, hr.index):
        with pytest.warns(UserWarning, match=said) as told:
            made = call(root)
        assert [warning.filename for warning in told] == [__file__]
        if isinstance(made, hr.Dataset):
            assert made.classes == ["x", "y"]
            assert len(made) == 2
            made.close()
    (root / "metadata.csv").write_text("tar,count\nx.tar,7\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hr.pack(root, tmp_path / "again.hr")


def test_the_error_for_folders_with_lists_says_how_they_can_be_classes(tmp_path: Path) -> None:
    for name in ("cat", "dog"):
        folder(tmp_path / name)
    with pytest.raises(errors.ArgumentError, match="unless the lists get other names"):
        hr.Dataset(tmp_path)
    for name in ("cat", "dog"):
        (tmp_path / name / "metadata.csv").rename(tmp_path / name / "notes.csv")
    with hr.Dataset(tmp_path) as dataset:
        assert dataset.classes == ["cat", "dog"]


def test_a_list_that_names_a_file_outside_its_folder_is_an_error(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    (root / "metadata.csv").write_text("file_name,label\n../a.jpg,1\n")
    for call in (hr.Dataset, hr.index, lambda path: hr.pack(path, tmp_path / "packed.hr")):
        with pytest.raises(errors.BadFileError, match=r"metadata\.csv.*not below the folder"):
            call(root)


def test_arguments_for_containers_are_refused_for_a_folder_with_a_list(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    with pytest.raises(errors.ArgumentError, match="are for containers"):
        hr.Dataset(root, label="text")


@pytest.mark.parametrize("below", ["", "images/"])
def test_a_corrected_list_takes_effect_when_its_folder_is_indexed_or_packed_again(
    tmp_path: Path, below: str
) -> None:
    root = folder(tmp_path / "photos", below)
    hr.index(root)
    (root / "metadata.csv").write_text(f"file_name,label\n{below}a.jpg,7\n{below}c.jpg,9\n")
    hr.pack(root, tmp_path / "packed.hr")
    hr.index(root)
    for made in (root, tmp_path / "packed.hr"):
        with hr.Dataset(made) as dataset:
            assert [one[1] for one in facts(dataset)] == [7, 9]


def test_a_split_with_a_list_is_indexed_again_by_its_list(tmp_path: Path) -> None:
    for name in ("test", "train"):
        folder(tmp_path / "photos" / name, "images/")
    root = tmp_path / "photos"
    hr.index(root, split="train")
    (root / "train" / "metadata.csv").write_text("file_name,label\nimages/a.jpg,7\n")
    hr.pack(root, tmp_path / "packed.hr", split="train")
    hr.index(root, split="train")
    for made in (root / "train", tmp_path / "packed.hr"):
        with hr.Dataset(made) as dataset:
            assert [one[1] for one in facts(dataset)] == [7]


def cached(root: Path, main: str | None = "abc", states: tuple[str, ...] = ("abc",)) -> Path:
    """A repository as huggingface_hub caches it: each file is a link to a blob."""
    repository = root / "datasets--org--photos"
    (repository / "refs").mkdir(parents=True)
    (repository / "snapshots").mkdir()
    (repository / "blobs").mkdir()
    if main is not None:
        (repository / "refs" / "main").write_text(main)
    for state in states:
        folder(repository / "snapshots" / state, "images/")
        for path in list((repository / "snapshots" / state).rglob("*.*")):
            blob = repository / "blobs" / f"{state}-{path.name.replace('.', '-')}"
            path.rename(blob)
            path.symlink_to(blob)
    return repository


def test_a_repository_in_the_hubs_cache_has_the_list_of_its_snapshot(tmp_path: Path) -> None:
    repository = cached(tmp_path)
    with hr.Dataset(repository / "snapshots" / "abc") as dataset:
        expected = facts(dataset)
    with hr.Dataset(repository) as dataset:
        assert dataset.kind == "listed"
        assert facts(dataset) == expected
    hr.pack(repository, tmp_path / "packed.hr")
    hr.index(repository)
    for made in (repository, repository / "snapshots" / "abc", tmp_path / "packed.hr"):
        with hr.Dataset(made) as dataset:
            assert facts(dataset) == expected
    hr.index(repository, index_dir=tmp_path / "index")
    with hr.Dataset(repository, index_dir=tmp_path / "index") as dataset:
        assert facts(dataset) == expected


def test_a_repository_without_its_main_snapshot_is_an_error(tmp_path: Path) -> None:
    repository = cached(tmp_path, main="def")
    for call in (hr.Dataset, hr.index, lambda path: hr.pack(path, tmp_path / "packed.hr")):
        with pytest.raises(errors.ArgumentError, match=r'"def", which is not there.*"abc"'):
            call(repository)
    (repository / "refs" / "main").unlink()
    with hr.Dataset(repository) as dataset:
        assert len(dataset) == 3


def test_the_paths_of_a_list_are_in_its_column_file_name(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos")
    rows = "file_name,path,label\na.jpg,/elsewhere/1.jpg,7\nc.jpg,/elsewhere/2.jpg,9\n"
    (root / "metadata.csv").write_text(rows)
    with hr.Dataset(root) as dataset:
        expected = facts(dataset)
    assert [(one[0], one[1], one[2]["path"]) for one in expected] == [
        ("a", 7, "/elsewhere/1.jpg"),
        ("c", 9, "/elsewhere/2.jpg"),
    ]
    hr.pack(root, tmp_path / "packed.hr")
    hr.index(root)
    for made in (root, tmp_path / "packed.hr"):
        with hr.Dataset(made) as dataset:
            assert facts(dataset) == expected
    (root / "metadata.csv").write_text("file_name,at,label\nx,a.jpg,7\n")
    hr.pack(root, tmp_path / "named.hr", path_column="at")
    with hr.Dataset(tmp_path / "named.hr") as dataset:
        assert [one[0] for one in facts(dataset)] == ["a"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("metadata.csv", b"file_name;label\nimages/a.jpg;1\n", 'it seems by ";"'),
        ("metadata.csv", b'file_name,"label\nimages/a.jpg,1\n', "line"),
        ("metadata.jsonl", b'{"file_name": "images/a.jpg", \n', "line 1"),
        ("metadata.parquet", b"PAR1 and no more of it", "no Parquet file"),
    ],
)
def test_a_list_in_a_folder_that_cannot_be_read_is_an_error(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    root = folder(tmp_path / "photos", "images/")
    (root / "metadata.csv").unlink()
    (root / name).write_bytes(content)
    for call in (hr.Dataset, hr.index, lambda path: hr.pack(path, tmp_path / "packed.hr")):
        with pytest.raises(errors.BadFileError, match=said) as caught:
            call(root)
        assert name in str(caught.value)


def test_a_list_that_is_a_dangling_link_is_an_error(tmp_path: Path) -> None:
    root = folder(tmp_path / "photos", "images/")
    (root / "metadata.csv").unlink()
    (root / "metadata.csv").symlink_to(tmp_path / "gone.csv")
    for call in (hr.Dataset, hr.index, lambda path: hr.pack(path, tmp_path / "packed.hr")):
        with pytest.raises(errors.SystemFailure, match=r"metadata\.csv"):
            call(root)


def test_a_metadata_csv_without_file_names_is_not_taken_for_a_list(tmp_path: Path) -> None:
    images.write_tree(tmp_path, {"x/a.jpg": content(0)})
    for text in ("", "what;else\n1;2\n", "what,else\n1,2\n"):
        (tmp_path / "metadata.csv").write_text(text)
        with hr.Dataset(tmp_path) as dataset:
            assert dataset.classes == ["x"]


def test_links_to_folders_with_lists_are_read_as_folders(tmp_path: Path) -> None:
    for name in ("test", "train"):
        folder(tmp_path / "kept" / name)
        (tmp_path / "linked").mkdir(exist_ok=True)
        (tmp_path / "linked" / name).symlink_to(tmp_path / "kept" / name)
    with hr.Dataset(tmp_path / "linked", split="train") as dataset:
        assert [one[1] for one in facts(dataset)] == [1, 0, 1]
