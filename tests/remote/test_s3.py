"""Datasets in S3, with versitygw: a real server of the protocol, which checks signatures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace import errors
from remote import buckets
from timing import within

COUNT = 60


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the server serves as a bucket "photos"; its files have no ETag."""
    root = tmp_path_factory.mktemp("s3")
    folder = images.plain_tree(root / "folder", COUNT)
    (root / "buckets" / "photos").mkdir(parents=True)
    hr.pack(folder, root / "buckets" / "photos" / "train.hr", shard_size="64KiB")
    return root


@pytest.fixture
def storage(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str | bool]]:
    # Set while the library is loaded, as in a notebook.
    buckets.set_keys(monkeypatch)
    with buckets.serving(root / "buckets") as options:
        yield options


def epoch(dataset: str | Path, storage: dict[str, str | bool] | None = None) -> list[bytes]:
    options = {"seed": 4, "shuffle": True, "num_threads": 2, "output": "numpy", "dtype": "uint8"}
    crop = [hr.transforms.RandomResizedCrop(9)]
    with hr.Loader(dataset, 7, transform=crop, storage=storage, **options) as loader:
        return [pixels.tobytes() + labels.tobytes() for pixels, labels in loader]


def test_a_bucket_gives_the_same_batches_as_the_folder(
    root: Path, storage: dict[str, str | bool]
) -> None:
    local = epoch(root / "buckets" / "photos" / "train.hr")
    assert epoch("s3://photos/train.hr", storage) == local
    with hr.Dataset("s3://photos/train.hr", storage=storage) as dataset:
        assert len(dataset) == COUNT
        assert dataset[COUNT - 1].image.ndim == 3


def test_a_secret_that_is_set_later_is_used_and_is_in_no_error(
    storage: dict[str, str | bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(errors.DeniedError, match="SignatureDoesNotMatch") as refused:
        hr.Dataset("s3://photos/train.hr", storage=storage)
    assert "another-secret" not in str(refused.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", buckets.SECRET)
    hr.Dataset("s3://photos/train.hr", storage=storage).close()


def test_an_open_dataset_keeps_the_credentials_with_which_it_was_opened(
    root: Path, storage: dict[str, str | bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        hr.Dataset("s3://photos/train.hr", storage=storage) as dataset,
        hr.Dataset(root / "buckets" / "photos" / "train.hr") as local,
    ):
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "that-of-another-bucket")
        with pytest.raises(errors.DeniedError):
            hr.Dataset("s3://photos/train.hr", storage=storage)
        for number in range(COUNT):  # from shards that were not opened yet
            assert dataset.read(number) == local.read(number)


@pytest.mark.parametrize(("before", "after"), [(4, 2), (2, 3), (1, 4)])
def test_an_epoch_is_resumed_mid_epoch_by_another_number_of_ranks(
    root: Path, storage: dict[str, str | bool], tmp_path: Path, before: int, after: int
) -> None:
    hr.pack(root / "folder", "s3://photos/resumed.hr", storage=storage, overwrite=True)
    kept = {"storage": storage, "cache": tmp_path / "cache", "cache_size": "16MB"}

    def made(source: str | Path, rank: int, ranks: int, **options: Any) -> hr.Loader:
        settings: dict[str, Any] = {"seed": 4, "shuffle": True, "num_threads": 1, **options}
        settings |= {"output": "numpy", "dtype": "uint8", "fields": ["index"]}
        crop = [hr.transforms.RandomResizedCrop(9)]
        return hr.Loader(
            source, 12 // ranks, rank=rank, world_size=ranks, transform=crop, **settings
        )

    def rows(batch: Any) -> list[bytes]:
        pixels, labels, fields = batch
        numbers = zip(fields["index"], labels, pixels, strict=True)
        return [bytes(index) + bytes(label) + image.tobytes() for index, label, image in numbers]

    with made(root / "buckets/photos/resumed.hr", 0, 1) as loader:
        whole = [row for batch in loader for row in rows(batch)]
    states, found = [], []
    for rank in range(before):
        with made("s3://photos/resumed.hr", rank, before, **kept) as loader:
            batches = iter(loader)
            found += [row for _ in range(2) for row in rows(next(batches))]
            states.append(loader.state_dict())

    def attempt() -> float:
        began = time.perf_counter()
        with made("s3://photos/resumed.hr", 0, after, **kept) as loader:
            loader.load_state_dict(states[0])
            next(iter(loader))
        return time.perf_counter() - began

    within(1.0, attempt)
    for rank in range(after):
        with made("s3://photos/resumed.hr", rank, after, **kept) as loader:
            loader.load_state_dict(states[0])
            found += [row for batch in loader for row in rows(batch)]
    assert sorted(found) == sorted(whole)


def test_a_bucket_that_does_not_exist_is_a_missing_file_error(
    storage: dict[str, str | bool], root: Path, tmp_path: Path
) -> None:
    for call in (
        lambda: hr.Dataset("s3://nope/x", storage=storage),
        lambda: hr.index("s3://nope/x", out=tmp_path / "index.hr", storage=storage),
        lambda: hr.pack("s3://nope/x", tmp_path / "packed.hr", storage=storage),
        lambda: hr.pack(root / "folder", "s3://nope/x", storage=storage),
    ):
        with pytest.raises(errors.MissingFileError, match="404 Not Found NoSuchBucket"):
            call()
    with pytest.raises(errors.UnsupportedError, match=r"there is no headrace\.json"):
        hr.Dataset("s3://photos/nope", storage=storage)
