"""Hugging Face Transformers: Trainer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def test_a_model_learns_under_the_trainer(
    photographs: Path, tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    trainer = example("transformers_trainer").train(str(photographs), tmp_path, 3)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert trainer.state.global_step == 3 * 16
    assert len(losses) == 3
    assert losses[2] < 0.9 * losses[0]
