"""What all tests share, and the check after each test that nothing was left open."""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.resource_tracker
import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import cases
import forking
import headrace as hr
from deferred.at_once import AtOnce, compare_all
from images import plain_tree
from timing import eventually

# Tests neither keep anything in the user's cache nor find anything there.
os.environ["HEADRACE_CACHE"] = "off"
# torch's iterator tells its workers to end, and waits this long for each. If garbage collection
# takes the queue that tells them first, only the timeout ends them, which is 5 s by default.
torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL = 1.0


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that `make test-slow` runs: those of which `make test` draws only some cases,
    or leaves out some combinations of parameters."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue
        if vars(item.module).get("cases") is cases:
            item.add_marker(pytest.mark.some_cases)
        every = item.get_closest_marker("every")
        if every is not None and sum(item.callspec.indices.values()) % every.args[0]:
            item.add_marker(pytest.mark.slow)


def descriptors() -> dict[str, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the descriptor of the listing itself
    return found


def mapped() -> list[str]:
    return Path("/proc/self/maps").read_text().splitlines()


def slots(lines: list[str] | None = None) -> list[str]:
    """Memory mappings of batches: each is a private mapping of /dev/zero."""
    return [line for line in lines or mapped() if line.endswith("/dev/zero")]


def shards(lines: list[str]) -> list[str]:
    """Mappings of datasets' files, and of the workers' epoch counters (memfd)."""
    return [line for line in lines if "memfd:" in line or line.endswith((".tar", ".arrow", ".jpg"))]


def children() -> str:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text()


def engine_threads() -> set[str]:
    """Decode threads, by their name; the Go runtime's own threads stay for ever.

    Readers are goroutines; tests of internal/pipeline check that they end.
    """
    found = set()
    for task in os.listdir("/proc/self/task"):
        try:
            name = Path(f"/proc/self/task/{task}/comm").read_text()
        except OSError:
            continue
        if name == "headrace-decode\n":
            found.add(task)
    return found


def world() -> dict[str, Counter[str]]:
    # This also reaps worker processes that have ended, because torch does not wait for all of its
    # own.
    multiprocessing.active_children()
    lines = mapped()
    return {
        "descriptors": Counter(f"{number} is {file}" for number, file in descriptors().items()),
        "slots": Counter(slots(lines)),
        "mappings": Counter(shards(lines)),
        "children": Counter(children().split()),
        "engine threads": Counter("headrace-decode" for _ in engine_threads()),
        "Python threads": Counter(thread.name for thread in threading.enumerate()),
    }


def left(before: dict[str, Counter[str]]) -> list[str]:
    """What is there now and was not before. What an earlier test released late does not count."""
    return [
        f"{name}: {more}"
        for name, now in world().items()
        if (more := list((now - before[name]).elements()))
    ]


@pytest.fixture(scope="session")
def zarr_started(tmp_path_factory: pytest.TempPathFactory) -> None:
    """If zarr is installed, starts its own threads, which stay once it has read anything."""
    if find_spec("zarr") is not None:
        zarr = pytest.importorskip("zarr")
        folder = tmp_path_factory.mktemp("first") / "z"
        array = zarr.create_array(folder, shape=(64, 4), dtype="uint8", chunks=(1, 4))
        for _ in range(3):
            array[:] = array[:] + 1


@pytest.fixture(scope="session", autouse=True)
def _runtime_started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Starts what stays once it runs: Go's runtime, Python's resource tracker, a GPU's driver."""
    # A shell starts background processes with SIGINT ignored, and children inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.resource_tracker.ensure_running()
    root = plain_tree(tmp_path_factory.mktemp("first"), 4, 1)
    with hr.Loader(
        root, 2, transform=[{"name": "CenterCrop", "size": 8}], output="numpy"
    ) as loader:
        list(loader)
        assert slots(), "batches have memory that this check does not see"
    eventually(lambda: not slots(lines := mapped()) and not shards(lines))
    if torch.cuda.is_available():
        square = torch.ones(64, 64, pin_memory=True).to("cuda")
        (square @ square).sum().item()
    yield
    gc.unfreeze()


_imported = 0  # how many modules there were when objects were last frozen


def collect() -> None:
    """Collects garbage. Objects of imported modules are frozen, so that later collections, two for
    each test, skip them: torch's modules alone would take a tenth of a second each time."""
    global _imported
    gc.collect()
    if len(sys.modules) > _imported:
        _imported = len(sys.modules)
        gc.freeze()


@pytest.fixture(autouse=True)
def _empty_world(_runtime_started: None) -> Iterator[None]:
    collect()
    before = world()
    yield

    if not eventually(lambda: not left(before)):
        pytest.fail("\n".join(["the test left something behind", *left(before)]))


@pytest.fixture(scope="session")
def forked() -> Iterator[forking.Parent]:
    """Starts a test's programs in processes that have torch imported and have not used Headrace."""
    parent = forking.Parent()
    yield parent
    parent.close()


@pytest.fixture(autouse=os.environ.get("HEADRACE_AT_ONCE") == "1")
def at_once(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    """For tests of recorded images: compares everything made late with the same made at once."""
    return compare_all(monkeypatch)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image folder: 24 JPEGs in 3 classes."""
    return plain_tree(tmp_path_factory.mktemp("folder") / "photos")


@pytest.fixture(scope="session")
def packed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folder, packed."""
    destination = tmp_path_factory.mktemp("packed") / "photos.hr"
    hr.pack(folder, destination)
    return destination
