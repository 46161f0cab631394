"""A peer's first epoch of what lies in a bucket of S3, by its own cache: for ``remote_peers.py``.

`python -m peers.away PEER WHERE CACHE` prints one line of JSON. WHERE is an s3:// address or, for
WebDataset, a file with the addresses of its shards. Keys and endpoint come from the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from peers.protocol import Order


def mosaic(order: Order, where: str, cache: Path) -> Iterable[Any]:
    import torch
    from streaming import StreamingDataset

    from peers.torchvision import training

    transform = training(order)

    class Photographs(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            sample = super().__getitem__(index)
            return transform(sample["image"].convert("RGB")), sample["label"]

    dataset = Photographs(
        remote=where, local=str(cache), shuffle=True, batch_size=order.batch_size, predownload=1024
    )
    return torch.utils.data.DataLoader(dataset, order.batch_size, num_workers=order.threads)


def litdata(order: Order, where: str, cache: Path) -> Iterable[Any]:
    from litdata import StreamingDataLoader, StreamingDataset
    from litdata.streaming import downloader

    from peers.torchvision import training_of_tensors

    # No public option lets its client speak to a server without TLS.
    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True

    transform = training_of_tensors(order)

    class Photographs(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, index: Any) -> Any:
            image, label = super().__getitem__(index)
            return transform(image.expand(3, -1, -1)), label  # grey images have one channel

    dataset = Photographs(
        where,
        cache_dir=str(cache),
        shuffle=True,
        max_pre_download=8,
        storage_options={"endpoint_url": os.environ["AWS_ENDPOINT_URL"]},
    )
    return StreamingDataLoader(dataset, batch_size=order.batch_size, num_workers=order.threads)


def webdataset(order: Order, where: str, cache: Path) -> Iterable[Any]:
    import webdataset

    from peers.torchvision import training

    shards = Path(where).read_text().split()
    cache.mkdir()
    dataset = (
        webdataset.WebDataset(shards, shardshuffle=len(shards), cache_dir=str(cache))
        .shuffle(1000)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(training(order), int)
    )
    return webdataset.WebLoader(dataset, batch_size=order.batch_size, num_workers=order.threads)


def main() -> None:
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not part of the answer
    parser = argparse.ArgumentParser()
    parser.add_argument("peer", choices=("mosaic", "litdata", "webdataset"))
    parser.add_argument("where")
    parser.add_argument("cache", type=Path)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    order = Order(Path(), batch_size=options.batch_size, threads=options.threads)
    made = {"mosaic": mosaic, "litdata": litdata, "webdataset": webdataset}[options.peer]
    began = time.perf_counter()
    first = images = head = 0.0
    for pixels, _ in made(order, options.where, options.cache):
        images += len(pixels)
        if not first:
            first, head = time.perf_counter() - began, images
    took = time.perf_counter() - began
    found = {"images": images, "first": first, "seconds": took}
    found["rate"] = (images - head) / (took - first)
    print(json.dumps(found), file=answer, flush=True)
    answer.close()
    sys.stderr.flush()
    os._exit(0)  # some loaders' threads do not end on their own


if __name__ == "__main__":
    main()
