"""A training's own step, with real batches, with one batch again and again, and the loader alone.

What the second is faster than the first, data costs; the third says what the loader could give.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from headrace._doctor import machine, rerun, sentences, verdict
from headrace._doctor.report import Diagnosis
from headrace.errors import ArgumentError, HeadraceError

# A training that waits for less of its time than this is not held up by its data.
_LEAST_WAIT = 0.05
# Reads of an image that take longer are storage, and not the page cache.
_SLOW_READ = 150e-6
# A loop keeps the batch in use and the one before it; more of them are held for good.
_HELD = 4
_WARM_UP = 2


def samples(batch: Any) -> int:
    """Samples of a batch: of its first part that has any."""
    shape = getattr(batch, "shape", None)
    if shape is not None and len(shape):
        return int(shape[0])
    parts = batch.values() if isinstance(batch, dict) else batch
    if isinstance(batch, tuple | list) and batch and all(map(_is_image, batch)):
        return len(batch)  # of sizes of their own, as detection has them
    if isinstance(batch, tuple | list | dict):
        for part in parts:
            if found := samples(part):
                return found
    return 0


def _is_image(part: Any) -> bool:
    shape: Sequence[int] = getattr(part, "shape", ())
    return len(shape) == 3 and shape[0] in (1, 3, 4)


class _Batches:
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
    """Waits for what the step has started on a GPU."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        torch.cuda.synchronize()


class _Phase:
    """Samples, seconds and the engine's own figures between ``begin`` and ``end``."""

    def __init__(self, loader: Any) -> None:
        self._loader, self._before = loader, _stats(loader)
        self.samples, self.waited, self.worked = 0, 0.0, 0.0
        self.spent: dict[str, float] = {}
        self._began, self._used = time.perf_counter(), time.process_time()
        self.took = self.cpu_s = 0.0

    def end(self) -> None:
        self.took = time.perf_counter() - self._began
        self.cpu_s = (time.process_time() - self._used) / max(self.samples, 1)  # an image
        after = _stats(self._loader)
        for name, value in after.items():
            if isinstance(value, int | float) and name in self._before:
                self.spent[name] = max(value - self._before[name], 0.0)
        self.spent["threads"] = after.get("threads", 0)

    @property
    def rate(self) -> float:
        return self.samples / max(self.took, 1e-9)


class _Bound(NamedTuple):
    """Cores that step and loader share, and the seconds of them that each takes for an image.

    A loader and a step that are measured apart have had all cores, each of them.
    """

    cores: float
    step_s: float
    loader_s: float

    def of(self, rate: float, loader_s: float | None = None) -> float:
        """A rate, or what the cores allow of it."""
        each = self.step_s + (self.loader_s if loader_s is None else loader_s)
        return min(rate, self.cores / max(each, 1e-9))


def _stats(loader: Any) -> dict[str, Any]:
    """What the engine measured of its batches; empty where nobody says."""
    stats = getattr(loader, "stats", None)
    if callable(stats):
        found = stats()
        if isinstance(found, dict) and "decoding_s" in found:
            return found
    return {}


def _real(
    loader: Any, batches: _Batches, step: Callable[[Any], Any], seconds: float
) -> tuple[_Phase, Any, int]:
    """The training itself; also its largest batch, and how many batches the step has kept."""
    phase, end = _Phase(loader), time.perf_counter() + seconds
    seen: dict[int, weakref.ref[Any]] = {}
    again = False  # batches that come twice are the loader's to keep
    largest: Any = None
    while True:
        began = time.perf_counter()
        batch = batches.take()
        waited = time.perf_counter()
        step(batch)
        _settled()
        worked = time.perf_counter()
        phase.samples += samples(batch)
        if largest is None or samples(batch) > samples(largest):
            largest = batch
        phase.waited += waited - began
        phase.worked += worked - waited
        with suppress(TypeError):  # of what nobody can refer to weakly
            first = _first(batch)
            again |= id(first) in seen and seen[id(first)]() is first
            seen[id(first)] = weakref.ref(first)
            del first
        if worked >= end:
            break
    phase.end()
    del batch
    return phase, largest, 0 if again else sum(one() is not None for one in seen.values())


def _first(batch: Any) -> Any:
    while isinstance(batch, tuple | list | dict) and batch:
        batch = next(iter(batch.values())) if isinstance(batch, dict) else batch[0]
    return batch


