"""Lightning: Trainer, with a checkpoint and a resume in mid-epoch."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import ModuleType

from frameworks_support import FOLDER, learns, torchrun


def test_a_run_resumed_in_mid_epoch_goes_on_with_the_very_next_batch(
    photographs: Path, tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    program = example("lightning_trainer")
    whole = program.fit(str(photographs), tmp_path / "whole", 48)
    assert learns(whole.losses)
    epochs = [sorted(chain.from_iterable(whole.seen[begin : begin + 16])) for begin in (0, 16, 32)]
    assert epochs == [list(range(256))] * 3
    begun = program.fit(str(photographs), tmp_path / "begun", 21)
    resumed = program.fit(
        str(photographs), tmp_path / "resumed", 48, tmp_path / "begun" / "last.ckpt"
    )
    assert begun.seen + resumed.seen == whole.seen
    assert begun.losses + resumed.losses == whole.losses


def test_two_processes_train_over_the_drop_in_as_over_torchs_loader_and_resume_in_mid_epoch(
    tmp_path: Path,
) -> None:
    """Lightning makes it anew, with a DistributedSampler, from a hook's loader or an argument's."""
    process = torchrun(2, Path(__file__).parent / "lightning_job.py", FOLDER, tmp_path)
    _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    for answers in found:
        assert set(answers["torch"][0]) == {"torch.utils.data.dataloader DistributedSampler"}
        for given in ("hook", "argument"):
            loaders, seen = answers[given]
            assert set(loaders) == {"headrace.dataloader DistributedSampler"}
            assert seen == answers["torch"][1]
        assert len(answers["whole"][1]) == 20
        assert answers["resumed"][1] == answers["whole"][1][11:]
    assert found[0]["torch"][1] != found[1]["torch"][1]
