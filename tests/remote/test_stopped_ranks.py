"""A process under SIGSTOP delays those that share its cache by at most two seconds."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
import images
from processes import run, start
from remote.stores import Answering, Store
from remote.test_cache import SIZE
from remote.test_urls import COUNT
from timing import PATIENCE_S, within

PATIENCE = 2.0  # from internal/parts: how long an idle process is waited for
SLACK = 0.5  # to fetch and decode
BUSY = 0.5  # and for a machine that is busy with other things
OTHERS = 3

# What a rank reports: the time after each batch, by a clock that all processes share, and the
# checksum of each epoch. It begins its first epoch when a certain file exists.
RANK = """
    import hashlib, os, sys, time, warnings
    import headrace as hr
    warnings.simplefilter("ignore")  # of a cache that is done without
    url, place, size, epochs, begin = sys.argv[1:]
    steps = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()]
    kept = {"cache": place, "cache_size": int(size)} if place else {}
    hr.functional.decode(b"P6 1 1 255\\n" + bytes(3))  # loads the library
    if begin:
        print("ready", flush=True)
        while not os.path.exists(begin):
            time.sleep(0.005)
    times, sums = [time.monotonic()], []
    with hr.Loader(url, 8, shuffle=True, seed=3, transform=steps, dtype="uint8", num_threads=1,
                   output="numpy", **kept) as batches:
        times.append(time.monotonic())
        for _ in range(int(epochs)):
            found = hashlib.sha256()
            for pixels, labels in batches:
                found.update(pixels.tobytes() + labels.tobytes())
                times.append(time.monotonic())
            sums.append(found.hexdigest())
    times.append(time.monotonic())
    print(*sums, flush=True)
    print(*times, flush=True)
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("stopped")
    photos = images.plain_tree(root / "photos", COUNT)
    hr.pack(photos, root / "train.hr", shard_size="64KiB")
    return root


@pytest.fixture(scope="module")
def local(root: Path) -> list[str]:
    return run(RANK, root / "train.hr", "", 0, 2, "").splitlines()[0].split()


@contextlib.contextmanager
def others(url: str, cache: Path, begin: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Ranks that are ready to begin."""
    ranks = [start(RANK, url, cache, SIZE, 2, begin) for _ in range(OTHERS)]
    try:
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "ready\n", (rank.wait(10), rank.communicate())
        yield ranks
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def waits(ranks: list[subprocess.Popen[str]], local: list[str]) -> list[list[float]]:
    """Checks what each rank trained on; returns its waits, the longest first."""
    found = []
    for rank in ranks:
        out, err = rank.communicate(timeout=60)
        assert (rank.returncode, err) == (0, "")
        sums, times = out.splitlines()
        assert sums.split() == local
        at = [float(one) for one in times.split()]
        found.append(sorted((b - a for a, b in itertools.pairwise(at)), reverse=True))
    return found


def longest(found: list[list[float]], held_up: bool = False) -> float:
    """The longest wait that the stopped process caused.

    A rank's second longest wait says how busy the machine is, and counts for half a second at
    most; beyond that it was delayed more than once, for instance once for each record.
    """
    if held_up:
        assert min(first for first, *_ in found) > PATIENCE / 2
    return max(
        max(first - min(second, BUSY), second - BUSY + PATIENCE) for first, second, *_ in found
    )


def held(store: Store, kind: str) -> tuple[threading.Event, threading.Event]:
    """Makes the store silent to the process that is stopped later, for files of a kind: it never
    gets what it claimed. Returns an event that says that it asked, and one that ends the
    silence."""
    asked, over = threading.Event(), threading.Event()

    def silent(answering: Answering, body: bytes, *_: object) -> bool:
        if "sig=stopped" not in answering.path or kind not in answering.path or len(body) == 1:
            return False  # the request of one byte learns the size
        asked.set()
        over.wait(60)
        answering.reset()
        return True

    store.fault = silent
    return asked, over


@pytest.mark.slow
@pytest.mark.parametrize("kind", [".arrow", ".tar"])
def test_ranges_claimed_by_a_stopped_process_are_fetched_by_others_after_two_seconds(
    store: Store, tmp_path: Path, local: list[str], kind: str
) -> None:
    numbers = iter(range(10))

    def attempt() -> float:
        number = next(numbers)
        cache, begin = tmp_path / f"cache{number}", tmp_path / f"begin{number}"
        asked, over = held(store, kind)
        # An address's signature is not part of a cache key.
        with others(store.url("train.hr?sig=other"), cache, begin) as ranks:
            stopped = start(RANK, store.url("train.hr?sig=stopped"), cache, SIZE, 1, "")
            try:
                assert asked.wait(PATIENCE_S)
                stopped.send_signal(signal.SIGSTOP)
                begin.touch()
                return longest(waits(ranks, local), held_up=True)
            finally:
                over.set()
                stopped.kill()
                stopped.communicate()

    within(PATIENCE + SLACK, attempt)


@pytest.mark.slow
def test_a_process_stopped_while_it_holds_the_lock_delays_others_by_two_seconds(
    store: Store, tmp_path: Path, local: list[str]
) -> None:
    cache, numbers = tmp_path / "cache", iter(range(10))
    assert run(RANK, store.url("train.hr"), cache, SIZE, 2, "").splitlines()[0].split() == local

    def attempt() -> float:
        begin = tmp_path / f"begin{next(numbers)}"
        with (
            others(store.url("train.hr"), cache, begin) as ranks,
            open(cache / "headrace-cache.lock", "r+b") as lock,
        ):
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, 0)  # the lock of the tables, held by this process
            begin.touch()
            return longest(waits(ranks, local), held_up=True)

    within(PATIENCE + SLACK, attempt)


@pytest.mark.slow
def test_a_process_stopped_at_any_moment_delays_others_by_at_most_two_seconds(
    store: Store, tmp_path: Path, local: list[str]
) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"{seed=}")  # decides the moments; shown if the test fails
    draw, numbers, url = random.Random(seed), iter(range(100)), store.url("train.hr")

    def attempt() -> float:
        number = next(numbers)
        cache, begin = tmp_path / f"cache{number}", tmp_path / f"begin{number}"
        with others(url, cache, begin) as ranks:
            stopped = start(RANK, url, cache, SIZE, 10_000, "")
            try:
                deadline = time.monotonic() + PATIENCE_S
                while not (cache / "headrace-cache.data").exists():
                    assert time.monotonic() < deadline
                    time.sleep(0.001)
                begin.touch()
                time.sleep(draw.random() * 0.1)
                stopped.send_signal(signal.SIGSTOP)
                return longest(waits(ranks, local))
            finally:
                stopped.kill()
                stopped.communicate()

    for _ in range(4):
        within(PATIENCE + SLACK, attempt)
