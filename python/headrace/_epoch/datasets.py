"""What ``Loader`` accepts as a dataset: an open one, a path, or several of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import Any

from headrace._engine import arguments, away, containers
from headrace.dataset import Dataset
from headrace.errors import ArgumentError, ArgumentTypeError


def opened(
    dataset: Any,
    words: containers.Words,
    storage: Mapping[str, Any] | None,
    cache: str | os.PathLike[str] | None,
    cache_size: int | str | None,
) -> Dataset:
    """Opens what ``Loader`` was given as a dataset."""
    cached = cache is not None or cache_size is not None
    if isinstance(dataset, Dataset):
        words.refuse_with("dataset")
        containers.refuse_of_address(
            "a headrace.Dataset", cache=cache, cache_size=cache_size, storage=storage
        )
        return dataset
    given = {name: value for name, value in words._asdict().items() if value is not None}
    if not isinstance(dataset, list | tuple):
        if not isinstance(dataset, str | bytes | os.PathLike):
            raise ArgumentTypeError(
                f"dataset is of type {type(dataset).__name__}: a path or a headrace.Dataset was "
                "expected; headrace.DataLoader takes torch's and torchvision's datasets"
            )
        path = arguments.found_path(arguments.path("dataset", dataset))
        return Dataset(path, storage=storage, cache=cache, cache_size=cache_size, **given)
    if cached:
        raise ArgumentError("cache= is for one address, and several datasets were given")
    if not given and storage is None:
        return Dataset.concat(dataset)
    for number, part in enumerate(dataset):
        if isinstance(part, Dataset):
            words.refuse_with(f"datasets[{number}]")
    with contextlib.ExitStack() as parts:
        opened = [
            part if isinstance(part, Dataset) else parts.enter_context(_part(part, given, storage))
            for part in arguments.each("datasets", dataset, _path_or_open)
        ]
        return Dataset.concat(opened, words.classes)


def _path_or_open(name: str, part: Any) -> Any:
    return part if isinstance(part, Dataset) else arguments.path(name, part)


def _part(path: str, given: Mapping[str, Any], storage: Mapping[str, Any] | None) -> Dataset:
    """Opens one part by its path or address; the options of a store apply only to an address."""
    return Dataset(path, storage=storage if away.is_url(path) else None, **given)
