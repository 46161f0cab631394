"""How the batches of a ``DataLoader`` are made: whole by the engine, or in Python threads.

Both take batches as lists of rows, in the order in which they are to come, and give them back in
that order. A row that comes for the n-th time in an epoch is drawn with draw number n, so that its
augmentation is another one.
"""

from __future__ import annotations

import array
import collections
import concurrent.futures.thread  # now: its end of the interpreter has to come behind ours
import ctypes
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from headrace import _lib, lending, ranks, views
from headrace.errors import HeadraceError, WaitTimeoutError
from headrace.samples import Samples
from headrace.translate import Translation

# Set when the interpreter begins to end. It joins the threads of executors before it calls atexit's
# functions, and they would first make all samples that are still asked for. The way to be told
# earlier has no public name; without it the end only comes later.
_ending = threading.Event()
getattr(threading, "_register_atexit", lambda _: None)(_ending.set)


class Recipe(NamedTuple):
    """What is made of which samples: one engine serves as long as it stays the same."""

    samples: Samples
    translation: Translation
    num_threads: int  # 0: automatic
    prefetch: int
    seed: int
    mode: str
    on_error: str
    pin_memory: bool

    def config(self) -> dict[str, Any]:
        """The part of a configuration that loaders and single images have in common."""
        made = self.translation
        steps = [step if isinstance(step, dict) else step.to_dict() for step in made]
        return {"transform": steps, "dtype": made.dtype, "scale": made.scale, "mode": self.mode}

    def same_as(self, other: Recipe) -> bool:
        return self.samples is other.samples and self._numbers() == other._numbers()

    def _numbers(self) -> tuple[Any, ...]:
        return (self.config(), self[2:])


class TimedOut(WaitTimeoutError, RuntimeError):
    """No batch came within ``timeout``: a ``RuntimeError``, as torch's loader raises."""


class Engine:
    """A native loader of submitted batches, kept by its ``DataLoader`` from epoch to epoch."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._handle: _lib.Handle | None = None
        self._epoch = self._received = 0
        # What was submitted and has not come yet: it has to be submitted again behind an error.
        self._waiting: collections.deque[tuple[list[int], list[int]]] = collections.deque()
        self._batch, self._error = _lib.Batch(), _lib.Error()
        dtype = recipe.translation.dtype
        self._lender = lending.lender("torch") if recipe.pin_memory else None
        self._view = views.viewer("torch", dtype, False, False, self._lender)

    def begin(self, epoch: int) -> None:
        """Drops what was submitted; what comes next is drawn for this epoch."""
        if self._batch.batch:
            _lib.release(self._batch.batch)
            self._batch.batch = 0
        self._waiting.clear()
        self._epoch, self._received = epoch, 0
        self._seek()

    def _seek(self) -> None:
        if self._handle is not None:
            _lib.call("hr_seek", self._handle.value, self._epoch, self._received)

    def submit(self, rows: list[int], draws: list[int]) -> None:
        if self._handle is None:
            self._open(len(rows))
        self._waiting.append((rows, draws))
        self._send(rows, draws)

    def _send(self, rows: list[int], draws: list[int]) -> None:
        assert self._handle is not None
        _lib.submit(self._handle.value, array.array("q", rows), array.array("Q", draws))

    def _open(self, batch_size: int) -> None:
        recipe = self.recipe
        config = recipe.config() | {
            "order": "submitted",
            "batch_size": max(batch_size, 1),
            "num_threads": recipe.num_threads,
            "prefetch": recipe.prefetch,
            "seed": recipe.seed,
            "on_error": recipe.on_error,
            "rank": 0,
            "world_size": 1,
            "epoch": self._epoch,
        }
        self._handle = _lib.opened("hr_loader_open", config, recipe.samples.dataset.handle)
        if self._lender is not None:
            info = _lib.info("hr_loader_info", self._handle.value)
            self._lender.serve(self._handle, int(info["slot_bytes"]), recipe.prefetch)

    def receive(self, timeout: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The images and labels of the next batch.

        Raises:
            TimedOut: it did not come within `timeout` seconds; 0 waits as long as it takes.
            HeadraceError: one of its images is bad.
        """
        assert self._handle is not None
        receive, batch, error = _lib.library().hr_next, self._batch, self._error
        out = ctypes.byref(batch), ctypes.byref(error)
        deadline = time.monotonic() + timeout if timeout else math.inf
        # A batch is still here where Ctrl-C came between its arrival and its delivery.
        while not batch.batch:
            left_ms = max(0.0, deadline - time.monotonic()) * 1000
            wait_ms = math.ceil(min(left_ms, _lib.SLICE_MS))
            code = receive(self._handle.value, wait_ms, *out)
            if code == _lib.TIMEOUT and not wait_ms:
                raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
            if code and code != _lib.TIMEOUT:
                self._pass()
                raise error.exception()
        images, labels = self._view(batch)
        self._waiting.popleft()
        self._received += 1
        return images, labels

    def _pass(self) -> None:
        """Goes on behind a batch that failed, where the engine would stand still."""
        self._waiting.popleft()
        self._received += 1
        self._seek()
        for rows, draws in self._waiting:
            self._send(rows, draws)

    def samples(self, images: torch.Tensor, labels: torch.Tensor) -> list[Any]:
        """A batch as the (image, label) pairs that torchvision's dataset would have returned."""
        singly = map(_wrapper(self.recipe.translation), images)
        return list(zip(singly, labels.tolist(), strict=True))

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()


