"""Runs Python code in a process of its own, which may be killed, forked or starved."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from timing import PATIENCE_S

HERE = Path(__file__).parent


def start(code: str, *arguments: object, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Starts `code` with `arguments` as sys.argv[1:]; tests/ is importable there."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": ""},
    )


def run(code: str, *arguments: object, prefix: tuple[str, ...] = (), timeout: float = 60) -> str:
    """The output of `code`, which must end with status 0 in time."""
    process = start(code, *arguments, prefix=prefix)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        pytest.fail(f"still running after {timeout} s\n{out}\n{err}")
    assert process.returncode == 0, f"status {process.returncode}\n{out}\n{err}"
    return out


def left_in_dev_shm(work: Callable[[], object]) -> Iterator[str]:
    """For each of three runs of `work`, what it left there. Files of other programs, such as other
    tests, may come at any time, but go again: what is left stays."""
    for _ in range(3):
        before = set(os.listdir("/dev/shm"))
        work()
        left = set(os.listdir("/dev/shm")) - before
        deadline = time.monotonic() + 10
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left &= set(os.listdir("/dev/shm"))
        yield " ".join(sorted(left))


def in_mount_namespace(*steps: str) -> tuple[str, ...]:
    """A prefix for `run` that first does `steps` in a mount namespace; skips the test if that is
    not allowed."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare(1) is not installed")
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, text=True)
    if tried.returncode:
        pytest.skip(f"a mount namespace needs root: {tried.stderr.strip()}")
    script = " && ".join([*steps, 'exec "$@"'])
    return ("unshare", "-m", "sh", "-c", script, "sh")


def interrupted(process: subprocess.Popen[str], waits: threading.Event) -> float:
    """Sends Ctrl-C to a program that waits; it must end with the word "interrupted".

    Returns:
        the seconds until it had ended.
    """
    try:
        assert waits.wait(PATIENCE_S)
        time.sleep(0.1)  # until the program really waits
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=PATIENCE_S) == ("interrupted\n", "")
        return time.monotonic() - began
    finally:
        process.kill()
        process.communicate()
