"""Indexed folders that were copied, or whose files were changed or added since."""

from __future__ import annotations

import os
import shutil
import warnings
from pathlib import Path

import pytest

import headrace as hr
import images
from headrace import errors


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    folder = images.plain_tree(tmp_path / "photos", 12)
    hr.index(folder)
    return folder


def copied(folder: Path, to: Path) -> Path:
    """A copy as `cp -r` makes it: files and folders have new times, the index's the earliest."""
    shutil.copytree(folder, to, copy_function=shutil.copy)
    for number, path in enumerate(sorted(to.rglob("*"), reverse=True)):
        os.utime(path, ns=(10**18, 10**18 + number * 10**9))
    os.utime(to / "headrace.json", (1, 1))
    return to


def test_a_copy_of_an_indexed_folder_with_new_file_times_is_read(
    indexed: Path, tmp_path: Path
) -> None:
    copy = copied(indexed, tmp_path / "copy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = hr.Dataset(copy)
    with dataset, hr.Dataset(indexed) as original:
        assert dataset.kind == "indexed"
        assert [dataset.read(i) for i in range(12)] == [original.read(i) for i in range(12)]
        with hr.Loader(dataset, batch_size=4, transform=[hr.transforms.Resize((8, 8))]) as loader:
            assert sum(len(labels) for _, labels in loader) == 12
    assert hr.verify(copy)["ok"]


def test_a_file_of_the_same_size_with_other_bytes_is_an_error_that_says_what_to_do(
    indexed: Path,
) -> None:
    with hr.Dataset(indexed) as dataset:
        path = Path(dataset.facts(3)["path"])
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(errors.ChecksumError) as caught:
            dataset[3]
        path.write_bytes(content[:-1])
        with pytest.raises(errors.BadFileError) as shorter:
            dataset[3]
    text = str(caught.value)
    assert f"{path}: record 3 " in text
    assert "another time than when it was indexed, and another checksum (expected " in text
    assert text.endswith("; run headrace index again")
    sizes = f"(expected {len(content)} bytes, found {len(content) - 1})"
    assert str(shorter.value).endswith(f"{sizes}; run headrace index again")


@pytest.mark.parametrize("apart", [False, True])
def test_an_image_added_to_an_indexed_folder_gives_a_warning_when_the_folder_is_opened(
    apart: bool, tmp_path: Path
) -> None:
    folder = images.plain_tree(tmp_path / "photos", 12)
    where = {"index_dir": tmp_path / "index"} if apart else {}
    hr.index(folder, **where)
    (folder / "class1" / "notes.txt").write_text("no image")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hr.Dataset(folder, **where).close()
    new = folder / "class1" / "new.jpg"
    new.write_bytes(images.jpeg(20, 20))
    with pytest.warns(UserWarning, match=r"class1/new\.jpg is not in the index of its folder"):
        hr.Dataset(folder, **where).close()
    hr.index(folder, **where)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hr.Dataset(folder, **where) as dataset:
            assert len(dataset) == 13
