"""Writes containers whose columns are too bulky for an index, with their official writers.

Run it where pyarrow, mosaicml-streaming, numpy and Pillow are. The files are committed, so that the
tests of Go need none of these; they make the same texts by the same rules.
"""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from streaming import MDSWriter

HERE = Path(__file__).parent
ROWS = 12


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 4, (8, 8, 3), dtype=np.uint8) * 60
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=50)
    return out.getvalue()


def caption(row: int) -> str:
    return f"row {row} of a dozen, " * (500 + 150 * row)


def blob(row: int) -> bytes:
    return bytes([row]) * 7000


def vector(row: int) -> Any:
    return (row * 1000 + np.arange(2048) // 64).astype(np.float32)


def table() -> Any:
    rows = range(ROWS)
    return pa.table(
        {
            "image": pa.array([jpeg(i) for i in rows], pa.binary()),
            "label": pa.array([i % 3 for i in rows], pa.int32()),
            "title": pa.array([f"title {i}" for i in rows]),
            "caption": pa.array([None if i == 5 else caption(i) for i in rows]),
            "blob": pa.array([blob(i) for i in rows], pa.binary()),
            "vector": pa.array([vector(i) for i in rows], pa.list_(pa.float32())),
        }
    )


def mds() -> None:
    columns = {"image": "bytes", "label": "int", "title": "str", "caption": "str", "blob": "bytes"}
    out = HERE / "bulkymds"
    shutil.rmtree(out, ignore_errors=True)
    with MDSWriter(out=str(out), columns=columns, compression="zstd:3") as writer:
        for i in range(ROWS):
            words = {"title": f"title {i}", "caption": "" if i == 5 else caption(i)}
            writer.write({"image": jpeg(i), "label": i % 3, "blob": blob(i)} | words)


if __name__ == "__main__":
    made = table()
    pages = {"compression": "zstd", "use_dictionary": False, "row_group_size": 5}
    pq.write_table(made.drop_columns(["vector"]), HERE / "bulky.parquet", **pages)
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(HERE / "bulky.arrow"), made.schema, options=packed) as writer:
        writer.write_table(made, max_chunksize=5)
    mds()
