"""The header reader of recorded images answers as Pillow does, or not at all."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import PIL.Image
import pytest

import images
import other_formats
from damage import damaged
from headrace._deferred import header, source
from headrace._deferred.header import Header


def pillows(data: bytes) -> Header | None:
    try:
        with PIL.Image.open(io.BytesIO(data)) as image:
            return str(image.format), image.mode, image.size
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError):
        return None


def of_all_kinds() -> Iterator[bytes]:
    yield from images.every_jpeg(70, 50).values()
    yield from images.every_png(70, 50).values()
    yield from islice(other_formats.variants("webp", 1), 100)


def test_undamaged_files_of_common_kinds_are_recognised_and_described_as_by_pillow() -> None:
    known = 0
    for data in of_all_kinds():
        found = header.read(data)
        assert found is None or found[0] == pillows(data)
        known += found is not None
    assert known > 80


def left_by_pillow(data: bytes) -> int | None:
    file = io.BytesIO(data)
    try:
        PIL.Image.open(file)
    except (OSError, SyntaxError, ValueError, PIL.Image.DecompressionBombError):
        return None
    return file.tell()


def test_a_header_ends_at_the_byte_up_to_which_pillow_reads(tmp_path: Path) -> None:
    path, known = tmp_path / "image", 0
    for data in of_all_kinds():
        found = header.read(data)
        path.write_bytes(data)
        with open(path, "rb") as file:
            behind = header.behind(file.fileno())
        assert behind in (None, left_by_pillow(data))
        assert found is None or found[1] == behind
        known += found is not None and behind is not None
    assert known > 80


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_the_end_of_a_damaged_header_is_that_of_pillow_or_unknown(kind: str) -> None:
    for data in islice(damaged(kind, 5), 1000):
        _, behind = header.read(data) or (None, None)
        if behind is not None:
            assert left_by_pillow(data) in (behind, None)


@pytest.mark.parametrize("kind", ["jpeg", "png", "webp"])
def test_a_damaged_file_is_described_as_by_pillow_or_not_at_all(kind: str) -> None:
    said = 0
    for data in islice(damaged(kind, 5), 3000):
        found = header.read(data)
        if found is not None:
            assert pillows(data) in (found[0], None)  # decoding finds later damage
            said += 1
    assert said > 300


def test_a_file_on_disk_is_described_as_its_bytes_in_memory(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "image")
    for data in of_all_kinds():
        Path(os.fsdecode(path)).write_bytes(data)
        answer, read = header.Answer(), header.read(data)
        opened = header.opened(path, answer)
        assert (None if opened is None else opened[0]) == (None if read is None else read[0])
        if opened is not None:
            _, identity = opened
            assert os.pread(header.descriptor(answer), len(data) + 1, 0) == data
            header.close(answer)
            assert header.descriptor(answer) == -1
            found = os.stat(path)
            assert identity == (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
            assert header.leads_to(path, identity)
            os.utime(path, ns=(0, identity[3] + 1))
            assert not header.leads_to(path, identity)


def test_opening_does_not_wait_for_a_path_that_is_not_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    photograph = images.jpeg(20, 10)
    (tmp_path / "image").write_bytes(photograph)
    for name in ("fifo", "", "missing", "image\0.jpg"):
        answer = header.Answer()
        assert header.opened(os.fsencode(tmp_path / name), answer) is None


def test_reading_headers_loads_no_engine() -> None:
    code = """
        from headrace._deferred import header
        assert header.read(b"no image") is None
        print("libheadrace.so" in open("/proc/self/maps").read())
    """
    lines = "\n".join(line.strip() for line in code.splitlines())
    told = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["False"]


def test_an_open_file_is_settled_while_its_path_still_leads_to_it(tmp_path: Path) -> None:
    path, answer = os.fsencode(tmp_path / "image"), header.Answer()
    (tmp_path / "image").write_bytes(images.jpeg(20, 10))
    assert header.opened(path, answer) is not None
    held = header.descriptor(answer)
    os.rename(path, path + b".moved")
    assert not header.settle(path, answer)
    assert header.descriptor(answer) == held
    assert header.settle(path + b".moved", answer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(held)
    header.close(answer)  # nothing is left to close


def test_an_unsettled_file_is_closed_with_its_owner(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path / "image")
    (tmp_path / "image").write_bytes(images.jpeg(20, 10))
    opened = source.opened(path, path)
    assert opened is not None
    before = len(os.listdir("/proc/self/fd"))
    del opened
    assert len(os.listdir("/proc/self/fd")) == before - 1


def test_a_file_that_cannot_be_read_any_more_is_closed_and_settled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = os.fsencode(tmp_path / "image")
    (tmp_path / "image").write_bytes(images.jpeg(20, 10))
    os.utime(path, ns=(0, 1))
    before = len(os.listdir("/proc/self/fd"))
    opened = source.opened(path, path)
    assert opened is not None
    os.unlink(path)

    def fails(descriptor: int) -> bytes:
        raise OSError(5, "a disk fails")

    monkeypatch.setattr(source, "_read", fails)
    with pytest.raises(OSError, match="a disk fails"):
        opened[0].settle()
    assert len(os.listdir("/proc/self/fd")) == before
    assert opened[0].settle()
