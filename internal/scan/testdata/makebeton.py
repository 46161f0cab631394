"""Writes the betons of this folder with FFCV's writer, and what FFCV's reader finds in them.

Run it where ffcv 1.0.2 is; of its C library nothing is called, so an empty one with the names
resize, imdecode and my_memcpy will do. Pages are smaller than FFCV allows (2 MiB), for the sake of
small files: nothing else in the format depends on them.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import ffcv.writer
import numpy as np
from ffcv.fields import (
    BytesField,
    FloatField,
    IntField,
    JSONField,
    NDArrayField,
    RGBImageField,
)
from ffcv.reader import Reader

HERE = Path(__file__).parent
PAGE = 4096
ffcv.writer.MIN_PAGE_SIZE = PAGE


class Samples:
    """Seven images of different sizes, each with what else FFCV has fields for."""

    def __len__(self) -> int:
        return 7

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        i = int(number)
        random = np.random.default_rng(i)
        image = random.integers(0, 4, (16 + i, 20, 3), dtype=np.uint8) * 60
        note = np.frombuffer(b"n" * i, np.uint8)
        box = (np.arange(6).reshape(2, 3) + i).astype(np.float32)
        return note, image, 2 * i, i / 4, {"i": i, "text": "é" * i}, box


def write(name: str, mode: str) -> list[dict[str, Any]]:
    """Fields in an order in which a row needs padding, and bytes of no length before an image."""
    fields = {
        "note": BytesField(),
        "photo": RGBImageField(write_mode=mode, compress_probability=0.5),
        "label": IntField(),
        "weight": FloatField(),
        "meta": JSONField(),
        "box": NDArrayField(np.dtype("float32"), (2, 3)),
    }
    path = HERE / name
    np.random.seed(1)
    ffcv.writer.DatasetWriter(
        str(path), fields, page_size=PAGE, num_workers=1
    ).from_indexed_dataset(Samples())
    return found(path)


def found(path: Path) -> list[dict[str, Any]]:
    """Rows as FFCV's reader has them; values as its decoders take them, from their place on as long
    as they were allocated."""
    reader = Reader(str(path))
    data = path.read_bytes()
    sizes = {
        (row["sample_id"], row["ptr"]): row["size"] for row in reader.alloc_table if row["size"]
    }
    samples = []
    for i, row in enumerate(reader.metadata):
        values = dict(zip(reader.field_names, row, strict=True))

        def at(ptr: int, i: int = i) -> bytes:
            return data[ptr : ptr + int(sizes.get((i, ptr), 0))]

        photo = values["photo"]
        samples.append(
            {
                "key": f"{path.stem}/{i}",
                "mode": int(photo["mode"]),
                "width": int(photo["width"]),
                "height": int(photo["height"]),
                "label": int(values["label"]),
                "weight": float(values["weight"]),
                "members": {
                    "photo": zlib.crc32(at(photo["data_ptr"])),
                    "note": zlib.crc32(at(values["note"]["ptr"])[: int(values["note"]["size"])]),
                    "meta": zlib.crc32(at(values["meta"]["ptr"]).rstrip(b"\0")),
                    "box": zlib.crc32(at(values["box"])),
                },
            }
        )
    return samples


if __name__ == "__main__":
    said = {
        "jpeg.beton": write("jpeg.beton", "jpg"),
        "mixed.beton": write("mixed.beton", "proportion"),
    }
    (HERE / "betons.json").write_text(json.dumps(said, indent=1) + "\n")
