"""WebDataset: its tars of the photographs, read by its own WebLoader; `source` is their folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import Order, Refused, encoded_images, serve

PER_SHARD, SHUFFLED = 320, 1000  # samples
EPOCHS = 1 << 14


def prepare(folder: Path, place: Path, _variant: str) -> None:
    import webdataset

    place.mkdir()
    with webdataset.ShardWriter(f"{place}/train-%06d.tar", maxcount=PER_SHARD, verbose=0) as out:
        for number, (data, label) in enumerate(encoded_images(folder)):
            out.write({"__key__": f"{number:08}", "jpg": data, "cls": label})


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import webdataset

    from peers.torchvision import training

    if order.task != "train" or order.dtype != "float32":
        raise Refused(f"{order.task} in {order.dtype} is not measured")
    shards = sorted(str(path) for path in order.source.glob("*.tar"))
    dataset = (
        webdataset.WebDataset(shards, shardshuffle=len(shards))
        .repeat(EPOCHS)
        .shuffle(SHUFFLED)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(training(order), int)
    )
    yield from webdataset.WebLoader(
        dataset, batch_size=order.batch_size, num_workers=order.threads, drop_last=True
    )


if __name__ == "__main__":
    serve(stream, ("webdataset", "torchvision", "torch", "pillow"), prepare)
