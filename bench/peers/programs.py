"""Datasets with code of their own, as programs write them, under torch's loader or Headrace's.

The variant says under which loader: "torch" (a worker process for each core), "headrace" (none),
"headrace workers" (as many as torch's), or "folder": the same files as an ImageFolder under
Headrace's, which reads them itself, or under torch's as "folder torch". For whole epochs of an
ImageFolder, "first" times only first epochs, with a folder of another name in each, "second" only
second ones, and "later" all of them.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from peers.protocol import (
    BLUR,
    BLUR_P,
    BLUR_SIGMA,
    GREY_P,
    JITTER,
    JITTER_P,
    MEAN,
    STD,
    Order,
    cpu_seconds,
    image_files,
    serve,
)

EPOCH_BATCHES = 1 << 12
CIFAR = (32, 4)  # side, and the padding of RandomCrop
SMALL_VIEWS, SMALL_SIZE = 8, 96  # those of DINO
# An epoch has at least so many images, like the packed set beside it by default (compare.py's
# --epoch), because threads have nothing to do at the beginning and end of an epoch.
EPOCH_IMAGES = 2560
# The work that the slow end of a Compose does in Python alone: so many rounds of a loop.
ROUNDS = 100_000


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import torch
    import torch.utils.data

    import headrace as hr

    if order.variant in ("first", "second", "later"):
        yield from _epochs(order)
    dataset = _dataset(order)
    sampler = torch.utils.data.RandomSampler(
        dataset, replacement=True, num_samples=EPOCH_BATCHES * order.batch_size
    )
    options: dict[str, Any] = {"batch_size": order.batch_size, "sampler": sampler}
    if order.variant.endswith("torch"):
        options |= {"num_workers": order.threads}
        loader: Any = torch.utils.data.DataLoader(dataset, **options)
    else:
        workers = order.threads if order.variant.endswith("workers") else 0
        # The engine does not do what Python does to a sample; everything else must be left to the
        # engine.
        strict = order.task != "slow end"
        loader = hr.DataLoader(dataset, strict=strict, num_workers=workers, **options)
    while True:
        for batch in loader:
            images = batch["image"] if isinstance(batch, dict) else batch[0]
            labels = batch["label"] if isinstance(batch, dict) else batch[1]
            # If there are several views, the first one stands for all, because samples are counted.
            yield (images[0] if isinstance(images, list) else images), labels


def _epochs(order: Order) -> Iterator[tuple[Any, Any]]:
    """Yields epochs of an ImageFolder without end; the time between epochs does not count."""
    import headrace as hr

    copies = -(-EPOCH_IMAGES // len(image_files(order.source)[0]))
    with tempfile.TemporaryDirectory() as place:
        for number in itertools.count():
            with contextlib.ExitStack() as around:
                with _untimed(order):
                    root = Path(place) / str(number)
                    root.mkdir()
                    for copy in range(copies):
                        for folder in sorted(Path(order.source).absolute().iterdir()):
                            (root / f"{copy} {folder.name}").symlink_to(folder)
                    dataset = _dataset(replace(order, source=root, variant="folder"))
                    loader = hr.DataLoader(
                        dataset, order.batch_size, shuffle=True, drop_last=True, strict=True
                    )
                    around.callback(_close, loader, order)
                    if order.variant == "second":
                        for _ in loader:
                            pass
                yield from loader
                while order.variant == "later":
                    yield from loader


def _close(loader: Any, order: Order) -> None:
    with _untimed(order):
        loader.close()


@contextlib.contextmanager
def _untimed(order: Order) -> Iterator[None]:
    """The time of what is done here does not count."""
    begun, spent = time.perf_counter(), cpu_seconds()
    yield
    order.untimed_seconds += time.perf_counter() - begun
    order.untimed_cpu_seconds += cpu_seconds() - spent


def _dataset(order: Order) -> Any:
    import numpy as np
    from PIL import Image
    from torchvision import datasets, transforms

    end = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    flip = transforms.RandomHorizontalFlip()
    crop = transforms.RandomResizedCrop(order.size, scale=(order.min_scale, 1.0))

    class Table:
        """A csv file of paths and labels; its samples are dicts."""

        def __init__(self, transform: Any) -> None:
            self.transform = transform
            with tempfile.TemporaryDirectory() as place:
                file = Path(place, "train.csv")
                with file.open("w", newline="") as out:
                    csv.writer(out).writerows(zip(*image_files(order.source), strict=True))
                with file.open(newline="") as rows:
                    self.rows = [(path, int(label)) for path, label in csv.reader(rows)]

        def __len__(self) -> int:
            return len(self.rows)

        def __getitem__(self, index: int) -> Any:
            path, label = self.rows[index]
            image = Image.open(path).convert("RGB")
            return {"image": self.transform(image), "label": label}

    class Arrays:
        """A dataset like CIFAR's: one array of all images."""

        def __init__(self, transform: Any) -> None:
            random, side = np.random.default_rng(0), CIFAR[0]
            self.data = random.integers(0, 256, (50_000, side, side, 3), dtype=np.uint8)
            self.transform = transform

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, index: int) -> Any:
            return self.transform(Image.fromarray(self.data[index])), index % 10

    class SlowEnd:
        """A function of the program's own that holds the interpreter's lock."""

        def __call__(self, image: Any) -> Any:
            total = 0
            for number in range(ROUNDS):
                total += number
            return image

    if order.variant.startswith("folder"):
        return datasets.ImageFolder(str(order.source), transforms.Compose([crop, flip, *end]))
    if order.task == "slow end":
        steps = transforms.Compose([crop, flip, *end, SlowEnd()])
        return datasets.ImageFolder(str(order.source), steps)
    if order.task == "csv":
        return Table(transforms.Compose([crop, flip, *end]))
    if order.task == "arrays":
        padded = transforms.RandomCrop(CIFAR[0], padding=CIFAR[1])
        return Arrays(transforms.Compose([padded, flip, *end]))
    if order.task == "tensors":
        return datasets.ImageFolder(str(order.source), _tensors_first(order))
    return datasets.ImageFolder(str(order.source), _views(order, crop, flip, end))


