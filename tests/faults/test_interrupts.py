"""Exceptions from outside while a batch is requested: no batch is lost, doubled or wrongly counted.

Python checks for signals where a function begins, after a call and where a loop goes back. The
first tests raise at each of these places in turn, once; the others let a timer do it, thousands of
times.
"""

from __future__ import annotations

import contextlib
import dis
import itertools
import random
import signal
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
import torch
import torchvision
from PIL import Image
from torchvision import transforms as v1

import cases
import headrace as hr
from headrace._batch import lending
from headrace._epoch import devices
from headrace._torch.threads import Result, Threads
from images import plain_tree

PACKAGE = str(Path(hr.__file__).parent)
COUNT, BATCH = 24, 8
NOWHERE = 10**9
CROP = [{"name": "RandomResizedCrop", "size": [8, 8]}]


class Stop(Exception):
    """A program's own exception, raised by its signal handler."""


class Case:
    """A loader, an iterable over it, and a function for the rows of its batches."""

    def __init__(self, loader: Any, rows: Callable[[Any], list[int]]) -> None:
        self.loader, self.rows = loader, rows

    def stands(self) -> int:
        """How many samples were handed out according to the state."""
        state = self.loader.state_dict()
        taken: int = state.get("position", state.get("samples"))
        return COUNT if state["epoch"] else taken


Make = Callable[[Path, Path], "contextlib.AbstractContextManager[Case]"]


def by_index(batch: Any) -> list[int]:
    found: list[int] = batch[2]["index"].tolist()
    return found


@contextlib.contextmanager
def loader_of(packed: Path, _: Path, **more: Any) -> Iterator[Case]:
    options = {"transform": CROP, "fields": ["index"], "num_threads": 2, **more}
    with hr.Loader(packed, BATCH, **options) as loader:
        yield Case(loader, by_index)


class Generated:
    """A sampler whose iterator is a generator, which an exception ends."""

    def __iter__(self) -> Iterator[int]:
        yield from (7 * i % COUNT for i in range(1, COUNT + 1))


def doubled(batch: Any) -> Any:
    images, labels, fields = batch
    images.mul_(2)  # in place, so a batch that is begun again has to be a new one
    return images, labels, fields


@contextlib.contextmanager
def dataloader_of(
    _: Path, folder: Path, collate: bool = False, strict: bool = True, **more: Any
) -> Iterator[Case]:
    steps = v1.Compose([v1.Resize((8, 8)), v1.ToTensor()])
    dataset = torchvision.datasets.ImageFolder(str(folder), steps)
    dataset.samples = [(path, row) for row, (path, _) in enumerate(dataset.samples)]
    dataset.targets = list(range(COUNT))
    if collate:
        more["collate_fn"] = lambda samples: torch.utils.data.default_collate(samples)
    loader = hr.DataLoader(dataset, BATCH, strict=strict, **more)
    try:
        yield Case(loader, lambda batch: batch[1].tolist())
    finally:
        loader.close()


class OwnItems(torch.utils.data.Dataset[Any]):
    """Opens its images itself."""

    def __init__(self, folder: Path) -> None:
        self.paths = [str(path) for path in sorted(folder.rglob("*.jpg"))]
        self.transform = v1.Compose([v1.Resize((8, 8)), v1.ToTensor()])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, row: int) -> Any:
        return self.transform(Image.open(self.paths[row]).convert("RGB")), row


@contextlib.contextmanager
def own_items(_: Path, folder: Path, **more: Any) -> Iterator[Case]:
    loader = hr.DataLoader(OwnItems(folder), BATCH, strict=True, **more)
    try:
        yield Case(loader, lambda batch: batch[1].tolist())
    finally:
        loader.close()


@contextlib.contextmanager
def partly_pillows(packed: Path, folder: Path, **more: Any) -> Iterator[Case]:
    """Loads files some of which Pillow decodes, whether their names say so or not."""
    with tempfile.TemporaryDirectory() as other:
        for row, path in enumerate(sorted(folder.rglob("*.jpg"))):
            place = Path(other, path.parent.name, path.name)
            place.parent.mkdir(exist_ok=True)
            if row % 5 == 1:
                kind = "webp" if row % 2 else "jpg"
                Image.open(path).save(place.with_suffix(f".{kind}"), "JPEG2000")
            else:
                place.write_bytes(path.read_bytes())
        with dataloader_of(packed, Path(other), strict=False, **more) as case:
            yield case


@contextlib.contextmanager
def iterable_of(packed: Path, _: Path, **more: Any) -> Iterator[Case]:
    options = {"transform": CROP, "fields": ["index"], "num_threads": 2, **more}
    dataset = hr.IterableDataset(packed, BATCH, **options)
    try:
        yield Case(dataset, by_index)
    finally:
        dataset.loader.close()


