"""A cache with clocks that were set or run differently: it does not depend on the time of day."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace as hr
import images
from processes import run, start
from remote.stores import Store
from remote.test_cache import RANK, SIZE
from remote.test_urls import COUNT

DAYS = 400 * 24 * 3600
YEAR_2100, YEAR_1971 = 4_102_444_800, 31_536_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    photos = images.plain_tree(tmp_path / "photos", COUNT)
    hr.pack(photos, tmp_path / "train.hr", shard_size="64KiB")
    made = Store(tmp_path)
    yield made
    made.end()


def since_another_start(seconds: int) -> tuple[str, ...]:
    """A prefix for ``run``: clocks that count from the machine's start are that much ahead."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare(1) is not installed")
    prefix = ("unshare", "--time", f"--monotonic={seconds}", f"--boottime={seconds}", "--fork")
    tried = subprocess.run([*prefix, "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"a time namespace needs root: {tried.stderr.strip()}")
    return prefix


def test_files_of_a_cache_may_have_any_modification_time(store: Store, tmp_path: Path) -> None:
    url, cache = store.url("train.hr"), tmp_path / "cache"
    *first, fetched = run(RANK, url, cache, SIZE, 0, 1, 1).split()
    assert int(fetched) > 0
    for when in (YEAR_2100, YEAR_1971):
        for file in cache.iterdir():
            os.utime(file, (when, when))
        assert run(RANK, url, cache, SIZE, 0, 1, 1).split() == [*first, "0"]


def test_processes_whose_clocks_differ_by_more_than_a_year_share_a_cache(
    store: Store, tmp_path: Path
) -> None:
    prefix = since_another_start(DAYS)
    url, cache, end = store.url("train.hr"), tmp_path / "cache", tmp_path / "end"
    local = run(RANK, tmp_path / "train.hr", "", 0, 0, 1, 2).split()[:2]
    whole = int(run(RANK, url, tmp_path / "other", SIZE, 0, 1, 2).split()[2])
    ranks = [start(RANK, url, cache, SIZE, 0, 1, 2, end, prefix=how) for how in ((), prefix)]
    fetched = 0
    try:
        for rank in ranks:
            assert rank.stdout is not None
            *found, bytes_ = (rank.stdout.readline().strip() for _ in range(3))
            assert found == local
            fetched += int(bytes_)
        end.touch()
        for rank in ranks:
            assert rank.communicate(timeout=60) == ("", "")
    finally:
        end.touch()
        for rank in ranks:
            rank.kill()
            rank.communicate()
    # If both want a range at once, one of them fetches it; a claim that seemed old would be fetched
    # twice.
    assert fetched < 1.2 * whole
