"""Does `headrace doctor` name the limit that was put there, and is a predicted gain the real one?

Each case makes one bottleneck, of IMAGES or of images made of them, asks the doctor in a process of
its own, and compares. What a machine does not allow is named as not run. The slow file systems are
bench/slowfs, which needs FUSE and the right to mount.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import facts
import headrace as hr

MANY = 1e9  # images a second that nothing gives
CROP = [
    hr.transforms.RandomResizedCrop(224),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
]
SECONDS = 8.0
Answer = dict[str, Any]


class Sets:
    """The image sets, each made once below a folder."""

    def __init__(self, images: Path, work: Path) -> None:
        self.images, self.work = images, work

    def _made(self, name: str, make: Callable[[Path], Any]) -> Path:
        made = self.work / name
        if not made.exists():
            partial = self.work / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            make(partial)
            partial.rename(made)
        return made

    def packed(self, of: Path | None = None, **how: Any) -> Path:
        source = of or self.images
        name = "-".join([source.name, *(f"{key}{value}" for key, value in how.items()), "packed"])
        return self._made(name, lambda to: hr.pack(source, to, **how))

    def saved(self, name: str, most: int, save: Callable[[Image.Image, Path], None]) -> Path:
        def make(to: Path) -> None:
            (to / "all").mkdir(parents=True)
            for number, path in enumerate(sorted(self.images.rglob("*.[jJ]*"))[:most]):
                with Image.open(path) as image:
                    save(image.convert("RGB"), to / "all" / f"{number:05d}")

        return self._made(name, make)

    def progressive(self) -> Path:
        return self.saved(
            "progressive",
            200,
            lambda image, to: image.save(f"{to}.jpg", quality=92, progressive=True),
        )

    def huge(self) -> Path:
        return self.saved(
            "huge", 24, lambda image, to: image.resize((3840, 2880)).save(f"{to}.jpg", quality=90)
        )

    def png(self) -> Path:
        return self.saved("png", 48, lambda image, to: image.save(f"{to}.png"))


@contextlib.contextmanager
def slow(folder: Path, *how: str) -> Iterator[Path]:
    """A folder through bench/slowfs."""
    program = Path(__file__).parents[1] / ".build/bench/slowfs"
    if not program.exists():
        raise NotRun("bench/slowfs is not built: go build -o ../../.build/bench/slowfs . there")
    point = Path(f"{folder}.slow")
    point.mkdir(exist_ok=True)
    server = subprocess.Popen([program, *how, str(folder), str(point)], stderr=subprocess.PIPE)
    try:
        for _ in range(100):
            if os.path.ismount(point):
                break
            if server.poll() is not None:
                raise NotRun(str(server.stderr and server.stderr.read().decode().strip()))
            time.sleep(0.05)
        yield point
    finally:
        server.terminate()
        server.wait()
        point.rmdir()


class NotRun(Exception):
    """This machine does not allow it."""


def dataset(source: Any, **how: Any) -> Answer:
    return dict(hr.doctor(source, **{"rate": MANY, "seconds": SECONDS, **how}))


def loader(source: Any, step: Callable[[Any], Any], **how: Any) -> Answer:
    given = {"transform": CROP, "shuffle": True, "output": "numpy", "batch_size": 64, **how}
    with hr.Loader(source, **given) as made:
        return dict(hr.doctor(made, step, seconds=SECONDS))


def _spin() -> None:
    while True:
        pass


def busy(sets: Sets) -> Answer:
    others = [multiprocessing.Process(target=_spin) for _ in os.sched_getaffinity(0)]
    for other in others:
        other.start()
    try:
        return dataset(sets.packed())
    finally:
        for other in others:
            other.terminate()
            other.join()


def one_core(sets: Sets) -> Answer:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return dataset(sets.packed())


def on_slow(sets: Sets, of: Path, *how: str) -> Answer:
    with slow(of, *how) as folder:
        return dataset(folder)


def slow_with_step(sets: Sets, *how: str) -> Answer:
    with slow(sets.packed(), *how) as folder:
        return loader(folder, lambda batch: time.sleep(0.01))


def tiny() -> Any:
    return hr.Dataset.from_arrays(np.zeros((20_000, 8, 8, 3), np.uint8))


def late(batch: Any) -> Any:
    time.sleep(0.2)
    return batch


def matrices(batch: Any) -> None:
    end = time.perf_counter() + 0.4
    side = np.ones((256, 256))
    while time.perf_counter() < end:
        side = side @ side / 256


def hold(sets: Sets) -> Answer:
    kept: list[Any] = []
    return loader(sets.packed(), kept.append)


def torchs(sets: Sets) -> Answer:
    from torch.utils.data import DataLoader
    from torchvision import datasets, transforms

    steps = [transforms.RandomResizedCrop(224), transforms.ToTensor()]
    photographs = datasets.ImageFolder(sets.images, transforms.Compose(steps))
    made = DataLoader(photographs, batch_size=32, shuffle=True)
    return dict(hr.doctor(made, lambda batch: time.sleep(0.01), seconds=SECONDS))


def quota(sets: Sets) -> Answer:
    raise NotRun("the cpu controller of cgroups is not for this program to set here")


def copies(sets: Sets) -> Answer:
    raise NotRun("the doctor does not measure copies to a GPU yet")


CASES: dict[str, tuple[str, Callable[[Sets], Answer]]] = {
    "packed, in memory": ("decoding", lambda sets: dataset(sets.packed())),
    "files, in memory": ("decoding", lambda sets: dataset(sets.images)),
    "a rate that is easily reached": ("none", lambda sets: dataset(sets.packed(), rate=1)),
    "RandAugment": ("decoding", lambda sets: dataset(sets.packed(), transform="randaugment")),
    "evaluation": ("decoding", lambda sets: dataset(sets.packed(), transform="eval")),
    "one core": ("decoding", one_core),
    "a busy neighbour on every core": ("decoding", busy),
    "progressive files": ("decoding", lambda sets: dataset(sets.progressive())),
    "files of 11 megapixels": ("decoding", lambda sets: dataset(sets.huge(), batch_size=16)),
    "PNG files": ("decoding", lambda sets: dataset(sets.png(), batch_size=16)),
    "shards on a disk that takes 100 ms": (
        "storage",
        lambda sets: on_slow(sets, sets.packed(), "-delay", "100ms"),
    ),
    "files on a disk that takes 100 ms": (
        "storage",
        lambda sets: on_slow(sets, sets.progressive(), "-delay", "100ms"),
    ),
    "shards on a disk of 20 MB/s": (
        "storage",
        lambda sets: on_slow(sets, sets.packed(), "-rate", "20"),
    ),
    "tiny images in batches of 1": (
        "delivery",
        lambda sets: dataset(tiny(), batch_size=1, transform=[hr.transforms.CenterCrop(8)]),
    ),
    "a step that sleeps": (
        "training",
        lambda sets: loader(sets.packed(), lambda batch: time.sleep(0.5)),
    ),
    "a step that computes": ("training", lambda sets: loader(sets.packed(), matrices)),
    "a step of no time": ("decoding", lambda sets: loader(sets.packed(), lambda batch: None)),
    "a loader of one thread": (
        "decoding",
        lambda sets: loader(sets.packed(), lambda batch: None, num_threads=1),
    ),
    "a step, on a disk that takes 200 ms": (
        "storage",
        lambda sets: slow_with_step(sets, "-delay", "200ms"),
    ),
    "a step, on a disk of 10 MB/s": (
        "storage",
        lambda sets: slow_with_step(sets, "-rate", "10"),
    ),
    "Python behind the loader": (
        "delivery",
        lambda sets: loader(sets.packed(), lambda batch: None, batch_fn=late),
    ),
    "a step that keeps every batch": ("delivery", hold),
    "tiny images in batches of 1, with a step": (
        "delivery",
        lambda sets: loader(
            tiny(), lambda batch: None, batch_size=1, transform=[hr.transforms.CenterCrop(8)]
        ),
    ),
    "torch's DataLoader without workers": ("decoding", torchs),
    "a CPU quota": ("decoding", quota),
    "a slow link to the GPU": ("copy", copies),
}


def _rate(sets: Sets, source: Path, batch_size: int) -> float:
    return float(dataset(source, batch_size=batch_size)["measured"]["decoding"])


def _threads(sets: Sets) -> float:
    found = loader(sets.packed(), lambda batch: None, num_threads=len(os.sched_getaffinity(0)))
    return float(found["measured"]["images_per_second"])


# What a remedy of a case is found by in its text, and what really following it gives.
FOLLOWED: dict[str, tuple[str, Callable[[Sets], float]]] = {
    "progressive files": (
        "--baseline",
        lambda sets: _rate(sets, sets.packed(sets.progressive(), baseline=True), 128),
    ),
    "files of 11 megapixels": (
        "--resize",
        lambda sets: _rate(sets, sets.packed(sets.huge(), resize=256), 16),
    ),
    "a loader of one thread": ("num_threads", _threads),
}


def ask(name: str, sets: Sets, followed: bool) -> Answer:
    """One case, in this process: what the doctor said, or the rate that a remedy really gave."""
    try:
        if followed:
            return {"rate": FOLLOWED[name][1](sets)}
        return CASES[name][1](sets)
    except NotRun as reason:
        return {"not_run": str(reason)}


def asked(name: str, options: argparse.Namespace, followed: bool = False) -> Answer:
    """The same in a process of its own."""
    command = [sys.executable, __file__, str(options.images), "--work", str(options.work)]
    command += ["--ask", name, *(["--followed"] if followed else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1]}
    found: Answer = json.loads(done.stdout.splitlines()[-1])
    return found


def predicted(name: str, found: Answer) -> float | None:
    """The rate that the doctor promised for the remedy that was followed."""
    if name not in FOLLOWED:
        return None
    rates = [
        float(remedy["images_per_second"])
        for remedy in found.get("remedies", [])
        if FOLLOWED[name][0] in remedy["text"]
    ]
    return rates[0] if rates else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("images", type=Path)
    parser.add_argument("--work", type=Path, default=Path(".build/bench/doctor"))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", action="append")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--followed", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.ask:
        sets = Sets(options.images, options.work)
        print(json.dumps(ask(options.ask, sets, options.followed)))
        return
    print(" ".join(f"{name}={value}" for name, value in facts.machine().items()))
    print("| bottleneck | limit | said | predicted | came true |")
    print("|---|---|---|---|---|")
    rows, right, run = [], 0, 0
    for name, (limit, _) in CASES.items():
        if options.only and name not in options.only:
            continue
        rounds = [asked(name, options) for _ in range(options.rounds)]
        said = rounds[0].get("limit", rounds[0].get("not_run") or rounds[0].get("failed"))
        row: dict[str, Any] = {"case": name, "expected": limit, "rounds": rounds}
        rows.append(row)
        cells = ["", ""]
        if "not_run" in rounds[0]:
            said = f"not run: {said}"
        else:
            verdicts = [found.get("limit", "failed") for found in rounds]
            said = ", ".join(dict.fromkeys([*verdicts, *([said] if "failed" in verdicts else [])]))
            run += len(rounds)
            right += sum(verdict == limit for verdict in verdicts)
            promised = [rate for found in rounds if (rate := predicted(name, found)) is not None]
            if promised:
                real = [asked(name, options, True).get("rate", 0.0) for _ in rounds]
                row["predicted"], row["came_true"] = promised, real
                cells = [f"{statistics.median(rates):,.0f}" for rates in (promised, real)]
        print(f"| {name} | {limit} | {said} | {' | '.join(cells)} |", flush=True)
    print(f"{right} of {run} right")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": facts.machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
