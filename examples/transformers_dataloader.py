"""Hugging Face Transformers: a Trainer over an ImageFolder, through headrace.DataLoader.

    python examples/transformers_dataloader.py FOLDER

The Trainer makes its loaders itself; override ``get_train_dataloader`` to give it another one.
"""

import argparse
from pathlib import Path

import torch
from torchvision import datasets
from torchvision.transforms import v2
from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainingArguments

import headrace.accelerate

TRAINING = v2.Compose(
    [
        v2.RandomResizedCrop(64, scale=(0.5, 1.0)),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ]
)


def as_arguments(samples: list) -> dict[str, torch.Tensor]:
    """Returns the model's arguments by name."""
    images, labels = torch.utils.data.default_collate(samples)
    return {"pixel_values": images, "labels": labels}


class HeadraceTrainer(Trainer):
    loader_class: type[torch.utils.data.DataLoader] = headrace.DataLoader

    def get_train_dataloader(self) -> torch.utils.data.DataLoader:
        loader = self.loader_class(
            self.train_dataset,
            batch_size=self.args.per_device_train_batch_size,
            shuffle=True,
            collate_fn=as_arguments,
        )
        if isinstance(loader, headrace.DataLoader):
            return headrace.accelerate.prepare(self.accelerator, loader)
        return self.accelerator.prepare(loader)


def trainer_over(photographs: datasets.ImageFolder, work: Path, epochs: int, **options) -> Trainer:
    torch.manual_seed(0)
    model = ResNetForImageClassification(
        ResNetConfig(
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[1, 1],
            layer_type="basic",
            num_labels=len(photographs.classes),
        )
    )
    settings = {
        "output_dir": str(work),
        "num_train_epochs": epochs,
        "per_device_train_batch_size": 16,
        "learning_rate": 3e-3,
        "use_cpu": True,
        "report_to": [],
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return HeadraceTrainer(
        model=model, args=TrainingArguments(**(settings | options)), train_dataset=photographs
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--work", type=Path, default=Path("demo"))
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    photographs = datasets.ImageFolder(arguments.folder, TRAINING)
    trainer_over(photographs, arguments.work, arguments.epochs).train()
