"""Containers in a store: indexed in place, and packed from."""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import headrace as hr
import images
import recordio
import tfrecords
from headrace import errors
from headrace._command.cli import app
from remote import buckets
from remote.stores import Store

COUNT = 36

Storage = dict[str, str | bool]


def tar(path: Path, first: int, count: int) -> Path:
    """A WebDataset shard: each sample has an image, its label and a caption."""
    with tarfile.open(path, "w") as file:
        for number in range(first, first + count):
            members = {
                "jpg": images.jpeg(64 + number % 5, 48, seed=number),
                "cls": str(number % 7).encode(),
                "txt": f"a caption, {number}".encode(),
            }
            for suffix, content in members.items():
                member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    return path


def tars(folder: Path) -> str:
    for number in range(3):
        tar(folder / f"train-{number:03d}.tar", number * 12, 12)
    return "train-*.tar"


def tfrecord(folder: Path) -> str:
    for number in range(2):
        examples: list[dict[str, tfrecords.Value]] = [
            {"image/encoded": images.jpeg(64, 48, seed=at), "image/class/label": at % 5}
            for at in range(number * 18, number * 18 + 18)
        ]
        tfrecords.write(folder / f"train-{number}.tfrecord", examples)
    return "train-{0..1}.tfrecord"


def records(folder: Path) -> str:
    recordio.write(
        folder / "train.rec", [(images.jpeg(64, 48, seed=at), at % 5) for at in range(COUNT)]
    )
    return "train.rec"


def zipped(folder: Path) -> str:
    with zipfile.ZipFile(folder / "train.zip", "w") as file:
        for at in range(COUNT):
            file.writestr(f"train/class{at % 3}/{at:03d}.jpg", images.jpeg(64, 48, seed=at))
    return "train.zip"


CONTAINERS: dict[str, Callable[[Path], str]] = {
    "tar": tars,
    "tfrecord": tfrecord,
    "recordio": records,
    "zip": zipped,
}


def epochs(dataset: str | Path, storage: Storage | None = None) -> list[bytes]:
    with (
        hr.Dataset(dataset, storage=storage) as opened,
        hr.Loader(
            opened,
            5,
            shuffle=True,
            seed=3,
            transform=[hr.transforms.RandomResizedCrop(9)],
            dtype="uint8",
            output="numpy",
            num_threads=1,
        ) as loader,
    ):
        return [pixels.tobytes() + labels.tobytes() for _ in range(2) for pixels, labels in loader]


