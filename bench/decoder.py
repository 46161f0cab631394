"""What images of a program's own choice cost beside a Loader over the same files.

Each side crops, flips and casts the files of an image folder in place, in batches: a Loader, and a
decoder that gets a list of tasks for each batch, two batches ahead of the one that is waited for.
They take turns in one process. Each first skips the batches that it made while the other one was
measured. The files are in the page cache, and no memory is new. CPU time is that of all threads.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Generator
from pathlib import Path

import numpy as np

import facts
import headrace as hr
import sets
from headrace._engine.decoder import Decoder, File, Task

SIDE = 224
STEPS = [hr.transforms.RandomResizedCrop(SIDE), hr.transforms.RandomHorizontalFlip()]
AHEAD = 6  # batches: more than either side has memory for
CONFIG = json.dumps(
    {
        "transform": [
            {"name": "RandomResizedCrop", "size": SIDE},
            {"name": "RandomHorizontalFlip"},
        ],
        "dtype": "float32",
        "layout": "NCHW",
    }
).encode()


def loaded(files: list[Path], batch: int) -> Generator[None, None, None]:
    """Yields batches of a Loader, without end."""
    listed = hr.Dataset.from_files(files, [0] * len(files))
    with hr.Loader(listed, batch, transform=STEPS, dtype="float32", output="numpy") as loader:
        while True:
            for _ in loader:
                yield


def decoded(files: list[Path], batch: int) -> Generator[None, None, None]:
    """Yields batches of a decoder, without end; memory is reused."""
    names = itertools.cycle([os.fsencode(path) for path in files])
    rooms = itertools.cycle([np.empty((batch, 3, SIDE, SIDE), np.float32) for _ in range(3)])
    decoder, works = Decoder(), deque()
    try:
        for first in itertools.count(0, batch):
            room = next(rooms)
            base, size = room.ctypes.data, room[0].nbytes
            tasks = [
                Task(File(next(names)), CONFIG, (0, 0, first + i, 0, 0), base + i * size, size)
                for i in range(batch)
            ]
            works.append(decoder.submit(tasks, room))
            if len(works) > 2:
                works[0].wait()
                if works.popleft().failures():
                    raise SystemExit("a file is no good image")
                yield
    finally:
        decoder.close()


def measure(made: Generator[None, None, None], images: int, batches: int) -> tuple[float, float]:
    """Returns images a second and microseconds of CPU time for each image, for batches of so many
    images."""
    for _ in range(AHEAD):
        next(made)
    begun, cpu = time.perf_counter(), time.process_time()
    for _ in range(batches):
        next(made)
    took, used = time.perf_counter() - begun, time.process_time() - cpu
    return images * batches / took, used / images / batches * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--batches", type=int, default=12, help="a round")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = sorted(path for path in options.images.rglob("*") if path.is_file())
    sets.read_all([options.images])
    files = found * options.batch  # each file equally often, in whole batches
    made = {"Loader": loaded, "decoder": decoded}
    sides = {name: side(files, options.batch) for name, side in made.items()}
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, side in sides.items():
            figures[name].append(measure(side, options.batch, options.batches))
    for side in sides.values():
        side.close()
    print(json.dumps(facts.machine()))
    for name, each in figures.items():
        rates, used = zip(*each, strict=True)
        print(f"{name:8} {facts.line(rates, 'images/s')}, {facts.line(used, 'us of CPU time')}")
    for unit, at in (("images/s", 0), ("CPU time", 1)):
        ratios = [b[at] / a[at] for a, b in zip(*figures.values(), strict=True)]
        print(f"decoder / Loader, {unit}: {facts.line(ratios, 'by rounds', 3)}")
    if options.json:
        result = {"machine": facts.machine(), "images_s_and_cpu_us": figures}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
