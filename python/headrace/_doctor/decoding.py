"""How fast batches are decoded and handed out: by one thread, by all, and once they are ready."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Sequence
from typing import Any

from headrace import samplers
from headrace._doctor import bounded, machine
from headrace.dataset import Dataset
from headrace.errors import WaitTimeoutError
from headrace.loader import Loader

# The longest time of a worker's read from the page cache. Slower reads are left to readers
# (internal/pipeline/pace.go), whose time does not count as the decoders'.
_SLOW_READ = 150e-6
_ROUNDS, _READY = 12, 16
# At the beginning and end of an epoch its threads wait some tenths of a millisecond. So an epoch
# has at least this many samples; with few copies, it has each of them several times.
_EPOCH = 512
_MOST_WEIGHTS = 1 << 18  # samples of a dataset in which each has a weight
_SPENT = (
    "decoding_s",
    "reading_s",
    "waiting_for_bytes_s",
    "images_decoded",
    "blocks_decoded",
    "replaced",
)
# From these shares of the threads' time on, they were held up by storage, or by what takes batches.
LACKING, IDLE = 0.1, 0.4


def measure(
    dataset: Dataset,
    chosen: list[int],
    batch_size: int,
    transform: Sequence[Any],
    seconds: float,
    clock: bounded.Clock,
    threads: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Loads the chosen samples again and again; returns what the loader gave and could decode.

    Args:
        seconds: how long to measure.
        clock: when to end even if no batch has come; what was decoded by then counts.

    Returns:
        ``images_per_second`` that came; ``decoding`` (images a second that its threads decode while
        they have bytes, None if they decoded none), measured with so many that were ``decoded`` in
        those ``seconds``; ``threads``; ``waiting_for_bytes`` and ``idle``, the shares of the
        threads' time without bytes and with nothing to do; ``cpu_s`` of an image, which is that of
        the whole process and does not depend on other programs; ``core_share``, the share of the
        time with work in which the threads had a core, None if the kernel does not say; ``side``,
        the shorter side of the output in pixels, and ``batch_bytes`` of one image of a batch, None
        if no batch came; ``replaced``, the share of samples that others stood for; and ``cached``,
        whether records of a store are kept on a disk.
    """
    with _loader(dataset, chosen, batch_size, transform, threads, None, options) as loader:
        batches = bounded.batches(loader, clock)
        begun = loader.stats(), time.perf_counter(), time.process_time(), machine.Turns()
        first = batch = next(batches, None)
        # Opening files and touching memory for the first time are not counted.
        warm = loader.stats(), time.perf_counter(), time.process_time(), machine.Turns()
        images = 0
        for batch in batches:
            images += len(batch[0])
            if time.perf_counter() - warm[1] >= seconds or not clock.left:
                break
        if not images:  # at most the first batch came in time
            images, warm = 0 if first is None else len(first[0]), begun
        before, began, used, turns = warm
        took = time.perf_counter() - began
        after, used, share = loader.stats(), time.process_time() - used, turns.end()
    spent = {name: after[name] - before[name] for name in _SPENT}
    decoded = spent["images_decoded"]
    each = max(decoded, 1)
    whole = after["threads"] * took
    reading, bytes_ = spent["reading_s"], spent["waiting_for_bytes_s"]
    # Compressed blocks are decoded while they are being read.
    blocks = spent["blocks_decoded"] > 0
    if reading / each < _SLOW_READ or (blocks and not after["reading_ahead"]):
        busy = spent["decoding_s"] + reading
    else:
        busy, bytes_ = spent["decoding_s"], bytes_ or reading
    could = after["threads"] * decoded / busy if decoded and busy else None
    came = (images or decoded) / took
    # If no batch came, the threads are still busy with images whose time is not reported yet.
    idle = max(1 - (busy + bytes_) / whole, 0.0) if images else 0.0
    lacking = min(bytes_ / whole, 1.0)
    if decoded and lacking < LACKING and idle < IDLE:
        could = came  # this includes the time between images and at the ends of batches
    return {
        "images_per_second": came,
        "decoding": could,
        "decoded": decoded,
        "seconds": took,
        "threads": after["threads"],
        "waiting_for_bytes": lacking,
        "idle": idle,
        "cpu_s": used / each,
        "core_share": share,
        "side": None if batch is None else min(batch[0].shape[-2:]),
        "batch_bytes": None if batch is None else batch[0].nbytes // len(batch[0]),
        "replaced": spent["replaced"] / max(images, 1),
        "cached": after["cache_bytes"] > 0,
    }


def handing_out(
    dataset: Dataset,
    chosen: list[int],
    batch_size: int,
    transform: Sequence[Any],
    clock: bounded.Clock,
    **options: Any,
) -> tuple[float | None, int]:
    """Returns the images a second that ``next`` gives while batches are ready, None if none ever
    was, and how many batches were ready.

    A batch costs the same however many samples it has, so small batches are used: they are ready
    sooner.
    """
    small = min(batch_size, _READY)
    found: list[float] = []
    with _loader(dataset, chosen, small, transform, None, 4, options) as loader:
        while len(found) < _ROUNDS and clock.left:
            loader.timeout = clock.left + 1e-3
            epoch = iter(loader)
            with contextlib.suppress(WaitTimeoutError):
                next(epoch, None)
            while loader.stats()["batches_ready"] < 1 and clock.left:
                time.sleep(0.002)
            if loader.stats()["batches_ready"] < 1:
                break
            began = time.perf_counter()
            batch = next(epoch, None)
            took = time.perf_counter() - began
            if batch is not None:
                found.append(batch_size / took)
    return (statistics.median(found) if found else None), len(found)


def refuse_without_room(dataset: Dataset, batch_size: int, transform: Sequence[Any]) -> None:
    """Raises the loader's own error if it has no memory for such batches; fewer are measured."""
    Loader(dataset, batch_size, transform=list(transform), output="numpy").close()


def _loader(
    dataset: Dataset,
    chosen: list[int],
    batch_size: int,
    transform: Sequence[Any],
    threads: int | None,
    prefetch: int | None,
    options: dict[str, Any],
) -> Loader:
    return Loader(
        dataset,
        min(batch_size, len(chosen)),
        shuffle=True,
        transform=list(transform),
        sampler=_sampler(dataset, chosen),
        num_threads=threads,
        prefetch=prefetch,
        **{"output": "numpy", "on_error": "replace", **options},
    )


def _sampler(dataset: Dataset, chosen: list[int]) -> samplers.Subset | samplers.Weighted | None:
    """Draws from the chosen samples; few samples are repeated to make an epoch longer."""
    if len(chosen) < _EPOCH and len(dataset) <= _MOST_WEIGHTS:
        weights = [0.0] * len(dataset)
        for index in chosen:
            weights[index] = 1.0
        return samplers.Weighted(weights, length=-(-_EPOCH // len(chosen)) * len(chosen))
    return None if len(chosen) == len(dataset) else samplers.Subset(chosen)
