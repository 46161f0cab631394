"""Run by test_installed.py: Lightning over torch's names. Nothing here knows of Headrace."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset
from torchvision import datasets
from torchvision import transforms as tv

FIXED = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 11))
        self.losses: list[float] = []

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.body(batch[0]), batch[1])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        nn.functional.cross_entropy(self.body(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-2)


if __name__ == "__main__":
    folder, answers, ranks = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(0)
    photographs = Subset(datasets.ImageFolder(folder, FIXED), range(0, 256, 4))
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=ranks,
        strategy="ddp" if ranks > 1 else "auto",
        logger=False,
        enable_progress_bar=False,
        default_root_dir=str(answers),
    )
    model = Model()
    trainer.fit(model, DataLoader(photographs, 8, shuffle=True), DataLoader(photographs, 8))
    found = [type(trainer.train_dataloader).__module__, model.losses]
    (answers / f"{trainer.global_rank}.json").write_text(json.dumps(found))
