"""Hugging Face Transformers: Trainer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from frameworks_support import FOLDER
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr


def test_a_model_learns_under_the_trainer(
    photographs: Path, tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    trainer = example("transformers_trainer").train(str(photographs), tmp_path, 3)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert trainer.state.global_step == 3 * 16
    assert len(losses) == 3
    assert losses[2] < 0.9 * losses[0]


def test_the_drop_in_trains_as_torchs_loader_and_resumes_from_checkpoints(
    tmp_path: Path, example: Callable[[str], ModuleType]
) -> None:
    """After a resume torch's loader reads the rest of that epoch, as documented."""
    program = example("transformers_dataloader")
    fixed = tv.Compose([tv.Resize((64, 64)), tv.ToTensor()])
    photographs = datasets.ImageFolder(FOLDER, fixed)

    def losses(kind: type[data.DataLoader], resume: Path | None = None) -> list[float]:
        program.HeadraceTrainer.loader_class = kind
        options = {"save_strategy": "steps", "save_steps": 20, "seed": 9}
        trainer = program.trainer_over(photographs, tmp_path / kind.__module__, 2, **options)
        trainer.train(resume_from_checkpoint=None if resume is None else str(resume))
        loader = trainer.callback_handler.train_dataloader
        assert isinstance(loader, hr.DataLoader) == (kind is hr.DataLoader)
        if isinstance(loader, hr.DataLoader):
            loader.close()
        return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]

    ours = losses(hr.DataLoader)
    assert len(ours) == 32
    assert ours == losses(data.DataLoader)
    checkpoint = tmp_path / hr.DataLoader.__module__ / "checkpoint-20"
    assert losses(hr.DataLoader, checkpoint) == ours
    assert ours[-1] < 0.9 * ours[0]
