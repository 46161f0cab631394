"""What a trace costs: CPU time of an image with one being written, over that without.

One loader reads a set repeatedly, in pairs of short rounds of which either may come first, so that
other programs affect both in the same way. CPU time is that of all threads, including the one that
writes the trace. The median ratio of many pairs is reported with its 95 % interval (from the order
of the pairs, whatever their distribution). If the interval is wider than the ratio's distance from
1, the machine was too busy to tell. The ratio of the least values of both sides is reported as
well. The files are in the page cache.

    python bench/tracing.py PACKED [--rounds 100] [--batches 10]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import headrace as hr

STEPS = [hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip()]
BATCH = 64


def batches_of(loader: hr.Loader) -> Iterator[Any]:
    while True:
        yield from loader


def measure(batches: Iterator[Any], count: int) -> tuple[float, float]:
    """Returns microseconds of CPU time for each image, and images a second."""
    begun, cpu = time.perf_counter(), time.process_time()
    images = sum(len(labels) for _, labels in itertools.islice(batches, count))
    used, took = time.process_time() - cpu, time.perf_counter() - begun
    return used / images * 1e6, images / took


def interval(values: list[float]) -> tuple[float, float]:
    """Returns between which values the median lies with 95 %, by a sign test."""
    ordered, count = sorted(values), len(values)
    outside = max(int(count / 2 - 0.98 * math.sqrt(count)), 0)
    return ordered[outside], ordered[-1 - outside]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("source", type=Path)
    options.add_argument("--rounds", type=int, default=100)
    options.add_argument("--batches", type=int, default=10)
    options.add_argument("--threads", type=int)
    asked = options.parse_args()
    sides: dict[bool, list[float]] = {False: [], True: []}
    rates: list[float] = []
    with (
        tempfile.TemporaryDirectory() as place,
        hr.Loader(
            asked.source,
            BATCH,
            shuffle=True,
            transform=STEPS,
            output="numpy",
            num_threads=asked.threads,
        ) as loader,
    ):
        batches = batches_of(loader)
        measure(batches, asked.batches)
        for number in range(asked.rounds):
            for traced in (number % 2 == 0, number % 2 == 1):
                name = loader.trace(Path(place) / f"{number}.json") if traced else None
                cpu, rate = measure(batches, asked.batches)
                loader.trace(None)
                sides[traced].append(cpu)
                rates.append(rate)
                if name is not None:
                    events = Path(name).stat().st_size
                    Path(name).unlink()
    pairs = [on / off for off, on in zip(sides[False], sides[True], strict=True)]
    found = {
        "cpu_us_an_image": round(min(sides[False]), 1),
        "traced": round(min(sides[True]), 1),
        "least_over_least": round(min(sides[True]) / min(sides[False]), 4),
        "median_of_pairs": round(statistics.median(pairs), 4),
        "interval": [round(end, 4) for end in interval(pairs)],
        "pairs": len(pairs),
        "images_per_second": round(statistics.median(rates)),
        "bytes_an_image": round(events / (asked.batches * BATCH)),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
