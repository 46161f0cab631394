"""``headrace.plan``: calculates what a planned training needs (docs/doctor.md)."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from headrace._doctor import caching, choosing
from headrace._doctor.report import Plan, a_second, duration, size, table
from headrace._engine import arguments, containers
from headrace.dataset import Dataset
from headrace.errors import ArgumentError, HeadraceError

# From docs/performance.md: 3,293 images/s on two cores, RandomResizedCrop 224 of packed photographs
# of 111 kB with seek points, an Intel Xeon at 2.1 GHz.
IMAGES_PER_CORE = 1647.0
# What `headrace pack` makes of 300 photographs of ImageNet, 110,814 bytes each: the bytes of the
# whole dataset with index and seek points, divided by the bytes of the files.
FORMS = {"packed": 1.036, "baseline": 1.036, "resized": 0.272, "raw": 2.367}
_HOW: dict[str, dict[str, Any]] = {
    "packed": {},
    "baseline": {"baseline": True},
    "resized": {"resize": 256},
    "raw": {"resize": 256, "raw": True},
}
_SAID = {
    "files": "as files",
    "packed": "packed",
    "baseline": "packed with --baseline",
    "resized": "packed with --resize 256",
    "raw": "packed with --resize 256 --raw",
}
_OF_IMAGENET = "the storage of each form is that of 300 photographs of ImageNet, 111 kB each"
_UNREADABLE = "no sample of {} that was tried can be read"
# Neighbours that shuffle="window" reads together: 16,384 samples in 1,024 stretches.
WINDOW_RUN = 16
# Beyond these the results would leave the range of a float.
_LEAST_RATE, _MOST_BYTES = 1e-9, 1e12
_HITS = (0.25, 0.5, 0.75, 1.0)
_SAMPLES, _SAMPLE_BYTES = 128, 64 << 20
# Batches that the loader has memory for in addition to those made ahead
# (internal/pipeline/config.go).
_MORE_SLOTS = 2


def plan(
    source: Any = None,
    *,
    gpus: int = 1,
    rate: float | None = None,
    step_seconds: float | None = None,
    batch_size: int = 256,
    images: int | None = None,
    image_bytes: float | None = None,
    epochs: int = 1,
    size: int = 224,
    images_per_core: float | None = None,
    format: str | None = None,
    image: str | None = None,
    label: Any = None,
    fields: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    root: str | os.PathLike[str] | None = None,
    storage: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> Plan:
    """Calculates the storage, cores and memory that a training needs so that no GPU waits.

    Args:
        source: the dataset, as ``Dataset`` accepts it, or a ``Dataset``. Some of its samples are
            packed in each form into a temporary folder to measure how large they become.
        gpus: number of GPUs.
        rate: images a second that one GPU takes, from 10^-9 to 10^12. Give either this or
            ``step_seconds``.
        step_seconds: seconds of one step of ``batch_size`` on one GPU, without waiting for data.
        batch_size: samples of a step on one GPU; it also determines the memory of batches.
        images: number of images of the dataset, if there is no ``source``.
        image_bytes: mean bytes of an image file, at most 10^12. It is needed if there is no
            ``source``, or if its images are not bytes in files (arrays in memory). For a dataset in
            an object store it avoids fetching images.
        epochs: number of epochs planned.
        size: height and width in pixels of the images that the GPU gets, for the memory of float32
            batches.
        images_per_core: images a second that one core decodes, as ``doctor`` measures them
            (``measured["decoding_one_core"]``); None: 1,647, the rate of packed ImageNet on the
            Xeon of docs/performance.md.
        format, image, label, fields, classes, split, root, storage, timeout: as for ``Dataset``, if
            ``source`` is a path.

    Returns:
        an object that prints as text, with ``images_per_second``, ``megabytes_per_second``,
        ``iops`` (reads a second, by form), ``cores``, ``images_per_core``, ``memory`` (bytes: of
        the batches of all GPUs, and of page cache by the share of reads that it answers),
        ``epoch_seconds``, ``total_seconds``, ``storage`` (bytes by form), ``asked`` (the
        arguments) and ``assumed`` (sentences about what was assumed and not measured).

    Raises:
        ArgumentError: an argument is impossible or missing.
    """
    gpus = arguments.count("gpus", gpus, 1)
    batch_size = arguments.count("batch_size", batch_size, 1)
    epochs = arguments.count("epochs", epochs, 1)
    side = arguments.count("size", size, 1)
    each = _rate(rate, step_seconds, batch_size)
    assumed: list[str] = []
    words = containers.Words(format, image, label, fields, classes, split, root)
    of_store = {"storage": storage, "timeout": timeout}
    count, mean, ratios = (
        _told(words, of_store, images, image_bytes, assumed)
        if source is None
        else _seen(source, words, of_store, images, image_bytes, assumed)
    )
    if images_per_core is None:
        images_per_core = IMAGES_PER_CORE
        assumed.append(
            f"a core decodes {IMAGES_PER_CORE:,.0f} images/s: packed ImageNet with seek points on "
            "an Intel Xeon at 2.1 GHz (docs/performance.md); headrace doctor measures yours"
        )
    per_core = _positive("images_per_core", images_per_core, _LEAST_RATE, arguments.MOST_RATE)
    total = each * gpus
    stored = {"files": round(count * mean)}
    stored |= {form: round(count * mean * ratio) for form, ratio in ratios.items()}
    facts: dict[str, Any] = {
        "asked": {
            "source": _named(source),
            "gpus": gpus,
            "rate": each,
            "batch_size": batch_size,
            "epochs": epochs,
            "images": count,
            "image_bytes": mean,
            "size": side,
        },
        "images_per_second": total,
        "megabytes_per_second": total * mean / 1e6,
        # A file is opened before it is read; in a shard, 16 neighbours of a window are one read.
        "iops": {"files": total, "shards": total, "shards_window": total / WINDOW_RUN},
        "cores": math.ceil(total / per_core),
        "images_per_core": per_core,
        "memory": {
            "batches": _batches(batch_size, side) * gpus,
            "cache": {
                f"{hit:g}": round(caching.share_for(hit) * stored["packed"]) for hit in _HITS
            },
        },
        "epoch_seconds": count / total,
        "total_seconds": count / total * epochs,
        "storage": stored,
        "assumed": assumed,
    }
    return Plan(facts, _lines(facts))


def _rate(rate: float | None, step_seconds: float | None, batch_size: int) -> float:
    """Images a second that one GPU takes."""
    if (rate is None) == (step_seconds is None):
        raise ArgumentError("a plan needs one of rate and step_seconds")
    if step_seconds is None:
        found = arguments.rate("rate", rate)
        if found < _LEAST_RATE:
            raise arguments.refuse("rate", rate, f"at least {_LEAST_RATE:g} images a second")
        return found
    found = batch_size / arguments.seconds("step_seconds", step_seconds)
    if not _LEAST_RATE <= found <= arguments.MOST_RATE:
        most = f"at most {arguments.MOST_RATE:,.0f} images a second"
        least = f"at least {_LEAST_RATE:g} images a second"
        bound = least if found < _LEAST_RATE else most
        raise arguments.refuse("step_seconds", step_seconds, f"a step that takes {bound}")
    return found


def _positive(name: str, value: Any, least: float, most: float) -> float:
    found = arguments.number(name, value)
    if found <= 0:
        raise arguments.refuse(name, value, "a number of more than 0")
    if not least <= found <= most:
        raise arguments.refuse(name, value, f"a number from {least:g} to {most:g}")
    return float(found)


def _image_bytes(value: Any) -> float:
    return _positive("image_bytes", value, 0.0, _MOST_BYTES)


def _batches(batch_size: int, side: int) -> int:
    """Bytes of the batches that one loader keeps, with prefetch=2 and float32."""
    return (2 + _MORE_SLOTS) * batch_size * (3 * side * side * 4 + 2 * 8)


def _named(source: Any) -> Any:
    """Returns a source as JSON can express it."""
    if source is None or isinstance(source, list | tuple):
        return source and [os.fsdecode(one) for one in source]
    return repr(source) if isinstance(source, Dataset) else os.fsdecode(source)


def _opened(source: Any, words: containers.Words, of_store: Mapping[str, Any]) -> Any:
    """Returns a context that holds the dataset; a dataset that was open before stays open."""
    if isinstance(source, Dataset):
        return nullcontext(source)
    if isinstance(source, str | os.PathLike):
        arguments.path("source", source)  # checked here, because Dataset calls it path
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about containers' columns; info has them
        return Dataset(source, **of_store, **words._asdict())


def _told(
    words: containers.Words,
    of_store: Mapping[str, Any],
    images: int | None,
    image_bytes: float | None,
    assumed: list[str],
) -> tuple[int, float, Mapping[str, float]]:
    """Returns number and mean size of images if there is no source, and the size of each form."""
    for name, value in words._asdict().items():
        if value is not None:
            raise ArgumentError(f"{name}={value!r} is for a plan with a source, and none is given")
    for name, value in of_store.items():
        if value is not None:
            raise ArgumentError(f"{name}= is for a plan with a source, and none is given")
    if images is None or image_bytes is None:
        raise ArgumentError("a plan needs a source, or images and image_bytes")
    count = arguments.count("images", images, 1)
    mean = _image_bytes(image_bytes)
    assumed.append(f"{_OF_IMAGENET}; with SOURCE it is measured on its own images")
    return count, mean, FORMS


def _seen(
    source: Any,
    words: containers.Words,
    of_store: Mapping[str, Any],
    images: int | None,
    image_bytes: float | None,
    assumed: list[str],
) -> tuple[int, float, Mapping[str, float]]:
    """Returns the same for a source."""
    if isinstance(source, Dataset):
        words.refuse_with("source")
        containers.refuse_of_address("a headrace.Dataset", **of_store)
    if images is not None:
        raise ArgumentError("images is for a plan without a source")
    given = None if image_bytes is None else _image_bytes(image_bytes)
    return _measured(source, words, of_store, given, assumed)


def _measured(
    source: Any,
    words: containers.Words,
    of_store: Mapping[str, Any],
    given: float | None,
    assumed: list[str],
) -> tuple[int, float, dict[str, float]]:
    """Returns the images, the mean bytes of one, and the size of each form relative to the files.

    ``given`` is the mean size of images that are not bytes in files, or that lie in a store.
    """
    with _opened(source, words, of_store) as dataset:
        count = len(dataset)
        chosen = choosing.numbers(count, 2048)
        # Nothing is fetched for a dataset in a store if the size is given.
        told = given is not None and dataset.away
        found = [] if told else choosing.lengths(dataset, chosen)
        if found and given is not None:
            raise ArgumentError(
                f"image_bytes={given!r} is for a source whose images are not bytes in files, and "
                f"those of {dataset} are measured"
            )
        if given is not None:
            assumed.append(_OF_IMAGENET)
            return count, given, FORMS
        if not found:
            # Reading raises what is wrong with a file. One without bytes is read without an error.
            if dataset.kind != "memory" and not dataset.read(chosen[0]):
                raise ArgumentError(_UNREADABLE.format(dataset))
            raise ArgumentError(f"no sample of {dataset} is bytes in a file; give image_bytes=")
        mean = sum(found) / len(found)
        if len(chosen) < count:
            assumed.append(f"the mean bytes of an image are those of {len(found):,} of {count:,}")
        some = choosing.numbers(count, _SAMPLES)
        with choosing.copied(dataset, some, _SAMPLE_BYTES) as (folder, copies):
            if not copies:
                raise ArgumentError(_UNREADABLE.format(dataset))
            files = sum(file.stat().st_size for file in (folder / "files" / "all").iterdir())
            ratios = {}
            for form, how in _HOW.items():
                try:
                    made = choosing.packed(folder, form, **how)
                    ratios[form] = choosing.bytes_of(made) / files
                except HeadraceError as failure:
                    assumed.append(f"the storage of {_SAID[form]} was not measured: {failure}")
            if ratios:
                assumed.append(_scaled(len(copies)))
            if kept := _kept(folder / "packed"):
                assumed.append(
                    f"{kept:,} of these do not decode, and keep their size in every form"
                )
    return count, mean, {"packed": 1.0} | ratios


def _kept(packed: Path) -> int:
    """Counts the images that cannot be decoded, and so are packed as they are."""
    if not packed.exists():
        return 0
    with Dataset(packed) as dataset:
        verdicts = [dataset.facts(number)["verdict"] for number in range(len(dataset))]
    return sum(verdict not in ("good", "warnings") for verdict in verdicts)


def _scaled(images: int) -> str:
    return f"the storage of each form is that of {images:,} image{'s' * (images > 1)}, scaled"


def _lines(facts: dict[str, Any]) -> list[str]:
    asked, memory = facts["asked"], facts["memory"]
    gpus, iops = asked["gpus"], facts["iops"]
    rate = facts["images_per_second"]
    cores = facts["cores"]
    cache = ", ".join(
        f"{size(held)} for {float(hit) * 100:.0f} %" for hit, held in memory["cache"].items()
    )
    rows = [
        ("images", f"{a_second(rate)} a second for {gpus:,} GPU{'s' * (gpus > 1)}"),
        ("storage", f"{facts['megabytes_per_second']:,.1f} MB/s where nothing is cached"),
        (
            "reads",
            f"{a_second(iops['files'])} a second of files, each opened first; "
            f"{a_second(iops['shards'])} of "
            f'shards, {a_second(iops["shards_window"])} with shuffle="window"',
        ),
        ("cores", f"{cores:,} that decode {a_second(facts['images_per_core'])} images/s each"),
        ("memory", f"{size(memory['batches'])} for batches of {asked['batch_size']:,}"),
        ("page cache", f"{cache} of the reads, with a new order each epoch"),
        ("an epoch", duration(facts["epoch_seconds"])),
    ]
    if asked["epochs"] > 1:
        rows.append((f"{asked['epochs']:,} epochs", duration(facts["total_seconds"])))
    rows += [(_SAID[form], size(held)) for form, held in facts["storage"].items()]
    return table(rows) + [f"Assumed: {sentence}." for sentence in facts["assumed"]]
