"""Accelerate: prepare, gather_for_metrics, save_state and load_state."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from frameworks_support import EXAMPLES, learns, torchrun

HERE = Path(__file__).parent


def test_a_state_saved_mid_epoch_resumes_with_the_very_next_batch(
    photographs: Path, tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    program = example("accelerate_training")
    losses, seen = program.train(str(photographs), 3, tmp_path, save_at=40)
    assert learns(losses)
    resumed_losses, resumed = program.train(str(photographs), 3, tmp_path, resume=True)
    assert resumed == seen[40:]
    assert resumed_losses == losses[40:]


def test_two_processes_get_accelerates_parts_and_gather_each_photograph_once_an_epoch(
    photographs: Path, tmp_path: Path
) -> None:
    def run(**options: Any) -> list[list[int]]:
        program = EXAMPLES / "accelerate_training.py"
        job = HERE / "accelerate_job.py"
        process = torchrun(2, job, program, photographs, tmp_path, json.dumps(options))
        _, err = process.communicate(timeout=400)
        assert process.returncode == 0, err
        name = f"{options.get('resume', False)}-%d.json"
        found = [json.loads((tmp_path / (name % rank)).read_text()) for rank in range(2)]
        assert found[0][:2] == found[1][:2]
        for _losses, _seen, ours, theirs in found:
            assert ours == theirs
            assert len(ours) == 16
        assert found[0][2] != found[1][2]
        return list(found[0][1])

    seen = run(save_at=20)
    assert len(seen) == 32
    for epoch in (seen[:16], seen[16:]):
        assert sorted(index for step in epoch for index in step) == list(range(256))
    assert run(resume=True) == seen[20:]
