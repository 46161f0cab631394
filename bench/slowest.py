"""How long can a file of a megapixel, or of a megabyte, be made to keep the decoder?

The files are those of tests/slow_images.py: the worst that were found for each codec. It measures
the CPU time of hr.functional.decode, the least of several calls, under the default limits; refused
files are reported as such. Then come files as large as those limits allow.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import facts
import headrace as hr

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import slow_images

SIDE = 1024
# Just below max_scan_blocks: the largest image with as many scans as there may be, and one that is
# arithmetic-coded. The first takes half a gigabyte.
LARGEST = {
    "JPEG, progressive, 4:2:0: 94 scans of 89 megapixels": lambda: slow_images.empty_scans(
        9456, 9456, slow_images.F420, 94
    ),
    "JPEG, arithmetic: 22 megapixels": lambda: slow_images.arithmetic(4720, 4720),
}


def seconds(data: bytes, rounds: int) -> tuple[float, str]:
    """Returns the least CPU time of a decode, and the sentence if it refuses."""
    took, said = [], ""
    for _ in range(rounds):
        began = time.process_time()
        try:
            hr.functional.decode(data)
        except hr.errors.HeadraceError as error:
            said = str(error)
        took.append(time.process_time() - began)
    return min(took), said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    hr.functional.decode(b"P6 1 1 255 abc")  # loads the library
    rows = []
    print("| file of a megapixel | bytes | s a megapixel | ns a byte |")
    print("|---|---|---|---|")
    for name, make in slow_images.EVERY.items():
        data = make(SIDE)
        took, said = seconds(data, options.rounds)
        rows.append({"file": name, "bytes": len(data), "seconds": took, "said": said})
        megapixels = SIDE * SIDE / 1e6
        print(
            f"| {name} | {len(data):,} | {took / megapixels:.3f} | {took / len(data) * 1e9:,.0f} |"
            f" {said}"
        )
    data = slow_images.png(1, 1, data=slow_images.empty_deflate_blocks(90_000))
    took, said = seconds(data, options.rounds)
    rows.append({"file": "empty deflate blocks", "bytes": len(data), "seconds": took, "said": said})
    print(f"deflate blocks of nothing: {took / len(data) * 1e9:.0f} ns a byte; {said}")
    for name, whole in LARGEST.items():
        data = whole()
        took, said = seconds(data, 2)
        rows.append({"file": name, "bytes": len(data), "seconds": took, "said": said})
        print(f"{name}: {len(data):,} bytes, {took:.1f} s; {said or 'decoded'}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": facts.machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
