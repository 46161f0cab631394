"""What would make loading faster: each remedy is tried on some of the images, or calculated."""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from headrace._doctor import bounded, choosing, decoding, verdict
from headrace.dataset import Dataset
from headrace.errors import ArgumentError, HeadraceError, MemoryShortError
from headrace.loader import Loader

Found = TypeVar("Found")

_LEAST, _COPIES, _COPY_BYTES = 12, 64, 48 << 20
# A trial and what it is compared with take turns, because a neighbour on the other hyper-thread of
# a core makes CPU time more expensive, and comes and goes.
_TURNS, _SECONDS = 3, 0.25
# Images are called larger than needed from this multiple of the crop on.
_OVERSIZED = 2.0
_RESIZED = 256 / 224
_FAST = 'mode="fast", whose pixels are similar and not equal'
_BYTES = 'dtype="uint8", and normalising on the GPU'
_NO_LABELS = "it is tried on copies of images, which have no labels that move with them"
_SOME = 0.25  # of a core; for less, no further core is recommended
_SMALLER = {"float32": 4, "float16": 2, "bfloat16": 2}


class Trials:
    """Compares the rates of decoding with each remedy to those of the same images as they are."""

    def __init__(
        self,
        dataset: Dataset,
        chosen: list[int],
        batch_size: int,
        transform: list[Any],
        clocks: tuple[bounded.Clock, bounded.Clock],
        options: dict[str, Any],
    ) -> None:
        """``clocks``: when no further trial begins, and when trials that have begun end."""
        self._dataset, self._chosen = dataset, chosen
        self._batch_size, self._transform = min(batch_size, 32), transform
        (self._clock, self._end), self._options = clocks, options
        self.failed: list[str] = []

    def tried(self, name: str, work: Callable[[], Found]) -> Found | None:
        """What a trial of a loader gives; None if these transforms do not allow its words."""
        try:
            return self._in_time(name, work)
        except (ArgumentError, MemoryShortError):  # opening it failed
            return None

    def taken(self, **options: Any) -> bool:
        """Whether a loader with other words opens; for remedies that are calculated."""
        words = {"transform": self._transform, **self._options, **options}
        try:
            Loader(self._dataset, self._batch_size, output="numpy", **words).close()
        except (ArgumentError, MemoryShortError):
            return False
        return True

    def _in_time(self, name: str, work: Callable[[], Found]) -> Found | None:
        """Returns what a trial gives; None, with a note, if there is no time for it."""
        if self._clock.left > 0:
            try:
                return work()
            except bounded.Over:
                pass
        self.failed.append(f"there was no time to try {name}")
        return None

    def faster(self, dataset: Dataset, chosen: list[int], **options: Any) -> float:
        """Returns how many times as many images come this way for the same CPU time."""
        return self._times(
            lambda: self._rate(self._dataset, self._chosen),
            lambda: self._rate(dataset, chosen, **options),
        )

    def as_it_is(self, **options: Any) -> float:
        """Does the same with these images as they are, and other words of the loader."""
        return self.faster(self._dataset, self._chosen, **options)

    def _rate(self, dataset: Dataset, chosen: list[int], **options: Any) -> float:
        """Images per second of CPU time; only good for comparison with one another."""
        found = self._measured(dataset, chosen, self._batch_size, **options)
        return float(1 / max(found["cpu_s"], 1e-9))

    def in_batches_of(self, size: int, dataset: Dataset, chosen: list[int]) -> float:
        """Images a second of a dataset if batches have another size."""
        return float(self._measured(dataset, chosen, size)["images_per_second"])

    def _measured(
        self, dataset: Dataset, chosen: list[int], batch_size: int, **options: Any
    ) -> dict[str, Any]:
        words = {"transform": self._transform, **self._options, **options}
        transform = words.pop("transform")
        found = decoding.measure(
            dataset, chosen, batch_size, transform, _SECONDS, self._end, **words
        )
        if not self._end.left:
            raise bounded.Over
        return found

    def _times(self, now: Callable[[], float], then: Callable[[], float]) -> float:
        ratios = [then() / now()]  # this first turn learns what is learned of files
        while len(ratios) <= _TURNS and (len(ratios) == 1 or self._clock.left > 0):
            ratios.append(then() / now())
        return statistics.median(ratios[1:])

    def forms(self, forms: Mapping[str, dict[str, Any]]) -> dict[str, tuple[float, float]]:
        """For each form: its decode rate divided by that of the images as they are, and its bytes
        divided by theirs."""
        found = {}
        seconds = self._clock.left / 3
        if self._options.get("labels"):
            self.failed += [f"headrace {name} was not tried: {_NO_LABELS}" for name in forms]
            return {}
        if not forms or not seconds:
            self.failed += [f"there was no time to try headrace {name}" for name in forms]
            return {}
        with contextlib.ExitStack() as stack:
            copied = choosing.copied(self._dataset, self._chosen, _COPY_BYTES, seconds)
            try:
                folder, chosen = stack.enter_context(copied)
            except choosing.NoRoom as failure:
                self.failed += [f"headrace {name} was not tried: {failure}" for name in forms]
                return {}
            if not chosen:
                return {}
            files = sum(file.stat().st_size for file in (folder / "files" / "all").iterdir())
            self._chosen = chosen
            for name, how in forms.items():
                try:
                    made = self._in_time(f"headrace {name}", lambda: self._form(folder, name, how))  # noqa: B023
                except HeadraceError as failure:
                    self.failed.append(f"headrace {name} was not tried: {failure}")
                    continue
                if made is not None:
                    found[name] = made[0], made[1] / files
        return found

    def _form(self, folder: Path, name: str, how: dict[str, Any]) -> tuple[float, int]:
        """Returns how many times faster copies in a form decode, and their bytes."""
        made = choosing.packed(folder, name, self._end, **how)
        with Dataset(made) as packed:
            faster = self.faster(packed, list(range(len(packed))))
        return faster, choosing.bytes_of(made)


