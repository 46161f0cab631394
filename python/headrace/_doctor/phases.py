"""The phases of a training that is measured: real batches, one batch again, the loader alone."""

from __future__ import annotations

import copy
import dataclasses
import sys
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from headrace._doctor import copying, gpus, machine
from headrace.errors import ArgumentError

_WARM_UP = 2
_CHANNELS = (1, 3, 4)


def samples(batch: Any) -> int:
    """Counts the samples of a batch by the first of its parts that has any."""
    shape = _shape(batch)
    if shape:
        return 1 if _is_image(batch) else int(shape[0])
    parts = _parts(batch)
    if parts and all(map(_is_image, parts)) and len({_shape(part)[0] for part in parts}) == 1:
        return len(parts)  # images of different sizes, as in detection
    for part in parts:
        if _is_image(part, either_way=True):  # single samples, without batching
            length = _shape(part)[0]
            others = (other for other in parts if other is not part)
            return int(length) if any(_length(other) == length for other in others) else 1
        if found := samples(part):
            return found
    return 0


def _parts(batch: Any) -> list[Any]:
    """Returns the parts of a batch that is not itself an array."""
    if isinstance(batch, Mapping):
        return list(batch.values())
    if isinstance(batch, tuple | list):
        return list(batch)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        return [getattr(batch, part.name) for part in dataclasses.fields(batch)]
    return []


def fresh(batch: Any) -> Any:
    """Returns a batch of the same tensors in new dicts and lists.

    A step may take its batch apart, as by ``batch.pop("labels")``, and gets it again.
    """
    if isinstance(batch, MutableMapping) and not _shape(batch):
        made = copy.copy(batch)
        for name, part in batch.items():
            made[name] = fresh(part)
        return made
    if type(batch) is list:
        return [fresh(part) for part in batch]
    if type(batch) is tuple:
        return tuple(map(fresh, batch))
    return batch


def _shape(part: Any) -> Sequence[int]:
    return getattr(part, "shape", None) or ()


def _length(part: Any) -> int | None:
    shape = _shape(part)
    if shape:
        return int(shape[0])
    return len(part) if isinstance(part, tuple | list) else None


def _is_image(part: Any, either_way: bool = False) -> bool:
    """Whether a part has the shape of one image: channels first or, with ``either_way``, last."""
    shape = _shape(part)
    if len(shape) != 3:
        return False
    return shape[0] in _CHANNELS or (either_way and shape[-1] in _CHANNELS)


class Batches:
    """The batches of a loader, epoch after epoch."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._epoch: Iterator[Any] = iter(loader)
        self._taken = 0

    def take(self) -> Any:
        for _ in range(2):
            try:
                batch = next(self._epoch)
            except StopIteration:
                self._epoch = iter(self._loader)
                continue
            self._taken += 1
            return batch
        if not self._taken:
            raise ArgumentError("the loader yields no batch")
        raise ArgumentError(
            f"the loader ended after {self._taken:,} batches and does not begin again (expected a "
            "loader, and not its iterator)"
        )


def _settled() -> None:
    """Waits for the work that the step has started on a GPU."""
    cuda = _cuda()
    if cuda is not None:
        cuda.synchronize()


class Phase:
    """Samples, seconds and the engine's own figures between ``begin`` and ``end``."""

    def __init__(self, loader: Any, cpu: Callable[[], float] = time.process_time) -> None:
        """``cpu`` returns seconds of CPU time of what the phase measures."""
        self._loader, self._before, self._cpu = loader, stats(loader), cpu
        self.samples, self.waited, self.worked = 0, 0.0, 0.0
        self.spent: dict[str, float] = {}
        self._began, self._used = time.perf_counter(), cpu()
        self.took = self.cpu_s = 0.0

    def end(self) -> None:
        self.took = time.perf_counter() - self._began
        self.cpu_s = (self._cpu() - self._used) / max(self.samples, 1)  # seconds for an image
        after = stats(self._loader)
        for name, value in after.items():
            if isinstance(value, int | float) and name in self._before:
                self.spent[name] = max(value - self._before[name], 0.0)
        self.spent["threads"] = after.get("threads", 0)

    @property
    def rate(self) -> float:
        """Images a second, without the time for looking at each batch of a training."""
        return self.samples / max(self.waited + self.worked or self.took, 1e-9)

    @property
    def working(self) -> float:
        """Images a second of the step's own time, without its waits."""
        return self.samples / max(self.worked, 1e-9)


def stats(loader: Any) -> dict[str, Any]:
    """Returns what the engine measured of its batches; empty if the loader does not say."""
    ask = getattr(loader, "stats", None)
    if callable(ask):
        found = ask()
        if isinstance(found, dict) and found.get("threads"):  # none: Python does all
            return found
    return {}


