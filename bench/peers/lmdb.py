"""LMDB has no loader of its own: only its file is made, with nothing but the images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.protocol import Order, Refused, encoded_images, serve

MAP_BYTES = 1 << 40


def prepare(folder: Path, place: Path, _variant: str) -> None:
    import lmdb

    with lmdb.open(str(place), map_size=MAP_BYTES) as env, env.begin(write=True) as out:
        for number, (data, _) in enumerate(encoded_images(folder)):
            out.put(f"{number:08}".encode(), data)


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    raise Refused("it has no loader")


if __name__ == "__main__":
    serve(stream, ("lmdb",), prepare)