def _repeated(loader: Any, batch: Any, step: Callable[[Any], Any], seconds: float) -> _Phase:
    """The step alone, which has its data already."""
    phase, end, many = _Phase(loader), time.perf_counter() + seconds, samples(batch)
    while True:
        step(batch)
        _settled()
        phase.samples += many
        if time.perf_counter() >= end:
            break
    phase.end()
    return phase


def _alone(loader: Any, batches: _Batches, seconds: float) -> _Phase:
    """The loader alone, whose batches nobody looks at."""
    for _ in range(_WARM_UP):  # those made while the step ran alone
        batches.take()
    phase, end = _Phase(loader), time.perf_counter() + seconds
    while True:
        phase.samples += samples(batches.take())
        if time.perf_counter() >= end:
            break
    phase.end()
    return phase


class _Seen(NamedTuple):
    real: _Phase  # the training
    repeated: _Phase  # the step alone
    alone: _Phase  # the loader alone
    kept: int  # batches that the training holds
    batch_bytes: int
    facts: dict[str, Any]  # of the machine


def _measured(loader: Any, step: Callable[[Any], Any], seconds: float) -> _Seen:
    batches = _Batches(loader)
    for _ in range(_WARM_UP):
        step(batches.take())
    _settled()
    real, batch, kept = _real(loader, batches, step, seconds * 0.45)
    if not samples(batch):
        raise ArgumentError("loader yields batches in which no part has samples (a shape)")
    repeated = _repeated(loader, batch, step, seconds * 0.2)
    others = machine.Others()
    alone = _alone(loader, batches, seconds * 0.25)
    facts = machine.look() | others.end()
    return _Seen(real, repeated, alone, kept, _bytes(batch), facts)


def diagnose(
    loader: Any, step: Callable[[Any], Any], rate: float | None, seconds: float
) -> Diagnosis:
    """Runs the step and the loader, together and apart; ``headrace.doctor`` says what it answers.

    The step is the user's and really trains. The loader goes on behind it from where it stood, if
    it can say where that is.
    """
    place = loader.state_dict() if _has_state(loader) else None
    try:
        seen = _measured(loader, step, seconds)
    finally:  # the step may fail, and a program may try another one
        if place is not None:
            loader.load_state_dict(place)
    real, repeated, alone, kept, facts = seen.real, seen.repeated, seen.alone, seen.kept, seen.facts
    share = real.waited / max(real.waited + real.worked, 1e-9)
    cause = _cause(alone, facts["cores_usable"])
    stages: dict[str, float | None] = dict.fromkeys(verdict.STAGES)
    stages["training"], stages[cause] = repeated.rate, alone.rate
    if cause == "storage" and alone.spent.get("decoding_s"):
        stages["decoding"] = _decoding(alone)
    limit = _limit(stages, cause, share, real.rate, kept)
    asked = {"rate": rate, "seconds": seconds}
    measured = {
        "images_per_second": real.rate,
        **stages,
        "loader": alone.rate,
        "waiting_share": share,
        "waiting_for": {cause: share},
        "batches_kept": kept,
        "machine": facts,
    }
    free = max(facts["cores_usable"] - (facts["cores_others"] or 0.0), 0.5)
    bound = _Bound(free, repeated.cpu_s, alone.cpu_s)
    found, notes = _remedies(loader, stages, limit, bound, real.rate, kept, seconds, facts)
    notes += sentences.of_machine(facts, int(alone.spent["threads"]))
    if _is_torchs(loader):
        workers = int(getattr(loader, "num_workers", 0))
        ahead = workers * int(getattr(loader, "prefetch_factor", None) or 2)
        notes += sentences.of_workers(facts, workers, ahead * seen.batch_bytes)
    if rate is not None and real.rate >= rate:
        limit, found = "none", []
    answer = {
        "limit": limit,
        "measured": measured,
        "asked": asked,
        "remedies": found,
        "notes": notes,
    }
    return Diagnosis(answer, [*sentences.lines(answer)])


def _is_torchs(loader: Any) -> bool:
    return type(loader).__module__.startswith("torch.utils.data")


def _bytes(batch: Any) -> int:
    """Bytes of a batch's tensors and arrays."""
    if isinstance(batch, tuple | list | dict):
        return sum(map(_bytes, batch.values() if isinstance(batch, dict) else batch))
    return int(getattr(batch, "nbytes", 0))


