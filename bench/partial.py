"""With seek points only part of a JPEG is needed for a crop: what would fetching only that save?

For each photograph of a packed dataset, crops are drawn as RandomResizedCrop draws them. A crop
needs the file's head, up to the first byte of its scan, and the bytes of the rows of MCUs that it
touches, with one more row on either side for interpolated chroma: decoding begins and ends at seek
points. All of it is arithmetic on the seek file; nothing is fetched.

A record is checked by its CRC-32C, which exists only for the whole record; a range would need one
for each row of MCUs. And a cache holds ranges of other crops in the next epoch. So it is also
counted how much of a file is there after so many epochs.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import struct
import sys
from pathlib import Path
from typing import Any

import facts
import headrace as hr

SCALE, LOG_RATIO = (0.08, 1.0), (math.log(3 / 4), math.log(4 / 3))
GAP = 16 << 10  # bytes between two ranges: fewer are read along instead of sending a second request
EPOCHS = (1, 2, 3, 5, 10)


def drawn(width: int, height: int, draw: random.Random) -> tuple[int, int]:
    """Returns the first row of a crop and the row behind its last, by torchvision's rule."""
    for _ in range(10):
        area = width * height * draw.uniform(*SCALE)
        ratio = math.exp(draw.uniform(*LOG_RATIO))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            top = draw.randint(0, height - high)
            return top, top + high
    high = min(height, round(width / (3 / 4)))
    top = (height - high) // 2
    return top, top + high


def scan_of(image: bytes) -> int:
    """Returns the offset of the first byte of a JPEG's scan."""
    at = 2
    while at + 4 <= len(image):
        length = int.from_bytes(image[at + 2 : at + 4], "big")
        if image[at + 1] == 0xDA:
            return at + 2 + length
        at += 2 + length
    raise ValueError("there is no scan")


def rows_of(points: bytes) -> list[int]:
    """Returns the bytes of the scan at which rows of MCUs begin (docs/format.md)."""
    count = struct.unpack_from("<H", points, 10)[0]
    return list(struct.unpack_from(f"<{count}I", points, 20))


class Photograph:
    """What a crop of a photograph needs."""

    def __init__(self, image: bytes, points: bytes, width: int, height: int) -> None:
        self.width, self.height, self.length = width, height, len(image)
        self.head = scan_of(image)
        self.rows = [self.head + at for at in rows_of(points)]
        self.high = next(size for size in (8, 16, 32) if math.ceil(height / size) == len(self.rows))

    def needed(self, top: int, bottom: int) -> tuple[int, int]:
        first = max(0, top // self.high - 1)
        last = min(len(self.rows), math.ceil(bottom / self.high) + 1)
        return self.rows[first], self.rows[last] if last < len(self.rows) else self.length


def photographs(dataset: Path) -> tuple[list[Photograph], int]:
    """Returns the photographs that have seek points, and the bytes of those without."""
    manifest = json.loads((dataset / "headrace.json").read_text())
    seek = (dataset / manifest["seek"]["name"]).read_bytes()
    found, rest, at = [], 0, 16
    with hr.Dataset(dataset) as opened:
        for number in range(len(opened)):
            known: dict[str, Any] = opened.facts(number)
            length = int(known["seek_length"])
            if not length:
                rest += int(known["length"])
                continue
            points, at = seek[at : at + length], at + length
            image = bytes(opened.read(number))
            found.append(Photograph(image, points, int(known["width"]), int(known["height"])))
    return found, rest


def joined(spans: list[tuple[int, int]]) -> int:
    """Returns the bytes that the spans cover together."""
    total = end = 0
    for first, last in sorted(spans):
        total += max(0, last - max(first, end))
        end = max(end, last)
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path, help="a packed dataset with seek points, on disk")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    held, rest = photographs(options.dataset)
    whole = rest + sum(photograph.length for photograph in held)
    rows = sum(len(photograph.rows) for photograph in held)
    print(f"{len(held):,} photographs with points; {rest / whole:.1%} of the bytes have none")
    print(f"checksums: {rows / len(held):.0f} rows of MCUs an image, {4 * rows / whole:.2%} of it")
    draw = random.Random(options.seed)
    fetched = {"head apart": 0, "head known": 0}
    requests = 0
    seen: list[list[tuple[int, int]]] = [[(0, photograph.head)] for photograph in held]
    for epoch in range(1, max(EPOCHS) + 1):
        for photograph, spans in zip(held, seen, strict=True):
            first, last = photograph.needed(*drawn(photograph.width, photograph.height, draw))
            spans.append((first, last))
            near = first - photograph.head <= GAP
            requests += 1 if near else 2
            fetched["head apart"] += last if near else photograph.head + last - first
            fetched["head known"] += last - first
        if epoch == 1:
            once = dict(fetched)
            for name, count in once.items():
                print(f"  {name}: {(count + rest) / whole:.3f} of the bytes an epoch")
            print(f"  requests: {requests / len(held):.2f} an image, 1.00 with the head known")
        if epoch in EPOCHS:
            kept = rest + sum(joined(spans) for spans in seen)
            print(f"  all kept, {epoch:>2} epochs: {kept / whole:.3f} of the bytes fetched in all")


if __name__ == "__main__":
    sys.exit(main())
