"""What would make a training faster, and by how much, once its step and loader were measured."""

from __future__ import annotations

import sys
import warnings
from typing import Any, NamedTuple

from headrace._doctor import bounded, phases, rerun, stages, verdict
from headrace.dataset import Dataset
from headrace.errors import HeadraceError
from headrace.loader import Loader

_LEAST_DATA_S = 0.05  # with less time, the dataset is not measured by itself
# Nor is it measured with fewer images: closing each loader that is tried waits for images that it
# has begun.
_LEAST_IMAGES = 8
# A loop keeps the batch in use and the one before it. A loop with more batches holds them for good.
HELD = 4


class Bound(NamedTuple):
    """Cores that step and loader share, and the seconds of CPU that each takes for an image.

    A loader and a step that are measured separately each had all cores.
    """

    cores: float
    step_s: float
    loader_s: float

    def of(self, rate: float, loader_s: float | None = None) -> float:
        """Returns a rate, limited to what the cores allow."""
        each = self.step_s + (self.loader_s if loader_s is None else loader_s)
        return min(rate, self.cores / max(each, 1e-9))


class Training(NamedTuple):
    """What is known of a training when remedies are sought."""

    loader: Any
    limit: str
    real: float  # images a second of the training itself
    alone: float  # of the loader by itself
    step: float  # of the step, if its data is always ready
    decoding: float  # of decoding by the loader's threads
    kept: int  # batches that the step holds
    bound: Bound


def find(
    training: Training, seconds: float, clock: bounded.Clock, facts: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """Returns remedies, the best one first, and notes.

    Args:
        seconds: the time of the diagnosis; trials get a part of it.
        clock: the time that is left until the diagnosis has to end.
        facts: facts of the machine.
    """
    found = [
        _letting_go(training),
        _threads(training, seconds * 0.15, clock.part(0.5), int(facts["cores_usable"])),
        _without_python(training, seconds * 0.1, clock.part(0.5)),
    ]
    swapped, why = _swapped(training, clock.of(seconds * 0.1))
    of_data, notes = _of_data(training, min(seconds * 0.5, clock.left / stages.ENDS), clock)
    told = [one for one in [*found, swapped, *of_data] if one is not None]
    return sorted(told, key=lambda one: -one["gain"]), ([why] if why else []) + notes


def _better(training: Training, rate: float, text: str, measured: bool) -> dict[str, Any] | None:
    return verdict.remedy(text, {"training": training.real}, {"training": rate}, measured)


def _letting_go(training: Training) -> dict[str, Any] | None:
    if training.kept <= HELD:
        return None
    text = "let go of each batch: the loader makes new memory for every one that is kept"
    return _better(training, min(training.alone, training.step), text, True)


def _threads(
    training: Training, seconds: float, clock: bounded.Clock, allowed: int
) -> dict[str, Any] | None:
    """Tries as many threads as there are cores, in another engine."""
    threads = phases.stats(training.loader).get("threads", 0)
    if training.limit != "decoding" or threads in (0, allowed):
        return None
    times = rerun.gain(training.loader, threads, allowed, seconds, clock)
    if times is None:
        return None
    rate = training.bound.of(min(training.decoding * times, training.step))
    return _better(training, rate, f"num_threads={allowed}: the loader has {threads}", True)


def _without_python(
    training: Training, seconds: float, clock: bounded.Clock
) -> dict[str, Any] | None:
    """Tries a ``batch_fn`` that takes no time: what the loader's engine gives without it."""
    loader = training.loader
    if training.limit != "delivery" or getattr(loader, "_batch_fn", None) is None:
        return None
    rate = rerun.rate(loader, phases.stats(loader)["threads"], seconds, clock)
    if rate is None:
        return None
    text = "a faster batch_fn: it runs in Python, between the loader and the step"
    return _better(training, training.bound.of(min(rate, training.step)), text, True)


def is_torchs(loader: Any) -> bool:
    return type(loader).__module__.startswith("torch.utils.data")


def is_of_own_code(loader: Any) -> bool:
    """Whether it is Headrace's ``DataLoader`` over a dataset whose own code makes the samples."""
    ours = sys.modules.get("headrace.dataloader")
    return ours is not None and isinstance(loader, ours.DataLoader) and loader.recipe() is None


def _swapped(training: Training, seconds: float) -> tuple[dict[str, Any] | None, str]:
    """Tries Headrace's ``DataLoader`` in place of torch's, if the loader is torch's."""
    if not is_torchs(training.loader):
        return None, ""
    if not seconds:
        return None, "there was no time to try Headrace's DataLoader in its place"
    from headrace._torch.kind import attributes
    from headrace.dataloader import DataLoader

    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            made: Any = DataLoader(**attributes(training.loader.__dict__))
            try:
                ours = phases.alone(made, phases.Batches(made), max(seconds, 1.0))
            finally:
                made.close()
    except HeadraceError as failure:
        return None, f"Headrace's DataLoader was not tried in its place: {failure}"
    # The program does not use this loader yet, so its warnings become notes.
    said = [str(one.message) for one in warned]
    said = [text.rstrip(".") for text in said if text.startswith("headrace.DataLoader: ")]
    rate = training.bound.of(min(ours.rate, training.step), ours.cpu_s)
    text = "from headrace import DataLoader, in the place of torch's"
    return _better(training, rate, text, True), "; ".join(said)


def _of_data(
    training: Training, seconds: float, clock: bounded.Clock
) -> tuple[list[dict[str, Any] | None], list[str]]:
    """What ``headrace.doctor`` says of the loader's dataset, as far as the step allows it."""
    if training.limit not in ("storage", "decoding", "delivery") or training.kept > HELD:
        return [], []
    known = _recipe(training.loader)
    if known is None:
        return [], []
    if seconds < _LEAST_DATA_S or seconds * training.alone < _LEAST_IMAGES:
        return [], ["there was no time to measure the loader's dataset by itself"]
    dataset, steps, options, batch_size = known
    asked = {"rate": None, "batch_size": batch_size, "size": 0}
    answer = stages.of_dataset(dataset, asked, steps, seconds, options, clock)
    if answer["limit"] != training.limit:
        why = f"measured alone, the loader's dataset is limited by {answer['limit']}"
        return [], [f"{why}: what would help that was not told"]
    found = []
    for remedy in answer["remedies"]:
        times, rate = remedy["gain"], remedy["images_per_second"]
        if training.limit == "decoding":  # with as many threads as the loader has
            rate = training.alone * times
        cpu_s = training.bound.loader_s / times if remedy["measured"] else None
        rate = training.bound.of(min(rate, training.step), cpu_s)
        found.append(_better(training, rate, remedy["text"], remedy["measured"]))
    return found, [note for note in answer["notes"] if "not tried" in note or "no time" in note]


def _recipe(loader: Any) -> tuple[Dataset, list[Any], dict[str, Any], int] | None:
    """Returns a loader's dataset, its transforms and its other words; None if they are not data."""
    if isinstance(loader, Loader):
        config = loader._config
        if not config.get("transform") or config["resolution"]:
            return None
        words = {name: config[name] for name in ("dtype", "scale", "mode")}
        words["labels"] = loader._moved.labels  # some transforms look at a sample's boxes
        return loader.dataset, list(config["transform"]), words, loader.batch_size
    ours = sys.modules.get("headrace.dataloader")
    if ours is None or not isinstance(loader, ours.DataLoader):
        return None
    recipe = loader.recipe()
    if recipe is None or recipe.translation.rest or recipe.translation.size is None:
        return None
    words = recipe.config()
    return recipe.samples.dataset, words.pop("transform"), words, loader.batch_size or 1
