"""Accelerate: prepare, gather for metrics, save and load the state in mid-epoch.

    accelerate launch --cpu --num_processes 2 examples/accelerate_training.py PHOTOGRAPHS

A Headrace loader shards itself and goes through ``prepare`` unchanged. If it is registered for
checkpointing, its position is part of ``save_state``.
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(32, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def train(
    photographs: str,
    epochs: int,
    work: Path,
    save_at: int | None = None,
    resume: bool = False,
) -> tuple[list[float], list[list[int]]]:
    """Returns the losses, and the samples that all processes together saw in each step."""
    accelerator = Accelerator(cpu=True)
    torch.manual_seed(0)
    dataset = hr.Dataset(photographs)
    layers = [nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, len(dataset.classes))]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loader = hr.Loader(
        dataset, 8, shuffle=True, drop_last=True, transform=TRAINING, fields=["index"]
    )
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    accelerator.register_for_checkpointing(loader)
    if resume:
        accelerator.load_state(str(work / "state"))
    losses, seen = [], []
    while loader.state_dict()["epoch"] < epochs:
        for images, labels, more in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(accelerator.gather_for_metrics(loss.detach()).mean().item())
            seen.append(accelerator.gather_for_metrics(more["index"]).tolist())
            if len(seen) == save_at:
                accelerator.save_state(str(work / "state"))
        accelerator.print(f"epoch {loader.state_dict()['epoch'] - 1}: loss {losses[-1]:.3f}")
    loader.close()
    accelerator.end_training()
    return losses, seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--work", type=Path, default=Path("demo"))
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.photographs, arguments.epochs, arguments.work, save_at=20)
    train(arguments.photographs, arguments.epochs, arguments.work, resume=True)
