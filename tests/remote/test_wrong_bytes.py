"""Answers with the right length and wrong bytes: they are fetched once more, and then an error."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
from headrace import errors
from remote.stores import Answering, Fault, Store
from remote.test_urls import epochs, loader, samples

COUNT = 24


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wrong")
    photos = images.plain_tree(root / "photos", COUNT)
    hr.pack(photos, root / "train.hr", shard_size="64KiB")
    hr.index(photos)
    return root


@pytest.fixture(params=["no cache", "cache"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    if request.param == "no cache":
        return {}
    return {"cache": tmp_path / "cache", "cache_size": "8MB"}


def wrong(times: int, at: int, ending: str, step: int = 4096) -> Fault:
    """Changes bytes of an object, from a certain one on, in the first answers that contain them."""
    seen: Counter[tuple[str, int]] = Counter()
    lock = threading.Lock()

    def fault(answering: Answering, body: bytes, first: int, whole: int) -> bool | bytes:
        if answering.command != "GET" or not answering.path.endswith(ending):
            return False
        changed = bytearray(body)
        with lock:
            for place in range(at, whole, step):
                if first <= place < first + len(body):
                    seen[answering.path, place] += 1
                    if seen[answering.path, place] <= times:
                        changed[place - first] ^= 255
        return bytes(changed)

    return fault


@pytest.mark.parametrize("ending", [".tar", ".arrow", "headrace.json"])
def test_records_with_wrong_bytes_are_fetched_once_more(
    root: Path, store: Store, kept: dict[str, Any], ending: str
) -> None:
    store.fault = wrong(1, 1000, ending)
    found = epochs(store.url("train.hr"), shuffle=True, **kept)
    assert found == epochs(root / "train.hr", shuffle=True)


def test_files_with_wrong_bytes_are_fetched_once_more(
    root: Path, store: Store, kept: dict[str, Any]
) -> None:
    store.fault = wrong(1, 200, ".jpg")
    assert epochs(store.url("photos"), shuffle=True, **kept) == epochs(
        root / "photos", shuffle=True
    )


def test_single_samples_with_wrong_bytes_are_fetched_once_more(
    root: Path, store: Store, kept: dict[str, Any]
) -> None:
    store.fault = wrong(1, 1000, ".tar")
    with hr.Dataset(store.url("train.hr"), **kept) as away, hr.Dataset(root / "train.hr") as here:
        for number in range(COUNT):
            assert np.array_equal(away[number].image, here[number].image)


def test_wrong_bytes_twice_are_an_error_with_address_place_and_both_checksums(
    root: Path, store: Store, kept: dict[str, Any]
) -> None:
    with hr.Dataset(root / "train.hr") as dataset:
        facts = dataset.facts(3)
    at = int(facts["offset"])
    store.fault = wrong(1000, (at + 100) % 4096, "shard-00000.tar")
    with loader(store.url("train.hr"), **kept) as made, pytest.raises(errors.ChecksumError) as said:
        samples(made)
    assert store.url("train.hr/shard-00000.tar") in str(said.value)
    assert f" at byte {said.value.offset}: " in str(said.value)
    assert "CRC-32C of" in str(said.value)
    assert "expected" in str(said.value)
    assert "also when it was fetched once more" in str(said.value)
    with hr.Dataset(store.url("train.hr"), **kept) as dataset:
        sentence = (
            r"CRC-32C differs \(expected \w+, found \w+\), also when it was fetched once more"
        )
        with pytest.raises(errors.ChecksumError, match=sentence):
            dataset[int(said.value.record or 0)]
    record = int(said.value.record or 0)
    with hr.Dataset(root / "train.hr") as dataset:
        place = dataset.facts(record)
    begin, end = int(place["offset"]), int(place["offset"]) + int(place["length"])
    asked = [
        first
        for method, path, first, length in store.requests
        if method == "GET"
        and path.endswith("shard-00000.tar")
        and first < end
        and first + length > begin
        and length > 1
    ]
    assert len(asked) == 4


@pytest.mark.parametrize("what", ["train.hr", "photos"])
def test_a_verification_fetches_wrong_bytes_once_more(root: Path, store: Store, what: str) -> None:
    at, ending = 100, ".jpg"
    if what == "train.hr":
        with hr.Dataset(root / what) as dataset:
            at, ending = int(dataset.facts(5)["offset"]) + 100, "shard-00000.tar"
    for times, whole in ((1, True), (1000, False)):
        store.fault = wrong(times, at, ending, step=1 << 40)
        assert hr.verify(store.url(what))["ok"] is whole


def pages(folder: Path) -> None:
    rows = [
        {
            "image": {"bytes": images.jpeg(64, 48, seed=at)},
            "label": at % 5,
            "text": f"{at} " * 300,
        }
        for at in range(COUNT)
    ]
    folder.mkdir()
    pq.write_table(
        pa.Table.from_pylist(rows), folder / "a.parquet", compression="zstd", row_group_size=8
    )


def test_blocks_with_wrong_bytes_are_fetched_once_more(
    tmp_path: Path, kept: dict[str, Any]
) -> None:
    pages(tmp_path / "data")
    store = Store(tmp_path)
    try:
        hr.index(store.url("data/a.parquet"), tmp_path / "a.hr", image="image.bytes")
        with loader(tmp_path / "a.hr", fields=["index", "text"]) as made:
            right = [list(batch[2]["text"]) for batch in made]
        plain = epochs(tmp_path / "a.hr")
        for place in (600, 1100, 2500, 3600):
            store.fault = wrong(1, place, ".parquet")
            with loader(tmp_path / "a.hr", fields=["index", "text"], **kept) as made:
                assert [list(batch[2]["text"]) for batch in made] == right
            assert epochs(tmp_path / "a.hr", **kept) == plain
            store.fault = None
            assert epochs(tmp_path / "a.hr", **kept) == plain
    finally:
        store.end()
