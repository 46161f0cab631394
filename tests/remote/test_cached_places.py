"""Other things in the cache than records: index, seek points, files, blocks, single samples.

With versitygw, where objects have ETags, and with a web server that records its requests.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
from headrace._command.cli import app
from remote import buckets
from remote.stores import Store
from remote.test_urls import loader, samples
from timing import eventually

COUNT = 60
URL = "s3://photos/train.hr"

Storage = dict[str, str | bool]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images large enough to have seek points, packed and in an indexed folder."""
    root = tmp_path_factory.mktemp("places")
    photos = images.plain_tree(root / "photos", COUNT, side=320)
    hr.pack(photos, root / "train.hr", shard_size="1MB")
    hr.index(photos)
    return root


@pytest.fixture
def storage(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    buckets.set_keys(monkeypatch)
    (tmp_path / "buckets" / "photos").mkdir(parents=True)
    with buckets.serving(tmp_path / "buckets") as options:
        hr.pack(root / "photos", URL, shard_size="1MB", storage=options)
        yield options


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, Any]:
    return {"cache": tmp_path / "cache", "cache_size": "64MB"}


def manifest(dataset: Path) -> dict[str, Any]:
    return dict(json.loads((dataset / "headrace.json").read_text()))


def test_a_cached_index_is_not_fetched_again_but_a_replaced_one_is(
    root: Path, storage: Storage, kept: dict[str, Any]
) -> None:
    index = manifest(root / "train.hr")["index"]["size"]
    for fetched in (index, 0):
        with loader(URL, storage=storage, **kept) as made:
            samples(made)
            assert made.stats()["remote_index_bytes"] == fetched
    hr.pack(root / "photos", URL, storage=storage, overwrite=True, seek=False)
    with loader(URL, storage=storage, **kept) as made:
        found = samples(made)
        assert made.stats()["remote_index_bytes"] > 0
    with loader(root / "train.hr") as made:
        assert found == samples(made)


def test_seek_points_are_fetched_after_the_first_batch_and_used_from_then_on(
    root: Path, storage: Storage, kept: dict[str, Any]
) -> None:
    whole = manifest(root / "train.hr")["seek"]["size"]
    with loader(root / "train.hr", shuffle=True) as made:
        local = [samples(made) for _ in range(3)]

        def all_have_points() -> bool:  # true once nothing more is decoded ahead
            stats = made.stats()
            return bool(stats["images_with_seek_points"] == stats["images_decoded"])

        assert eventually(all_have_points)
    with loader(URL, storage=storage, shuffle=True, **kept) as made:
        assert samples(made) == local[0]
        assert eventually(lambda: made.stats()["remote_seek_bytes"] == whole - 16)
        before = made.stats()["images_with_seek_points"]
        assert [samples(made) for _ in range(2)] == local[1:]
        stats = made.stats()
    assert stats["images_with_seek_points"] >= before + COUNT
    assert stats["remote_bytes_per_second"] > 0
    with loader(URL, storage=storage, shuffle=True, **kept) as made:
        assert [samples(made) for _ in range(3)] == local
        stats = made.stats()
    assert stats["remote_seek_bytes"] == 0
    assert stats["images_with_seek_points"] >= 2 * COUNT


