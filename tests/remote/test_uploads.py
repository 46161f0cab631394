"""Datasets written to a bucket: the same bytes as on disk, and either whole or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import headrace as hr
import images
import timing
from headrace import errors
from headrace._command.cli import app
from remote import buckets

COUNT = 60
URL = "s3://photos/train.hr"

Storage = dict[str, str | bool]


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("uploads") / "folder", COUNT)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".sgwtmp" not in path.parts
    }


def packed(photos: Path, to: Path) -> dict[str, bytes]:
    hr.pack(photos, to, shard_size="64KiB")
    return files(to)


def test_every_object_has_the_bytes_of_the_file_that_a_local_packing_writes(
    photos: Path, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    made = hr.pack(photos, URL, shard_size="64KiB", storage=storage)
    assert files(bucket / "train.hr") == packed(photos, tmp_path / "train.hr")
    assert made["destination"] == URL
    assert made["shards"] > 2
    assert hr.verify(URL, storage=storage)["ok"]


def test_the_command_line_packs_to_an_address(
    photos: Path, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    told = [f"--storage={name}={str(value).lower()}" for name, value in storage.items()]
    shards = ["--shard-size", "64KiB"]
    done = CliRunner().invoke(app, ["pack", str(photos), URL, "--json", *shards, *told])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == COUNT
    assert files(bucket / "train.hr") == packed(photos, tmp_path / "train.hr")


def test_a_writer_writes_to_an_address_and_leaves_nothing_when_it_is_aborted(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    for destination in (URL, tmp_path / "train.hr"):
        with hr.Writer(destination, shard_size="32KiB", storage=storage) as writer:
            for number in range(20):
                writer.add(images.jpeg(40, 30), number, caption=f"number {number}")
    assert files(bucket / "train.hr") == files(tmp_path / "train.hr")
    writer = hr.Writer("s3://photos/aborted", shard_size="32KiB", storage=storage)
    for number in range(200):
        writer.add(images.jpeg(40, 30), number)
    timing.eventually(lambda: files(bucket / "aborted") != {})  # a shard was uploaded already
    writer.abort()
    assert files(bucket / "aborted") == {}


KILLED = """
import sys
import headrace as hr

storage = {"endpoint": sys.argv[1], "path_style": True, "region": "us-east-1"}
writer = hr.Writer(sys.argv[2], shard_size="32KiB", storage=storage)
image = sys.stdin.buffer.read()
while True:
    writer.add(image, 0)
