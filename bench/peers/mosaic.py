"""MosaicML's StreamingDataset: its uncompressed shards, read locally through torch's DataLoader."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import Order, Refused, image_files, serve

SHARD_BYTES = 1 << 25


def prepare(folder: Path, place: Path, _variant: str) -> None:
    from PIL import Image
    from streaming import MDSWriter

    columns = {"image": "jpeg", "label": "int"}
    with MDSWriter(out=str(place), columns=columns, size_limit=SHARD_BYTES) as out:
        for path, label in zip(*image_files(folder, mixed=True), strict=True):
            with Image.open(path) as image:  # the writer keeps the file's bytes
                out.write({"image": image, "label": label})


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import torch
    from streaming import StreamingDataset

    from peers.torchvision import training

    if order.task != "train" or order.dtype != "float32":
        raise Refused(f"{order.task} in {order.dtype} is not measured")
    transform = training(order)

    class Photographs(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return transform(sample["image"].convert("RGB")), sample["label"]

    dataset = Photographs(local=str(order.source), shuffle=True, batch_size=order.batch_size)
    loader = torch.utils.data.DataLoader(
        dataset,
        order.batch_size,
        num_workers=order.threads,
        drop_last=True,
        persistent_workers=True,
    )
    yield from itertools.chain.from_iterable(itertools.repeat(loader))


if __name__ == "__main__":
    serve(stream, ("mosaicml-streaming", "torchvision", "torch", "pillow"), prepare)