def test_no_seek_points_are_fetched_if_records_would_be_dropped_for_them(
    root: Path, storage: Storage, kept: dict[str, Any]
) -> None:
    small = {"cache_size": manifest(root / "train.hr")["bytes"] // 2, "batch_size": 4}
    with loader(URL, storage=storage, shuffle=True, **{**kept, **small}) as made:
        found = samples(made) + samples(made)
        assert made.stats()["remote_seek_bytes"] == 0
    with loader(root / "train.hr", shuffle=True, batch_size=4) as made:
        assert found == samples(made) + samples(made)


def test_single_samples_are_read_through_the_cache(
    root: Path, store: Store, kept: dict[str, Any]
) -> None:
    for asked in (3, 0):
        del store.requests[:]
        with (
            hr.Dataset(store.url("train.hr"), **kept) as away,
            hr.Dataset(root / "train.hr") as here,
        ):
            for number in (0, 7, 0, COUNT - 1):
                assert np.array_equal(away[number].image, here[number].image)
        records = [one for one in store.requests if one[1].endswith(".tar") and one[3] > 1]
        assert len(records) == asked


def test_files_of_an_image_folder_are_fetched_once(
    root: Path, store: Store, kept: dict[str, Any]
) -> None:
    with loader(root / "photos", shuffle=True) as made:
        local = [samples(made) for _ in range(2)]
    hedges = 0
    for _ in range(2):
        with loader(store.url("photos"), shuffle=True, **kept) as made:
            assert [samples(made) for _ in range(2)] == local
            hedges += made.stats()["remote_hedges"]
    asked = [path for _, path, _, length in store.requests if path.endswith((".jpg", ".png"))]
    assert len(set(asked)) == COUNT
    # On a busy machine a request is sent a second time if it is slower than those of earlier tests.
    assert len(asked) <= COUNT + hedges


def test_a_replaced_file_is_detected_by_its_checksum_and_not_cached(
    tmp_path: Path, kept: dict[str, Any]
) -> None:
    photos = images.plain_tree(tmp_path / "photos", 8)
    hr.index(photos)
    store = Store(tmp_path)
    victim = next(path for path in sorted(photos.rglob("*")) if path.suffix in (".jpg", ".png"))
    content, stamp = victim.read_bytes(), victim.stat().st_mtime_ns
    try:
        victim.write_bytes(bytes(len(content)))
        with loader(store.url("photos"), **kept) as made, pytest.raises(hr.errors.HeadraceError):
            samples(made)
        victim.write_bytes(content)
        os.utime(victim, ns=(stamp, stamp))  # as recorded in the index
        with loader(store.url("photos"), **kept) as made, loader(photos) as here:
            assert samples(made) == samples(here)
    finally:
        store.end()


def test_compressed_blocks_are_fetched_once(tmp_path: Path, kept: dict[str, Any]) -> None:
    rows = [
        {"image": {"bytes": images.jpeg(64, 48, seed=at)}, "label": at % 5} for at in range(COUNT)
    ]
    table = pa.Table.from_pylist(rows)
    (tmp_path / "data").mkdir()
    pq.write_table(table, tmp_path / "data/train.parquet", compression="snappy", row_group_size=20)
    store = Store(tmp_path)
    try:
        hr.index(store.url("data/train.parquet"), tmp_path / "train.hr", image="image.bytes")
        with loader(tmp_path / "train.hr") as made:
            plain = samples(made)
        del store.requests[:]
        for _ in range(2):
            with loader(tmp_path / "train.hr", **kept) as made:
                assert samples(made) == plain
        asked = [one for one in store.requests if one[0] == "GET" and one[3] > 1]
        assert asked
        assert len(set(asked)) == len(asked)
    finally:
        store.end()


@pytest.mark.slow
def test_commands_read_through_a_cache(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url, kept = store.url("train.hr"), ["--cache", str(tmp_path / "cache"), "--cache-size", "64MB"]
    measured = ["--seconds", "1", "--size", "16", "--json"]

    def run(*arguments: str) -> int:
        """How many requests for records a command makes."""
        before = len(store.requests)
        app([*arguments, *kept], standalone_mode=False)
        capsys.readouterr()
        asked = store.requests[before:]
        return sum(1 for one in asked if one[1].endswith(".tar") and one[3] > 1)

    assert run("bench", url, *measured) > 0
    assert run("bench", url, *measured) == 0
    assert run("view", url, str(tmp_path / "view.png"), "--count", "4") == 0
    assert run("doctor", url, *measured) == 0
    assert run("info", url, "--sample", "3") == 0
    index = [one for one in store.requests if one[1].endswith(".arrow")]
    assert len(index) == 1


@pytest.mark.slow
def test_the_doctor_recommends_a_cache_for_a_slow_store_without_one(
    store: Store, kept: dict[str, Any]
) -> None:
    store.fault = lambda *_: time.sleep(0.3)  # for each request
    crop = [hr.transforms.RandomResizedCrop(16)]
    for cache, said in ({}, 1), (kept, 0):
        found = hr.doctor(store.url("train.hr"), transform=crop, seconds=1, **cache)
        assert cache or found.limit == "storage"
        assert sum(note.startswith("with cache= ") for note in found.notes) == said


def test_a_new_signature_fetches_nothing_again_but_a_new_version_is_fetched(
    root: Path, kept: dict[str, Any], tmp_path: Path
) -> None:
    shutil.copytree(root / "train.hr", tmp_path / "store" / "train.hr")
    store = Store(tmp_path / "store")
    url = store.url("train.hr")
    try:
        with loader(f"{url}?X-Amz-Date=1&X-Amz-Signature=A&id=7", **kept) as made:
            first = samples(made)
        other = url.replace("http://", "http://user:word@")
        with loader(f"{other}?X-Amz-Date=2&X-Amz-Signature=B&id=7", **kept) as made:
            assert samples(made) == first
            assert made.stats()["remote_bytes"] == 0
        with loader(f"{url}?id=8", **kept) as made:  # a different id may name another object
            assert samples(made) == first
            assert made.stats()["remote_bytes"] > 0
        hr.pack(root / "photos", tmp_path / "store" / "train.hr", shard_size="2MB", overwrite=True)
        with loader(f"{url}?X-Amz-Date=3&X-Amz-Signature=C&id=7", **kept) as made:
            assert samples(made) == first
            assert made.stats()["remote_bytes"] > 0
    finally:
        store.end()