class Event:
    def query(self) -> bool:
        return False  # nothing is really copied here, so no copy is ever done


class Stream:
    device_index = 0

    def wait_event(self, event: Event) -> None:
        pass

    def record_event(self) -> Event:
        return Event()


@contextlib.contextmanager
def copies_of(packed: Path, folder: Path, **more: Any) -> Iterator[Case]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.cuda, "Stream", lambda _: Stream())
        patched.setattr(torch.cuda, "stream", lambda _: contextlib.nullcontext())
        patched.setattr(torch.cuda, "current_stream", lambda _: Stream())
        patched.setattr(torch.Tensor, "record_stream", lambda *_: None)
        patched.setattr(devices, "resolve", lambda name: name and torch.device("cpu"))
        allocate = lambda size: torch.empty(size, dtype=torch.uint8)  # noqa: E731
        patched.setattr(lending, "allocator", lambda: allocate)
        with loader_of(packed, folder, device="cuda", **more) as case:
            yield case


def made(function: Any, **options: Any) -> Make:
    return lambda packed, folder: function(packed, folder, **options)


CASES: dict[str, Make] = {
    "Loader": made(loader_of, shuffle=True),
    "Loader with a list for a sampler": made(loader_of, sampler=list(range(COUNT))[::-1]),
    "Loader with a generator for a sampler": made(loader_of, sampler=Generated()),
    "Loader with a function on its batches": made(loader_of, batch_fn=doubled),
    "Loader of NumPy": made(loader_of, output="numpy"),
    "copies to a device": made(copies_of),
    "copies to a device of a sampler's": made(copies_of, sampler=Generated()),
    "IterableDataset": made(iterable_of, shuffle=True),
    "DataLoader": made(dataloader_of, num_workers=2),
    "DataLoader, shuffled": made(dataloader_of, shuffle=True),
    "DataLoader, shuffled by a generator": made(
        dataloader_of, shuffle=True, generator=torch.Generator(), num_workers=2
    ),
    "DataLoader with a sampler": made(dataloader_of, sampler=Generated()),
    "DataLoader with items of its own": made(own_items, shuffle=True),
    "DataLoader with files for Pillow": made(partly_pillows, shuffle=True, num_workers=2),
    "DataLoader with a collate_fn": made(dataloader_of, collate=True, shuffle=True),
}


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plain_tree(tmp_path_factory.mktemp("interrupts") / "photos")


