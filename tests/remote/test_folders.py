"""Folders of single objects in a store: indexed in place, packed from, and read by an index."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import headrace as hr
import images
from headrace import errors
from remote import buckets
from remote.stores import Store
from remote.test_indexes import Storage, epochs, text_of

COUNT = 40


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    folder = tmp_path / "buckets" / "photos"
    images.plain_tree(folder / "set", COUNT)
    (folder / "set" / "notes.txt").write_text("no image")
    return folder


@pytest.mark.parametrize("address", ["s3://photos/set", "s3://photos/set/"])
def test_an_index_of_objects_gives_the_batches_of_the_folder(
    address: str, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    here = hr.index(bucket / "set", index_dir=tmp_path / "beside")
    made = hr.index(address, tmp_path / "away.hr", storage=storage)
    assert (made["fingerprint"], made["rows"]) == (here["fingerprint"], COUNT)
    assert epochs(tmp_path / "away.hr", storage) == epochs(bucket / "set")
    with hr.Dataset(tmp_path / "away.hr", storage=storage) as dataset:
        assert dataset.facts(3)["path"].startswith("s3://photos/set/")
        assert dataset.classes == hr.Dataset(bucket / "set").classes
    local = epochs(bucket / "set")
    # Copied beside the objects the index is opened by their address.
    for file in (tmp_path / "away.hr").iterdir():
        shutil.copy(file, bucket / "set")
    assert epochs(address, storage) == local


def test_objects_are_packed_to_the_same_bytes_as_files(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    hr.pack(bucket / "set", tmp_path / "here.hr", shard_size="64KiB")
    hr.pack("s3://photos/set", tmp_path / "away.hr", shard_size="64KiB", storage=storage)
    hr.pack("s3://photos/set", "s3://photos/set.hr", shard_size="64KiB", storage=storage)
    assert text_of(tmp_path / "away.hr") == text_of(tmp_path / "here.hr")
    assert text_of(bucket / "set.hr") == text_of(tmp_path / "here.hr")


def test_a_folder_with_an_index_beside_it_is_packed_and_indexed_as_without_one(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    made = hr.index("s3://photos/set", tmp_path / "first.hr", storage=storage)
    hr.pack("s3://photos/set", tmp_path / "without.hr", shard_size="64KiB", storage=storage)
    for file in (tmp_path / "first.hr").iterdir():
        shutil.copy(file, bucket / "set")
    hr.pack("s3://photos/set", tmp_path / "beside.hr", shard_size="64KiB", storage=storage)
    assert text_of(tmp_path / "beside.hr") == text_of(tmp_path / "without.hr")
    again = hr.index("s3://photos/set", tmp_path / "second.hr", storage=storage)
    assert (again["fingerprint"], again["rows"]) == (made["fingerprint"], COUNT)


@pytest.mark.parametrize("decode", [False, True])
def test_objects_are_verified_by_an_index_of_them_and_by_one_beside_them(
    bucket: Path, storage: Storage, tmp_path: Path, decode: bool
) -> None:
    options: dict[str, Any] = {"storage": storage, "decode": decode, "num_threads": 2}
    hr.index("s3://photos/set", tmp_path / "away.hr", storage=storage)
    for file in (tmp_path / "away.hr").iterdir():
        shutil.copy(file, bucket / "set")
    sources = (tmp_path / "away.hr", "s3://photos/set")
    size = sum(file.stat().st_size for file in bucket.glob("set/*/*"))
    for source in sources:
        found = hr.verify(source, **options)
        assert (found["ok"], found["rows"], found["bytes"]) == (True, COUNT, size)
    files = sorted(bucket.glob("set/*/*"))
    data = bytearray(files[3].read_bytes())
    data[len(data) // 2] ^= 1
    files[3].write_bytes(data)
    files[5].unlink()
    files[7].write_bytes(files[7].read_bytes() + b"more")
    for source in sources:
        found = hr.verify(source, **options)
        assert not found["ok"]
        faults = {fault["record"]: fault for fault in found["faults"]["listed"]}
        with hr.Dataset(source, storage=storage) as dataset:
            places = [dataset.facts(number)["path"] for number in faults]
        assert places == [
            f"s3://photos/set/{file.relative_to(bucket / 'set')}"
            for file in (files[3], files[5], files[7])
        ]
        texts = [fault["text"] for fault in faults.values()]
        assert texts == [
            "the record's CRC-32C differs",
            "the file cannot be read",
            "the file cannot be read",
        ]
        reasons = [fault["found"] for fault in faults.values()]
        assert "404" in reasons[1]
        assert "expected" in reasons[2]


def test_objects_that_pillow_decodes_are_packed_as_files_of_the_same_folder(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    """They are found by their extensions; one beside an image of the same name is ignored."""
    for name in ("first", "second"):
        where = bucket / "set" / name
        where.mkdir()
        Image.new("RGB", (30, 20), "teal").save(where / "1.avif")
    Image.new("RGB", (30, 20), "teal").save(bucket / "set" / "first" / "1.jpg")
    hr.pack(bucket / "set", tmp_path / "here.hr")
    hr.pack("s3://photos/set", tmp_path / "away.hr", storage=storage)
    assert text_of(tmp_path / "away.hr") == text_of(tmp_path / "here.hr")
    with hr.Dataset(tmp_path / "away.hr") as packed:
        assert (len(packed), "second" in packed.classes) == (COUNT + 2, True)


def test_objects_are_fetched_ahead_although_a_tenth_of_the_requests_fails(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    here = hr.index(bucket / "set", index_dir=tmp_path / "beside")
    failing = buckets.Failing(storage, seed=5)
    with failing.running() as through:
        made = hr.index("s3://photos/set", tmp_path / "away.hr", storage=through)
    assert failing.failed > 0
    assert made["fingerprint"] == here["fingerprint"]


def test_an_index_of_objects_needs_a_destination_and_an_address_with_images(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    with pytest.raises(errors.ArgumentError, match="--out"):
        hr.index("s3://photos/set", storage=storage)
    shutil.rmtree(bucket / "set")
    (bucket / "set" / "a").mkdir(parents=True)
    (bucket / "set" / "a" / "notes.txt").write_text("no image")
    with pytest.raises(errors.EmptyDatasetError, match="there is no container that is known"):
        hr.index("s3://photos/set", tmp_path / "away.hr", storage=storage)


def test_a_folder_on_a_web_server_cannot_be_indexed(bucket: Path, tmp_path: Path) -> None:
    store = Store(bucket)
    try:
        with pytest.raises(errors.HeadraceError):
            hr.index(store.url("set/"), tmp_path / "away.hr")
    finally:
        store.end()