def _has_state(loader: Any) -> bool:
    return all(callable(getattr(loader, name, None)) for name in ("state_dict", "load_state_dict"))


def _decoding(alone: _Phase) -> float:
    """Images a second that the threads decode while they have bytes."""
    decoded, spent = alone.spent.get("images_decoded", 0.0), alone.spent["decoding_s"]
    return alone.spent["threads"] * decoded / max(spent, 1e-9)


def _cause(alone: _Phase, cores: float) -> str:
    """What the loader alone waits for: where its threads' time goes."""
    spent = alone.spent
    if "decoding_s" not in spent:
        return "decoding"  # a loader that does not say: all that it does
    whole = max(spent["threads"] * alone.took, 1e-9)
    reading = spent["reading_s"] / max(spent["images_decoded"], 1.0)
    bytes_ = spent["waiting_for_bytes_s"]
    # A thread among more than there are cores waits for one of these in the midst of a read.
    crowd = max(spent["threads"] / cores, 1.0)
    if reading > _SLOW_READ * crowd and not bytes_:
        bytes_ = spent["reading_s"]
    if bytes_ > 0.3 * whole:
        return "storage"
    return "decoding" if spent["decoding_s"] > 0.5 * whole else "delivery"


def _limit(
    stages: dict[str, float | None], cause: str, share: float, real: float, kept: int
) -> str:
    """The stage that sets the pace of the training as it ran."""
    expected = verdict.limit(stages, None)[1]
    if kept > _HELD and real < 0.8 * expected:
        return "delivery"
    return cause if share > _LEAST_WAIT else "training"


def _remedies(
    loader: Any,
    stages: dict[str, float | None],
    limit: str,
    bound: _Bound,
    real: float,
    kept: int,
    seconds: float,
    facts: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[str]]:
    found: list[dict[str, Any] | None] = []
    expected, notes = verdict.limit(stages, None)[1], []
    if kept > _HELD:
        notes.append(f"the step keeps batches: {kept:,} were alive at the end")
        text = "let go of each batch: the loader makes new memory for every one that is kept"
        found.append(_from(real, expected, text, True))
    elif real < 0.8 * expected:
        notes.append(
            f"together they reach {real:,.0f} images/s and apart {expected:,.0f}: step and loader "
            "take cores from one another"
        )
    training = stages["training"] or 0.0
    if limit not in ("training", "none"):
        notes.append(
            f"with its data always there the step makes {training:,.0f} images/s; headrace doctor "
            "tries what the dataset itself allows"
        )
    threads, allowed = _stats(loader).get("threads", 0), int(facts["cores_usable"])
    if limit == "decoding" and threads not in (0, allowed):
        times = rerun.gain(loader, threads, allowed, seconds * 0.15)
        if times is not None:
            rate = bound.of(min((stages["decoding"] or 0.0) * times, training))
            text = f"num_threads={allowed}: the loader has {threads}"
            found.append(_from(real, rate, text, True))
    swapped, why = _swapped(loader, seconds * 0.1)
    if swapped is not None:
        text = "from headrace import DataLoader, in the place of torch's"
        rate = bound.of(min(swapped.rate, training), swapped.cpu_s)
        found.append(_from(real, rate, text, True))
    if why:
        notes.append(why)
    if not _stats(loader):
        notes.append("this loader does not say what it waits for: all of it counts as decoding")
    told = [one for one in found if one is not None]
    return sorted(told, key=lambda one: -one["gain"]), notes


def _from(real: float, rate: float, text: str, measured: bool) -> dict[str, Any] | None:
    return verdict.remedy(text, {"training": real}, {"training": rate}, measured)


def _swapped(loader: Any, seconds: float) -> tuple[_Phase | None, str]:
    """Headrace's ``DataLoader`` alone in the place of torch's, where it is that."""
    if not _is_torchs(loader):
        return None, ""
    from headrace._torch.kind import attributes
    from headrace.dataloader import DataLoader

    try:
        made: Any = DataLoader(**attributes(loader.__dict__))
        try:
            return _alone(made, _Batches(made), max(seconds, 1.0)), ""
        finally:
            made.close()
    except HeadraceError as failure:
        return None, f"Headrace's DataLoader was not tried in its place: {failure}"
