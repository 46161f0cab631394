"""Shards of MosaicML's streaming, from the published layout (streaming/base/format/mds)."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa


def shard(samples: list[tuple[bytes, int, str]]) -> bytes:
    """Images with labels and captions."""
    config = {
        "column_encodings": ["str", "jpeg", "int"],
        "column_names": ["caption", "image", "label"],
        "column_sizes": [None, None, 8],
        "format": "mds",
        "version": 2,
    }
    text = json.dumps(config, sort_keys=True).encode()
    table, body = [], b""
    first = 4 + 4 * (len(samples) + 1) + len(text)
    for image, label, caption in samples:
        table.append(first + len(body))
        words = caption.encode()
        body += (
            struct.pack("<II", len(words), len(image)) + words + image + struct.pack("<q", label)
        )
    table.append(first + len(body))
    return struct.pack(f"<I{len(table)}I", len(samples), *table) + text + body


def write(root: Path, shards: list[list[tuple[bytes, int, str]]]) -> Path:
    """A folder of shards that are compressed by zstd as a whole."""
    root.mkdir(parents=True, exist_ok=True)
    for number, samples in enumerate(shards):
        packed = pa.Codec("zstd").compress(shard(samples), asbytes=True)
        (root / f"shard.{number:05d}.mds.zstd").write_bytes(packed)
    return root
