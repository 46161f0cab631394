"""Training on a GPU: synthetic batches, Headrace, torchvision's DataLoader; and batches' integrity.

    make bench-gpu PART=training IMAGES=DIR BENCH_ARGS="--model resnet50 --cores 4"

It runs a mixed-precision training of a torchvision model; the sides take turns, and each round runs
all of them. It measures images a second between two batches of a full pipeline, and how busy the
GPU was meanwhile, as NVML reports it (`bench/utilisation`; without that program this is left out).
Then it measures how much of the copies to the device ran beside kernels. Last, batches are compared
on the device with the sums of their pixels in memory, while kernels compute on earlier batches.
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
import training
from training import CUDA

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WARM_UP = 20  # steps
PROFILED = 20  # steps
ROOT = Path(__file__).resolve().parent.parent


class Utilisation:
    """The percentage of the time in which a kernel ran, as NVML says, asked five times a second."""

    def __init__(self, program: Path) -> None:
        self._command = [str(program), "-uuid", f"GPU-{torch.cuda.get_device_properties(0).uuid}"]

    def __enter__(self) -> Utilisation:
        self.percent = float("nan")
        if not Path(self._command[0]).exists():
            return self
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        if not Path(self._command[0]).exists():
            return
        out, _err = self._process.communicate()  # ends its input
        said = [float(line) for line in out.split()]
        self.percent = statistics.mean(said) if said else float("nan")


class Run:
    """A training that takes its batches from one side."""

    def __init__(self, name: str, precision: str, batches: Iterator[Any]) -> None:
        self._training = training.Training(name, precision)
        self._batches = batches

    def _step(self) -> float:
        """Returns the seconds that `next` took."""
        began = time.perf_counter()
        inputs, labels = next(self._batches)
        took = time.perf_counter() - began
        self._training.step(inputs, labels)
        return took

    def _warm_up(self) -> None:
        for _ in range(WARM_UP):
            self._step()
        torch.cuda.synchronize()

    def rate(self, count: int, batch_size: int, busy: Utilisation) -> dict[str, float]:
        """Images a second, the GPU's utilisation and milliseconds of `next`, over `count` steps."""
        self._warm_up()
        with busy:
            begun = time.perf_counter()
            waits = [self._step() for _ in range(count)]
            torch.cuda.synchronize()
            took = time.perf_counter() - begun
        return {
            "images_per_s": count * batch_size / took,
            "gpu_percent": busy.percent,
            "next_ms": 1e3 * statistics.median(waits),
        }

    def hidden(self) -> dict[str, float]:
        """The milliseconds of copies in a step, and the share of them during which a kernel ran."""
        self._warm_up()
        activities = [torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities, acc_events=True) as profile:
            for _ in range(PROFILED):
                self._step()
            torch.cuda.synchronize()
        copies, kernels = [], []
        for event in profile.events():
            if event.device_type != torch.autograd.DeviceType.CUDA:
                continue  # it is a call that starts a kernel or waits for one
            interval = (event.time_range.start, event.time_range.end)
            if event.name.startswith("Memcpy HtoD"):
                copies.append(interval)
            elif not event.name.startswith(("Memcpy", "Memset")):
                kernels.append(interval)
        took = sum(end - begin for begin, end in copies)
        return {
            "copy_ms_per_step": took / 1e3 / PROFILED,
            "hidden_share": shared(copies, kernels) / took if took else float("nan"),
        }


