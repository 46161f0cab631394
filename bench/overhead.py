"""What a dataset's own code costs under Headrace's DataLoader beyond its own work.

It measures CPU time for each sample, of the thread that iterates and so runs the program's code. It
takes the least of many batches under Headrace's loader, which records what the code does and makes
the engine's threads produce the images. The code's own work is the same code under torch's loader
with images that cost nothing. The difference is what opening, recording, collating and handing over
cost; it should be at most 25 us.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import facts
import headrace as hr
import sets

AT_MOST_US = 25.0
WARM_UP = 4  # batches before and after the timed ones
SIDE = 64  # of the finished images: small, so that the threads are done before a batch is asked for
STEPS = tv.Compose(
    [
        tv.RandomResizedCrop(SIDE),
        tv.RandomHorizontalFlip(),
        tv.ToTensor(),
        tv.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ]
)


class Nothing:
    """An image that costs nothing; neither do operations on it."""

    def convert(self, mode: str) -> Nothing:
        return self


NOTHING = Nothing()


class Table(data.Dataset[Any]):
    """A csv file of paths and labels, whose samples are dicts.

    Args:
        opening: makes an image from the path and the file's bytes.
        transform: makes the sample's value from an image.
    """

    def __init__(
        self, paths: list[str], opening: Callable[[str, bytes], Any], transform: Any
    ) -> None:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place, "train.csv")
            with file.open("w", newline="") as out:
                csv.writer(out).writerows((path, number) for number, path in enumerate(paths))
            with file.open(newline="") as rows:
                self.rows = [(path, int(label)) for path, label in csv.reader(rows)]
        self.contents = [Path(path).read_bytes() for path in paths]
        self.opening, self.transform = opening, transform

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        path, label = self.rows[index]
        image = self.opening(path, self.contents[index]).convert("RGB")
        return {"image": self.transform(image), "label": label, "path": path}


def two_views(image: Any) -> Any:
    return [STEPS(image), STEPS(image)]


ARRAY = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
OPENINGS: dict[str, tuple[Callable[[str, bytes], Any], Callable[[Any], Any]]] = {
    "a path": (lambda path, content: Image.open(path), STEPS),
    "bytes": (lambda path, content: Image.open(io.BytesIO(content)), STEPS),
    "an array": (lambda path, content: Image.fromarray(ARRAY), STEPS),
    "a path, two views": (lambda path, content: Image.open(path), two_views),
}


def least(batches: Iterable[Any], size: int, count: int) -> float:
    """Microseconds of this thread's CPU time for each sample, the least of so many batches."""
    iterator: Iterator[Any] = iter(batches)
    for _ in range(WARM_UP):
        next(iterator)
    taken = []
    for _ in range(count):
        begun = time.thread_time_ns()
        batch = next(iterator)
        taken.append(time.thread_time_ns() - begun)
        del batch
    return min(taken) / size / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--batches", type=int, default=60, help="a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    sets.read_all([options.images])
    files = sorted(str(path) for path in options.images.rglob("*") if path.is_file())
    if not files:
        raise SystemExit(f"{options.images} has no files")
    # The epoch is so long that its end is not reached, because for its last batches no code is left
    # to run.
    sampler = data.RandomSampler(
        files, replacement=True, num_samples=(2 * WARM_UP + options.batches) * options.batch
    )

    def seen(loader: Any) -> float:
        return least(loader, options.batch, options.batches)

    batches: dict[str, Any] = {"batch_size": options.batch, "sampler": sampler}
    figures: dict[str, dict[str, list[float]]] = {}
    for name, (opening, transform) in OPENINGS.items():
        own = Table(files, lambda path, content: NOTHING, lambda image: 0)
        program = Table(files, opening, transform)
        figures[name] = {"own": [], "with": []}
        for _ in range(options.rounds):
            figures[name]["own"].append(seen(data.DataLoader(own, **batches)))
            with contextlib.closing(hr.DataLoader(program, strict=True, **batches)) as loader:
                figures[name]["with"].append(seen(loader))
    print(json.dumps(facts.machine()))
    for name, each in figures.items():
        all_of_it, own_work = min(each["with"]), min(each["own"])
        print(
            f"{name:18} {all_of_it - own_work:5.1f} us a sample beyond its own work "
            f"({all_of_it:.1f} in all)"
        )
    print(f"for a path it is to be at most {AT_MOST_US:.0f} us")
    if options.json:
        result = {"machine": facts.machine(), "us_a_sample": figures}
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
