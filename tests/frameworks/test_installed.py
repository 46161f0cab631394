"""Programs over torch's names, under ``headrace run`` and with ``headrace.install``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frameworks_support import FOLDER

HERE = Path(__file__).parent
RUN = ("-m", "headrace", "run")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
ONE = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
HEADRACE, TORCH = "headrace.dataloader", "torch.utils.data.dataloader"


def answers(folder: Path, *command: object, ranks: int = 1) -> tuple[list[Any], str]:
    """What a program wrote for each rank, and its stderr."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, *(str(folder) if part == "HERE" else str(part) for part in command)],
        capture_output=True,
        text=True,
        timeout=400,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]
    return found, done.stderr


@pytest.mark.parametrize("ranks", [1, 2])
def test_lightning_with_headraces_loaders_has_the_same_losses(tmp_path: Path, ranks: int) -> None:
    job = (HERE / "plain_lightning_job.py", FOLDER, "HERE", ranks)
    plain, _ = answers(tmp_path / "plain", *job, ranks=ranks)
    found, err = answers(tmp_path / "run", *RUN, *job, ranks=ranks)
    assert [name for name, _ in plain] == [TORCH] * ranks
    assert found == [[HEADRACE, losses] for _, losses in plain]
    assert err.count("headrace: ") == 1
    assert "Subset of ImageFolder  native" in err


@pytest.mark.parametrize("what", ["accelerate", "timm", "transformers"])
def test_accelerate_timm_and_the_trainer_make_headraces_loaders_with_the_same_batches(
    tmp_path: Path, what: str
) -> None:
    job = (HERE / "plain_job.py", FOLDER, "HERE", what)
    ((name, plain),), _ = answers(tmp_path / "plain", *job)
    assert name == TORCH
    found, err = answers(tmp_path / "run", *RUN, *job)
    assert found == [[HEADRACE, plain]]
    assert " native" in err
    assert "UserWarning: headrace" not in err
    found, _ = answers(tmp_path / "installs", *job, "installs")
    assert found == [[HEADRACE, plain]]
    if what == "accelerate":
        launch = ("-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1", *ONE)
        found, _ = answers(tmp_path / "launch", *RUN, *launch, *job)
        assert found == [[HEADRACE, plain]]


def test_ranks_of_launchers_have_headraces_loaders_in_every_way_of_installing(
    tmp_path: Path,
) -> None:
    job = (HERE / "plain_job.py", FOLDER, "HERE", "ranks")
    headrace = Path(sys.executable).parent / "headrace"
    if not headrace.exists():  # it borrows the package: the command is beside that
        import headrace as package

        headrace = Path(package.__file__).parents[4] / "bin" / "headrace"
    plain, _ = answers(tmp_path / "plain", *TORCHRUN, *job, ranks=2)
    ways: list[tuple[object, ...]] = [
        (*TORCHRUN, "--no-python", headrace, "run", *job),
        (*RUN, *TORCHRUN, *job),
        (*TORCHRUN, *job, "installs"),
    ]
    for number, way in enumerate(ways):
        found, _ = answers(tmp_path / f"{number}", *way, ranks=2)
        assert found == [[HEADRACE, sums] for _, sums in plain]
