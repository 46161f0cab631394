"""The stages of a loader over a dataset, each by itself: storage, decoding, delivery, copy."""

from __future__ import annotations

from typing import Any

from headrace import __version__
from headrace._doctor import (
    ages,
    bounded,
    choosing,
    copying,
    decoding,
    gpus,
    images,
    little,
    loading,
    machine,
    remedies,
    sentences,
    storage,
    verdict,
)
from headrace.dataset import Dataset

_RECORDS = 2048
_NOTHING: dict[str, Any] = {
    "cold": None,
    "warm": None,
    "at_once": bounded.AT_ONCE,
    "why": "the samples are not bytes in files",
}
_FETCHED = "the images are in a store: the rate of storage is what the loader got of them"
_UNCACHED = "with cache= records are fetched once, and later epochs read them from a disk here"
_SILENT = "the store of objects gave no image in this time"
_KEPT_UP = "the store of objects kept up with decoding, so its own rate is not known"
# Times as multiples of the seconds asked for: after the first no further remedy is tried, and after
# the second everything ends, however long batches take. For 15 seconds that is after 25.5 s; the
# rest of 30 s is for an image or a read that has begun. With few seconds, opening files and
# allocating memory takes longer than measuring.
_TRIED, ENDS, _LEAST_S = 1.1, 1.7, 8.0
# In less time, a measurement would mostly show how long threads take to begin.
LEAST_SECONDS = 1.0
# Finding files and reading some of them takes less time, unless storage is slow or cores are busy.
# In a shorter time, few files would stand for all.
_ASKING_S, _READING_S = 1.0, 0.5


def limit(seconds: float) -> bounded.Clock:
    """Returns the clock of a diagnosis that was asked for with so many seconds."""
    return bounded.Clock(max(seconds * ENDS, _LEAST_S))


def of_dataset(
    dataset: Dataset,
    asked: dict[str, Any],
    steps: list[Any],
    seconds: float,
    options: dict[str, Any] | None = None,
    clock: bounded.Clock | None = None,
) -> dict[str, Any]:
    """Measures the stages of a loader over a dataset, and remedies for the slowest one.

    Args:
        asked: ``rate``, ``batch_size`` and ``size``, as ``headrace.doctor`` takes them.
        steps: the transforms, as data.
        seconds: about how long to measure.
        options: further words of the loader: ``dtype``, ``mode`` and the like.
        clock: when to end, if this is part of a longer measurement.

    Returns:
        ``limit``, ``measured``, ``asked``, ``remedies`` and ``notes``, as ``headrace.doctor``
        returns them.
    """
    clock = clock or limit(seconds)
    whole, batch = len(dataset), min(asked["batch_size"], len(dataset))
    chosen = choosing.numbers(whole, _RECORDS)
    places = storage.within(choosing.places(dataset, chosen, max(seconds * 0.1, _ASKING_S)))
    with storage.left_as_it_was(places) as share:
        made = {**asked, "batch_size": batch}
        answer = _measured(
            dataset, made, steps, seconds, clock, chosen, places, share, options or {}
        )
    if batch < asked["batch_size"]:
        images = f"{whole:,} image{'s' * (whole > 1)}"
        answer["notes"].append(
            f"the dataset has {images}: batches of {asked['batch_size']:,} have no more"
        )
    return answer | {"asked": asked}