def shared(these: list[tuple[float, float]], those: list[tuple[float, float]]) -> float:
    """How long intervals of both lists overlap; the intervals of the first list do not overlap."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(those):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return sum(
        max(0.0, min(end, other_end) - max(begin, other_begin))
        for begin, end in these
        for other_begin, other_end in merged
    )


def synthetic(batch_size: int) -> Iterator[Any]:
    inputs = torch.randn(batch_size, 3, 224, 224, device=CUDA, dtype=torch.float16)
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


def corrupted(source: Path, batch_size: int, count: int, threads: int, pinned: bool) -> int:
    """Counts how many of `count` batches had other values on the device than in memory.

    The loader copies them; with `pinned`, the caller copies them and drops the batch at once.
    """
    form: dict[str, Any] = {
        "transform": [hr.transforms.CenterCrop(96)],
        "dtype": "uint8",
        "num_threads": threads,
        "fields": ["index"],
        "drop_last": True,
    }
    dataset = hr.Dataset(source)
    # The sums of each sample's pixels, computed on the CPU.
    expected = torch.zeros(len(dataset), dtype=torch.int64)
    with hr.Loader(dataset, batch_size, **dict(form, drop_last=False)) as loader:
        for images, _labels, more in loader:
            expected[more["index"]] = images.long().sum((1, 2, 3))
    expected = expected.to(CUDA)
    work = torch.randn(4096, 4096, device=CUDA)
    wrong = torch.zeros((), dtype=torch.int64, device=CUDA)
    # The samples that they have to be, from a loader whose batches stay in memory. They are copied
    # to the device before the check begins, because a copy from ordinary memory waits for all
    # kernels.
    alike = dict(form, transform=[hr.transforms.CenterCrop(8)])
    with hr.Loader(dataset, batch_size, shuffle=True, **alike) as loader:
        batches = endless(loader)
        order = torch.stack([next(batches)[2]["index"] for _ in range(count)]).to(CUDA)
    to: dict[str, Any] = {"pin_memory": True} if pinned else {"device": CUDA}
    with hr.Loader(dataset, batch_size, shuffle=True, **to, **form) as loader:
        batches = endless(loader)
        for index in order:
            images = next(batches)[0]
            if pinned:
                images = images.to(CUDA, non_blocking=True)
            work = torch.tanh(work @ work)  # keeps the stream busy while the next copy runs
            wrong += (images.long().sum((1, 2, 3)) != expected[index]).any()
    return int(wrong)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("photographs", type=Path, help="an image folder")
    parser.add_argument("--model", default="resnet50", help="resnet50, resnet18, ...")
    parser.add_argument("--precision", choices=("bfloat16", "float16"), default="bfloat16")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100, help="timed a side and round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=int, default=10_000, help="compared, each way to copy")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)),
                        help="of the whole process, training included")  # fmt: skip
    parser.add_argument("--threads", type=int, help="of Headrace; None: as many as cores")
    parser.add_argument("--utilisation", type=Path, default=ROOT / ".build/bench/utilisation",
                        help="bench/utilisation, built")  # fmt: skip
    parser.add_argument("--work", type=Path, default=ROOT / ".build/bench", help="what is made")
    parser.add_argument("--json", type=Path, help="where all figures go")
    options = parser.parse_args()
    machine = training.machine("gpu")

    size, cores = options.batch_size, options.cores
    # An epoch never ends while a side is timed, because torchvision's workers would start again.
    images = size * (WARM_UP + options.steps + 1)
    made = sets.Sets(options.photographs.resolve(), options.work / "sets", 2000, images)
    folder, packed = made.packed()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    torch.set_num_threads(cores)

    threads = options.threads or cores
    sides: dict[str, Callable[[], Iterator[Any]]] = {
        "synthetic": lambda: synthetic(size),
        "Headrace": lambda: ours(packed, size, threads, False),
        "Headrace, bytes over the bus": lambda: ours(packed, size, threads, True),
        "torchvision": lambda: theirs(folder, size, cores),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in sides}
    for _ in range(options.rounds):
        for name, make in sides.items():
            batches = make()
            busy = Utilisation(options.utilisation)
            run = Run(options.model, options.precision, batches)
            found[name].append(run.rate(options.steps, size, busy))
            batches.close()  # type: ignore[attr-defined]
    print(f"{options.model}, {options.precision}, batches of {size}, {cores} cores")
    for name, rounds in found.items():
        rates = [one["images_per_s"] for one in rounds]
        pairs = zip(rates, (one["images_per_s"] for one in found["synthetic"]), strict=True)
        share = 100 * statistics.median(rate / whole for rate, whole in pairs)
        percent = statistics.mean(one["gpu_percent"] for one in rounds)
        print(f"{name}: {facts.line(rates, 'images/s')}, {share:.1f} % of synthetic, "
              f"GPU {percent:.0f} % busy, next() "
              f"{statistics.median(one['next_ms'] for one in rounds):.3f} ms")  # fmt: skip
    result: dict[str, Any] = {"machine": machine, "sides": found, "copies": {}, "corrupted": {}}
    for name in list(sides)[1:3]:
        batches = sides[name]()
        copies = result["copies"][name] = Run(options.model, options.precision, batches).hidden()
        batches.close()  # type: ignore[attr-defined]
        print(f"{name}: copies take {copies['copy_ms_per_step']:.2f} ms a step, "
              f"{100 * copies['hidden_share']:.1f} % of it beside kernels")  # fmt: skip
    for name, pinned in (("device", False), ("pin_memory", True)):
        wrong = corrupted(packed, min(size, 64), options.batches, threads, pinned)
        result["corrupted"][name] = wrong
        print(f"{name}: {wrong} of {options.batches} batches were corrupted", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(any(result["corrupted"].values()))


if __name__ == "__main__":
    main()
