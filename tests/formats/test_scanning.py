"""What a terminal shows while containers without an index are scanned."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
from headrace._engine import scanning

SAMPLES = 400_000
LINE = re.compile(r"scanning: (\d) of 2 containers, ([\d,]+) samples")
# On a fast machine scanning would end within the usual second.
SOON = "from headrace._engine import scanning; scanning._FIRST_S = scanning._EACH_S = 0.01; "


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two MDS shards with so many samples that scanning takes noticeable time."""
    directory = tmp_path_factory.mktemp("scanned")
    header = (
        b'{"column_encodings": ["bytes", "int32"], "column_names": ["jpg", "label"], '
        b'"column_sizes": [null, 4], "compression": null, "format": "mds", "hashes": [], '
        b'"size_limit": 67108864, "version": 2}'
    )
    record = np.frombuffer(b"\x03\x00\x00\x00jpg\x07\x00\x00\x00", np.uint8)
    paths = [directory / f"shard.0000{number}.mds" for number in range(2)]
    for path in paths:
        begin = 4 + 4 * (SAMPLES + 1) + len(header)
        offsets = begin + len(record) * np.arange(SAMPLES + 1, dtype=np.uint32)
        table = np.uint32(SAMPLES).tobytes() + offsets.astype("<u4").tobytes()
        path.write_bytes(table + header + np.tile(record, SAMPLES).tobytes())
    return paths


def on_a_terminal(code: str, *arguments: str) -> str:
    """Runs Python with stderr on a terminal and without a cache; returns the terminal's content."""
    ours, its = pty.openpty()
    command = [sys.executable, "-c", code, *arguments]
    environment = os.environ | {"HEADRACE_CACHE": "off", "COLUMNS": "120"}
    try:
        process = subprocess.Popen(
            command, stdin=its, stderr=its, stdout=subprocess.DEVNULL, env=environment
        )
    finally:
        os.close(its)
    seen = b""
    try:
        while more := _read(ours):
            seen += more
        assert process.wait(60) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return seen.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # EIO: the other end is closed
        return b""


def check(seen: str) -> None:
    found = [(int(done), int(count.replace(",", ""))) for done, count in LINE.findall(seen)]
    assert len(found) > 1, seen
    assert found == sorted(found)
    assert all(0 <= count <= 2 * SAMPLES for _, count in found)
    assert found[-1][1] > 0


@pytest.mark.slow
def test_a_terminal_shows_the_progress_of_scanning_and_is_left_clean(shards: list[Path]) -> None:
    code = "import sys, headrace as hr; hr.Dataset(sys.argv[1:]).close()"
    seen = on_a_terminal(SOON + code, *map(str, shards))
    check(seen)
    assert seen.endswith("\r\x1b[K")


def test_info_shows_the_progress_of_scanning(shards: list[Path]) -> None:
    code = "from headrace._command.cli import app; app()"
    check(on_a_terminal(SOON + code, "info", *map(str, shards)))


@pytest.mark.slow
def test_indexing_shows_the_progress_of_scanning(shards: list[Path], tmp_path: Path) -> None:
    # The bar is updated as often as the job is waited for.
    soon = "from headrace._engine import _lib; _lib.SLICE_MS = 10; "
    code = "from headrace._command.cli import app; app()"
    out = str(tmp_path / "index.hr")
    seen = on_a_terminal(soon + code, "index", *map(str, shards), "--out", out)
    assert LINE.search(seen), seen[:2000]


@pytest.mark.slow
def test_no_progress_is_shown_without_a_terminal_or_without_a_scan(shards: list[Path]) -> None:
    code = SOON + "import sys, headrace as hr; hr.Dataset(sys.argv[1:]).close()"
    environment = os.environ | {"HEADRACE_CACHE": "off"}
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, shards)]
    run = subprocess.run(command, capture_output=True, check=True, env=environment, timeout=60)
    assert run.stderr == b""
    with hr.Dataset(shards):
        assert scanning.so_far() == ""