def _real(
    loader: Any, batches: Batches, step: Callable[[Any], Any], seconds: float
) -> tuple[Phase, Any, int]:
    """Runs the training; also returns its largest batch, and how many batches the step has kept."""
    phase, end = Phase(loader), time.perf_counter() + seconds
    seen: dict[int, weakref.ref[Any]] = {}
    again = False  # a batch that comes twice is kept by the loader
    largest: Any = None
    while True:
        began = time.perf_counter()
        batch = batches.take()
        phase.waited += time.perf_counter() - began
        # All this comes before the step, which may take its batch apart.
        many = samples(batch)
        phase.samples += many
        if largest is None or many > samples(largest):
            largest = fresh(batch)
        with suppress(TypeError):  # some types allow no weak reference
            first = _first(batch)
            again |= id(first) in seen and seen[id(first)]() is first
            seen[id(first)] = weakref.ref(first)
            del first
        begun = time.perf_counter()
        step(batch)
        _settled()
        worked = time.perf_counter()
        phase.worked += worked - begun
        if worked >= end:
            break
    phase.end()
    del batch
    return phase, largest, 0 if again else sum(one() is not None for one in seen.values())


def _first(batch: Any) -> Any:
    while parts := _parts(batch):
        batch = parts[0]
    return batch


def _repeated(loader: Any, batch: Any, step: Callable[[Any], Any], seconds: float) -> Phase:
    """Runs the step alone, with its data already there."""
    phase, end, many = Phase(loader), time.perf_counter() + seconds, samples(batch)
    while True:
        again = fresh(batch)
        begun = time.perf_counter()
        step(again)
        _settled()
        worked = time.perf_counter()
        phase.worked += worked - begun
        phase.samples += many
        if worked >= end:
            break
    phase.end()
    return phase


def alone(loader: Any, batches: Batches, seconds: float) -> Phase:
    """Runs the loader alone; nothing looks at its batches."""
    for _ in range(_WARM_UP):  # skips batches that were made while the step ran alone
        batches.take()
    # The loader may have worker processes, whose CPU time counts; the step has none.
    phase, end = Phase(loader, machine.cpu_seconds), time.perf_counter() + seconds
    while True:
        phase.samples += samples(batches.take())
        if time.perf_counter() >= end:
            break
    phase.end()
    return phase


class Seen(NamedTuple):
    real: Phase  # the training
    repeated: Phase  # the step alone
    alone: Phase  # the loader alone
    kept: int  # batches that the training holds
    batch_bytes: int
    facts: dict[str, Any]  # facts of the machine
    gpus: list[dict[str, Any]]  # as they were during the training
    copy: tuple[float | None, str]  # images a second to a GPU, or why that was not measured


def measured(loader: Any, step: Callable[[Any], Any], seconds: float) -> Seen:
    """Runs the training, the step alone and the loader alone, one after the other."""
    batches = Batches(loader)
    for _ in range(_WARM_UP):
        first = batches.take()
        if not samples(first):  # refused before anything is trained with it
            raise ArgumentError(
                f"loader yields batches of type {type(first).__name__} in which no part has "
                "samples (expected tensors or arrays, or a tuple, list, mapping or dataclass of "
                "them)"
            )
        step(first)
    del first
    _settled()
    watch, turns = gpus.Watch(), machine.Turns()
    try:
        real, batch, kept = _real(loader, batches, step, seconds * 0.45)
    finally:
        seen, share = watch.end(), turns.end()
    repeated = _repeated(loader, batch, step, seconds * 0.2)
    copy = _copy(batch, seconds * 0.05)
    others = machine.Others()
    loaded = alone(loader, batches, seconds * 0.25)
    facts = machine.look() | others.end() | {"core_share": share}
    return Seen(real, repeated, loaded, kept, _bytes(batch), facts, _used(seen), copy)


def _used(seen: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The GPUs that this process may use; all, if PyTorch does not say which they are."""
    cuda = _cuda()
    if cuda is None:
        return seen
    # Early versions of PyTorch 2 do not say which GPU a device is.
    properties = [cuda.get_device_properties(n) for n in range(cuda.device_count())]
    mine = {f"GPU-{getattr(of, 'uuid', None)}" for of in properties}
    return [one for one in seen if one["uuid"] in mine] or seen


def _cuda() -> Any:
    """PyTorch's CUDA, where the program uses it."""
    torch = sys.modules.get("torch")
    used = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return torch.cuda if used and torch is not None else None


def _copy(batch: Any, seconds: float) -> tuple[float | None, str]:
    """Measures how fast a loader's batches get to the GPU that the step works on."""
    if _cuda() is None:
        return None, "the copy to a GPU was not measured: the step uses none through PyTorch"
    if getattr(_first(batch), "is_cuda", False):
        return None, "the copy to the GPU is the loader's own, and hidden behind kernels"
    return copying.rate(_bytes(batch) // max(samples(batch), 1), samples(batch), seconds)


def _bytes(batch: Any) -> int:
    """Bytes of a batch's tensors and arrays."""
    if parts := _parts(batch):
        return sum(map(_bytes, parts))
    return int(getattr(batch, "nbytes", 0))