class Pool:
    """Threads that make sample by sample: the known transforms natively, the rest in Python."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self._epoch = 0
        self._waiting: collections.deque[list[concurrent.futures.Future[Any]]] = collections.deque()
        self._threads = concurrent.futures.ThreadPoolExecutor(
            recipe.num_threads or ranks.allowed_threads(), thread_name_prefix="DataLoader"
        )
        self._stop = threading.Event()
        self.close = weakref.finalize(self, _stop, self._threads, self._stop)

    def begin(self, epoch: int) -> None:
        """As ``Engine.begin``."""
        for future in (future for batch in self._waiting for future in batch):
            future.cancel()
        self._waiting.clear()
        self._epoch = epoch

    def submit(self, rows: list[int], draws: list[int]) -> None:
        work, recipe, stop = _Work(self.recipe), self.recipe, self._stop
        key = {"seed": recipe.seed, "epoch": self._epoch}
        self._waiting.append(
            [
                self._threads.submit(work.sample, row, key | {"sample": row, "draw": draw}, stop)
                for row, draw in zip(rows, draws, strict=True)
            ]
        )

    def receive(self, timeout: float) -> list[Any]:
        """The (image, label) pairs of the next batch, as ``Engine.receive``."""
        deadline = time.monotonic() + timeout if timeout else None
        for future in self._waiting[0]:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not concurrent.futures.wait([future], left).done:
                raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
        return [future.result() for future in self._waiting.popleft()]


def _wrapper(made: Translation) -> Callable[[torch.Tensor], torch.Tensor]:
    """What makes a tensor the subclass of it that torchvision would have handed on."""
    if made.gives != "tv_tensors.Image":
        return lambda image: image
    # Loaded, for v2 has been; imported from here, torchvision would be a dependency.
    kind: Callable[[torch.Tensor], torch.Tensor] = sys.modules["torchvision.tv_tensors"].Image
    return kind


def _stop(threads: concurrent.futures.ThreadPoolExecutor, stop: threading.Event) -> None:
    stop.set()
    threads.shutdown(wait=False, cancel_futures=True)


class _Work:
    """What one sample takes; knows nothing of the pool, which therefore can be collected."""

    def __init__(self, recipe: Recipe) -> None:
        self._samples = recipe.samples
        self._translation = recipe.translation
        self._config = recipe.config()
        limits = recipe.samples.dataset._config.get("limits")
        if limits:
            self._config["limits"] = limits

    def sample(self, row: int, key: dict[str, int], stop: threading.Event) -> Any:
        if stop.is_set() or _ending.is_set():
            return None
        dataset, labels, made = self._samples.dataset, self._samples.labels, self._translation
        if labels is None and not made and not made.rest:
            return dataset[row]  # without a transform, a headrace.Dataset's own sample
        image = self._image(row, key)
        for op in made.rest:
            image = op(image)
        return image, int(dataset.facts(row)["label"]) if labels is None else labels[row]

    def _image(self, row: int, key: dict[str, int]) -> Any:
        dataset, made = self._samples.dataset, self._translation
        data = dataset.read(row)
        try:
            if made.gives != "PIL image":
                image = _decoded(data, self._config | key | {"layout": "NCHW"})
            else:
                image = _decoded(data, self._config | key)
        except HeadraceError as failure:
            if failure.file is None:  # the decoder saw bytes only
                failure.file, failure.record = dataset.facts(row)["path"], row
                failure.reason = f"{failure.file}: record {row}: {failure.reason}"
            raise
        if made.gives == "PIL image":
            from PIL import Image

            return Image.fromarray(image.numpy())
        return _wrapper(made)(image)


def _decoded(data: bytearray, config: dict[str, Any]) -> torch.Tensor:
    """One image, decoded and transformed: HWC, or CHW with the layout NCHW."""

    def room(found: _lib.Image) -> tuple[torch.Tensor, int]:
        shape = (found.height, found.width, 3)
        if config.get("layout") == "NCHW":
            shape = (3, found.height, found.width)
        image = torch.empty(shape, dtype=getattr(torch, config["dtype"]))
        return image, image.data_ptr()

    return _lib.decode((ctypes.c_char * len(data)).from_buffer(data), len(data), config, room)
