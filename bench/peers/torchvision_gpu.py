"""torchvision's decode_jpeg on a GPU (nvJPEG), a batch a call, then its v2 transforms there.

Nothing is made ahead: the GPU decodes when a batch is asked for, and Python asks for the crop of
each image.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import MEAN, STD, Order, Refused, image_files, serve


def _decode(files: list[bytes], device: str) -> list[Any]:
    import torch
    from torchvision import io

    data = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
    found: list[Any] = io.decode_jpeg(data, mode=io.ImageReadMode.RGB, device=device)
    return found


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import torch
    from torchvision.transforms import v2

    if order.task != "train" or order.dtype != "float16":
        raise Refused(f"{order.task} in {order.dtype} is not measured")
    torch.set_num_threads(order.threads)
    paths, labels = image_files(order.source, mixed=True)
    files = [Path(path).read_bytes() for path in paths]
    geometry = v2.Compose(
        [
            v2.RandomResizedCrop(order.size, scale=(order.min_scale, 1.0), antialias=True),
            v2.RandomHorizontalFlip(),
        ]
    )
    ends = v2.Compose([v2.ToDtype(torch.float16, scale=True), v2.Normalize(MEAN, STD)])
    at = 0
    while True:
        chosen = [(at + i) % len(files) for i in range(order.batch_size)]
        at += order.batch_size
        images = _decode([files[i] for i in chosen], order.device)
        batch = ends(torch.stack([geometry(image) for image in images]))
        label = torch.tensor([labels[i] for i in chosen]).to(order.device)
        yield batch.contiguous(memory_format=torch.channels_last), label


def decoded(order: Order) -> Iterator[Any]:
    files, _ = image_files(order.source)
    for file in files:
        (image,) = _decode([Path(file).read_bytes()], order.device)
        yield image.permute(1, 2, 0).cpu().numpy()


if __name__ == "__main__":
    serve(stream, ("torchvision", "torch"), decoded=decoded)
