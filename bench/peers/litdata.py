"""LitData: its chunks, read locally by its own StreamingDataLoader; "zstd" writes frames.

Its reader decodes JPEGs to tensors, so torchvision's v2 crops and resizes tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import COPIES, Order, Refused, image_files, serve

CHUNK_BYTES = 1 << 25


def prepare(folder: Path, place: Path, variant: str) -> None:
    from litdata.streaming.writer import BinaryWriter
    from PIL import Image

    packed = {"compression": "zstd"} if variant == "zstd" else {}
    writer = BinaryWriter(str(place), chunk_bytes=CHUNK_BYTES, **packed)
    number = 0
    for _ in range(COPIES if packed else 1):
        for path, label in zip(*image_files(folder, mixed=True), strict=True):
            with Image.open(path) as image:  # the writer keeps the file's bytes
                writer[number] = (image, label)
            number += 1
    writer.done()
    writer.merge()


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    from litdata import StreamingDataLoader, StreamingDataset

    from peers.torchvision import training_of_tensors

    if order.task != "train" or order.dtype != "float32":
        raise Refused(f"{order.task} in {order.dtype} is not measured")
    transform = training_of_tensors(order)

    class Photographs(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            image, label = super().__getitem__(index)
            return transform(image.expand(3, -1, -1)), label  # grey images have one channel

    dataset = Photographs(str(order.source), shuffle=True, drop_last=True)
    loader = StreamingDataLoader(
        dataset, batch_size=order.batch_size, num_workers=order.threads, drop_last=True
    )
    yield from itertools.chain.from_iterable(itertools.repeat(loader))


if __name__ == "__main__":
    serve(stream, ("litdata", "torchvision", "torch", "pillow"), prepare)
