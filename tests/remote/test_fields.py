"""Fields of samples whose containers are in a store: what is requested, how, and for how long."""

from __future__ import annotations

import io
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
from headrace import errors
from processes import interrupted, start
from remote.stores import Answering, Store
from timing import PATIENCE_S, within

COUNT = 12
BATCH = 6

# Captions are told from images by the length of the request.
CAPTION = "a caption, {:02d}"
TITLE = "the longer title of photograph {:02d}"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A container in a store, with an index here, "photos.hr"."""
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
    """How many requests had the length of such texts."""
    length = len(text.format(0))
    return sum(asked == length for *_, asked in store.requests)


def test_only_the_requested_fields_are_read(store: Store, tmp_path: Path) -> None:
    with loader(tmp_path / "photos.hr", fields=["key", "path", "index"]) as batches:
        keys = [key for *_, more in batches for key in more["key"]]
    assert keys == [f"{number:06d}" for number in range(COUNT)]
    assert asked(store, CAPTION) == asked(store, TITLE) == 0
    with loader(tmp_path / "photos.hr", fields=["txt"]) as batches:
        texts = [text for *_, more in batches for text in more["txt"]]
    assert texts == [CAPTION.format(number) for number in range(COUNT)]
    assert asked(store, CAPTION) == COUNT
    assert asked(store, TITLE) == 0


def test_the_fields_of_a_batch_are_requested_together(store: Store, tmp_path: Path) -> None:
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


def test_fields_that_were_read_before_come_from_the_cache(store: Store, tmp_path: Path) -> None:
    cache = {"cache": tmp_path / "cache", "cache_size": "64MB"}
    with (
        hr.Dataset(tmp_path / "photos.hr", **cache) as dataset,
        loader(dataset, fields=["txt"]) as batches,
    ):
        epochs = [[text for *_, more in batches for text in more["txt"]] for _ in range(2)]
        assert dataset[3].fields["txt"] == epochs[0][3]
    assert epochs[0] == epochs[1] == [CAPTION.format(number) for number in range(COUNT)]
    assert asked(store, CAPTION) == COUNT


def test_a_field_that_cannot_be_read_is_an_error_that_names_its_record(
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


def long_caption(number: int) -> str:
    return f"a long caption of photograph {number:02d}, " * 800


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Store]:
    """A table in a store whose captions are in two compressed pages, with an index of it here."""
    (tmp_path / "store").mkdir()
    columns = {
        "image": pa.array([images.jpeg(64, 48, seed=i) for i in range(COUNT)], pa.binary()),
        "caption": pa.array([long_caption(i) for i in range(COUNT)]),
        "label": pa.array(range(COUNT)),
    }
    packed = {"image": "none", "caption": "zstd", "label": "none"}
    pq.write_table(
        pa.table(columns),
        tmp_path / "store" / "train.parquet",
        compression=packed,
        use_dictionary=False,
        row_group_size=COUNT // 2,
    )
    store = Store(tmp_path / "store")
    hr.index(store.url("train.parquet"), tmp_path / "pages.hr")
    del store.requests[:]
    yield store
    store.end()


def page_bytes(tmp_path: Path) -> set[int]:
    """How many bytes each page of captions has in the store."""
    groups = pq.ParquetFile(tmp_path / "store" / "train.parquet").metadata
    return {
        groups.row_group(group).column(1).total_compressed_size
        for group in range(groups.num_row_groups)
    }


def test_values_in_compressed_pages_are_fetched_page_by_page(pages: Store, tmp_path: Path) -> None:
    most, texts = max(page_bytes(tmp_path)), [long_caption(number) for number in range(COUNT)]
    with hr.Dataset(tmp_path / "pages.hr") as dataset:
        for shuffle in (True, False):
            with loader(dataset, fields=["index", "caption"], shuffle=shuffle) as batches:
                seen: dict[int, str] = {}
                for *_, more in batches:
                    seen |= dict(zip(map(int, more["index"]), more["caption"], strict=True))
            assert [seen[number] for number in range(COUNT)] == texts
        assert dataset[3].fields["caption"] == texts[3]
        assert sum(length <= most for *_, length in pages.requests) == 2, "each page once"
    assert hr.verify(tmp_path / "pages.hr")["ok"]
    for number, source in enumerate((tmp_path / "pages.hr", pages.url("train.parquet"))):
        hr.pack(source, tmp_path / f"packed{number}.hr")
        with hr.Dataset(tmp_path / f"packed{number}.hr") as dataset:
            assert [dataset.facts(row)["fields"]["caption"] for row in range(COUNT)] == texts


@pytest.mark.parametrize("program", [WAITING, LOOKING], ids=["loader", "facts"])
def test_an_interrupt_ends_the_wait_for_a_page_within_a_second(
    pages: Store, tmp_path: Path, program: str
) -> None:
    most = max(page_bytes(tmp_path))

    class SilentPages(Silent):
        def __call__(self, answering: Answering, body: bytes, *_: int) -> bool:
            if len(body) > most:
                return False
            return super().__call__(answering, CAPTION.format(0).encode())

    def attempt() -> float:
        pages.fault = silent = SilentPages()
        try:
            said = program.replace('"txt"', '"caption"')
            return interrupted(start(said, str(tmp_path / "pages.hr")), silent.asked)
        finally:
            silent.over.set()

    within(1.0, attempt)
