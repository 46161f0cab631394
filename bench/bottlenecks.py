"""Bottlenecks that are put there, for doctor_cases.py: what a loader then gives, and with a remedy.

A `Situation` is everything that decides a loader's rate: the data, the disk, the cores, the
loader's words and the step. A bottleneck is a situation. Removing it, or following one of the
doctor's remedies, makes another one. `rate` really runs the loader in a situation, and asks the
doctor only for the share of the cores that this process had.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import headrace as hr
from headrace._doctor import machine

NORMALISE = hr.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
CROP = [hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip(), NORMALISE]
# A window of a measured rate ends with the batch that fills both.
SECONDS, BATCHES = 1.5, 6
_WARM = 3.0  # seconds at most until an epoch has passed, in which seek points are learned
_PERIOD_US = 100_000


class NotRun(Exception):
    """This machine does not allow the situation."""


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

    def _saved(self, name: str, most: int, save: Callable[[Image.Image, Path], None]) -> Path:
        def make(to: Path) -> None:
            (to / "all").mkdir(parents=True)
            for number, path in enumerate(sorted(self.images.rglob("*.[jJ]*"))[:most]):
                with Image.open(path) as image:
                    save(image.convert("RGB"), to / "all" / f"{number:05d}")

        return self._made(name, make)

    def progressive(self) -> Path:
        return self._saved(
            "progressive",
            200,
            lambda image, to: image.save(f"{to}.jpg", quality=92, progressive=True),
        )

    def huge(self) -> Path:
        return self._saved(
            "huge", 24, lambda image, to: image.resize((3840, 2880)).save(f"{to}.jpg", quality=90)
        )

    def png(self) -> Path:
        return self._saved("png", 48, lambda image, to: image.save(f"{to}.png"))


def tiny() -> np.ndarray:
    """Returns pictures that cost nothing to read or decode."""
    return np.zeros((20_000, 8, 8, 3), np.uint8)


@dataclass(frozen=True)
class Situation:
    """What decides a loader's rate.

    Attributes:
        source: a path, or an array of pictures.
        step: called with each batch; None: only the measurement takes the batches.
        options: further words of the loader.
        disk: words of bench/slowfs, through which the source is read; empty: it is read directly.
        cores: cores that this process may use; None: all that it has.
        quota: cores that a control group grants; None: there is no quota.
        neighbours: whether a program spins on every core.
        of: whose DataLoader is used, "headrace" or "torch"; None: ``hr.Loader``.
        asked: the rate that the doctor is told; None: no rate.
    """

    source: Any
    transform: list[Any] = field(default_factory=lambda: list(CROP))
    batch_size: int = 64
    step: Callable[[Any], Any] | None = None
    options: dict[str, Any] = field(default_factory=dict)
    disk: tuple[str, ...] = ()
    cores: int | None = None
    quota: float | None = None
    neighbours: bool = False
    of: str | None = None
    asked: float | None = None

    def but(self, **changed: Any) -> Situation:
        return replace(self, **changed)


@contextlib.contextmanager
def within(situation: Situation) -> Iterator[Any]:
    """Yields the source while disk, cores, quota and neighbours are as in the situation."""
    with contextlib.ExitStack() as stack:
        if situation.neighbours:
            stack.enter_context(_neighbours())
        if situation.quota is not None:
            stack.enter_context(_granted(situation.quota))
        if situation.cores is not None:
            stack.enter_context(_allowed(situation.cores))
        source = situation.source
        yield stack.enter_context(_slow(source, *situation.disk)) if situation.disk else source


@contextlib.contextmanager
def _slow(folder: Path, *how: str) -> Iterator[Path]:
    """Shows a folder through bench/slowfs."""
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


@contextlib.contextmanager
def _allowed(cores: int) -> Iterator[None]:
    """Restricts this process to the first cores that it may use."""
    every = os.sched_getaffinity(0)
    if len(every) < cores:
        raise NotRun(f"this machine has no {cores} cores")
    os.sched_setaffinity(0, sorted(every)[:cores])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)


@contextlib.contextmanager
def _neighbours() -> Iterator[None]:
    # A shell that ends starts them, because what this process has started counts as its own.
    spin = '"$0" -c "while True: pass" </dev/null >/dev/null & echo $!'
    others = [
        int(subprocess.check_output(["sh", "-c", spin, sys.executable]))
        for _ in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for other in others:
            os.kill(other, signal.SIGTERM)


@contextlib.contextmanager
def _granted(cores: float) -> Iterator[None]:
    """Puts this process into a control group of its own that grants so many cores (cgroups(7))."""
    groups = Path("/sys/fs/cgroup")
    first = (groups / "cpu/cpu.cfs_quota_us").exists()  # version 1
    top = groups / "cpu" if first else groups
    group = top / f"headrace-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as failure:
        raise NotRun(f"no control group can be made here: {failure}") from None
    try:
        if first:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(cores * _PERIOD_US)))
        else:
            (group / "cpu.max").write_text(f"{int(cores * _PERIOD_US)} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
        (top / "cgroup.procs").write_text(str(os.getpid()))
    except OSError as failure:
        raise NotRun(f"a control group grants nothing here: {failure}") from None
    finally:
        with contextlib.suppress(OSError):
            (top / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


@contextlib.contextmanager
def opened(situation: Situation, source: Any) -> Iterator[Any]:
    """Yields the situation's loader."""
    if situation.of is not None:
        with contextlib.closing(_DataLoader(situation, source)) as made:
            yield made.loader
        return
    dataset = hr.Dataset.from_arrays(source) if isinstance(source, np.ndarray) else source
    # If a step takes as long for a part of a batch as for a whole batch, it is slower for each
    # image.
    words = {"shuffle": True, "output": "numpy", "drop_last": situation.step is not None}
    words |= situation.options
    with hr.Loader(dataset, situation.batch_size, transform=situation.transform, **words) as made:
        yield made