def find(
    dataset: Dataset,
    chosen: list[int],
    facts: dict[str, Any],
    stages: Mapping[str, float | None],
    asked: dict[str, Any],
    transform: list[Any],
    clock: bounded.Clock,
    end: bounded.Clock,
    options: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns remedies for the slowest stage, the best one first, and what could not be tried.

    Args:
        clock: when no further remedy is tried.
        end: when trials that have begun end.
        options: further words of the loader for the trials.
    """
    name, _ = verdict.limit(stages, asked["rate"])
    if name == "none" or name == "training":
        return [], []
    # As many as a trial decodes several times in its time, and as some trials pack.
    many = int(stages["decoding"] or 0.0) * 2
    some = [chosen[at] for at in choosing.numbers(len(chosen), min(max(many, _LEAST), _COPIES))]
    batch_size = min(asked["batch_size"], max(many // 8, 1))
    trials = Trials(dataset, some, batch_size, transform, (clock, end), options)
    found: list[dict[str, Any] | None] = []
    if name == "decoding":
        found += _of_decoding(trials, facts, stages, transform, options)
    elif name == "storage":
        found += _of_storage(trials, facts, stages)
    elif name == "delivery":
        found.append(_of_delivery(trials, dataset, chosen, stages, asked))
    elif name == "copy":
        found.append(_of_copy(trials, stages, transform, options))
    told = [one for one in found if one is not None]
    return sorted(told, key=lambda one: -one["gain"]), trials.failed


def _forms(facts: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the forms of packing that may help these images."""
    images = facts["images"]
    forms: dict[str, dict[str, Any]] = {}
    points = images["seek_points"]  # None where no image is a JPEG
    if images["kind"] == "memory":  # headrace pack takes files, and no memory
        return forms
    if images["progressive"] > 0:
        forms["pack --baseline"] = {"baseline": True}
    elif images["kind"] != "packed" or (points is not None and points < 0.5):
        forms["pack"] = {}
    if resize := _smaller(facts, _OVERSIZED):
        forms[f"pack --resize {resize}"] = {"resize": resize}
    if images["png"] > 0.5:
        forms["pack --quality 90"] = {"quality": 90}
    return forms


def _smaller(facts: dict[str, Any], from_: float) -> int | None:
    """The shorter side that crops leave of images so much larger; None if they are not larger."""
    if facts["side"] is None:
        return None
    resize, shorter = round(facts["side"] * _RESIZED), facts["images"]["shorter_side"]
    return resize if shorter and shorter >= from_ * resize else None


def _of_decoding(
    trials: Trials,
    facts: dict[str, Any],
    stages: Mapping[str, float | None],
    transform: list[Any],
    options: dict[str, Any],
) -> list[dict[str, Any] | None]:
    now = stages["decoding"] or 0.0
    found = []
    for form, (faster, ratio) in trials.forms(_forms(facts)).items():
        lossy = ", which loses detail" if "resize" in form or "quality" in form else ""
        text = f"headrace {form}{lossy}"
        changed = {"decoding": now * faster, "storage": _read(facts, ratio)}
        found.append(verdict.remedy(text, stages, changed, True))
    exact = options.get("mode", "exact") == "exact"
    fast = trials.tried('mode="fast"', lambda: trials.as_it_is(mode="fast")) if exact else None
    if fast is not None:
        found.append(verdict.remedy(_FAST, stages, {"decoding": now * fast}, True))
    plain = _without_normalize(transform)
    floats = options.get("dtype", "float32") == "float32" and len(plain) < len(transform)
    if floats:
        small = trials.tried(
            'dtype="uint8"', lambda: trials.as_it_is(dtype="uint8", transform=plain)
        )
        if small is not None:
            found.append(verdict.remedy(_BYTES, stages, {"decoding": now * small}, True))
    found += _of_cores(facts, stages)
    return found


def _of_cores(
    facts: dict[str, Any], stages: Mapping[str, float | None]
) -> list[dict[str, Any] | None]:
    machine, now = facts["machine"], stages["decoding"] or 0.0
    allowed, usable, found = machine["cores_allowed"], machine["cores_usable"], []
    others, own = machine["cores_others"] or 0.0, machine["cores_own"] or 0.0
    # A quota limits the process even if no other program runs.
    wanted = min(usable, facts["decoding"]["all"]["threads"])
    if others > 0.1 * allowed and 0 < own < wanted:
        times, share = wanted / own, machine["core_share"]
        if share and machine["cpu_quota"] is None:
            times = min(times, 1 / share)  # the time that its threads waited for a core
        these = f"{allowed} core{'s' * (allowed > 1)}"
        text = f"end the other programs, which keep {others:.1f} of {these} busy"
        found.append(verdict.remedy(text, stages, {"decoding": now * times}, False))
    if machine["cores_of_machine"] > usable and own > 0:
        free = _free(machine, own)
        cores = min(math.ceil(free - _SOME), machine["cores_of_machine"])
        if cores > usable:
            text = (
                f"allow this process {cores} cores, {free:.1f} of which nobody else uses; it may "
                f"use {usable:g}"
            )
            found.append(verdict.remedy(text, stages, {"decoding": now * free / own}, False))
    return found


def _free(machine: dict[str, Any], own: float) -> float:
    """Returns how many cores this process could use if it were allowed to.

    Two hyper-threads of one core do not count as two cores, unless those used now share cores as
    well. What a second hyper-thread adds depends on the images.
    """
    idle = machine["cores_idle"]
    free: float = machine["cores_of_machine"] if idle is None else own + idle
    ratio = machine["physical_cores_allowed"] / machine["cores_allowed"]
    return float(min(free, machine["physical_cores"] / max(ratio, 1e-9)))


def _of_storage(
    trials: Trials,
    facts: dict[str, Any],
    stages: Mapping[str, float | None],
) -> list[dict[str, Any] | None]:
    storage, found = facts["storage"], []
    cold = storage["cold"]
    if facts["fits_in_memory"] and storage["warm"]:
        warm = max(storage["warm"]["images_per_second"], stages["storage"] or 0.0)
        text = "do nothing: from epoch 2 on the dataset is in the page cache"
        found.append(verdict.remedy(text, stages, {"storage": warm}, True))
    if cold is None:
        return found
    size = _smaller(facts, 1.0)
    forms = {f"pack --resize {size}": {"resize": size}} if size else {}
    for form, (_, ratio) in trials.forms(forms).items():
        text = f"headrace {form}, which loses detail: {ratio * 100:.0f} % of the bytes are left"
        found.append(verdict.remedy(text, stages, {"storage": _read(facts, ratio)}, False))
    return found


def _read(facts: dict[str, Any], ratio: float) -> float | None:
    """Returns the images a second that storage gives if records have a share of the bytes."""
    storage = facts["storage"]
    cold, warm = storage["cold"], storage["warm"]
    slow = cold and verdict.smaller_reads(
        cold["images_per_second"], cold["head_images_per_second"], ratio
    )
    return verdict.from_storage(
        storage["cached_share"], slow, warm and warm["images_per_second"] / ratio
    )


def _of_delivery(
    trials: Trials,
    dataset: Dataset,
    chosen: list[int],
    stages: Mapping[str, float | None],
    asked: dict[str, Any],
) -> dict[str, Any] | None:
    larger = min(max(64, asked["batch_size"] * 4), len(chosen))
    if larger <= asked["batch_size"]:
        return None  # there are no more images to try it with
    name = f"batch_size={larger}"
    rate = trials.tried(name, lambda: trials.in_batches_of(larger, dataset, chosen))
    if rate is None:
        return None
    text = f"{name}: what a batch costs is the same for a larger one"
    return verdict.remedy(text, stages, {"delivery": rate}, True)


def _of_copy(
    trials: Trials,
    stages: Mapping[str, float | None],
    transform: list[Any],
    options: dict[str, Any],
) -> dict[str, Any] | None:
    times = _SMALLER.get(options.get("dtype", "float32"), 1)
    if times == 1 or not trials.taken(dtype="uint8", transform=_without_normalize(transform)):
        return None
    return verdict.remedy(_BYTES, stages, {"copy": (stages["copy"] or 0.0) * times}, False)


def _without_normalize(transform: list[Any]) -> list[Any]:
    return [step for step in transform if step.get("name") != "Normalize"]
