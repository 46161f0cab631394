"""Fields of samples whose containers lie in a store: what is asked for, how, and for how long."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace import errors
from processes import interrupted, start
from remote.stores import Answering, Store
from timing import PATIENCE_S, within

COUNT = 12
BATCH = 6

# Captions are told from images by the length of what is asked for.
CAPTION = "a caption, {:02d}"
TITLE = "the longer title of photograph {:02d}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A container in a store, of which there is an index here, "photos.hr"."""
    (tmp_path / "store").mkdir()
    with tarfile.open(tmp_path / "store" / "train.tar", "w") as file:
        for number in range(COUNT):
            members = {
                "jpg": images.jpeg(64, 48, seed=number),
                "cls": str(number % 3).encode(),
                "txt": CAPTION.format(number).encode(),
                "title.txt": TITLE.format(number).encode(),
            }
            for suffix, content in members.items():
                member = tarfile.TarInfo(f"{number:06d}.{suffix}")
                member.size = len(content)
                file.addfile(member, io.BytesIO(content))
    store = Store(tmp_path / "store")
    hr.index(store.url("train.tar"), tmp_path / "photos.hr")
    del store.requests[:]
    yield store
    store.end()


def loader(index: Path, **options: Any) -> Any:
    resize = [hr.transforms.Resize((8, 8))]
    return hr.Loader(index, BATCH, transform=resize, output="numpy", num_threads=1, **options)


def asked(store: Store, text: str) -> int:
    """How often a range was asked for that is as long as such texts."""
    length = len(text.format(0))
    return sum(asked == length for *_, asked in store.requests)


def test_only_the_fields_that_are_asked_for_are_read(store: Store, tmp_path: Path) -> None:
    with loader(tmp_path / "photos.hr", fields=["key", "path", "index"]) as batches:
        keys = [key for *_, more in batches for key in more["key"]]
    assert keys == [f"{number:06d}" for number in range(COUNT)]
    assert asked(store, CAPTION) == asked(store, TITLE) == 0
    with loader(tmp_path / "photos.hr", fields=["txt"]) as batches:
        texts = [text for *_, more in batches for text in more["txt"]]
    assert texts == [CAPTION.format(number) for number in range(COUNT)]
    assert asked(store, CAPTION) == COUNT
    assert asked(store, TITLE) == 0


def test_the_fields_of_a_batch_are_asked_for_together(store: Store, tmp_path: Path) -> None:
    together, apart = threading.Barrier(2 * BATCH), threading.Event()

    def waits_for_all(_: Answering, body: bytes, *__: int) -> bool:
        if len(body) in (len(CAPTION.format(0)), len(TITLE.format(0))):
            try:
                together.wait(PATIENCE_S)
            except threading.BrokenBarrierError:
                apart.set()
        return False

    store.fault = waits_for_all
    with loader(tmp_path / "photos.hr", fields=["txt", "title.txt"]) as batches:
        first = next(iter(batches))
    assert first[2]["title.txt"] == [TITLE.format(number) for number in range(BATCH)]
    assert not apart.is_set()


def test_a_cache_has_the_fields_that_were_read_before(store: Store, tmp_path: Path) -> None:
    cache = {"cache": tmp_path / "cache", "cache_size": "64MB"}
    with (
        hr.Dataset(tmp_path / "photos.hr", **cache) as dataset,
        loader(dataset, fields=["txt"]) as batches,
    ):
        epochs = [[text for *_, more in batches for text in more["txt"]] for _ in range(2)]
        assert dataset[3].fields["txt"] == epochs[0][3]
    assert epochs[0] == epochs[1] == [CAPTION.format(number) for number in range(COUNT)]
    assert asked(store, CAPTION) == COUNT


def test_a_field_that_cannot_be_read_is_an_error_that_says_whose_it_is(
    store: Store, tmp_path: Path
) -> None:
    def refused(answering: Answering, body: bytes, *_: int) -> bool:
        if len(body) != len(CAPTION.format(0)):
            return False
        answering.refuse(403)
        return True

    store.fault = refused
    with (
        loader(tmp_path / "photos.hr", fields=["txt"]) as batches,
        pytest.raises(errors.DeniedError, match=r"train\.tar: record \d"),
    ):
        next(iter(batches))


class Silent:
    """A fault that leaves requests for captions without an answer."""

    def __init__(self) -> None:
        self.asked, self.over = threading.Event(), threading.Event()

    def __call__(self, answering: Answering, body: bytes, *_: int) -> bool:
        if len(body) != len(CAPTION.format(0)):
            return False
        self.asked.set()
        self.over.wait(60)
        answering.reset()
        return True


def test_a_loaders_timeout_ends_the_wait_for_fields(store: Store, tmp_path: Path) -> None:
    def attempt() -> float:
        store.fault = silent = Silent()
        try:
            with loader(tmp_path / "photos.hr", fields=["txt"], timeout=0.5) as batches:
                each = iter(batches)
                began = time.monotonic()
                with pytest.raises(errors.WaitTimeoutError, match="the fields of a batch"):
                    next(each)
                waited = time.monotonic() - began
                silent.over.set()
                store.fault = None
                # The batch is not lost.
                assert next(each)[2]["txt"] == [CAPTION.format(number) for number in range(BATCH)]
                return waited
        finally:
            silent.over.set()

    within(1.5, attempt)


WAITING = """
    import sys
    import headrace as hr
    try:
        with hr.Loader(sys.argv[1], 4, output="numpy", fields=["txt"],
                       transform=[hr.transforms.Resize((8, 8))]) as loader:
            next(iter(loader))
    except KeyboardInterrupt:
        print("interrupted")
"""

LOOKING = """
    import sys
    import headrace as hr
    try:
        hr.Dataset(sys.argv[1]).facts(3)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("program", [WAITING, LOOKING], ids=["loader", "facts"])
def test_an_interrupt_ends_the_wait_for_fields_within_a_second(
    store: Store, tmp_path: Path, program: str
) -> None:
    def attempt() -> float:
        store.fault = silent = Silent()
        try:
            return interrupted(start(program, str(tmp_path / "photos.hr")), silent.asked)
        finally:
            silent.over.set()

    within(1.0, attempt)