"""


def test_a_killed_packing_leaves_nothing_that_opens_and_the_error_says_so(
    photos: Path, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", KILLED, str(storage["endpoint"]), URL]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.write(images.jpeg(64, 64))
        child.stdin.close()
        timing.eventually(lambda: (bucket / "train.hr" / "shard-00002.tar").exists())
        child.send_signal(signal.SIGKILL)
    with pytest.raises(errors.HeadraceError, match=r"there is no headrace\.json"):
        hr.Dataset(URL, storage=storage)
    with pytest.raises(errors.ArgumentError, match="a packing that was not finished"):
        hr.pack(photos, URL, storage=storage)
    hr.pack(photos, URL, shard_size="64KiB", storage=storage, overwrite=True)
    assert files(bucket / "train.hr") == packed(photos, tmp_path / "train.hr")


def test_upload_parts_left_by_a_killed_packing_are_named_and_removed_by_overwriting(
    photos: Path, bucket: Path, storage: Storage
) -> None:
    code = KILLED.replace("32KiB", "1GiB").replace(
        "while True", "import time\nfor _ in range(6000)"
    )
    command = [sys.executable, "-c", code + "\ntime.sleep(60)", str(storage["endpoint"]), URL]

    def parts() -> list[Path]:
        return [path for path in bucket.rglob(".sgwtmp/**/*") if path.is_file()]

    with subprocess.Popen(command, stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.write(images.jpeg(64, 64))
        child.stdin.close()
        assert timing.eventually(parts)
        child.send_signal(signal.SIGKILL)
    assert files(bucket) == {}
    said = r"train\.hr: 1 uploads to it that an earlier packing did not finish"
    with pytest.warns(UserWarning, match=said):
        hr.pack(photos, URL, storage=storage)
    for path in (bucket / "train.hr").iterdir():
        path.unlink()
    with pytest.warns(UserWarning, match=said), hr.Writer(URL, storage=storage) as writer:
        writer.add(images.jpeg(64, 64), 0)
    assert parts()
    hr.pack(photos, URL, storage=storage, overwrite=True)
    assert parts() == []


def test_an_error_during_an_upload_removes_the_uploaded_objects(
    photos: Path, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    folder = images.plain_tree(tmp_path / "folder", COUNT)
    last = sorted(folder.rglob("*.jpg"))[-1]
    last.write_bytes(last.read_bytes()[:100])
    with pytest.raises(errors.HeadraceError, match=last.name):
        hr.pack(folder, URL, shard_size="64KiB", storage=storage, on_fault="raise")
    assert files(bucket / "train.hr") == {}


def test_objects_below_an_address_are_overwritten_only_on_request_and_only_if_a_dataset(
    photos: Path, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    hr.pack(photos, URL, shard_size="32KiB", storage=storage)
    with pytest.raises(errors.ArgumentError, match="the destination exists"):
        hr.pack(photos, URL, storage=storage)
    hr.pack(photos, URL, shard_size="64KiB", storage=storage, overwrite=True)
    assert files(bucket / "train.hr") == packed(photos, tmp_path / "train.hr")
    (bucket / "train.hr" / "notes.txt").write_text("mine")
    with pytest.raises(errors.ArgumentError, match=r"notes\.txt"):
        hr.pack(photos, URL, storage=storage, overwrite=True)


@pytest.mark.slow
def test_every_object_is_right_although_a_tenth_of_the_requests_fails(
    photos: Path, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    failing = buckets.Failing(storage, seed=5)
    with failing.running() as through:
        for number in range(4):
            hr.pack(photos, f"{URL}{number}", shard_size="32KiB", storage=through)
        assert failing.failed > 0
    hr.pack(photos, tmp_path / "here", shard_size="32KiB")
    for number in range(4):
        assert files(bucket / f"train.hr{number}") == files(tmp_path / "here")


@pytest.mark.parametrize("url", ["https://127.0.0.1:9/x?secret=1", "hf://datasets/a/b/c"])
def test_an_address_that_cannot_be_written_to_is_refused(photos: Path, url: str) -> None:
    with pytest.raises(errors.UnsupportedError, match="only read") as refused:
        hr.pack(photos, url)
    assert "secret" not in str(refused.value)


def test_a_wrong_secret_ends_a_packing_and_is_in_no_error(
    photos: Path, bucket: Path, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(errors.DeniedError) as refused:
        hr.pack(photos, URL, storage=storage)
    assert "another-secret" not in str(refused.value)
    assert buckets.ACCESS not in str(refused.value)
    assert os.listdir(bucket) == []


@pytest.mark.parametrize(
    "key",
    ["x/../y.hr", "./y.hr", "x/..", "etc../y.hr", "a__0x2f__b.hr", "x/{a}.hr", "y*.hr"],
)
def test_a_key_that_could_not_be_read_back_is_refused_before_any_work(
    photos: Path, bucket: Path, storage: Storage, key: str
) -> None:
    with pytest.raises(errors.ArgumentError, match="expected"):
        hr.pack(photos, f"s3://photos/{key}", storage=storage)
    with pytest.raises(errors.ArgumentError, match="expected"):
        hr.Writer(f"s3://photos/{key}", storage=storage)
    assert os.listdir(bucket) == []


@pytest.mark.parametrize("key", ["x/..y.hr", "x y/é+=&.hr"])
def test_a_key_with_unusual_characters_is_read_back(
    photos: Path, storage: Storage, key: str
) -> None:
    hr.pack(photos, f"s3://photos/{key}", storage=storage)
    with hr.Dataset(f"S3://photos/{key}", storage=storage) as away:
        assert len(away) == COUNT
    hr.pack(photos, f"S3://photos/{key}", storage=storage, overwrite=True)
