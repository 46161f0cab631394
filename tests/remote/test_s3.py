"""Datasets in S3, over versitygw: a real server of the protocol, which checks signatures."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
import images
from headrace import errors

PROGRAM = Path(__file__).parents[2] / ".build" / "bin" / "versitygw"
COUNT = 60
ACCESS, SECRET = "an-access-key", "a-secret-key"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the server shows as a bucket "photos"; its files have no ETag."""
    root = tmp_path_factory.mktemp("s3")
    folder = images.plain_tree(root / "folder", COUNT)
    (root / "buckets" / "photos").mkdir(parents=True)
    hr.pack(folder, root / "buckets" / "photos" / "train.hr", shard_size="64KiB")
    return root


@pytest.fixture
def storage(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str | bool]]:
    program = PROGRAM if PROGRAM.is_file() else shutil.which("versitygw")
    if program is None:
        pytest.skip("versitygw is not built (make stores builds it)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    keys = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    command = [str(program), "--port", address, "--quiet", "posix", str(root / "buckets")]
    # Set while the library is loaded, as a notebook does.
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    with subprocess.Popen(command, env={**os.environ, **keys}) as server:
        try:
            _wait_for(address, server)
            yield {"endpoint": f"http://{address}", "path_style": True, "region": "us-east-1"}
        finally:
            server.kill()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    host, port = address.split(":")
    for _ in range(1500):
        assert server.poll() is None, "versitygw ended"
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("versitygw did not begin to listen")


def epoch(dataset: str | Path, storage: dict[str, str | bool] | None = None) -> list[bytes]:
    options = {"seed": 4, "shuffle": True, "num_threads": 2, "output": "numpy", "dtype": "uint8"}
    crop = [hr.transforms.RandomResizedCrop(9)]
    with hr.Loader(dataset, 7, transform=crop, storage=storage, **options) as loader:
        return [pixels.tobytes() + labels.tobytes() for pixels, labels in loader]


def test_a_bucket_gives_the_batches_of_the_folder(
    root: Path, storage: dict[str, str | bool]
) -> None:
    local = epoch(root / "buckets" / "photos" / "train.hr")
    assert epoch("s3://photos/train.hr", storage) == local
    with hr.Dataset("s3://photos/train.hr", storage=storage) as dataset:
        assert len(dataset) == COUNT
        assert dataset[COUNT - 1].image.ndim == 3


def test_a_secret_that_is_set_later_counts_and_is_in_no_error(
    storage: dict[str, str | bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(errors.DeniedError, match="SignatureDoesNotMatch") as refused:
        hr.Dataset("s3://photos/train.hr", storage=storage)
    assert "another-secret" not in str(refused.value)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    hr.Dataset("s3://photos/train.hr", storage=storage).close()
