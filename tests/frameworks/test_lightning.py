"""Lightning: Trainer, with a checkpoint and a resume in mid-epoch."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import ModuleType

from frameworks_support import learns


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
