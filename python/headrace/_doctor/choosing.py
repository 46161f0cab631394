"""Some samples of a dataset that stand for all, and the same ones packed in other forms."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace import writing
from headrace.dataset import Dataset
from headrace.errors import HeadraceError


@dataclass(frozen=True)
class Place:
    """Where a sample's encoded bytes are."""

    index: int
    path: str
    offset: int
    length: int


def numbers(count: int, most: int) -> list[int]:
    """At most so many numbers of samples, drawn evenly over the dataset, always the same ones."""
    if count <= most:
        return list(range(count))
    draws = random.Random(0)
    return [
        draws.randrange(count * part // most, max(count * (part + 1) // most, 1))
        for part in range(most)
    ]


def places(dataset: Dataset, chosen: list[int]) -> list[Place]:
    """Where those of the samples lie that are bytes of a file; the others are left out."""
    found = []
    for index in chosen:
        facts = dataset.facts(index)
        path, length, offset = facts["path"], int(facts["length"]), int(facts["offset"])
        try:
            if length < 0:  # a folder that is only listed: the file is the sample
                length = os.stat(path).st_size
        except (OSError, TypeError, ValueError):
            continue
        if path and length > 0 and os.path.isfile(path):
            found.append(Place(index, path, offset, length))
    return found


@contextmanager
def copied(dataset: Dataset, chosen: list[int], most_bytes: int) -> Iterator[tuple[Path, int]]:
    """A folder with copies of samples, until so many bytes, and how many they are.

    Samples that cannot be read are left out.
    """
    with TemporaryDirectory(prefix="headrace-") as folder:
        files = Path(folder) / "files" / "all"
        files.mkdir(parents=True)
        left, count = most_bytes, 0
        for index in chosen:
            try:
                data = dataset.read(index)
            except HeadraceError:
                continue
            left -= len(data)
            if left < 0 and count:
                break
            (files / f"{index:012d}.jpg").write_bytes(data)
            count += 1
        yield Path(folder), count


def packed(folder: Path, name: str, **how: object) -> Path:
    """The copies as a packed dataset, in the form that ``how`` says as ``writing.pack`` does."""
    made = folder / name
    if not made.exists():
        writing.pack(folder / "files", made, **how)  # type: ignore[arg-type]
    return made


def bytes_of(folder: Path) -> int:
    """The bytes of all files in a packed dataset: shards, index and manifest."""
    return sum(file.stat().st_size for file in folder.iterdir())
