"""``verify`` compares a container's own checksums, which cover more than the samples."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
import mds
import tfrecords
from headrace import errors

ROWS = 4
CROP = [hr.transforms.CenterCrop(8)]
IMAGES = [images.jpeg(24, 24, seed=number) for number in range(ROWS)]


def write_mds(root: Path) -> Path:
    root.mkdir()
    data = mds.shard([(image, n, f"caption {n}") for n, image in enumerate(IMAGES)])
    hashes = {name: hashlib.new(name, data).hexdigest() for name in ("sha1", "md5", "sha3_256")}
    raw = {"basename": "shard.00000.mds", "bytes": len(data), "hashes": hashes}
    index = {"version": 2, "shards": [{"raw_data": raw, "zip_data": None}]}
    (root / "index.json").write_text(json.dumps(index))
    (root / "shard.00000.mds").write_bytes(data)
    return root / "shard.00000.mds"


def write_tfrecord(root: Path) -> Path:
    root.mkdir()
    rows: list[dict[str, Any]] = [
        {"image": image, "label": n, "caption": f"caption {n}".encode()}
        for n, image in enumerate(IMAGES)
    ]
    return tfrecords.write(root / "a.tfrecord", rows)


def write_parquet(root: Path) -> Path:
    root.mkdir()
    captions = [f"caption {n}" for n in range(ROWS)]
    table = pa.table({"image": IMAGES, "label": [*range(ROWS)], "caption": captions})
    options: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    path = root / "a.parquet"
    pq.write_table(
        table, path, write_page_checksum=True, write_statistics=False, store_schema=False, **options
    )
    return path


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (write_mds, {"the md5 of the shard in index.json", "the sha1 of the shard in index.json"}),
        (write_tfrecord, {"the CRC-32C of record 2 of the file"}),
        (write_parquet, {'the CRC-32 of a page of the column "caption"'}),
    ],
)
def test_verify_names_a_checksum_of_the_container_that_differs(
    tmp_path: Path, write: Any, says: set[str]
) -> None:
    container = write(tmp_path / "data")
    hr.index(container, tmp_path / "index.hr")
    assert hr.verify(tmp_path / "index.hr")["ok"]
    data = container.read_bytes()
    assert data.count(b"caption 2") == 1
    container.write_bytes(data.replace(b"caption 2", b"caption X"))
    found = hr.verify(tmp_path / "index.hr")
    assert not found["ok"]
    texts = {fault["text"] for fault in found["faults"]["listed"]}
    assert texts - {"the checksum of the container's first and last bytes"} == says


def write_zip(root: Path) -> Path:
    root.mkdir()
    with zipfile.ZipFile(root / "a.zip", "w") as file:
        for n, image in enumerate(IMAGES):
            file.writestr(f"class{n % 2}/{n}.jpg", image)
    return root / "a.zip"


def write_deflated(root: Path) -> Path:
    """A zip as ``zip -r`` writes it. The stored blocks of deflate keep every image as it is."""
    container = root / "a.zip"
    root.mkdir()
    with zipfile.ZipFile(container, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as file:
        for n, image in enumerate(IMAGES):
            file.writestr(f"class{n % 2}/{n}.jpg", image)
    return container


def change(container: Path) -> None:
    """Flips the bit of the last image that changes a decoder's result least."""
    data = bytearray(container.read_bytes())
    data[data.index(IMAGES[3]) + len(IMAGES[3]) - 12] ^= 1
    container.write_bytes(data)


@pytest.mark.parametrize("write", [write_tfrecord, write_zip, write_deflated])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("backend", ["pread", "mmap"])
def test_a_changed_bit_in_a_container_without_an_index_is_an_error_as_in_its_own_reader(
    tmp_path: Path, write: Any, together: bool, backend: str
) -> None:
    container = write(tmp_path / "data")
    with hr.Dataset(container, backend=backend) as opened:
        before = [opened[i].image.tobytes() for i in range(ROWS)]
    change(container)
    with hr.Dataset(container, backend=backend) as opened:
        dataset = hr.Dataset.concat([opened]) if together else opened
        assert [dataset[i].image.tobytes() for i in range(3)] == before[:3]
        with pytest.raises(errors.ChecksumError, match=r"record 3 .*that the container has of the"):
            dataset[3]
        with hr.Loader(dataset, 2, on_error="replace", transform=CROP, output="numpy") as loader:
            assert [len(labels) for _, labels in loader] == [2, 2]
            assert [replaced["index"] for replaced in loader.report()] == [3]
    with hr.Dataset(container, backend=backend, verify_crc=False) as unverified:
        assert unverified[3].image.shape == (24, 24, 3)
