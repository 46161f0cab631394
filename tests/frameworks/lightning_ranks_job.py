"""Run by test_lightning.py under torchrun: writes the samples of each epoch as JSON."""

from __future__ import annotations

import collections
import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import nn
from torchvision import datasets, transforms

import headrace as hr

FOLDER, WORK, NAME, STEPS = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
COUNT, BATCH = 80, 4


class Classifier(lightning.LightningModule):
    def __init__(self, photographs: Any) -> None:
        super().__init__()
        self.photographs, self.layer = photographs, nn.Linear(3, COUNT)
        self.seen: dict[int, list[int]] = collections.defaultdict(list)
        self.validated: list[int] = []

    def train_dataloader(self) -> Any:
        return hr.DataLoader(self.photographs, BATCH, shuffle=True, strict=True)

    def val_dataloader(self) -> Any:
        return hr.DataLoader(self.photographs, BATCH, strict=True)

    def training_step(self, batch: Any, _number: int) -> torch.Tensor:
        images, labels = batch
        self.seen[self.current_epoch] += labels.tolist()
        return nn.functional.cross_entropy(self.layer(images.mean((2, 3))), labels)

    def validation_step(self, batch: Any, number: int) -> None:
        if not number:
            self.validated.append(self.current_epoch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-2)


lightning.seed_everything(3)
photographs = datasets.ImageFolder(
    FOLDER, transforms.Compose([transforms.Resize((32, 32)), transforms.ToTensor()])
)
photographs.samples = [
    (path, number) for number, (path, _) in enumerate(photographs.samples[:COUNT])
]
model = Classifier(photographs)
callbacks = [hr.lightning.Lengths()]
if NAME == "begun":
    callbacks.append(
        lightning.pytorch.callbacks.ModelCheckpoint(WORK, NAME, every_n_train_steps=STEPS)
    )
trainer = lightning.Trainer(
    max_steps=STEPS,
    accelerator="cpu",
    devices=int(os.environ["WORLD_SIZE"]),
    strategy="ddp",
    default_root_dir=WORK,
    logger=False,
    callbacks=callbacks,
    num_sanity_val_steps=0,
    enable_checkpointing=NAME == "begun",
    enable_progress_bar=False,
    enable_model_summary=False,
)
resume = None if NAME == "begun" else WORK / "begun.ckpt"
trainer.fit(model, ckpt_path=resume, weights_only=False)
Path(WORK, f"{NAME}.{os.environ['RANK']}.json").write_text(
    json.dumps({"seen": model.seen, "validated": model.validated})
)
