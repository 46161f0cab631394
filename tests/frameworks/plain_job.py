"""Run by test_installed.py: Accelerate, timm, Transformers and torchrun's ranks over torch's names.

Nothing here knows of Headrace, unless the program is told to install it itself.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

folder, answers, what = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
if "installs" in sys.argv:
    import headrace

    headrace.install()

import torch  # noqa: E402
from PIL import Image  # noqa: E402
from torch.utils.data import DataLoader, DistributedSampler, Subset  # noqa: E402
from torchvision import datasets  # noqa: E402
from torchvision import transforms as tv  # noqa: E402

FIXED = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])
photographs = Subset(datasets.ImageFolder(folder, FIXED), range(0, 256, 4))
torch.manual_seed(0)


def sums(loader: Any) -> list[Any]:
    return [[images.double().sum().item(), labels.tolist()] for images, labels in loader]


def accelerate() -> Any:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    loader = accelerator.prepare(DataLoader(photographs, 8, shuffle=True))
    assert isinstance(loader, DataLoader)
    skipping = accelerator.skip_first_batches(loader, 2)
    found = [sums(loader), sums(loader), sums(skipping)]
    return type(loader.base_dataloader).__module__, found


def timm() -> Any:
    from timm.data import create_dataset, create_loader

    dataset = create_dataset("torch/image_folder", folder)
    loader = create_loader(dataset, (3, 32, 32), 8, use_prefetcher=False, num_workers=1)
    return type(loader).__module__, sums(loader)


class Opened(torch.utils.data.Dataset[Any]):
    """Images that the program opens itself, as in datasets for the Trainer."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        path, label = photographs.dataset.samples[4 * index]
        return {"pixel_values": FIXED(Image.open(path).convert("RGB")), "labels": label}


def transformers() -> Any:
    from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainingArguments

    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]}
    config = ResNetConfig(layer_type="basic", num_labels=len(photographs.dataset.classes), **sizes)
    options = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    settings = TrainingArguments(
        str(answers / "work"),
        num_train_epochs=2,
        per_device_train_batch_size=8,
        logging_steps=1,
        **options,
    )
    model = ResNetForImageClassification(config)
    trainer = Trainer(model=model, args=settings, train_dataset=Opened())
    trainer.train()
    loader = trainer.callback_handler.train_dataloader  # Accelerate's own, around the Trainer's
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return type(loader.base_dataloader).__module__, losses


def ranks() -> Any:
    torch.distributed.init_process_group("gloo")
    sampler: DistributedSampler[Any] = DistributedSampler(photographs)
    loader = DataLoader(photographs, 8, sampler=sampler)
    found = sums(loader)
    torch.distributed.destroy_process_group()
    return type(loader).__module__, found


rank = os.environ.get("RANK", "0")
(answers / f"{rank}.json").write_text(json.dumps(globals()[what]()))
