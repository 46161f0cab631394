"""torchvision: ImageFolder + DataLoader, or decode_jpeg + transforms.v2 (variant "io").

It has a worker process for each core, the number at which it is fastest: with one fewer, a core is
idle while the main process only unpickles; with more, they wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peers.protocol import (
    BLUR,
    BLUR_P,
    BLUR_SIGMA,
    ERASING,
    EVALUATION_RESIZE,
    GREY_P,
    JITTER,
    JITTER_P,
    MEAN,
    RAND_AUGMENT,
    STD,
    Order,
    Refused,
    serve,
)

EPOCH_BATCHES = 1 << 14  # one epoch that never ends, so that the workers' pipeline stays full


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import torch
    from torchvision import datasets, io, transforms
    from torchvision.transforms import v2

    if order.dtype != "float32":
        raise Refused(f"{order.dtype} is not measured")
    ops: list[Any]
    if order.variant == "io":
        if order.task not in ("train", "eval"):
            raise Refused(f"{order.task} is not measured on tensors")

        # libjpeg-turbo without Pillow, then resize and normalise on tensors: torchvision's
        # documented fast way. antialias is the default, as it is for Pillow's images.
        def decode(path: str) -> Any:
            return io.decode_jpeg(io.read_file(path), mode=io.ImageReadMode.RGB)

        crop, flip = v2.RandomResizedCrop, v2.RandomHorizontalFlip
        ops = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        dataset = datasets.ImageFolder(
            str(order.source), v2.Compose([*_geometry(order, v2, crop, flip), *ops]), loader=decode
        )
    else:
        ops = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
        if order.task == "randaugment":
            ops = [transforms.RandAugment(*RAND_AUGMENT), *ops, transforms.RandomErasing(ERASING)]
        elif order.task == "simclr":
            ops = [
                transforms.RandomApply([transforms.ColorJitter(*JITTER)], JITTER_P),
                transforms.RandomGrayscale(GREY_P),
                transforms.RandomApply([transforms.GaussianBlur(BLUR, BLUR_SIGMA)], BLUR_P),
                *ops,
            ]
        geometry = _geometry(
            order, transforms, transforms.RandomResizedCrop, transforms.RandomHorizontalFlip
        )
        dataset = datasets.ImageFolder(str(order.source), transforms.Compose([*geometry, *ops]))
    sampler = torch.utils.data.RandomSampler(
        dataset, replacement=False, num_samples=EPOCH_BATCHES * order.batch_size
    )
    loader = torch.utils.data.DataLoader(
        dataset,
        order.batch_size,
        sampler=sampler,
        num_workers=order.threads,
        drop_last=True,
        pin_memory=bool(order.device),
    )
    if not order.device:
        yield from loader
        return
    form = {"device": order.device, "non_blocking": True}
    for images, labels in loader:
        yield images.to(memory_format=torch.channels_last, **form), labels.to(**form)


def training(order: Order) -> Any:
    """The pipeline of the training task for PIL images, which every peer uses that reads such."""
    from torchvision import transforms

    geometry = _geometry(
        order, transforms, transforms.RandomResizedCrop, transforms.RandomHorizontalFlip
    )
    ends = [transforms.ToTensor(), transforms.Normalize(MEAN, STD)]
    return transforms.Compose([*geometry, *ends])


def training_of_tensors(order: Order) -> Any:
    """Returns the same for decoded tensors."""
    import torch
    from torchvision.transforms import v2

    geometry = _geometry(order, v2, v2.RandomResizedCrop, v2.RandomHorizontalFlip)
    ends = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
    return v2.Compose([*geometry, *ends])


def _geometry(order: Order, module: Any, crop: Any, flip: Any) -> list[Any]:
    if order.task == "eval":
        return [module.Resize(EVALUATION_RESIZE), module.CenterCrop(order.size)]
    return [crop(order.size, scale=(order.min_scale, 1.0)), flip()]


if __name__ == "__main__":
    serve(stream, ("torchvision", "torch", "pillow", "numpy"))
