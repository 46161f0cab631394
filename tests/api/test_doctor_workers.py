"""``headrace.doctor`` counts the CPU time of a program's child processes as the program's own."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest
import torch
from torch.utils import data

import headrace as hr
from headrace._doctor import machine

BUSY = "import time\nwhile time.process_time() < 0.5: pass\nprint('done', flush=True); input()"


class Busy(data.Dataset[Any]):
    """Samples that each use some CPU time."""

    SECONDS = 0.004

    def __len__(self) -> int:
        return 1000

    def __getitem__(self, index: int) -> torch.Tensor:
        end = time.thread_time() + self.SECONDS
        while time.thread_time() < end:
            pass
        return torch.zeros(3, 8, 8)


@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-c", BUSY],
        ["sh", "-c", 'echo "$1" >/dev/null; "$0" -c "$1"; true', sys.executable, BUSY],
    ],
    ids=["child", "grandchild"],
)
def test_cpu_time_of_child_processes_counts_while_they_run_and_after_they_end(
    command: list[str],
) -> None:
    before = machine.cpu_seconds()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        living = machine.cpu_seconds()
        child.communicate(b"\n", timeout=60)
    ended = machine.cpu_seconds()
    assert living - before > 0.45
    assert ended - before > 0.45


@pytest.mark.slow
@pytest.mark.parametrize("kind", [data.DataLoader, hr.DataLoader])
def test_worker_processes_of_a_loader_do_not_count_as_other_programs(kind: Any) -> None:
    loader = kind(Busy(), batch_size=8, num_workers=1)
    found = hr.doctor(loader, lambda batch: None, seconds=2)
    # A worker makes its samples at the rate of the loader alone.
    used = found.measured["loader"] * Busy.SECONDS
    assert found.measured["machine"]["cores_own"] > 0.7 * used
