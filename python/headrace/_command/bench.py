"""``headrace bench``: how fast a dataset loads here, and what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from headrace._engine import arguments
from headrace.dataset import Dataset
from headrace.loader import Loader

# Where the time goes. All but the last are times of all decode threads together; the last is the
# training loop's.
_STAGES = (
    "reading_s",
    "decoding_s",
    "waiting_for_bytes_s",
    "waiting_for_consumer_s",
    "consumer_waiting_s",
)
# What a store was asked for during the measurement.
_FETCHED = ("remote_requests", "remote_bytes", "remote_retries", "remote_hedges")
_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def measure(
    source: Any,
    batch_size: int,
    size: int,
    seconds: float,
    threads: int | None,
    show: Callable[[int, int, int, int], None],
    **how: Any,
) -> dict[str, Any]:
    """Loads for ``seconds``, epoch after epoch, and returns rates and the engine's own figures.

    The first batch is not counted: it pays for opening files and for the first touch of memory.

    Args:
        how: further words about the source, as ``Dataset`` takes them.

    Raises:
        ArgumentError: an argument is impossible; the sentence names it.
    """
    batch_size = arguments.integer("batch_size", batch_size, 1)
    size = arguments.integer("size", size, 1)
    seconds = arguments.seconds("seconds", seconds)
    if threads is not None:
        threads = arguments.integer("threads", threads, 1)
    with Dataset(source, **how) as dataset:
        loader = Loader(
            dataset,
            min(batch_size, len(dataset)),
            shuffle=True,
            drop_last=True,
            transform=[
                {"name": "RandomResizedCrop", "size": size},
                {"name": "RandomHorizontalFlip"},
                {"name": "Normalize", "mean": _MEAN, "std": _STD},
            ],
            output="numpy",
            num_threads=threads,
            timeout=how.get("timeout"),
        )
        with loader:
            opened = time.perf_counter()
            next(iter(loader))
            begun = time.perf_counter()
            before = loader.stats()
            images = 0
            took = 0.0
            while took < seconds:
                for batch, _ in loader:
                    images += len(batch)
                    show(images, -1, 0, 0)
                    took = time.perf_counter() - begun
                    if took >= seconds:
                        break
            after = loader.stats()
        fetched = dataset.away
    spent = {name: round(after[name] - before[name], 3) for name in _STAGES}
    return {
        "images_per_second": round(images / took, 1),
        "megabytes_per_second": round((after["bytes_read"] - before["bytes_read"]) / took / 1e6, 1),
        "images": images,
        "seconds": round(took, 3),
        "threads": after["threads"],
        "first_batch_s": round(begun - opened, 4),
        **spent,
        **{name: round(after[name], 6) for name in ("stall_p50_s", "stall_p99_s", "stall_max_s")},
        **({name: after[name] - before[name] for name in _FETCHED} if fetched else {}),
    }
