"""FFCV's CIFAR-10 loader as a side of arrays.py: ``cifar.py BETON SECONDS``, in FFCV's environment.

The file holds the images as raw pixels; it is made if it does not exist. The transforms are those
of FFCV's own CIFAR example that the other sides have as well: flip, a shift within a padding of 4,
and normalising, compiled by numba. It prints images/s, and images a second of CPU.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 256


class Noise:
    """50,000 images of noise and their labels, as CIFAR-10 has."""

    def __init__(self) -> None:
        noise = np.random.default_rng(0)
        self.pixels = noise.integers(0, 256, (50_000, 32, 32, 3), np.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.pixels[index], index % 10


def loader(beton: str) -> Any:
    """FFCV's loader with two threads, in shuffled order out of the page cache."""
    from ffcv import loader, transforms
    from ffcv.fields.basics import IntDecoder
    from ffcv.fields.rgb_image import SimpleRGBImageDecoder

    mean, std = 255 * np.array([0.49, 0.48, 0.45]), 255 * np.array([0.25, 0.24, 0.26])
    image = [
        SimpleRGBImageDecoder(),
        transforms.RandomHorizontalFlip(),
        transforms.RandomTranslate(padding=4, fill=(0, 0, 0)),
        transforms.NormalizeImage(mean, std, np.float32),
        transforms.ToTensor(),
        transforms.ToTorchImage(channels_last=True),
    ]
    label = [IntDecoder(), transforms.ToTensor(), transforms.Squeeze()]
    return loader.Loader(
        beton,
        batch_size=BATCH,
        num_workers=2,
        os_cache=True,
        order=loader.OrderOption.RANDOM,
        drop_last=True,
        pipelines={"image": image, "label": label},
    )


def main() -> None:
    beton, seconds = sys.argv[1], float(sys.argv[2])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
    if not Path(beton).exists():
        from ffcv.fields import IntField, RGBImageField
        from ffcv.writer import DatasetWriter

        fields = {"image": RGBImageField(write_mode="raw"), "label": IntField()}
        DatasetWriter(beton, fields, num_workers=2).from_indexed_dataset(Noise())
    made = loader(beton)

    def batches() -> Iterator[Any]:
        while True:
            yield from made

    epoch = len(Noise()) // BATCH  # the first epoch compiles
    count = 0
    for number, (images, _) in enumerate(batches()):
        if number < epoch:
            continue
        if number == epoch:
            begun, before = time.perf_counter(), time.process_time()
            continue
        count += len(images)
        if time.perf_counter() - begun > seconds:
            break
    print(count / (time.perf_counter() - begun), count / (time.process_time() - before), flush=True)
    os._exit(0)  # its threads are in the middle of an epoch


if __name__ == "__main__":
    main()
