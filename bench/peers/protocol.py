"""What every loader is asked and what it answers, so that all are measured in the same way.

A loader is a module that gives ``serve`` an iterable of (images, labels) batches without end. It is
run as ``python -m peers.NAME`` with the arguments of ``Order``, and prints one line of JSON for
each minimum scale. Nothing but the standard library is imported here, because each peer has its own
environment.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
RATIO = (3 / 4, 4 / 3)
EVALUATION_RESIZE = 256  # Resize(256), then CenterCrop(224)

# The recipes of augmentation, besides RandomResizedCrop and the flip: torchvision's arguments.
MIXED = "+mix"  # after the name of a task: MixUp or CutMix of the batch, chosen at random
TASKS = ("train", "eval", "randaugment", "simclr", "train" + MIXED, "randaugment" + MIXED)
PROGRAMS = (  # tasks of peers/programs.py
    *("csv", "two views", "ten views", "arrays", "tensors", "slow end"),
)
RAND_AUGMENT = (2, 9)  # ops, magnitude
ERASING = 0.25  # probability
JITTER, JITTER_P, GREY_P = (0.8, 0.8, 0.8, 0.2), 0.8, 0.2
BLUR, BLUR_SIGMA, BLUR_P = 23, (0.1, 2.0), 0.5
CLASSES = 1000  # classes of mixed labels

# Containers of compressed blocks hold the set so many times, because an epoch has to be larger than
# the decoded blocks that a reader keeps.
COPIES = 4


@dataclass
class Order:
    """What should be loaded, and how."""

    source: Path  # an image folder, or what the loader's prepare made of it
    # RandomResizedCrop + flip + Normalize; "eval": Resize + CenterCrop; "randaugment": with
    # RandAugment and RandomErasing; "simclr": with ColorJitter, grey and blur; MIXED may follow the
    # name
    task: str = "train"
    dtype: str = "float32"
    size: int = 224
    min_scale: float = 0.08
    batch_size: int = 128
    threads: int = 2
    mode: str = "exact"  # Headrace's mode
    variant: str = ""  # one of a module's own forms
    device: str = ""  # "cuda": batches come in the GPU's memory, channels last; "": in the CPU's
    # The time that the loader's module spent between two batches on what does not count.
    untimed_seconds: float = 0.0
    untimed_cpu_seconds: float = 0.0


class Refused(Exception):
    """The loader, as it is installed, cannot do what was asked."""


def serve(
    stream: Callable[[Order], Iterable[tuple[Any, Any]]],
    packages: tuple[str, ...],
    prepare: Callable[[Path, Path, str], None] | None = None,
    decoded: Callable[[Order], Iterable[Any]] | None = None,
) -> None:
    """Does what the command line says, and prints the answer.

    Args:
        stream: yields the batches of an order.
        packages: packages whose versions are part of the answer.
        prepare: makes the loader's own file from a folder, at a path, in a variant.
        decoded: for a loader that decodes on a GPU: yields the whole images of an order's folder as
            NumPy arrays, uint8 of shape (height, width, 3), in the order of ``image_files``.
    """
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not part of the answer
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--prepare", type=Path, help="only make the loader's own file, here")
    parser.add_argument("--task", default="train", choices=TASKS + PROGRAMS)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "uint8"))
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--min-scale", type=float, nargs="+", default=[0.08])
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--cores", type=int, nargs="+", help="what to run on; a thread for each")
    parser.add_argument("--warm-up", type=int, default=8, help="batches before the timed ones")
    parser.add_argument("--batches", type=int, default=4, help="at least so many are timed")
    parser.add_argument("--seconds", type=float, default=4.0, help="and at least so long")
    parser.add_argument("--mode", default="exact")
    parser.add_argument("--variant", default="")
    parser.add_argument("--device", default="", choices=("", "cuda"))
    parser.add_argument("--train", default="", help="a model that takes a step with each batch")
    parser.add_argument("--decoded", type=Path, help="only write the decoded images here, as .npz")
    options = parser.parse_args()
    if options.prepare is not None:
        if prepare is None:
            raise SystemExit("this loader reads the image folder itself")
        prepare(options.source, options.prepare, options.variant)
        return
    cores = options.cores or sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores)  # all later threads and processes inherit it
    for scale in options.min_scale:
        order = Order(
            options.source,
            options.task,
            options.dtype,
            options.size,
            scale,
            options.batch_size,
            len(cores),
            options.mode,
            options.variant,
            options.device,
        )
        try:
            if options.decoded is not None:
                assert decoded is not None
                found = {"images": write(options.decoded, decoded(order))}
            else:
                found = measure(steps(options.train, stream(order)), order, options)
        except Refused as refusal:
            found = {"refused": str(refusal)}
        found["versions"] = {name: _version(name) for name in packages}
        print(json.dumps(found), file=answer, flush=True)
    answer.close()
    # Some loaders' threads do not end by themselves with an iterator that never ends.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def measure(
    batches: Iterable[tuple[Any, Any]], order: Order, options: argparse.Namespace
) -> dict[str, Any]:
    """Measures images a second and CPU seconds between two batches of a pipeline that is full at
    both.

    Workers that each make whole batches hand them over in turns, so a multiple of their number is
    timed. Otherwise the first and the last batch would be at different places of a turn.
    """
    size = order.size
    shapes = ((order.batch_size, 3, size, size), (order.batch_size, size, size, 3))
    begun = spent = 0.0
    for number, (images, _labels) in enumerate(batches, start=-options.warm_up):
        if tuple(images.shape) not in shapes:
            raise SystemExit(f"a batch of shape {tuple(images.shape)}, not {shapes[0]}")
        if number == 0:
            settle(order)
            begun = time.perf_counter() - order.untimed_seconds
            spent = cpu_seconds() - order.untimed_cpu_seconds
            continue
        if number < max(options.batches, 1) or number % order.threads:
            continue
        took = time.perf_counter() - begun - order.untimed_seconds
        if took >= options.seconds:
            settle(order)
            took = time.perf_counter() - begun - order.untimed_seconds
            count = number * order.batch_size
            return {
                "images": count,
                "seconds": took,
                "rate": count / took,
                "cpu_seconds": cpu_seconds() - spent - order.untimed_cpu_seconds,
                "dtype": getattr(images.dtype, "name", str(images.dtype).rpartition(".")[2]),
                "shape": list(images.shape),
            }
    raise SystemExit("the batches ended before they were counted")


def settle(order: Order) -> None:
    """Waits until the device has done everything that it was asked for."""
    if order.device:
        import torch

        torch.cuda.synchronize()


def steps(model: str, batches: Iterable[tuple[Any, Any]]) -> Iterable[tuple[Any, Any]]:
    """Yields the batches, each after a training step with it; without a step if no model is
    named."""
    if not model:
        return batches
    import training

    return training.trained(training.Training(model, "bfloat16"), batches)


def write(file: Path, images: Iterable[Any]) -> int:
    """Writes images to a NumPy file under their numbers; returns how many there were."""
    import numpy as np

    found = {str(number): image for number, image in enumerate(images)}
    np.savez(file, **found)
    return len(found)


def cpu_seconds() -> float:
    """User and system time of this process and all its descendants, including ended ones."""
    ticks, todo = 0, [os.getpid()]
    while todo:
        process = todo.pop()
        try:
            stat = Path(f"/proc/{process}/stat").read_text()
            tasks = list(Path(f"/proc/{process}/task").iterdir())
            children = [int(c) for t in tasks for c in (t / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
        # After the name: utime, stime, cutime and cstime are fields 14 to 17 (proc(5)).
        ticks += sum(int(field) for field in stat.rsplit(")", 1)[1].split()[11:15])
        todo += children
    return ticks / os.sysconf("SC_CLK_TCK")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def encoded_images(folder: Path) -> list[tuple[bytes, int]]:
    """Returns the files of an image folder in mixed order, with their labels."""
    paths, labels = image_files(folder, mixed=True)
    return [(Path(path).read_bytes(), label) for path, label in zip(paths, labels, strict=True)]


def image_files(folder: Path, mixed: bool = False) -> tuple[list[str], list[int]]:
    """Returns the paths of an image folder with one folder for each class, and their labels, in
    order or mixed.

    Loaders that mix only a few shards get them mixed, as their guides ask.
    """
    paths: list[str] = []
    labels: list[int] = []
    classes = sorted(entry for entry in folder.iterdir() if entry.is_dir())
    for label, entry in enumerate(classes):
        found = sorted(str(path) for path in entry.rglob("*") if path.is_file())
        paths += found
        labels += [label] * len(found)
    if mixed:
        both = list(zip(paths, labels, strict=True))
        random.Random(0).shuffle(both)
        paths, labels = [path for path, _ in both], [label for _, label in both]
    return paths, labels
