"""How long until the first batch, and what next() costs when a batch is ready.

The first batch is timed from the call of Loader(...) in a fresh process that has imported torch, so
the time includes loading the library. The files are in the page cache. next() is timed over batches
that have all been made before: many small ones are prefetched, then taken.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import facts
import sets

FIRST_BATCH = """
import sys, time, torch
import headrace as hr
steps = [hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip(),
         hr.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
begun = time.perf_counter()
loader = hr.Loader(sys.argv[1], 128, shuffle=True, transform=steps)
next(iter(loader))
print(time.perf_counter() - begun)
"""


def first_batch_seconds(packed: Path) -> float:
    command = [sys.executable, "-c", FIRST_BATCH, str(packed)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def next_microseconds(packed: Path, batches: int) -> list[float]:
    """What each of `batches` calls of next() took, with all of them ready before the first."""
    import headrace as hr

    loader = hr.Loader(
        packed,
        batch_size=1,
        transform=[hr.transforms.RandomResizedCrop(32)],
        prefetch=batches,
    )
    batches = min(batches, len(loader))
    iterator = iter(loader)
    next(iterator)
    time.sleep(0.5 + batches / 200)  # far longer than any machine needs to make them
    times = []
    for _ in range(batches - 1):
        begun = time.perf_counter_ns()
        batch = next(iterator)
        times.append((time.perf_counter_ns() - begun) / 1000)
        del batch
    loader.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder, one folder a class")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()

    import headrace as hr

    with tempfile.TemporaryDirectory(prefix="headrace-latency-") as scratch:
        packed = Path(scratch) / "packed.hr"
        hr.pack(options.images, packed)
        sets.read_all([packed])  # packing does not leave shards in the page cache
        first = [first_batch_seconds(packed) for _ in range(options.rounds)]
        calls = [next_microseconds(packed, 200) for _ in range(options.rounds)]
    means = [sum(times) / len(times) for times in calls]
    print(json.dumps(facts.machine()))
    print(f"first batch of 128 after Loader(...): {facts.line(first, 's', 3)}")
    print(f"next() with a ready batch, mean:      {facts.line(means, 'us', 1)}")
    if options.json:
        result = {"machine": facts.machine(), "first_batch_s": first, "next_us": means}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
