"""Hugging Face's datasets: a folder of save_to_disk, read through torch's DataLoader, or through
Headrace's if the variant is "headrace".

It also writes Parquet: "parquet" as to_parquet does, and "snappy" as older releases did, in groups
of 100 rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import COPIES, Order, Refused, encoded_images, serve

FILES, ROWS = 8, 100
EPOCH_BATCHES = 1 << 14


def prepare(folder: Path, place: Path, variant: str) -> None:
    import datasets

    rows = [
        {"image": {"bytes": data, "path": None}, "label": n} for data, n in encoded_images(folder)
    ]
    classes = [str(number) for number in range(1 + max(row["label"] for row in rows))]
    columns = {"image": datasets.Image(), "label": datasets.ClassLabel(names=classes)}
    made = datasets.Dataset.from_list(rows, features=datasets.Features(columns))
    if not variant:
        made.save_to_disk(str(place), num_shards=FILES)
        return
    place.mkdir()
    for number in range(FILES):
        part = made.shard(FILES, number, contiguous=True)
        file = place / f"train-{number:05}-of-{FILES:05}.parquet"
        if variant == "parquet":
            part.to_parquet(file)
        else:
            _write_snappy(part.with_format("arrow")[:], file)


def _write_snappy(table: Any, file: Path) -> None:
    import pyarrow.parquet

    options = {"compression": "snappy", "use_dictionary": False}
    with pyarrow.parquet.ParquetWriter(file, table.schema, **options) as out:
        for _ in range(COPIES):
            out.write_table(table, row_group_size=ROWS)


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import datasets
    import torch

    from peers.torchvision import training

    if order.task != "train" or order.dtype != "float32":
        raise Refused(f"{order.task} in {order.dtype} is not measured")
    transform = training(order)

    def transformed(rows: dict[str, Any]) -> dict[str, Any]:
        images = [transform(image.convert("RGB")) for image in rows["image"]]
        return {"image": images, "label": rows["label"]}

    dataset = datasets.load_from_disk(str(order.source)).with_transform(transformed)
    sampler = torch.utils.data.RandomSampler(
        dataset, replacement=True, num_samples=EPOCH_BATCHES * order.batch_size
    )
    loader: Any
    if order.variant == "headrace":
        import headrace as hr

        loader = hr.DataLoader(dataset, order.batch_size, sampler=sampler, strict=True)
    else:
        loader = torch.utils.data.DataLoader(
            dataset, order.batch_size, sampler=sampler, num_workers=order.threads
        )
    for batch in itertools.chain.from_iterable(itertools.repeat(loader)):
        yield batch["image"], batch["label"]


if __name__ == "__main__":
    serve(stream, ("datasets", "pyarrow", "torchvision", "torch", "pillow"), prepare)