class _DataLoader:
    """A DataLoader over torchvision's ImageFolder; only Headrace's has to be closed."""

    def __init__(self, situation: Situation, source: Path) -> None:
        import torch.utils.data
        from torchvision import datasets, transforms

        steps = [transforms.RandomResizedCrop(224), transforms.ToTensor()]
        photographs = datasets.ImageFolder(source, transforms.Compose(steps))
        kind = torch.utils.data.DataLoader if situation.of == "torch" else hr.DataLoader
        self.loader: Any = kind(
            photographs,
            batch_size=situation.batch_size,
            shuffle=True,
            drop_last=True,
            **situation.options,
        )

    def close(self) -> None:
        getattr(self.loader, "close", lambda: None)()


def rate(situation: Situation) -> dict[str, Any]:
    """The images a second that the loader really gives with the step. Call it once in a process.

    Threads get the affinity and quota of their beginning, and the engine's threads begin only once.

    Returns:
        ``rate``; ``share``, the part of the time with work in which this process had a core, None
        if the kernel does not say; and ``others``, the cores that other programs kept busy.
    """
    with within(situation) as source, opened(situation, source) as loader:
        step = situation.step or (lambda batch: None)
        began = time.perf_counter()
        for batch in loader:
            step(batch)
            if time.perf_counter() - began > _WARM:
                break
        batches = _for_ever(loader)
        for _ in range(4):  # skips batches that were ready
            step(next(batches))
        turns, others = machine.Turns(), machine.Others()
        found = _window(batches, step)
        return {"rate": found, "share": turns.end(), "others": others.end()["cores_others"]}


def _for_ever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def _window(batches: Iterator[Any], step: Callable[[Any], Any]) -> float:
    began, images, many, took = time.perf_counter(), 0, 0, 0.0
    while took < SECONDS or many < BATCHES:
        batch = next(batches)
        step(batch)
        images, many = images + len(batch[0]), many + 1
        took = time.perf_counter() - began
        del batch
    return images / took


def followed(situation: Situation, text: str, sets: Sets) -> Situation | None:
    """Returns the situation after following a remedy, given in the doctor's words; None if it
    cannot be followed."""
    if found := re.match(r"headrace pack((?: --\w+(?: \d+)?)*)", text):
        words = found[1].replace("--resize ", "--resize=").replace("--quality ", "--quality=")
        how: dict[str, Any] = {}
        for word in words.split():
            name, _, value = word.lstrip("-").partition("=")
            how[name] = int(value) if value else True
        return situation.but(source=sets.packed(Path(situation.source), **how))
    options = situation.options
    if text.startswith('mode="fast"'):
        return situation.but(options={**options, "mode": "fast"})
    if text.startswith('dtype="uint8"'):
        steps = [step for step in situation.transform if step is not NORMALISE]
        return situation.but(transform=steps, options={**options, "dtype": "uint8"})
    if found := re.match(r"num_threads=(\d+)", text):
        return situation.but(options={**options, "num_threads": int(found[1])})
    if found := re.match(r"batch_size=(\d+)", text):
        return situation.but(batch_size=int(found[1]))
    if text.startswith("end the other programs"):
        return situation.but(neighbours=False) if situation.neighbours else None
    if found := re.match(r"allow this process (\d+) cores", text):
        return situation.but(cores=int(found[1]), quota=None)
    if text.startswith("from headrace import DataLoader"):
        return situation.but(of="headrace", options={})
    if text.startswith("let go of each batch"):
        return situation.but(step=lambda batch: None)
    return None
