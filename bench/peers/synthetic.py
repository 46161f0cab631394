"""One batch on the device, repeated: what a training reaches that waits for no loader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from peers.protocol import CLASSES, Order, serve


def stream(order: Order) -> Iterator[tuple[Any, Any]]:
    import torch

    shape = (order.batch_size, 3, order.size, order.size)
    images = torch.randn(shape, device=order.device, dtype=torch.float16)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (order.batch_size,), device=order.device)
    while True:
        yield images, labels


if __name__ == "__main__":
    serve(stream, ("torch",))
