"""LitData's chunks: each item is a dict of a JPEG, a number and a text; classic or framed."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa

KEYS, FORMATS = ("image", "label", "caption"), ("jpeg", "int", "str")


def item(image: bytes, label: int, caption: str) -> bytes:
    leaves = (image, struct.pack("<q", label), caption.encode())
    return struct.pack("<3I", *map(len, leaves)) + b"".join(leaves)


def classic(items: list[bytes]) -> bytes:
    offsets = [4 + 4 * (len(items) + 1)]
    for one in items:
        offsets.append(offsets[-1] + len(one))
    return struct.pack(f"<{1 + len(offsets)}I", len(items), *offsets) + b"".join(items)


def framed(items: list[bytes], rows: int) -> bytes:
    codec, offsets = pa.Codec("zstd"), [0]
    for one in items:
        offsets.append(offsets[-1] + len(one))
    parts = [b"".join(items[i : i + rows]) for i in range(0, len(items), rows)]
    stored = [codec.compress(part, asbytes=True) for part in parts]
    at, frames = 24 + 4 * len(offsets) + 24 * len(parts), b""
    for number, (part, data) in enumerate(zip(parts, stored, strict=True)):
        first = number * rows
        count = min(rows, len(items) - first)
        frames += struct.pack("<IIQII", first, count, at, len(data), len(part))
        at += len(data)
    head = struct.pack("<8sHHIII", b"LDFZ01\0\0", 1, 0, len(items), rows, len(parts))
    return head + struct.pack(f"<{len(offsets)}I", *offsets) + frames + b"".join(stored)


def write(root: Path, chunks: list[bytes], samples: int) -> Path:
    """A folder of chunks with that many samples each, and their index."""
    root.mkdir(parents=True)
    listed: list[dict[str, Any]] = []
    for number, chunk in enumerate(chunks):
        listed.append({"filename": f"chunk-0-{number}.bin", "chunk_size": samples})
        (root / listed[-1]["filename"]).write_bytes(chunk)
    children = [{"type": None, "context": None, "children_spec": []}] * len(KEYS)
    spec = {"type": "builtins.dict", "context": json.dumps(KEYS), "children_spec": children}
    config = {"data_format": FORMATS, "data_spec": json.dumps([1, spec]), "compression": None}
    (root / "index.json").write_text(json.dumps({"chunks": listed, "config": config}))
    return root
