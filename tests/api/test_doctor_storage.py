"""How ``headrace.doctor`` measures storage, and in which state it leaves the page cache."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import headrace as hr
from headrace._doctor import choosing, machine, storage
from images import jpeg, write_tree
from timing import eventually

IN_MEMORY = "/dev/shm"


def every_other_in_memory(folder: Path) -> list[choosing.Place]:
    """Sixteen files of one record; the page cache holds the first, the third and so on."""
    places = []
    for number in range(16):
        path = folder / f"{number}"
        path.write_bytes(bytes(100_000))
        places.append(choosing.Place(number, str(path), 0, 100_000))
    os.sync()
    for place in places:
        storage.drop(place)
    for place in places[::2]:
        storage.read(place)
    return places


def test_the_page_cache_is_restored_after_a_measurement(
    tmp_path: Path,
) -> None:
    # The kernel may drop a page at any time, as it does if others need the memory. Then the
    # measurement rightly says so, and another attempt finds the state that the test has made.
    for attempt in range(5):
        (folder := tmp_path / f"{attempt}").mkdir()
        places = every_other_in_memory(folder)
        with storage.left_as_it_was(places) as share:
            found = storage.measure(places, 2.0)
        if share is None or found["cold"]["how"] != "fadvise":
            pytest.skip("this file system does not say what is in memory, or forgets nothing")
        if share == 0.5:
            break
    assert share == 0.5
    assert set(found["cold"]["depths"]) == {"1", "8", "64"}
    # Pages that were in memory are requested, and come soon.
    assert eventually(lambda: [storage.cached(place) for place in places] == [True, False] * 8)


def test_records_read_without_the_page_cache_have_all_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(50_000))
    place = choosing.Place(0, str(path), 5000, 30_000)
    try:
        assert storage.read_direct(place) >= 30_000
    except OSError:
        pytest.skip("this file system has no O_DIRECT")
    assert storage.read(place) == 30_000
    assert storage.read(place, 4096) == 4096


def resident(path: Path) -> list[bool]:
    """Which pages of a file are in the page cache, without reading them in."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p]
    pages = ctypes.create_string_buffer(-(-path.stat().st_size // mmap.PAGESIZE))
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        start = ctypes.c_char.from_buffer(memory)
        code = libc.mincore(ctypes.addressof(start), len(memory), pages)
        del start
    assert code == 0, os.strerror(ctypes.get_errno())
    return [bool(page & 1) for page in pages.raw[: len(pages)]]


@pytest.mark.parametrize("in_one_file", [False, True])
def test_dropped_records_that_are_not_measured_come_back_to_the_page_cache(
    tmp_path: Path, in_one_file: bool
) -> None:
    size = 1_200_001  # more than the kernel reads ahead at once; records share pages
    places = []
    for number in range(6):
        path = tmp_path / ("all" if in_one_file else f"{number}")
        offset = path.stat().st_size if path.exists() else 0
        with path.open("ab") as file:
            file.write(os.urandom(size))
        places.append(choosing.Place(number, str(path), offset, size))
    os.sync()
    for place in places[3:]:
        storage.drop(place)
    were = places[:3]
    for place in were:
        storage.read(place)
    if not all(storage.cached(place) for place in were):
        pytest.skip("this file system does not say what is in memory")

    def missing() -> int:
        """Pages that were there and are not any more."""
        found = 0
        for place in were:
            first, end = place.offset // mmap.PAGESIZE, (place.offset + size - 1) // mmap.PAGESIZE
            found += resident(Path(place.path))[first : end + 1].count(False)
        return found

    with storage.left_as_it_was(places):
        for place in places:
            storage.drop(place)
        if not missing():
            pytest.skip("this file system forgets nothing")
    assert eventually(lambda: missing() == 0)


MAPPED = """
import mmap, sys
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
print("mapped", flush=True)
sys.stdin.read()
"""


def test_pages_that_another_process_maps_stay_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    os.sync()
    place = choosing.Place(0, str(path), 0, 1 << 20)
    with subprocess.Popen(
        [sys.executable, "-c", MAPPED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"mapped\n"
        storage.drop(place)
        assert all(resident(path))
        program.communicate(timeout=60)
    storage.drop(place)
    if all(resident(path)):
        pytest.skip("this file system forgets nothing")


def test_a_file_system_in_memory_is_reported_and_has_no_cold_rate() -> None:
    if machine.file_system(IN_MEMORY) != "tmpfs":
        pytest.skip("/dev/shm is no tmpfs here")
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        files = {f"a/{n}.jpg": jpeg(40, 30) for n in range(40)}
        found = hr.doctor(write_tree(Path(folder) / "set", files), seconds=1, size=16)
    assert found.measured["cached_share"] == 1.0
    assert found.measured["storage_cold"]["how"] == "memory"
    assert "the images are on tmpfs, a file system in memory: no disk was measured" in found.notes
    (line,) = [line for line in str(found).splitlines() if line.startswith("storage  ")]
    assert "cold" not in line
    assert line.endswith(" ms, from a file system in memory")
    assert not any("epoch 2" in one["text"] for one in found.remedies)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("one_by_one", "expected"),
    [
        pytest.param(False, 640, id="independent reads"),
        pytest.param(True, 50, id="one read at a time"),
    ],
)
def test_the_rate_of_reads_counts_only_the_time_in_which_all_readers_have_work(
    one_by_one: bool, expected: float, tmp_path: Path
) -> None:
    """Of 90 reads by 64 readers the last 26 keep only 26 of them busy, and the others wait."""
    disk = threading.Lock()

    def late(place: choosing.Place, most: int | None = None) -> int:
        with disk if one_by_one else contextlib.nullcontext():
            time.sleep(0.02 if one_by_one else 0.1)
        return place.length

    places = [choosing.Place(number, str(tmp_path), 0, 1000) for number in range(162)]
    cold, _ = storage._cold(places, 60.0, late, "late")
    assert cold is not None
    rate = cold["images_per_second"]
    assert rate == pytest.approx(expected, rel=0.2)
    assert cold["megabytes_per_second"] == pytest.approx(rate * 1000 / 1e6)