def text_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def test_an_empty_object_with_the_name_of_a_container_is_an_error(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    (bucket / "wds").mkdir()
    tars(bucket / "wds")
    (bucket / "wds" / "train-done").touch()  # without a container's extension
    made = hr.index("s3://photos/wds", tmp_path / "all.hr", storage=storage)
    (bucket / "wds" / "train-zz.tar").touch()
    with pytest.raises(errors.TruncatedError, match=r"train-zz\.tar: at byte 0: bad: the file has"):
        hr.index("s3://photos/wds", tmp_path / "other.hr", storage=storage)
    assert made["rows"] > 0


@pytest.mark.parametrize("name", ["a[1].tar", "what?.tar", "all*.tar", "{1}.tar"])
def test_an_address_that_looks_like_a_pattern_but_names_an_object_means_that_object(
    bucket: Path, storage: Storage, tmp_path: Path, name: str
) -> None:
    tar(bucket / name, 0, 3)
    tar(bucket / name.translate(str.maketrans("*?", "xx")), 3, 3)
    made = hr.index(f"s3://photos/{name}", tmp_path / "one.hr", storage=storage)
    assert made["rows"] == 3


def test_the_metadata_files_of_a_parquet_table_are_not_read_as_data(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    rows = [{"image": images.jpeg(64, 48, seed=at), "label": at} for at in range(4)]
    (bucket / "table").mkdir()
    for name in ("part-0.parquet", "_metadata", "_common_metadata"):
        pq.write_table(pa.Table.from_pylist(rows), bucket / "table" / name)
    made = hr.index("s3://photos/table/", tmp_path / "table.hr", storage=storage)
    assert made["rows"] == 4


def test_other_objects_beside_the_containers_of_a_bucket_are_not_taken_for_splits(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    (bucket / "wds").mkdir()
    tars(bucket / "wds")
    (bucket / "wds" / "_SUCCESS").touch()
    (bucket / "wds" / "README.md").write_text("Shards of photographs.")
    tar(bucket / "others.tar", 0, 3)
    made = hr.index("s3://photos/wds/", tmp_path / "train.hr", storage=storage)
    assert made["rows"] == 36
    shutil.move(bucket / "others.tar", bucket / "wds" / "test-000.tar")
    with pytest.raises(errors.ArgumentError, match=r'several splits: \["test" "train"\]; split='):
        hr.index("s3://photos/wds/", tmp_path / "both.hr", storage=storage)
    made = hr.index("s3://photos/wds/", tmp_path / "test.hr", split="test", storage=storage)
    assert made["rows"] == 3


@pytest.mark.parametrize("kind", CONTAINERS)
def test_an_index_of_containers_in_a_bucket_gives_the_same_batches_as_one_of_files(
    kind: str, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    (bucket / "wds").mkdir()
    pattern = CONTAINERS[kind](bucket / "wds")
    here = hr.index(str(bucket / "wds" / pattern), tmp_path / "here.hr")
    made = hr.index(f"s3://photos/wds/{pattern}", tmp_path / "away.hr", storage=storage)
    assert made["fingerprint"] == here["fingerprint"]
    assert made["rows"] == COUNT
    assert epochs(tmp_path / "away.hr", storage) == epochs(tmp_path / "here.hr")
    with (
        hr.Dataset(tmp_path / "away.hr", storage=storage) as away,
        hr.Dataset(tmp_path / "here.hr") as local,
    ):
        assert away.facts(3)["path"].startswith("s3://photos/wds/train")
        assert away.facts(COUNT - 1)["fields"] == local.facts(COUNT - 1)["fields"]
    assert hr.verify(tmp_path / "away.hr", storage=storage)["ok"]


def test_containers_of_a_bucket_are_packed_to_the_same_bytes_as_files(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    pattern = tars(bucket)
    hr.pack(str(bucket / pattern), tmp_path / "here.hr", shard_size="64KiB")
    hr.pack(f"s3://photos/{pattern}", tmp_path / "away.hr", shard_size="64KiB", storage=storage)
    hr.pack("s3://photos", "s3://photos/all.hr", shard_size="64KiB", storage=storage)
    assert text_of(tmp_path / "away.hr") == text_of(tmp_path / "here.hr")
    assert text_of(bucket / "all.hr") == text_of(tmp_path / "here.hr")
    hr.index(f"s3://photos/{pattern}", tmp_path / "index.hr", storage=storage)
    shutil.copytree(tmp_path / "index.hr", bucket, dirs_exist_ok=True)
    assert epochs("s3://photos", storage) == epochs(tmp_path / "here.hr")
    hr.pack(tmp_path / "index.hr", tmp_path / "again.hr", shard_size="64KiB", storage=storage)
    assert text_of(tmp_path / "again.hr") == text_of(tmp_path / "here.hr")


def test_a_container_without_an_index_is_refused_with_the_command_that_makes_one(
    bucket: Path, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pattern = f"s3://photos/{tars(bucket)}"
    told = [f"--storage={name}={str(value).lower()}" for name, value in storage.items()]
    monkeypatch.chdir(tmp_path)
    for source in (pattern, "s3://photos/train-000.tar", "s3://photos"):
        with pytest.raises(errors.UnsupportedError, match="headrace index") as refused:
            hr.Dataset(source, storage=storage)
        found = re.search(r"headrace (index \"[^\"]*\" --out \S+[^,; ])", str(refused.value))
        assert found is not None, refused.value
        done = CliRunner().invoke(app, [*shlex.split(found[1]), *told])
        assert done.exit_code == 0, done.output
        assert len(epochs("INDEX", storage)) > 0


def test_a_replaced_container_is_an_error_that_names_both_versions(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    tar(bucket / "a.tar", 0, 4)
    _put(storage, bucket, "a.tar")
    hr.index("s3://photos/a.tar", tmp_path / "a.hr", storage=storage)
    assert len(epochs(tmp_path / "a.hr", storage)) > 0
    with hr.Dataset(tmp_path / "a.hr", storage=storage) as dataset:
        content = bytearray((bucket / "a.tar").read_bytes())
        content[600] ^= 1
        (bucket / "a.tar").write_bytes(content)
        before = _put(storage, bucket, "a.tar")
        with pytest.raises(errors.ChangedError) as changed:
            dataset.read(0)
    found = re.search(r"expected version (\S+), found (\S+)\)", str(changed.value))
    assert found is not None, changed.value
    assert found[1] != found[2]
    assert before in found[2]


def _put(storage: Storage, bucket: Path, name: str) -> str:
    """Stores a file as an object, which then has an ETag; returns the ETag."""
    content = (bucket / name).read_bytes()
    (bucket / name).unlink()
    buckets.put(storage, f"/photos/{name}", content)
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def test_an_index_is_right_although_a_tenth_of_the_requests_fails(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    pattern = tars(bucket)
    hr.index(str(bucket / pattern), tmp_path / "here.hr")
    failing = buckets.Failing(storage, seed=11)
    with failing.running() as through:
        for number in range(4):
            place = tmp_path / f"{number}.hr"
            made = hr.index(f"s3://photos/{pattern}", place, storage=through)
            with hr.Dataset(tmp_path / "here.hr") as here:
                assert made["fingerprint"] == here.fingerprint
        assert failing.failed > 0


@pytest.mark.parametrize("foreign", [True, False])
def test_a_fetched_index_that_names_a_container_outside_its_folder_is_refused(
    foreign: bool, tmp_path: Path
) -> None:
    """An index made on a disk names a local folder, and the machine that fetches it may have files
    there."""
    (tmp_path / "store").mkdir()
    (tmp_path / "here").mkdir()
    file = tar(tmp_path / ("here" if foreign else "store") / "a.tar", 0, 9)
    root = tmp_path / "far" / "away" / "set.hr" if foreign else tmp_path / "store" / "set.hr"
    hr.index(file, root)
    text = (root / "headrace.json").read_text()
    assert f'"root": "{tmp_path}/here"' in text if foreign else '"root": ".."' in text
    if foreign:
        shutil.copytree(root, tmp_path / "store" / "set.hr")
    store = Store(tmp_path / "store")
    try:
        with pytest.raises(errors.ArgumentError, match="which is not below its own address"):
            hr.Dataset(store.url("set.hr"))
        assert not any("a.tar" in path for _, path, *_ in store.requests)
    finally:
        store.end()


def test_an_index_holds_no_secret_and_root_may_be_an_address_with_one(
    tmp_path: Path,
) -> None:
    secret = "c29tZSBzZWNyZXQ"
    (tmp_path / "store").mkdir()
    tar(tmp_path / "store" / "a b.tar", 0, 9)
    store = Store(tmp_path / "store")
    try:
        signed = f"?X-Amz-Signature={secret}"
        hr.index(store.url("a%20b.tar") + signed, tmp_path / "index.hr")
        assert secret.encode() not in text_of(tmp_path / "index.hr")
        assert all(secret in path for _, path, *_ in store.requests)
        trace, crop = tmp_path / "trace.json", [hr.transforms.RandomResizedCrop(9)]
        with (
            hr.Dataset(tmp_path / "index.hr", root=store.url("") + signed) as dataset,
            hr.Loader(dataset, 4, transform=crop, output="numpy", num_threads=1) as loader,
        ):
            loader.trace(trace)
            assert sum(len(labels) for _, labels in loader) == 9
            loader.trace(None)
            state, stats = loader.state_dict(), loader.stats()
            texts = [str(state), str(stats), str(dataset.info), repr(dataset), repr(loader)]
        assert all(secret in path for _, path, *_ in store.requests)
        assert secret not in "".join(texts)
        assert secret.encode() not in trace.read_bytes()
        with pytest.raises(errors.MissingFileError) as refused:
            hr.index(store.url("nothing.tar") + signed, tmp_path / "other.hr")
        assert secret not in str(refused.value)
    finally:
        store.end()


def test_an_index_needs_a_destination_which_cannot_be_an_address(
    bucket: Path, storage: Storage
) -> None:
    tars(bucket)
    with pytest.raises(errors.UnsupportedError, match="written to a directory"):
        hr.index("s3://photos/*.tar", "s3://photos/index.hr", storage=storage)
    with pytest.raises(errors.ArgumentError, match="--out"):
        hr.index("s3://photos/*.tar", storage=storage)
