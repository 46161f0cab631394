"""Packs photographs, iterates them, compares pixels with torchvision, saves a picture of a batch.

`make demo` runs it on photographs that scikit-image and scikit-learn ship; `make demo IMAGES=DIR`,
or `python examples/demo.py DIR`, on an image folder of yours (one folder a class).
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import Any

import torchvision

import headrace as hr

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BATCH = 128
THREADS = min(2, len(os.sched_getaffinity(0)))


def training() -> list[Any]:
    return [
        hr.transforms.RandomResizedCrop(224),
        hr.transforms.RandomHorizontalFlip(),
        hr.transforms.Normalize(MEAN, STD),
    ]


def pack(photographs: Path, packed: Path) -> None:
    shutil.rmtree(packed, ignore_errors=True)
    begun = time.perf_counter()
    hr.pack(photographs, packed)
    took = time.perf_counter() - begun
    dataset = hr.Dataset(packed)
    print(
        f"Packed {len(dataset):,} photographs of {len(dataset.classes)} classes "
        f"({dataset.info['bytes'] / 1e6:,.0f} MB) into {packed} in {took:.1f} s: "
        f"{len(dataset) / took:,.0f} a second. They are the original bytes, in tar files."
    )
    faults = hr.verify(packed)["faults"]["total"]
    print(f"Verified every checksum and offset: {faults} faults.")


def epoch(packed: Path) -> None:
    begun = time.perf_counter()
    with hr.Loader(
        packed, BATCH, shuffle=True, num_threads=THREADS, transform=training()
    ) as loader:
        count = 0
        first = 0.0
        for images, _labels in loader:
            first = first or time.perf_counter() - begun
            count += len(images)
        took = time.perf_counter() - begun
    print(
        f"Read one epoch in batches of up to {BATCH} images, each {tuple(images.shape[1:])} "
        f"{images.dtype}: {count:,} images in {took:.2f} s with {THREADS} threads; the first batch "
        f"after {first:.2f} s."
    )


def equality(photographs: Path, packed: Path) -> None:
    transforms = torchvision.transforms
    steps = [transforms.Resize(256), transforms.CenterCrop(224), transforms.PILToTensor()]
    folder = torchvision.datasets.ImageFolder(str(photographs), transforms.Compose(steps))
    ours = [hr.transforms.Resize(256), hr.transforms.CenterCrop(224)]
    # Photographs of all classes: the first ones of a folder are all of one.
    chosen = range(0, len(folder), -(-len(folder) // BATCH))
    with hr.Loader(
        packed, BATCH, sampler=chosen, transform=ours, dtype="uint8", num_threads=THREADS
    ) as loader:
        images, labels = next(iter(loader))
    expected = [folder[number] for number in chosen]
    differing = sum(
        int((image != wanted).sum()) for image, (wanted, _) in zip(images, expected, strict=True)
    )
    assert labels.tolist() == [label for _, label in expected]
    print(
        f"Compared {len(images)} photographs of {len(set(labels.tolist()))} classes, resized to "
        f"256 and cropped to 224, with Pillow and torchvision: {differing:,} of "
        f"{images.numel():,} bytes differ."
    )


def picture(packed: Path, path: Path) -> None:
    with hr.Loader(packed, 32, shuffle=True, transform=training()[:2]) as loader:
        images, _labels = next(iter(loader))
    torchvision.utils.save_image(images, str(path), nrow=8)
    print(
        f"Saved a picture of an augmented batch: {path}. How Headrace's rate compares with other "
        "loaders' is measured by `make bench`."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs", type=Path, help="an image folder, one folder a class")
    parser.add_argument("--work", type=Path, default=Path("demo"), help="where results go")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    packed = arguments.work / "demo.hr"
    pack(arguments.photographs, packed)
    epoch(packed)
    equality(arguments.photographs, packed)
    picture(packed, arguments.work / "batch.png")


if __name__ == "__main__":
    main()
