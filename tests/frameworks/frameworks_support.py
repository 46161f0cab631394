"""Helpers for the tests of frameworks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# 256 real photographs of 11 classes.
FOLDER = ROOT / ".build" / "frameworks" / "photographs"


def threads_and_slots() -> list[str]:
    """Threads and slots that loaders of this process have not given back."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with contextlib.suppress(OSError):  # the thread has ended
            names.append(path.read_text().strip())
    maps = Path("/proc/self/maps").read_text().splitlines()
    left = [name for name in names if name.startswith("headrace")]
    return left + [line.split()[-1] for line in maps if "headrace-slot" in line]


def mean(losses: list[float]) -> float:
    return sum(losses) / len(losses)


def learns(losses: list[float], part: int = 3) -> bool:
    """The last of `part` parts has a clearly lower loss than the first."""
    length = len(losses) // part
    return mean(losses[-length:]) < 0.9 * mean(losses[:length])


def torchrun(processes: int, *command: object) -> subprocess.Popen[str]:
    """Starts processes of gloo on this machine; the launcher picks a free port."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    return subprocess.Popen(
        [*launcher, "--nproc-per-node", str(processes), *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
