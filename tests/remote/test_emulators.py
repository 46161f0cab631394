"""Google's and Azure's stores, with servers that speak their protocols (`make emulators`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace import errors
from remote.emulators import EMULATORS, Storage
from remote.test_urls import loader, samples

COUNT = 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("emulated")
    photos = images.plain_tree(root / "photos", COUNT, side=320)
    hr.pack(photos, root / "train.hr", shard_size="1MB")
    return root


@pytest.fixture(params=EMULATORS)
def store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Storage]]:
    with EMULATORS[request.param](monkeypatch) as made:
        yield made


def test_a_dataset_is_written_verified_read_kept_and_replaced(
    folder: Path, store: tuple[str, Storage], tmp_path: Path
) -> None:
    bucket, storage = store
    url = f"{bucket}/sets/train.hr"
    here = hr.pack(folder / "photos", tmp_path / "here.hr", shard_size="1MB")
    made = hr.pack(folder / "photos", url, shard_size="1MB", storage=storage)
    assert made["fingerprint"] == here["fingerprint"]
    assert hr.verify(url, storage=storage)["ok"]
    kept: dict[str, Any] = {"cache": tmp_path / "cache", "cache_size": "64MB"}
    with loader(folder / "train.hr", shuffle=True) as one:
        local = samples(one) + samples(one)
    with loader(url, storage=storage, shuffle=True) as one:
        assert samples(one) + samples(one) == local
    for _ in range(2):
        with loader(url, storage=storage, shuffle=True, **kept) as one:
            assert samples(one) + samples(one) == local
            fetched = one.stats()["remote_bytes"]
    assert fetched == 0
    with hr.Dataset(url, storage=storage) as dataset:
        dataset.read(0)
        hr.pack(folder / "photos", url, shard_size="1MB", storage=storage, overwrite=True)
        with pytest.raises(errors.ChangedError):
            dataset.read(1)


def test_objects_and_containers_are_listed_and_indexed(
    folder: Path, store: tuple[str, Storage], tmp_path: Path
) -> None:
    bucket, storage = store
    hr.pack(folder / "photos", f"{bucket}/set.hr", shard_size="1MB", storage=storage)
    made = hr.index(f"{bucket}/set.hr/shard-*.tar", tmp_path / "tars.hr", storage=storage)
    assert made["rows"] == COUNT
    with loader(tmp_path / "tars.hr", storage=storage) as one:
        found = sorted(image for _, _, image in samples(one))
    shards = sorted((folder / "train.hr").glob("*.tar"))
    assert made["shards"] == len(shards)
    hr.index([str(shard) for shard in shards], tmp_path / "here.hr")
    with loader(tmp_path / "here.hr") as one:
        assert found == sorted(image for _, _, image in samples(one))


def test_a_large_object_is_sent_in_parts(store: tuple[str, Storage], tmp_path: Path) -> None:
    bucket, storage = store
    photos = images.plain_tree(tmp_path / "photos", 4)
    big = next(path for path in sorted(photos.rglob("*.jpg")))
    big.write_bytes(big.read_bytes() + bytes(20 << 20))
    url = f"{bucket}/big.hr"
    hr.pack(photos, url, storage=storage)
    assert hr.verify(url, storage=storage)["ok"]


def test_a_missing_object_is_a_missing_file_error(store: tuple[str, Storage]) -> None:
    bucket, storage = store
    with pytest.raises(errors.HeadraceError, match="headrace"):
        hr.Dataset(f"{bucket}/nothing.hr", storage=storage)
    with pytest.raises(errors.MissingFileError):
        hr.index(f"{bucket}/nothing.tar", "/nowhere", storage=storage)
