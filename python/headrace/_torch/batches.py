"""How the batches of a ``DataLoader`` are made: whole by the engine, or in Python threads.

Both are told the rows of batches by their numbers, and make the batch of a number, again where it
was made before. A row that comes for the n-th time in an epoch is drawn with draw number n, so that
its augmentation is another one.
"""

from __future__ import annotations

import concurrent.futures.thread  # now: its end of the interpreter has to come behind ours
import ctypes
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from headrace._batch import lending, views
from headrace._engine import _lib, scarce
from headrace._epoch import ranks
from headrace._epoch.arrivals import Chosen, Submitted, forget
from headrace._torch.samples import Samples
from headrace._translate.translation import Translation
from headrace.errors import HeadraceError, WaitTimeoutError

# Set when the interpreter begins to end. It joins the threads of executors before it calls atexit's
# functions, and they would first make all samples that are still asked for. The way to be told
# earlier has no public name; without it the end only comes later.
_ending = threading.Event()
getattr(threading, "_register_atexit", lambda _: None)(_ending.set)


class Recipe(NamedTuple):
    """Which samples are read and how they are transformed; an engine is kept while both stay."""

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
        self._epoch = 0
        self._chosen: dict[int, Chosen] = {}
        self._arrivals: Submitted | None = None
        dtype = recipe.translation.dtype
        self._lender = lending.lender("torch") if recipe.pin_memory else None
        self._view = views.viewer("torch", dtype, False, False, self._lender)

    def begin(self, epoch: int, chosen: dict[int, Chosen]) -> None:
        """Drops what was submitted; what comes next is what is chosen, drawn for this epoch.

        Args:
            chosen: the batches by their numbers from 0 on, added by who chooses them.
        """
        if self._arrivals is not None:
            self._arrivals.drop()
        self._epoch, self._chosen, self._arrivals = epoch, chosen, None
        if self._handle is not None:
            _lib.call("hr_seek", self._handle.value, epoch, 0)

    def submit(self, handed_out: int) -> None:
        """Has the engine begin with what was chosen since the last time."""
        if self._arrivals is not None:
            self._arrivals.submit()
        elif self._chosen:
            self._opened(handed_out).approach(handed_out)

    def make(self, number: int, timeout: float) -> tuple[torch.Tensor, torch.Tensor]:
        """The images and labels of the batch of a number.

        Raises:
            TimedOut: it did not come within `timeout` seconds; 0 waits as long as it takes.
            HeadraceError: one of its images is bad.
        """
        arrivals = self._arrivals or self._opened(number)
        batch = arrivals.wait(number, timeout or None)
        if batch is None:
            raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
        images, labels = self._view(batch)
        return images, labels

    def _opened(self, first: int) -> Submitted:
        recipe = self.recipe
        if self._handle is None:
            config = recipe.config() | {
                "order": "submitted",
                "batch_size": max(len(self._chosen[first].indices), 1),
                "num_threads": recipe.num_threads,
                "prefetch": recipe.prefetch,
                "seed": recipe.seed,
                "on_error": recipe.on_error,
                "rank": 0,
                "world_size": 1,
                "epoch": self._epoch,
            }
            handle = _lib.opened("hr_loader_open", config, recipe.samples.dataset.handle)
            if self._lender is not None:
                info = _lib.info("hr_loader_info", handle.value)
                self._lender.serve(handle, int(info["slot_bytes"]), recipe.prefetch)
            self._handle = handle
        arrivals = Submitted(self._handle.value, self._epoch)
        arrivals.chosen = self._chosen
        self._arrivals = arrivals
        return arrivals

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
        self._chosen: dict[int, Chosen] = {}
        self._futures: dict[int, list[concurrent.futures.Future[Any]]] = {}
        self._threads = _started(recipe.num_threads or ranks.allowed_threads())
        self._stop = threading.Event()
        self.close = weakref.finalize(self, _stop, self._threads, self._stop)

    def begin(self, epoch: int, chosen: dict[int, Chosen]) -> None:
        """As ``Engine.begin``."""
        for future in (future for batch in self._futures.values() for future in batch):
            future.cancel()
        self._futures.clear()
        self._epoch, self._chosen = epoch, chosen

    def submit(self, handed_out: int) -> None:
        """As ``Engine.submit``."""
        forget(self._futures, handed_out)
        for number, batch in self._chosen.items():
            if number not in self._futures:
                self._futures[number] = self._begun(batch)

    def _begun(self, batch: Chosen) -> list[concurrent.futures.Future[Any]]:
        work, recipe, stop = _Work(self.recipe), self.recipe, self._stop
        key = {"seed": recipe.seed, "epoch": self._epoch}
        return [
            self._threads.submit(work.sample, row, key | {"sample": row, "draw": draw}, stop)
            for row, draw in zip(batch.indices, batch.draws, strict=True)
        ]

    def make(self, number: int, timeout: float) -> list[Any]:
        """The (image, label) pairs of the batch of a number, as ``Engine.make``."""
        if number not in self._futures:
            self._futures[number] = self._begun(self._chosen[number])
        deadline = time.monotonic() + timeout if timeout else None
        futures = self._futures[number]
        for future in futures:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not concurrent.futures.wait([future], left).done:
                raise TimedOut(f"DataLoader timed out after {timeout:g} seconds")
        try:
            return [future.result() for future in futures]
        except Exception:
            del self._futures[number]  # a lack of memory, say, is tried once more
            futures.clear()  # which hold the exception, and its traceback would hold them
            raise


def _wrapper(made: Translation) -> Callable[[torch.Tensor], torch.Tensor]:
    """What makes a tensor the subclass of it that torchvision would have handed on."""
    if made.gives != "tv_tensors.Image":
        return lambda image: image
    # Loaded, for v2 has been; imported from here, torchvision would be a dependency.
    kind: Callable[[torch.Tensor], torch.Tensor] = sys.modules["torchvision.tv_tensors"].Image
    return kind


def _started(wanted: int) -> concurrent.futures.ThreadPoolExecutor:
    """So many threads, or as many as the system allows, with a warning.

    Raises:
        LimitError, MemoryShortError: it allows none.
    """
    count, failure = wanted, ""
    while count > 0:
        threads = concurrent.futures.ThreadPoolExecutor(count, thread_name_prefix="DataLoader")
        begin, started = threading.Event(), 0
        try:
            while started < count:  # a task that finds no idle thread begins one
                threads.submit(begin.wait)
                started += 1
        except RuntimeError as error:
            failure = str(error)
        finally:
            begin.set()
        if started == count:
            if count < wanted:
                scarce.warn_of(f"{count} threads work where {wanted} were to: {failure}".encode())
            return threads
        threads.shutdown()
        count = started
    raise scarce.no_thread(wanted, failure)


def _stop(threads: concurrent.futures.ThreadPoolExecutor, stop: threading.Event) -> None:
    stop.set()
    threads.shutdown(wait=False, cancel_futures=True)


class _Work:
    """The Python work on one sample, without a reference to the pool, which can be collected."""

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
