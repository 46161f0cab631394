"""``headrace.doctor``: measures what limits a training (docs/doctor.md)."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace._doctor import decoding, sentences, stages
from headrace._doctor.report import Diagnosis
from headrace._engine import arguments, containers, tracing
from headrace.dataset import Dataset
from headrace.errors import ArgumentError

_MEAN, _STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_NAMED = ("train", "eval", "randaugment")


def doctor(
    source: Any,
    step: Callable[[Any], Any] | None = None,
    *,
    rate: float | None = None,
    transform: Any = None,
    batch_size: int | None = None,
    size: int | None = None,
    seconds: float = 15.0,
    format: str | None = None,
    image: str | None = None,
    label: Any = None,
    fields: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    root: str | os.PathLike[str] | None = None,
    storage: Mapping[str, Any] | None = None,
    cache: str | os.PathLike[str] | None = None,
    cache_size: int | str | None = None,
    timeout: float | None = None,
) -> Diagnosis:
    """Measures what limits a training on this machine, and what each remedy would gain.

    For a dataset it measures storage (from the disk and from the page cache), decoding (with one
    thread and with all) and the delivery of batches. It reads at most 1 GB, and then has the page
    cache of these files restored. For a loader (``headrace.Loader``, ``headrace.DataLoader`` or
    torch's) and a step it measures the training with real batches and with one batch repeatedly,
    and the loader alone.

    Args:
        source: the dataset, as ``Dataset`` accepts it, or a ``Dataset``; with ``step``, a loader.
        step: the training's own step. It is called with what the loader yields. If it starts work
            on a GPU of which PyTorch does not know, it must wait for that work.
        rate: images a second that the training needs, at most 10^12; None: the slowest stage is
            the limit.
        transform: for a dataset: "train" (RandomResizedCrop, flip, Normalize), "eval" (Resize,
            CenterCrop, Normalize), "randaugment", the path of a JSON file with a list of
            transforms, or a list as ``Loader`` accepts it; None: "train".
        batch_size: for a dataset: samples of a batch; None: 128.
        size: for a dataset: height and width in pixels of the crops of a named transform; None:
            224.
        seconds: about how long to measure; at least 1. It takes at most twice as long.
        format, image, label, fields, classes, split, root, storage, cache, cache_size, timeout:
            as for ``Dataset``, if ``source`` is a path. A loader or an open dataset has its own.

    Returns:
        an object that prints as text. ``limit`` is "storage", "decoding", "delivery", "copy",
        "training" or "none". ``measured`` has the measurements and ``asked`` the arguments.
        ``remedies`` is a list, each with ``text``, ``gain`` (how many times as fast),
        ``images_per_second`` and ``measured`` (whether that rate was measured or calculated).
        ``notes`` says what else was noticed or could not be measured.

    Raises:
        ArgumentError: an argument is impossible.
        MemoryShortError: there is not enough memory for a batch of that size.
    """
    asked_rate = None if rate is None else arguments.rate("rate", rate)
    seconds = _seconds(seconds)
    words = containers.Words(format, image, label, fields, classes, split, root)
    if step is not None:
        from headrace._doctor import stepping

        words.refuse_with("source", "a loader, whose dataset")
        containers.refuse_of_address(
            "a loader", storage=storage, cache=cache, cache_size=cache_size, timeout=timeout
        )
        _refuse_beside_a_step(transform=transform, batch_size=batch_size, size=size)
        if not _may_be_a_loader(source):
            raise arguments.refuse_type("source", source, "a loader, beside a step")
        return stepping.diagnose(source, arguments.callback("step", step), asked_rate, seconds)
    if not isinstance(source, Dataset | str | bytes | os.PathLike | list | tuple):
        kind = type(source).__name__
        if not hasattr(source, "__getitem__") and not hasattr(source, "__iter__"):
            allowed = "a path or headrace.Dataset, or a loader and its step,"
            raise arguments.refuse_type("source", source, allowed)
        if hasattr(source, "__getitem__"):
            raise ArgumentError(
                f"source is a dataset of type {kind}: a path or headrace.Dataset was expected, or "
                "a loader over it and a step: doctor(loader, step)"
            )
        raise ArgumentError(
            f"source is a loader ({kind}), and its step is missing: doctor(loader, step)"
        )
    if isinstance(source, bytes):
        source = os.fsdecode(source)
    if isinstance(source, str | os.PathLike):
        arguments.path("source", source)  # checked here, because Dataset calls it path
    batch_size = arguments.count("batch_size", 128 if batch_size is None else batch_size, 1)
    size = arguments.count("size", 224 if size is None else size, 1)
    transform = "train" if transform is None else transform
    steps = _steps(transform, size)
    asked: dict[str, Any] = {"rate": asked_rate, "batch_size": batch_size}
    asked["size"] = size if transform in _NAMED else None  # other transforms have their own
    asked["transform"] = transform if isinstance(transform, str) else "own"
    asked["seconds"] = seconds
    if isinstance(source, Dataset):
        words.refuse_with("source")
        containers.refuse_of_address(
            "a headrace.Dataset",
            storage=storage,
            cache=cache,
            cache_size=cache_size,
            timeout=timeout,
        )
        return _of_dataset(source, asked, steps, seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about containers' columns; info has them
        dataset = Dataset(
            source,
            storage=storage,
            cache=cache,
            cache_size=cache_size,
            timeout=timeout,
            **words._asdict(),
        )
    with dataset:
        return _of_dataset(dataset, asked, steps, seconds)


def _refuse_beside_a_step(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ArgumentError(f"{name}= is for a dataset; a loader has its own")


def _may_be_a_loader(source: Any) -> bool:
    """Whether it yields batches. Paths, one or several, are a dataset."""
    if isinstance(source, str | bytes | os.PathLike | Dataset) or not hasattr(source, "__iter__"):
        return False
    several = isinstance(source, list | tuple) and len(source) > 0
    return not (several and isinstance(source[0], str | bytes | os.PathLike))


def _seconds(value: Any) -> float:
    found = arguments.seconds("seconds", value)
    if found < stages.LEAST_SECONDS:
        raise arguments.refuse("seconds", found, f"at least {stages.LEAST_SECONDS:g} second")
    return found


def _steps(transform: Any, size: int) -> list[Any]:
    """Returns the transforms of a named recipe, those of a JSON file, or the given list."""
    if not isinstance(transform, str | os.PathLike):
        return arguments.transforms("transform", transform)
    crop = [{"name": "RandomResizedCrop", "size": size}, {"name": "RandomHorizontalFlip"}]
    normalise = [{"name": "Normalize", "mean": _MEAN, "std": _STD}]
    if transform == "train":
        return crop + normalise
    if transform == "randaugment":
        return [*crop, {"name": "RandAugment"}, *normalise]
    if transform == "eval":
        whole = {"name": "Resize", "size": round(size * 256 / 224)}
        return [whole, {"name": "CenterCrop", "size": size}, *normalise]
    path = arguments.path("transform", transform)
    try:
        listed = json.loads(Path(path).read_text())
    except OSError as failure:
        allowed = f"one of {', '.join(_NAMED)}, or the path of a JSON list of transforms"
        why = failure.strerror or "it cannot be read"
        raise arguments.refuse("transform", transform, f"{allowed} ({why.lower()})") from None
    except (ValueError, RecursionError) as failure:
        raise ArgumentError(f"transform={path!r} is no JSON: {failure}") from None
    if not isinstance(listed, list):
        raise arguments.refuse_type(f"the JSON of {path}", listed, "a list of transforms")
    return arguments.transforms("transform", listed)


def _of_dataset(
    dataset: Dataset, asked: dict[str, Any], steps: list[Any], seconds: float
) -> Diagnosis:
    with tracing.without_variable():
        decoding.refuse_without_room(dataset, asked["batch_size"], steps)
        answer = stages.of_dataset(dataset, asked, steps, seconds)
    return Diagnosis(answer, sentences.lines(answer))