@pytest.fixture(scope="module")
def shards(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("interrupted") / "photos.hr"
    hr.pack(photos, destination)
    return destination


class Places:
    """Raises at the n-th place in the package or the modules at which Python checks for signals."""

    def __init__(self, place: int, *modules: str) -> None:
        self._left, self._modules = place, (PACKAGE, *modules)
        self._before: dict[int, int] = {}  # no frames, because they would keep batches

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._modules):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event in ("call", "exception"):  # no check after a call that raised
            self._before.pop(id(frame), None)
        if event == "call":
            self._look()
        elif event == "opcode":
            last, self._before[id(frame)] = self._before.get(id(frame)), frame.f_lasti
            if last is not None and self._looks_behind(frame, last):
                self._look()
        return self

    @staticmethod
    def _looks_behind(frame: FrameType, last: int) -> bool:
        name = dis.opname[frame.f_code.co_code[last]]
        if name.startswith(("POP_JUMP", "JUMP_FORWARD", "JUMP_IF")):
            return sys.version_info < (3, 11)
        return name.startswith(("CALL", "JUMP", "WITH_EXCEPT"))

    def _look(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt


def places() -> Iterator[int]:
    """The first 200 places, and of the thousands after them every 60th, or every second."""
    yield from range(1, 200)
    yield from itertools.count(200, cases.some(60, of=2))


def pixels(case: Case, batch: Any) -> dict[int, bytes]:
    return dict(zip(case.rows(batch), (np.asarray(i).tobytes() for i in batch[0]), strict=True))


def undisturbed(make: Make, shards: Path, photos: Path) -> dict[int, bytes]:
    """The pixels of each row in the second epoch."""
    with make(shards, photos) as case:
        list(case.loader)
        return {row: data for batch in case.loader for row, data in pixels(case, batch).items()}


# Each of these takes its own path through the package; the others combine them.
OWN_WAYS = (
    "Loader",
    "copies to a device",
    "IterableDataset",
    "DataLoader",
    "DataLoader with items of its own",
)


@pytest.mark.parametrize(
    "name",
    [name if name in OWN_WAYS else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_an_exception_at_any_place_within_next_leaves_the_state_and_loses_no_batch(
    name: str, photos: Path, shards: Path
) -> None:
    expected = undisturbed(CASES[name], shards, photos)
    with CASES[name](shards, photos) as case:
        for epoch in range(2):
            batches, seen, ended = iter(case.loader), dict[int, bytes](), False
            while not ended:
                # The beginning of the first epoch, and all of the second.
                disturbed = epoch or not seen
                for place in places() if disturbed else (NOWHERE,):
                    before = case.loader.state_dict()
                    sys.settrace(Places(place))
                    try:
                        batch = next(batches)
                    except KeyboardInterrupt:
                        sys.settrace(None)
                        assert case.loader.state_dict() == before, place
                        continue
                    except StopIteration:
                        ended = True
                    finally:
                        sys.settrace(None)
                    break
                if not ended:
                    assert place > 5  # it was interrupted at every place up to here
                    found = pixels(case, batch)
                    assert not found.keys() & seen.keys()
                    seen |= found
                    assert case.stands() in (len(seen), COUNT)
            assert len(seen) == COUNT
            if epoch == 1:
                assert seen == expected


@pytest.mark.parametrize("name", CASES)
def test_thousands_of_timer_interrupts_lose_and_double_no_batch(
    name: str, photos: Path, shards: Path
) -> None:
    chance, stopped, waiting = random.Random(3), 0, False

    def handler(_: int, frame: FrameType | None) -> None:
        # A signal that another thread got is handled later than the timer was stopped.
        while waiting and frame is not None:
            if frame.f_code.co_filename.startswith(PACKAGE):
                raise Stop(case.loader.state_dict())
            frame = frame.f_back

    before = signal.signal(signal.SIGALRM, handler)
    try:
        with CASES[name](shards, photos) as case:
            # How often the timer hits the package depends on the machine.
            for epoch in itertools.count(1):
                batches, seen = iter(case.loader), list[int]()
                while True:
                    signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-6, 200e-6))
                    try:
                        waiting = True
                        batch = next(batches)
                        waiting = False
                    except Stop as stop:
                        stopped += 1
                        saved = stop.args[0]
                    except StopIteration:
                        break
                    else:
                        seen += case.rows(batch)
                        continue
                    finally:
                        waiting = False
                        signal.setitimer(signal.ITIMER_REAL, 0)
                    assert saved == case.loader.state_dict()
                    assert case.stands() == len(seen) or case.stands() in (0, COUNT)
                assert sorted(seen) == list(range(COUNT))
                if epoch >= 12 and stopped > 20:
                    break
                assert epoch < 200
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "name", ["Loader", "DataLoader", "IterableDataset", "DataLoader with items of its own"]
)
def test_a_close_that_an_exception_ends_at_any_place_is_finished_by_the_next(
    name: str, photos: Path, shards: Path
) -> None:
    for place in itertools.count(1):
        with CASES[name](shards, photos) as case:
            batches = iter(case.loader)
            next(batches)
            loader = getattr(case.loader, "loader", case.loader)
            sys.settrace(Places(place, weakref.__file__))
            try:
                loader.close()
            except KeyboardInterrupt:
                pass
            else:
                break
            finally:
                sys.settrace(None)
    assert place > 5


def test_an_exception_at_any_place_while_threads_start_leaves_no_thread() -> None:
    for place in itertools.count(1):
        sys.settrace(Places(place, threading.__file__))
        try:
            threads = Threads(2)
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)
        break
    assert place > 2  # since Python 3.13 most of a thread's start is written in C
    done = Result(int, "7")
    threads.submit(done)
    assert done.wait(60)
    assert done.get() == 7
    threads.close()


def test_a_memory_error_loses_no_batch_and_an_error_of_batch_fn_loses_its_own_batch(
    shards: Path,
) -> None:
    raised: list[Exception] = [MemoryError(), MemoryError(), ValueError("own")]

    def failing(batch: Any) -> list[int]:
        if by_index(batch)[0] == BATCH and raised:
            raise raised.pop(0)
        return by_index(batch)

    options = {"transform": CROP, "fields": ["index"], "batch_fn": failing}
    with hr.Loader(shards, BATCH, **options) as loader:
        batches = iter(loader)
        assert next(batches) == [*range(BATCH)]
        for _ in range(2):
            with pytest.raises(MemoryError):
                next(batches)
            assert loader.state_dict()["position"] == BATCH
        with pytest.raises(ValueError, match="own"):
            next(batches)
        assert loader.state_dict()["position"] == 2 * BATCH
        assert list(batches) == [[*range(2 * BATCH, COUNT)]]
