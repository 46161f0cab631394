"""MXNet's RecordIO, with images as im2rec stores them: only its file is made, MXNet is retired.

The framing is dmlc-core's (include/dmlc/recordio.h); an IRHeader precedes each image.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import Order, Refused, encoded_images, serve

MAGIC = struct.pack("<I", 0xCED7230A)
# The upper three bits of the length say which part of a record it belongs to.
WHOLE, FIRST, MIDDLE, LAST = range(4)


def parts(data: bytes) -> list[bytes]:
    """Splits a record where it contains the magic at a multiple of four bytes."""
    found, begin, at = [], 0, data.find(MAGIC)
    while at >= 0:
        if at % 4 == 0:
            found.append(data[begin:at])
            begin = at + 4
        at = data.find(MAGIC, at + 1)
    return [*found, data[begin:]]


def prepare(folder: Path, place: Path, _variant: str) -> None:
    with place.open("wb") as out:
        for number, (data, label) in enumerate(encoded_images(folder)):
            split = parts(struct.pack("<IfQQ", 0, label, number, 0) + data)
            flags = [FIRST, *[MIDDLE] * (len(split) - 2), LAST] if len(split) > 1 else [WHOLE]
            for flag, part in zip(flags, split, strict=True):
                out.write(MAGIC + struct.pack("<I", flag << 29 | len(part)) + part)
                out.write(bytes(-len(part) % 4))


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    raise Refused("it has no loader")


if __name__ == "__main__":
    serve(stream, (), prepare)
