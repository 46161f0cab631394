"""A forked child has its own copy of every batch that its parent holds."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils import data

import headrace as hr
from conftest import slots
from timing import eventually

CROP = [hr.transforms.RandomResizedCrop((20, 24))]
MIXED = [*CROP, hr.transforms.CutMix(num_classes=3)]


def loader_of(source: Path, **options: Any) -> hr.Loader:
    return hr.Loader(source, 5, **{"transform": CROP, "num_threads": 2, "shuffle": True, **options})


def drop_in_of(source: Path) -> hr.DataLoader[Any]:
    return hr.DataLoader(hr.Dataset(source), 5, shuffle=True, transform=CROP)


def iterable_of(source: Path) -> data.DataLoader[Any]:
    return data.DataLoader(hr.IterableDataset(source, 5, transform=CROP), batch_size=None)


# For each case: a function that makes batches, and the part of a batch that the test holds.
HELD: dict[str, tuple[Callable[[Path], Any], Callable[[Any], Any]]] = {
    "images": (loader_of, lambda batch: batch[0]),
    "labels": (loader_of, lambda batch: batch[1]),
    "soft labels": (lambda source: loader_of(source, transform=MIXED), lambda batch: batch[1]),
    "slice": (loader_of, lambda batch: batch[0][1:3, :, 2:9:2]),
    "NumPy": (lambda source: loader_of(source, output="numpy"), lambda batch: batch[0]),
    "DLPack": (loader_of, lambda batch: np.from_dlpack(batch[0])),
    "DataLoader": (drop_in_of, lambda batch: batch[0]),
    "IterableDataset": (iterable_of, lambda batch: batch[0]),
}
held = pytest.mark.parametrize("kind", HELD)


def content(view: Any) -> str:
    return hashlib.sha256(np.asarray(view).tobytes()).hexdigest()


def overwrite(view: Any) -> None:
    view[...] = 77


class Child:
    """A forked child that does what it is asked by name, one thing after the other."""

    def __init__(self, acts: Mapping[str, Callable[[], object]]) -> None:
        (theirs, self._asks), (self._answers, mine) = os.pipe(), os.pipe()
        self.id = os.fork()
        if self.id:
            os.close(theirs)
            os.close(mine)
            return
        status = 1
        try:
            os.close(self._asks)
            os.close(self._answers)
            while asked := os.read(theirs, 100).decode():
                os.write(mine, f"{acts[asked]()}".encode())
            status = 0
        finally:
            os._exit(status)

    def ask(self, name: str) -> str:
        """The child's answer; empty if it has ended."""
        os.write(self._asks, name.encode())
        return os.read(self._answers, 100).decode()

    def end(self) -> int:
        """Lets the child end, and returns its status."""
        os.close(self._asks)
        os.close(self._answers)
        return os.waitpid(self.id, 0)[1]


@contextlib.contextmanager
def forked(acts: Mapping[str, Callable[[], object]]) -> Iterator[Child]:
    child = Child(acts)
    status = -1
    try:
        yield child
    finally:
        status = child.end()
    assert status == 0


@held
def test_writes_of_a_child_into_its_copy_are_invisible_to_other_processes(
    packed: Path, kind: str
) -> None:
    make, take = HELD[kind]
    view = take(next(iter(make(packed))))
    was = content(view)
    acts = {"read": lambda: content(view), "write": lambda: overwrite(view)}
    with forked(acts) as writer, forked(acts) as reader:
        assert writer.ask("read") == was
        assert writer.ask("write")
        assert writer.ask("read") != was
        assert content(view) == reader.ask("read") == was


@held
def test_a_childs_copy_stays_unchanged_whatever_the_parent_and_the_engine_do(
    packed: Path, kind: str
) -> None:
    make, take = HELD[kind]
    batches = make(packed)
    views = [take(next(iter(batches)))]
    was = content(views[0])
    with forked({"read": lambda: content(views[0])}) as child:
        overwrite(views[0])
        assert child.ask("read") == was
        views.clear()
        gc.collect()
        for _ in range(3):
            for _ in batches:
                pass
        assert child.ask("read") == was


def test_a_parent_that_forks_at_every_batch_gets_the_same_batches(packed: Path) -> None:
    """Each child keeps the batch that existed at its fork until the epochs are over."""
    with loader_of(packed) as plain, contextlib.ExitStack() as children:
        expected = [content(images) for _ in range(3) for images, _ in plain]
        with loader_of(packed) as loader:
            found, kept = [], []
            for _ in range(3):
                for images, _ in loader:
                    found.append(content(images))
                    views = [images]
                    acts = {"read": lambda views=views: content(views[0])}
                    kept.append(children.enter_context(forked(acts)))
                    overwrite(images)
                    views.clear()  # so that the engine writes there again
                    del images
            assert found == expected
            assert len(slots()) < len(found)
            assert [child.ask("read") for child in kept] == expected


def slots_in_a_child() -> int:
    with forked({"count": lambda: len(slots())}) as child:
        return int(child.ask("count"))


def test_children_have_the_held_batches_and_no_other_large_slots(packed: Path) -> None:
    large = [hr.transforms.RandomResizedCrop(224)]  # 3 MB a batch
    with loader_of(packed, transform=large) as loader:
        batches = iter(loader)
        first, second = next(batches), next(batches)
        # A slot is hidden just after it is mapped: a fork in between has it, too.
        assert eventually(lambda: slots_in_a_child() == 2)
        assert len(slots()) > 2
        del first, second
        gc.collect()
        assert eventually(lambda: slots_in_a_child() == 0)


def test_a_killed_child_with_a_batch_keeps_nothing_of_its_parent(packed: Path) -> None:
    views = [next(iter(loader_of(packed)))[0]]
    child = Child({"read": lambda: content(views[0])})
    assert child.ask("read") == content(views[0])
    os.kill(child.id, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(child.end()) == -signal.SIGKILL
    views.clear()
    assert eventually(lambda: not slots())
