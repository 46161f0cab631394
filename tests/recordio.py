"""MXNet's RecordIO files, from the published framing (dmlc-core, include/dmlc/recordio.h)."""

from __future__ import annotations

import struct
from pathlib import Path

MAGIC = struct.pack("<I", 0xCED7230A)


def commented(data: bytes) -> bytes:
    """The JPEG with a comment that has the magic at each place where it can split a record."""
    comment = b"".join(bytes(n) + MAGIC + bytes(-n % 4) for n in range(4))
    return data[:2] + b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment + data[2:]


def framed(data: bytes) -> bytes:
    """The frames of a record, which is split at the magic."""
    parts, begin = [], 0
    for at in range(0, len(data) - 3, 4):
        if data[at : at + 4] == MAGIC:
            parts.append(data[begin:at])
            begin = at + 4
    parts.append(data[begin:])
    out = b""
    for number, part in enumerate(parts):
        flag = 0 if len(parts) == 1 else 1 if number == 0 else 3 if number == len(parts) - 1 else 2
        out += MAGIC + struct.pack("<I", flag << 29 | len(part)) + part + bytes(-len(part) % 4)
    return out


def write(path: Path, samples: list[tuple[bytes, int]]) -> Path:
    """A file of images and labels, with its keys beside it; every second image splits its
    record."""
    lines, out = "", b""
    for number, (image, label) in enumerate(samples):
        lines += f"{number}\t{len(out)}\n"
        header = struct.pack("<IfQQ", 0, label, number, 0)
        out += framed(header + (commented(image) if number % 2 else image))
    path.write_bytes(out)
    path.with_suffix(".idx").write_text(lines)
    return path
