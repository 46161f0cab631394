"""``verify`` compares the checksums that containers have themselves, of what no sample's covers."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
import mds
import tfrecords

ROWS = 4
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