def _measured(
    dataset: Dataset,
    asked: dict[str, Any],
    steps: list[Any],
    seconds: float,
    clock: bounded.Clock,
    chosen: list[int],
    places: list[choosing.Place],
    share: float | None,
    options: dict[str, Any],
) -> dict[str, Any]:
    tried = bounded.Clock(clock.of(seconds * _TRIED))
    facts: dict[str, Any] = {"machine": machine.look()}
    facts["file_system"] = machine.file_system(places[0].path) if places else ""
    in_memory = machine.is_in_memory(facts["file_system"])
    reading_s = clock.of(max(seconds * 0.3, _READING_S))
    read = storage.measure(places, reading_s, in_memory) if places else _NOTHING
    facts["storage"] = {**read, "cached_share": 1.0 if in_memory else share}
    facts["index"] = ages.look(dataset, __version__)
    # This comes after the measurement of cold reads, because it may read the first bytes of files.
    facts["images"] = images.look(dataset, places, clock.of(seconds * 0.1), read["at_once"])
    size = facts["images"]["image_bytes"]
    free = facts["machine"]["memory_available"]
    facts["fits_in_memory"] = free is not None and size * len(dataset) < 0.8 * free
    few_seconds = clock.of(max(seconds * 0.15, _READING_S))
    with loading.at_hand(
        dataset, chosen, places, facts, few_seconds, clock.part(0.3), not options.get("labels")
    ) as (
        near,
        decoded,
    ):
        found = loading.measure(
            near, decoded, asked["batch_size"], steps, seconds * 0.4, clock.part(0.7), options
        )
        facts["machine"] |= found["busy"]
        facts["decoding"], facts["side"] = found, found["all"]["side"]
        facts["gpus"] = gpus.look()
        facts["copy"] = _copy(facts, asked["batch_size"], clock.of(seconds * 0.05))
        of_store = _of_store(dataset, asked, steps, seconds * 0.1, clock.part(0.5), options)
        if dataset.away and not places:
            facts["storage"]["why"] = _FETCHED
            if of_store is None:
                came = facts["decoding"]["all"]["decoded"]
                facts["storage"]["why"] = _KEPT_UP if came else _SILENT
        stages = _stages(facts, of_store)
        few = little.stages(facts, of_store, len(dataset))
        counting = verdict.counting(stages, few)
        helps, failed = remedies.find(
            near, decoded, facts, counting, asked, steps, tried, clock, options
        )
    limit, slowest = verdict.limit(counting, asked["rate"])
    one, every = facts["decoding"]["one"], facts["decoding"]["all"]
    alone = little.enough(one["decoded"], one["seconds"])
    measured = {
        "images_per_second": slowest,
        **stages,
        "decoding_one_core": one["decoding"] if alone else None,
        "storage_cold": facts["storage"]["cold"],
        "storage_warm": facts["storage"]["warm"],
        "cached_share": facts["storage"]["cached_share"],
        "loader": every["images_per_second"],
        "threads": every["threads"],
        "images": facts["images"],
        "index": facts["index"],
        "machine": facts["machine"],
        "gpus": facts["gpus"],
        "file_system": facts["file_system"],
        "side": facts["side"],
    }
    notes = little.notes(few, stages) + sentences.notes(facts) + failed
    if limit == "storage" and of_store and not of_store["cached"]:
        notes.append(_UNCACHED)
    return {
        "limit": limit,
        "measured": measured,
        "asked": asked,
        "remedies": helps,
        "notes": notes,
    }


def _copy(facts: dict[str, Any], batch_size: int, seconds: float) -> tuple[float | None, str]:
    """Returns the images a second that are copied to a GPU, or why that was not measured."""
    if not facts["gpus"]:
        return None, f"the copy to a GPU was not measured: {gpus.LIBRARY} is not here or sees none"
    size = facts["decoding"]["all"]["batch_bytes"]
    if size is None:
        return None, "the copy to a GPU was not measured: no batch came in time"
    return copying.rate(size, batch_size, seconds)


def _of_store(
    dataset: Dataset,
    asked: dict[str, Any],
    steps: list[Any],
    seconds: float,
    clock: bounded.Clock,
    options: dict[str, Any],
) -> dict[str, Any] | None:
    """What the loader gets from a store if it waits for the store; None for other datasets."""
    if not dataset.away:
        return None
    some = choosing.numbers(len(dataset), _RECORDS)
    few = min(asked["batch_size"], 16)
    found = decoding.measure(dataset, some, few, steps, seconds, clock, **options)
    lacked = found["waiting_for_bytes"] > decoding.LACKING
    return found if lacked else None


def _stages(facts: dict[str, Any], of_store: dict[str, Any] | None) -> dict[str, float | None]:
    """Returns the images a second that each stage could deliver."""
    read, every = facts["storage"], facts["decoding"]["all"]
    cold = (read["cold"] or {}).get("images_per_second")
    warm = (read["warm"] or {}).get("images_per_second")
    stored = verdict.from_storage(read["cached_share"], cold, warm)
    delivery, came = facts["decoding"]["ready"], every["images_per_second"]
    if every["idle"] > decoding.IDLE and every["waiting_for_bytes"] <= decoding.LACKING:
        # The time in which the threads neither decoded nor waited for bytes was lost at the ends of
        # batches.
        delivery = min(delivery or came, came)
    return {
        "storage": of_store["images_per_second"] if of_store else stored,
        "decoding": every["decoding"],
        "delivery": delivery,
        "copy": facts["copy"][0],
        "training": None,
    }