class _Views:
    """Several views of an image, each with its own transforms."""

    def __init__(self, *views: Any) -> None:
        self.views = views

    def __call__(self, image: Any) -> list[Any]:
        return [view(image) for view in self.views]


def _views(order: Order, crop: Any, flip: Any, end: list[Any]) -> _Views:
    from torchvision import transforms

    jitter = transforms.RandomApply([transforms.ColorJitter(*JITTER)], JITTER_P)
    colours = [flip, jitter, transforms.RandomGrayscale(GREY_P)]
    blur = transforms.GaussianBlur(BLUR, BLUR_SIGMA)
    sometimes = transforms.RandomApply([blur], BLUR_P)
    if order.task == "two views":
        view = transforms.Compose([crop, *colours, sometimes, *end])
        return _Views(view, view)
    large = transforms.RandomResizedCrop(order.size, scale=(0.4, 1.0))
    small = transforms.RandomResizedCrop(SMALL_SIZE, scale=(0.05, 0.4))
    views = [
        transforms.Compose([large, *colours, blur, *end]),
        transforms.Compose([large, *colours, transforms.RandomSolarize(128, 0.2), *end]),
        *[transforms.Compose([small, *colours, sometimes, *end])] * SMALL_VIEWS,
    ]
    return _Views(*views)


def _tensors_first(order: Order) -> Any:
    """Makes transforms in the order that torchvision recommends: bytes as a tensor until the last
    steps."""
    import torch
    from torchvision.transforms import v2

    crop = v2.RandomResizedCrop(order.size, scale=(order.min_scale, 1.0), antialias=True)
    floats = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    steps = [v2.PILToTensor(), crop, v2.RandomHorizontalFlip(), *floats, v2.ToPureTensor()]
    return v2.Compose(steps)


if __name__ == "__main__":
    serve(stream, ("headrace", "torch", "torchvision", "pillow", "numpy"))
