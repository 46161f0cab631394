"""Writes the tables of this folder with their official writers, and what their readers find.

Run it where datasets, pyarrow, numpy and Pillow are. The files are committed, so that the tests of Go
need none of these.
"""

from __future__ import annotations

import datetime
import io
import json
import shutil
import zlib
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Dataset, Features, List, Value
from PIL import Image

HERE = Path(__file__).parent
ROWS = 7


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 4, (16, 16, 3), dtype=np.uint8) * 60
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", quality=50)
    return out.getvalue()


def text(value: Any) -> str:
    return format(value, "g") if isinstance(value, float) else str(value)


def found(rows: list[dict[str, Any]], image: str, keys: list[str]) -> list[dict[str, Any]]:
    """What a reader found: a CRC-32 of each image, and of each other value as text."""
    samples = []
    for key, row in zip(keys, rows, strict=True):
        members = {image: zlib.crc32(row.pop(image))}
        members |= {n: zlib.crc32(text(v).encode()) for n, v in row.items() if v is not None}
        samples.append({"key": key, "members": members})
    return samples


def saved() -> dict[str, Any]:
    """Dataset.save_to_disk's folder of Arrow streams, and to_parquet's file."""
    columns: dict[str, Any] = {"photo": datasets.Image(), "kind": ClassLabel(names=["cat", "dog"])}
    for name in ("uint64", "bool", "date32", "binary", "large_string", "float16", "int8", "string"):
        columns[name] = Value(name)
    columns |= {"list": List(Value("float32")), "nested": {"depth": Value("int16")}}
    day = datetime.date(1970, 1, 1)
    rows = [
        {
            "photo": {"bytes": jpeg(i), "path": f"folder/photo {i}.jpg"},
            "kind": i % 2,
            "uint64": i,
            "bool": i % 3 == 0,
            "date32": day + datetime.timedelta(days=i),
            "binary": bytes(i),
            "large_string": "é" * i,
            "float16": i / 2,
            "int8": -i,
            "string": None if i == 2 else f"note {i}",
            "list": [0.5] * i,
            "nested": {"depth": i * 100},
        }
        for i in range(ROWS)
    ]
    dataset = Dataset.from_list(rows, features=Features(columns))
    shutil.rmtree(HERE / "saved", ignore_errors=True)
    dataset.save_to_disk(HERE / "saved", num_shards=2)
    read = datasets.load_from_disk(str(HERE / "saved")).with_format("arrow")[:].to_pylist()
    for row in read:
        row["photo"] = row["photo"]["bytes"]
        row["date32"] = (row["date32"] - day).days
        row["bool"] = int(row["bool"])
        row["nested.depth"] = row.pop("nested")["depth"]
        del row["list"], row["binary"]
    return {"saved": found(read, "photo", [f"photo {i}" for i in range(ROWS)])}


def arrow() -> dict[str, Any]:
    """PyArrow's file: batches, a slice, wide offsets, one width, nulls, classes as texts."""
    words = ["a", "b", "a", "b", "a", "b", "a"]
    times = [None if i == 3 else i * 1000 for i in range(ROWS)]
    table = pa.table(
        {
            "jpg": pa.array([jpeg(i) for i in range(ROWS)], pa.large_binary()),
            "cls": pa.array(["dog", "cat", None, "dog", "ant", "cat", "dog"]),
            "fixed": pa.array([b"%04d" % i for i in range(ROWS)], pa.binary(4)),
            "when": pa.array(times, pa.timestamp("ms")),
            "word": pa.array(words).dictionary_encode(),
            "pair": pa.array([[i, i] for i in range(ROWS)], pa.list_(pa.int32(), 2)),
        }
    )
    path = HERE / "table.arrow"
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table.slice(1), max_chunksize=4)
    packed = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_file(str(HERE / "lz4.arrow"), table.schema, options=packed) as writer:
        writer.write_table(table)
    with pa.ipc.open_file(str(path)) as reader:
        rows = reader.read_all().select(["jpg", "fixed"]).to_pylist()
    for row in rows:
        row["fixed"] = row["fixed"].decode()
    return {"table.arrow": found(rows, "jpg", [f"table/{i}" for i in range(ROWS - 1)])}


if __name__ == "__main__":
    said = saved() | arrow()
    (HERE / "tables.json").write_text(json.dumps(said, indent=1) + "\n")
