"""Hugging Face Transformers: a Trainer over Headrace batches.

python examples/transformers_trainer.py PHOTOGRAPHS
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import ResNetConfig, ResNetForImageClassification, Trainer, TrainingArguments

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(64, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def as_arguments(batch: tuple) -> dict[str, torch.Tensor]:
    """Returns the model's arguments by name."""
    return {"pixel_values": batch[0], "labels": batch[1]}


class HeadraceTrainer(Trainer):
    def get_train_dataloader(self) -> torch.utils.data.DataLoader:
        return torch.utils.data.DataLoader(
            self.train_dataset, batch_size=None, collate_fn=as_arguments
        )


def train(photographs: str, work: Path, epochs: int, **options: Any) -> Trainer:
    dataset = hr.Dataset(photographs)
    torch.manual_seed(0)
    model = ResNetForImageClassification(
        ResNetConfig(
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[1, 1],
            layer_type="basic",
            num_labels=len(dataset.classes),
        )
    )
    settings = TrainingArguments(
        output_dir=str(work),
        num_train_epochs=epochs,
        learning_rate=3e-3,
        use_cpu=True,
        report_to=[],
        logging_strategy="epoch",
        save_strategy="no",
        disable_tqdm=True,
    )
    batches = hr.IterableDataset(dataset, 16, shuffle=True, transform=TRAINING)
    trainer = HeadraceTrainer(model=model, args=settings, train_dataset=batches, **options)
    trainer.train()
    batches.loader.close()
    return trainer


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--work", type=Path, default=Path("demo"))
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.photographs, arguments.work, arguments.epochs)
