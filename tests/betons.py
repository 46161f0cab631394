"""Files of FFCV, from the published layout (ffcv/types.py, ffcv/writer.py)."""

from __future__ import annotations

import io
import struct
from pathlib import Path

from PIL import Image

PAGE = 1 << 21
FIELDS = ((2, b"image"), (1, b"label"), (0, b"weight"), (5, b"meta"))


def write(path: Path, samples: list[tuple[bytes, int]]) -> Path:
    """Images, labels and two more fields; every fourth image is stored as pixels, the others as
    JPEGs."""
    head = b"".join(struct.pack("<B16s1024x", kind, name) for kind, name in FIELDS)
    rows, table, data = b"", b"", b""
    begin = -(-(24 + len(head) + 48 * len(samples)) // PAGE) * PAGE
    for number, (image, label) in enumerate(samples):
        picture = Image.open(io.BytesIO(image)).convert("RGB")
        raw = number % 4 == 0
        places = []
        for value in (picture.tobytes() if raw else image, b'{"n": %d}\0' % number):
            places.append((begin + len(data), len(value)))
            table += struct.pack("<QQQ", number, *places[-1])
            data += value
        rows += struct.pack("<BHHQ3x", raw, *picture.size, places[0][0])
        rows += struct.pack("<qdQQ", label, number / 4, *places[1])
    data += bytes(-len(data) % PAGE)
    start = struct.pack("<HHIQQ", 2, len(FIELDS), PAGE, len(samples), begin + len(data))
    path.write_bytes((start + head + rows).ljust(begin, b"\0") + data + table)
    return path
