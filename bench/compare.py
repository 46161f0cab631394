"""Images a second: torchvision's ImageFolder + DataLoader, Headrace, and the bare decoder.

All do RandomResizedCrop(224), a flip and Normalize to float32 NCHW in batches of 128 on the same
files, on as many cores as there are threads. A round measures each side once, one after the other,
so that a machine that slows down slows all of them; medians over the rounds are compared. A rate
is taken between two batches of a pipeline that is full at both, so neither start nor end counts.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import facts

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZE = 224


def rate(batches: Iterable[Any], batch_size: int, warm_up: int, count: int) -> float:
    """Images a second between batch number `warm_up` and the one `count` later."""
    begun = 0.0
    for number, (images, _labels) in enumerate(batches):
        assert images.shape == (batch_size, 3, SIZE, SIZE), images.shape
        if number == warm_up:
            begun = time.perf_counter()
        if number == warm_up + count:
            return count * batch_size / (time.perf_counter() - begun)
    raise SystemExit(f"the stream ended before batch {warm_up + count}")


def torchvision_rate(images: Path, options: argparse.Namespace) -> float:
    import torch
    from torchvision import datasets, transforms

    dataset = datasets.ImageFolder(
        str(images),
        transforms.Compose(
            [
                transforms.RandomResizedCrop(SIZE),
                transforms.RandomHorizontalFlip(),
                transforms.ToTensor(),
                transforms.Normalize(MEAN, STD),
            ]
        ),
    )
    # One long epoch of repeated permutations: the workers' pipeline never runs dry in between.
    wanted = (options.warm_up + options.batches + 2 * options.threads + 2) * options.batch_size
    sampler = torch.utils.data.RandomSampler(dataset, num_samples=wanted)
    loader = torch.utils.data.DataLoader(
        dataset, options.batch_size, sampler=sampler, num_workers=options.threads, drop_last=True
    )
    return rate(loader, options.batch_size, options.warm_up, options.batches)


def headrace_rate(source: Path, options: argparse.Namespace) -> float:
    import headrace as hr

    with hr.Loader(
        source,
        batch_size=options.batch_size,
        shuffle=True,
        drop_last=True,
        num_threads=options.threads,
        transform=[
            hr.transforms.RandomResizedCrop(SIZE),
            hr.transforms.RandomHorizontalFlip(),
            hr.transforms.Normalize(MEAN, STD),
        ],
    ) as loader:

        def epochs() -> Iterator[Any]:
            while True:
                yield from loader

        return rate(epochs(), options.batch_size, options.warm_up, options.batches)


def build_kernel(folder: Path) -> Path | None:
    """The program of bench/kernel; None where there is no Go."""
    if shutil.which("go") is None:
        return None
    program = folder / "kernel"
    root = Path(__file__).resolve().parent.parent
    subprocess.run(["go", "build", "-o", str(program), "./bench/kernel"], cwd=root, check=True)
    return program


def kernel_rate(program: Path, images: Path, options: argparse.Namespace) -> float:
    seconds = f"{options.kernel_seconds}s"
    command = [str(program), "-threads", str(options.threads), "-for", seconds, str(images)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", type=Path, help="an image folder, one folder a class")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, default=24, help="batches timed a round")
    parser.add_argument("--warm-up", type=int, default=6, help="batches before them")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kernel-seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path, help="where all figures go")
    options = parser.parse_args()

    import headrace as hr

    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="headrace-compare-") as scratch:
        packed = Path(scratch) / "packed.hr"
        hr.pack(options.images, packed)
        kernel = build_kernel(Path(scratch))
        dataset = hr.Dataset(packed)
        print(f"{options.images}: {len(dataset):,} images, {dataset.info['bytes'] / 1e6:,.0f} MB")
        print(json.dumps(facts.machine()))
        cores = sorted(os.sched_getaffinity(0))[: options.threads]
        os.sched_setaffinity(0, cores)  # inherited by workers, threads and the kernel's process
        for number in range(options.rounds):
            measured = {
                "torchvision": torchvision_rate(options.images, options),
                "headrace packed": headrace_rate(packed, options),
                "headrace folder": headrace_rate(options.images, options),
            }
            if kernel is not None:
                measured["bare kernel"] = kernel_rate(kernel, options.images, options)
            for name, found in measured.items():
                rates.setdefault(name, []).append(found)
            text = ", ".join(f"{name} {found:,.0f}" for name, found in measured.items())
            print(f"round {number + 1}: {text}", flush=True)
        dataset.close()

    medians = {name: facts.spread(values)["median"] for name, values in rates.items()}
    ratios = {"packed / torchvision": medians["headrace packed"] / medians["torchvision"]}
    ratios["folder / torchvision"] = medians["headrace folder"] / medians["torchvision"]
    if "bare kernel" in medians:
        # Pairs of one round: the two ran within seconds of each other.
        pairs = zip(rates["headrace packed"], rates["bare kernel"], strict=True)
        ratios["packed / bare kernel"] = facts.spread([a / b for a, b in pairs])["median"]
    for name, values in rates.items():
        print(f"{name:16} {facts.line(values, 'images/s')}")
    for name, ratio in ratios.items():
        print(f"{name:22} {ratio:.3f}")
    if options.json:
        result = {"machine": facts.machine(), "rates": rates, "medians": medians}
        result |= {"ratios": ratios, "options": {k: str(v) for k, v in vars(options).items()}}
        options.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
