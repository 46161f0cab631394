"""Plain PyTorch under torchrun: DistributedDataParallel over gloo."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import time
from pathlib import Path

import pytest
from frameworks_support import EXAMPLES, FOLDER, torchrun


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_train_together_on_different_photographs(photographs: Path, ranks: int) -> None:
    process = torchrun(ranks, EXAMPLES / "torch_ddp.py", photographs)
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    lines = re.findall(r"epoch \d: (\d+) photographs, (\d+) different, loss ([\d.]+)", out)
    assert [line[:2] for line in lines] == [("256", "256")] * 3, out
    assert float(lines[2][2]) < 0.95 * float(lines[0][2])


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_with_distributed_samplers_train_on_the_drop_in_as_on_torchs_loader(
    tmp_path: Path, ranks: int
) -> None:
    job = Path(__file__).parent / "torchrun_dataloader_job.py"
    process = torchrun(ranks, job, FOLDER, tmp_path)
    _, err = process.communicate(timeout=400)
    assert process.returncode == 0, err
    steps = math.ceil(math.ceil(117 / ranks) / 8)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(ranks)]
    for ours, theirs in found:
        assert ours == theirs
        assert len(ours) == 2 * steps
    assert found[0][0] != found[1][0]


def descendants(of: int) -> list[int]:
    """The processes that a process started, and those that these started."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)] = int(fields[1])
    found = [of]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_rank_ends_the_others_and_leaves_no_process(photographs: Path) -> None:
    process = torchrun(2, EXAMPLES / "torch_ddp.py", photographs, "--epochs", 10_000)
    started: list[int] = []
    try:
        assert process.stdout is not None
        while "epoch 1:" not in process.stdout.readline():
            assert process.poll() is None
        started = descendants(process.pid)
        ranks = [
            pid for pid in started if b"\0RANK=1\0" in Path(f"/proc/{pid}/environ").read_bytes()
        ]
        assert ranks
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=200)
        assert process.returncode != 0
        deadline = time.monotonic() + 10
        while any(map(runs, started)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not [pid for pid in started if runs(pid)]
    finally:
        for pid in [*started, process.pid]:
            if runs(pid):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
