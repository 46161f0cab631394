"""Writes the RecordIO files of this folder with MXNet, and what MXNet reads of them.

Run it where mxnet 1.9.1 is, which needs numpy 1.23. The files are committed, so that the tests of
Go need neither.
"""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from mxnet import recordio
from PIL import Image

HERE = Path(__file__).parent
MAGIC = bytes.fromhex("0a23d7ce")


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 4, (16, 16, 3), dtype=np.uint8) * 60
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=50)
    return out.getvalue()


def with_magic(data: bytes, times: int) -> bytes:
    """The JPEG with a comment that holds the magic, at multiples of 4 bytes of the record."""
    start = 24 + 2 + 4
    comment = bytes(-start % 4) + MAGIC * times + b"end"
    return data[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + data[2:]


def found(record: bytes) -> dict[str, Any]:
    header, data = recordio.unpack(record)
    label = np.asarray(header.label, np.float32).reshape(-1).tolist()
    return {"key": "", "members": {"image": zlib.crc32(data)}, "label": label, "id": header.id}


def labels() -> list[dict[str, Any]]:
    """One label each, with keys; records of several parts, and one without an image."""
    paths = str(HERE / "labels.idx"), str(HERE / "labels.rec")
    writer = recordio.MXIndexedRecordIO(*paths, "w")
    for i in range(6):
        data = b"" if i == 0 else with_magic(jpeg(i), {2: 1, 4: 3}.get(i, 0))
        header = recordio.IRHeader(0, float(i % 3), 100 + i, 0)
        writer.write_idx(10 * i, recordio.pack(header, data))
    writer.close()
    reader = recordio.MXIndexedRecordIO(*paths, "r")
    said = [found(reader.read_idx(10 * i)) | {"key": str(10 * i)} for i in range(6)]
    reader.close()
    # The order of an .idx file is free.
    lines = (HERE / "labels.idx").read_text().splitlines(keepends=True)
    (HERE / "labels.idx").write_text("".join(reversed(lines)))
    return said[1:]


def vectors() -> list[dict[str, Any]]:
    """Vectors of labels, without keys."""
    path = str(HERE / "vectors.rec")
    writer = recordio.MXRecordIO(path, "w")
    for i in range(4):
        header = recordio.IRHeader(0, np.array([i, i / 2, -i], np.float32), i, 0)
        writer.write(recordio.pack(header, jpeg(i)))
    writer.close()
    reader = recordio.MXRecordIO(path, "r")
    said = [found(reader.read()) | {"key": f"vectors/{i}"} for i in range(4)]
    reader.close()
    return said


if __name__ == "__main__":
    said = {"labels.rec": labels(), "vectors.rec": vectors()}
    (HERE / "records.json").write_text(json.dumps(said, indent=1) + "\n")
