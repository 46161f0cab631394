"""Headrace: a packed dataset, an image folder or containers, depending on `source`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import (
    BLUR,
    BLUR_P,
    BLUR_SIGMA,
    CLASSES,
    ERASING,
    EVALUATION_RESIZE,
    GREY_P,
    JITTER,
    JITTER_P,
    MEAN,
    MIXED,
    RAND_AUGMENT,
    STD,
    Order,
    Refused,
    image_files,
    serve,
)


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import headrace as hr
    from headrace.errors import UnsupportedError

    ops: list[Any]
    task = order.task.removesuffix(MIXED)
    if task == "eval":
        ops = [hr.transforms.Resize(EVALUATION_RESIZE), hr.transforms.CenterCrop(order.size)]
    else:
        ops = [
            hr.transforms.RandomResizedCrop(order.size, scale=(order.min_scale, 1.0)),
            hr.transforms.RandomHorizontalFlip(),
        ]
    if task == "randaugment":
        ops.append(hr.transforms.RandAugment(*RAND_AUGMENT))
    elif task == "simclr":
        ops += [
            hr.transforms.RandomApply([hr.transforms.ColorJitter(*JITTER)], JITTER_P),
            hr.transforms.RandomGrayscale(GREY_P),
            hr.transforms.RandomApply([hr.transforms.GaussianBlur(BLUR, BLUR_SIGMA)], BLUR_P),
        ]
    if order.dtype != "uint8":  # uint8: a GPU normalises the pixels
        ops.append(hr.transforms.Normalize(MEAN, STD))
    if task == "randaugment":
        ops.append(hr.transforms.RandomErasing(ERASING))
    if task != order.task:
        mixes = [
            hr.transforms.MixUp(num_classes=CLASSES),
            hr.transforms.CutMix(num_classes=CLASSES),
        ]
        ops.append(hr.transforms.RandomChoice(mixes))
    try:
        # The variant says where the index of a folder lies, or how its samples are shuffled.
        window = order.variant == "window"
        dataset = hr.Dataset(order.source, index_dir=None if window else order.variant or None)
        loader = hr.Loader(
            dataset,
            batch_size=order.batch_size,
            shuffle="window" if window else task != "eval",
            drop_last=True,
            num_threads=order.threads,
            transform=ops,
            dtype=order.dtype,
            mode=order.mode,
            layout="channels_last" if order.device else "NCHW",
            device=order.device or None,
        )
    except UnsupportedError as error:
        raise Refused(str(error)) from error
    with loader:
        while True:
            if order.device and order.dtype == "uint8":
                import headrace.torch

                normalise = headrace.torch.Normalize(MEAN, STD).to(order.device)
                yield from ((normalise(images), labels) for images, labels in loader)
            else:
                yield from loader


def decoded(order: Order) -> Iterator[Any]:
    import headrace.functional

    for path in image_files(order.source)[0]:
        yield headrace.functional.decode(Path(path).read_bytes())


if __name__ == "__main__":
    serve(stream, ("headrace", "torch", "numpy"), decoded=decoded)
