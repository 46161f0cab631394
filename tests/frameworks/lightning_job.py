"""Run by test_lightning.py under torchrun: writes what each process trained on as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from torch import nn
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr

FOLDER, WORK = Path(sys.argv[1]), Path(sys.argv[2])
COUNT, BATCH = 117, 8
FIXED = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])
RANDOM = tv.Compose([tv.RandomResizedCrop(32), tv.RandomHorizontalFlip(), tv.ToTensor()])


class Classifier(lightning.LightningModule):
    def __init__(self, photographs: Any, kind: Any) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()]
        self.layers = nn.Sequential(*layers, nn.Linear(32, 11))
        self.photographs, self.kind = photographs, kind
        self.seen: list[Any] = []
        self.loaders: list[str] = []

    def train_dataloader(self) -> Any:
        return self.kind(self.photographs, BATCH, shuffle=True, num_workers=0)

    def training_step(self, batch: Any, _number: int) -> torch.Tensor:
        images, labels = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.seen.append([labels.tolist(), images.sum().item(), loss.item()])
        return loss

    def on_train_epoch_start(self) -> None:
        loader = self.trainer.train_dataloader
        self.loaders.append(f"{type(loader).__module__} {type(loader.sampler).__name__}")

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-2)


def fit(kind: Any, transform: Any, steps: int, hook: bool = True, resume: Any = None) -> Any:
    lightning.seed_everything(3)
    photographs = data.Subset(datasets.ImageFolder(FOLDER, transform), range(COUNT))
    model = Classifier(photographs, kind)
    checkpoint = lightning.pytorch.callbacks.ModelCheckpoint(
        WORK, "{step}", save_top_k=-1, every_n_train_steps=11, enable_version_counter=False
    )
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        devices=int(os.environ["WORLD_SIZE"]),
        strategy="ddp",
        default_root_dir=WORK,
        logger=False,
        callbacks=[checkpoint],
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    given = {} if hook else {"train_dataloaders": model.train_dataloader()}
    trainer.fit(model, **given, ckpt_path=resume, weights_only=False)
    loader = trainer.train_dataloader
    if isinstance(loader, hr.DataLoader):
        loader.close()
    return [model.loaders, model.seen]


def strict(*arguments: Any, **options: Any) -> hr.DataLoader:
    return hr.DataLoader(*arguments, **options, strict=True)


def seeded(*arguments: Any, **options: Any) -> hr.DataLoader:
    """Seeds torch's generators, which Lightning does not restore and augmentations are drawn
    from."""
    return hr.DataLoader(*arguments, **options, seed=5)


answer = {
    "torch": fit(data.DataLoader, FIXED, 12),
    "hook": fit(strict, FIXED, 12),
    "argument": fit(strict, FIXED, 12, hook=False),
    "whole": fit(seeded, RANDOM, 20),
    "resumed": fit(seeded, RANDOM, 20, resume=WORK / "step=11.ckpt"),
}
Path(WORK, f"{os.environ['RANK']}.json").write_text(json.dumps(answer))
