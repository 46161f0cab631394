"""Training on a GPU: synthetic batches, Headrace, torchvision's DataLoader; and batches' integrity.

    python bench/gpu.py PHOTOGRAPHS [--model resnet50] [--json FILE]

One command, to be run where a GPU is; it has not been run on one yet. Mixed-precision training of a
torchvision model, the sides in turns, each round on all of them; images a second between two
batches of a full pipeline, and how busy NVML says the GPU was meanwhile. Then 10,000 batches go to
the device while a kernel computes on the one before, and each is compared there with its checksum.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torchvision

import facts
import headrace as hr
import headrace.torch
import sets

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CUDA = "cuda"


class Utilisation:
    """How many per cent of the time a kernel ran, as NVML says, asked twice a second."""

    def __enter__(self) -> Utilisation:
        query = ["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "500"]
        self._process = subprocess.Popen(
            ["nvidia-smi", "-i", "0", *query], stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        out, _err = self._process.communicate()
        said = [float(line) for line in out.split()]
        self.percent = statistics.mean(said) if said else float("nan")


def train(name: str, batches: Iterator[Any], warm_up: int, count: int) -> dict[str, float]:
    """Images a second, and the GPU's utilisation, over `count` steps after `warm_up`."""
    model = getattr(torchvision.models, name)(num_classes=1000).to(CUDA)
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(CUDA)

    def step() -> int:
        inputs, labels = next(batches)
        with torch.autocast(CUDA, torch.float16):
            loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return len(inputs)

    for _ in range(warm_up):
        step()
    torch.cuda.synchronize()
    with Utilisation() as busy:
        begun = time.perf_counter()
        images = sum(step() for _ in range(count))
        torch.cuda.synchronize()
        took = time.perf_counter() - begun
    return {"images_per_s": images / took, "gpu_percent": busy.percent}


def synthetic(batch_size: int) -> Iterator[Any]:
    inputs = torch.randn(batch_size, 3, 224, 224, device=CUDA)
    inputs = inputs.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch_size,), device=CUDA)
    while True:
        yield inputs, labels


def endless(epochs: Iterable[Any]) -> Iterator[Any]:
    while True:
        yield from epochs


def ours(source: Path, batch_size: int, threads: int, bytes_over_the_bus: bool) -> Iterator[Any]:
    steps = [hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip()]
    normalise = headrace.torch.Normalize(MEAN, STD).to(CUDA)
    if not bytes_over_the_bus:
        steps.append(hr.transforms.Normalize(MEAN, STD))
    with hr.Loader(
        source,
        batch_size,
        shuffle=True,
        drop_last=True,
        transform=steps,
        dtype="uint8" if bytes_over_the_bus else "float16",
        layout="channels_last",
        num_threads=threads,
        device=CUDA,
    ) as loader:
        for images, labels in endless(loader):
            yield (normalise(images) if bytes_over_the_bus else images), labels


def theirs(source: Path, batch_size: int, workers: int) -> Iterator[Any]:
    transforms = torchvision.transforms
    steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip()]
    steps += [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    folder = torchvision.datasets.ImageFolder(str(source), transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(
        folder,
        batch_size,
        shuffle=True,
        drop_last=True,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=True,
    )
    for images, labels in endless(loader):
        inputs = images.to(CUDA, non_blocking=True, memory_format=torch.channels_last)
        yield inputs, labels.to(CUDA, non_blocking=True)


def corrupted(source: Path, batch_size: int, count: int, threads: int) -> int:
    """How many of `count` batches were not on the device what they had been in memory."""
    form: dict[str, Any] = {
        "transform": [hr.transforms.CenterCrop(96)],
        "dtype": "uint8",
        "num_threads": threads,
        "fields": ["index"],
        "drop_last": True,
    }
    dataset = hr.Dataset(source)
    # What each sample's pixels sum to, computed on the CPU.
    expected = torch.zeros(len(dataset), dtype=torch.int64)
    with hr.Loader(dataset, batch_size, **dict(form, drop_last=False)) as loader:
        for images, _labels, more in loader:
            expected[more["index"]] = images.long().sum((1, 2, 3))
    expected = expected.to(CUDA)
    work = torch.randn(4096, 4096, device=CUDA)
    wrong = torch.zeros((), dtype=torch.int64, device=CUDA)
    with hr.Loader(dataset, batch_size, shuffle=True, device=CUDA, **form) as loader:
        for number, (images, _labels, more) in enumerate(endless(loader)):
            if number == count:
                break
            work = torch.tanh(work @ work)  # keeps the stream busy while the next copy runs
            sums = images.long().sum((1, 2, 3))
            wrong += (sums != expected[more["index"]]).any()
    return int(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs", type=Path, help="an image folder")
    parser.add_argument("--model", default="resnet50", help="resnet50, resnet18, ...")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=10_000, help="of the integrity check")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--work", type=Path, default=Path("demo"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("gpu: torch.cuda.is_available() is False: this benchmark needs a GPU.")

    packed = arguments.work / "gpu.hr"
    if not packed.exists():
        hr.pack(arguments.photographs, packed)
    sets.read_all([packed, arguments.photographs])  # packing leaves no shard in the page cache
    size, threads = arguments.batch_size, arguments.threads
    sides: dict[str, Callable[[], Iterator[Any]]] = {
        "synthetic": lambda: synthetic(size),
        "headrace": lambda: ours(packed, size, threads, bytes_over_the_bus=False),
        "headrace, bytes over the bus": lambda: ours(packed, size, threads, True),
        "torchvision": lambda: theirs(arguments.photographs, size, threads),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(arguments.rounds):
        for name, make in sides.items():
            batches = make()
            found[name].append(train(arguments.model, batches, 20, arguments.steps))
            batches.close()  # type: ignore[attr-defined]
    print(f"{arguments.model} on {torch.cuda.get_device_name()}, {threads} threads")
    for name, rounds in found.items():
        rates = [one["images_per_s"] for one in rounds]
        busy = statistics.mean(one["gpu_percent"] for one in rounds)
        print(f"{name}: {facts.line(rates, 'images/s')}, GPU {busy:.0f} % busy")
    wrong = corrupted(packed, min(size, 64), arguments.batches, threads)
    print(f"{wrong} of {arguments.batches} batches were corrupted")
    if arguments.json:
        arguments.json.write_text(json.dumps({"sides": found, "corrupted": wrong}, indent=1))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
