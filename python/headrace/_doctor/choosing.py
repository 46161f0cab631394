"""Some samples of a dataset that stand for all, and the same samples packed in other forms."""

from __future__ import annotations

import os
import random
import shutil
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace import writing
from headrace._doctor import bounded
from headrace._engine import away
from headrace.dataset import Dataset
from headrace.errors import HeadraceError, SystemFailure

_READ_AT_ONCE = 16
_LEAST_WAIT = 0.01


class NoRoom(SystemFailure):
    """The temporary folder takes no copy of an image."""


@dataclass(frozen=True)
class Place:
    """Where a sample's encoded bytes are, and its seek points if they lie in a file."""

    index: int
    path: str
    offset: int
    length: int
    points: tuple[str, int, int] | None = None  # path, offset, length


def numbers(count: int, most: int) -> list[int]:
    """Chooses at most so many samples, evenly over the dataset and always the same ones."""
    if count <= most:
        return list(range(count))
    draws = random.Random(0)
    return [
        draws.randrange(count * part // most, max(count * (part + 1) // most, 1))
        for part in range(most)
    ]


def places(dataset: Dataset, chosen: list[int], seconds: float = 2.0) -> list[Place]:
    """Returns where those samples lie that are bytes of a file; the others are left out.

    ``seconds`` limits how long the file system is asked, because its answers may come late.
    """
    sizes: dict[str, int] = {}  # of files; 0 if there is no file. A shard has many samples

    def place(index: int) -> Place | None:
        facts = dataset.facts(index)
        path, length, offset = facts["path"], int(facts["length"]), int(facts["offset"])
        if path not in sizes:
            sizes[path] = _size(path)
        if length < 0:  # in a folder that is only listed, the file is the sample
            length = sizes[path]
        points = None
        if "seek_path" in facts:
            points = facts["seek_path"], int(facts["seek_offset"]), int(facts["seek_length"])
        there = length > 0 and sizes[path] > 0
        return Place(index, path, offset, length, points) if there else None

    # They are asked in random order, so that those reached in time stand for all.
    mixed = random.Random(0).sample(chosen, len(chosen))
    found = [one for _, one in bounded.each(mixed, place, seconds) if one is not None]
    return sorted(found, key=lambda one: one.index)


def lengths(dataset: Dataset, chosen: list[int]) -> list[int]:
    """Returns the encoded bytes of each sample that is bytes of a file, on disk or in a store."""
    here, found = chosen, []
    if dataset.away:
        here = []
        for index in chosen:
            facts = dataset.facts(index)  # the index knows the lengths in a store
            if away.is_url(facts["path"]):
                found.append(int(facts["length"]))
            else:
                here.append(index)
    return found + [place.length for place in places(dataset, here)]


def _size(path: str) -> int:
    try:
        found = os.stat(path)
    except (OSError, TypeError, ValueError):
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


@contextmanager
def copied(
    dataset: Dataset,
    chosen: list[int],
    most_bytes: int,
    seconds: float = 5.0,
    at_once: int = _READ_AT_ONCE,
) -> Iterator[tuple[Path, list[int]]]:
    """Copies samples into a folder until so many bytes or seconds; yields it and the copied
    samples.

    Samples that cannot be read are left out.

    Raises:
        NoRoom: not even one sample can be written.
    """

    clock = bounded.Clock(seconds)

    def read(index: int) -> bytearray | None:
        try:
            # A store that is silent is asked again for a minute, and all samples may be there.
            with away.within(max(clock.left, _LEAST_WAIT)):
                return dataset.read(index)
        except HeadraceError:
            return None

    with _temporary() as folder:
        files = folder / "files" / "all"
        left = most_bytes
        taken: list[int] = []
        for first in range(0, len(chosen), at_once):
            some = chosen[first : first + at_once]
            for index, data in bounded.each(some, read, clock.left, at_once):
                if data and (len(data) <= left or not taken):
                    try:
                        _write(files / f"{index:012d}.jpg", data)
                    except OSError as failure:
                        if not taken:
                            raise _no_room(failure, folder) from None
                        left = 0  # the samples that fitted stand for all
                        break
                    taken.append(index)
                    left -= len(data)
            if left <= 0 or (clock.left == 0 and (taken or dataset.away)):
                break
        yield folder, taken


@contextmanager
def _temporary() -> Iterator[Path]:
    """Yields a new folder for copies, and removes it afterwards."""
    try:
        made = TemporaryDirectory(prefix="headrace-")
    except OSError as failure:
        raise _no_room(failure, None) from None
    with made as folder:
        try:
            (Path(folder) / "files" / "all").mkdir(parents=True)
        except OSError as failure:
            raise _no_room(failure, Path(folder)) from None
        yield Path(folder)


def _write(file: Path, data: bytes | bytearray) -> None:
    """Writes a file whole or not at all."""
    try:
        file.write_bytes(data)
    except OSError:
        file.unlink(missing_ok=True)
        raise


def _no_room(failure: OSError, folder: Path | None) -> NoRoom:
    why = (failure.strerror or str(failure)).lower()
    where = "" if folder is None else f"{folder.parent}: "
    made = NoRoom(
        f"{where}no copy of an image can be kept for a while ({why}); TMPDIR names another folder"
    )
    made.errno = failure.errno
    return made


def packed(folder: Path, name: str, clock: bounded.Clock = bounded.ENDLESS, **how: object) -> Path:
    """Packs the copies as a dataset in the form that ``how`` states, as for ``writing.pack``.

    Raises:
        Over: the time ended before; nothing of the dataset is left.
    """
    made = folder / name

    def end(*_: int) -> None:
        if not clock.left:
            raise bounded.Over

    if not made.exists():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of the originals are shown elsewhere
                writing.pack(folder / "files", made, on_progress=end, **how)  # type: ignore[arg-type]
        except bounded.Over:
            shutil.rmtree(made, ignore_errors=True)  # packing may just have ended
            raise
    return made


def bytes_of(folder: Path) -> int:
    """The bytes of all files in a packed dataset: shards, index and manifest."""
    return sum(file.stat().st_size for file in folder.iterdir())
