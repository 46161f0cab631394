"""Shards of MosaicML's streaming, from the published layout (streaming/base/format/mds)."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pyarrow as pa
from PIL import Image


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


def one(path: Path, encoding: str, values: list[bytes], compression: str | None = None) -> Path:
    """A shard of images with one encoding, with their numbers as labels."""
    config = {
        "column_encodings": [encoding, "int"],
        "column_names": ["image", "label"],
        "column_sizes": [None, 8],
        "format": "mds",
        "version": 2,
    }
    text = json.dumps(config, sort_keys=True).encode()
    first = 4 + 4 * (len(values) + 1) + len(text)
    table, body = [first], b""
    for label, value in enumerate(values):
        body += struct.pack("<I", len(value)) + value + struct.pack("<q", label)
        table.append(first + len(body))
    whole = struct.pack(f"<I{len(table)}I", len(values), *table) + text + body
    if compression is not None:
        whole = pa.Codec(compression).compress(whole, asbytes=True)
    path.write_bytes(whole)
    return path


def pil(image: Image.Image) -> bytes:
    """An image as the encodings pil and list[pil] store it."""
    mode = image.mode.encode()
    return struct.pack("<3I", *image.size, len(mode)) + mode + image.tobytes()


def listed(values: list[bytes], head: bytes = b"") -> bytes:
    """A list of images as jpeg_array stores it; list[...] has a head of zeros."""
    return (
        head
        + struct.pack(f"<{1 + len(values)}I", len(values), *map(len, values))
        + b"".join(values)
    )


def write(root: Path, shards: list[list[tuple[bytes, int, str]]]) -> Path:
    """A folder of shards, each of which is compressed by zstd as a whole."""
    root.mkdir(parents=True, exist_ok=True)
    for number, samples in enumerate(shards):
        packed = pa.Codec("zstd").compress(shard(samples), asbytes=True)
        (root / f"shard.{number:05d}.mds.zstd").write_bytes(packed)
    return root
