"""What a job reads: files and containers that the engine opens, or samples that Python reads."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace._arrays import opening
from headrace._engine import arguments, containers
from headrace._making import items, packing, reading
from headrace.dataset import Dataset
from headrace.errors import ArgumentError

if TYPE_CHECKING:
    Path = str | os.PathLike[str]


def samples(
    source: Any, words: containers.Words, lossless: str | None, num_workers: int
) -> packing.Samples | None:
    """Returns the samples if Python reads them; None if the engine does."""
    format, image, label, fields, classes, split, root = words
    if lossless is not None:
        arguments.choice("lossless", lossless, ("png",))
    arguments.count("num_workers", num_workers, 0, 1024)
    if isinstance(source, Dataset) and source.source_config() is None:
        words.refuse_with("source")
        return packing.Samples(len(source), lambda _: _of_headrace(source), source.classes or None)
    chosen = source
    if isinstance(source, Mapping):
        chosen = reading.chosen(source, None if split is None else arguments.name("split", split))
        split = None
    if isinstance(source, Dataset) or not reading.is_dataset(chosen):
        for name, value in (("lossless", lossless), ("num_workers", num_workers or None)):
            if value is not None:
                raise ArgumentError(f"{name}={value!r} is only for Python datasets")
        return None
    for name, word in (("format", format), ("split", split), ("root", root)):
        if word is not None:
            raise ArgumentError(f"{name}={word!r} is only for containers, and source is a dataset")
    columns = items.Columns(
        None if image is None else arguments.name("image", image),
        None if label is None else arguments.name("label", label),
        None if fields is None else arguments.each("fields", fields, arguments.name),
        lossless,
    )
    names = None if classes is None else arguments.each("classes", classes, arguments.name)
    return packing.Samples(
        len(chosen),
        lambda with_images: reading.read(chosen, columns, num_workers, with_images),
        items.classes_of(chosen, columns.label) if names is None else names,
    )


def _of_headrace(dataset: Dataset) -> Generator[items.Taken, None, None]:
    for index in range(len(dataset)):
        found = dataset.facts(index)
        image = bytes(dataset.read(index))
        yield items.Taken(image, found["label"], found["key"], found["fields"])


def containers_of(
    source: Path | Sequence[Path] | Dataset, words: containers.Words
) -> dict[str, Any]:
    """Returns the source of a job, with the words about its containers."""
    if isinstance(source, Dataset):
        found = source.source_config()
        if found is None:
            raise arguments.refuse(
                "source", source, "a path, or a dataset of containers or arrays,"
            )
        words.refuse_with("source")
    else:
        found = opening.source("source", source, words)
    if "path" in found:
        found["source"] = found.pop("path")
    return found
