"""Accelerate over torchvision's folders: headrace.DataLoader, prepared in one line of its own.

    accelerate launch --cpu --num_processes 2 examples/accelerate_dataloader.py FOLDER

FOLDER has a folder of photographs for each class. Each process gets the samples that it would get
with torch's loader, and the loader's place in the epoch is part of ``save_state``.
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import nn
from torchvision import datasets
from torchvision.transforms import v2

import headrace.accelerate

TRAINING = v2.Compose(
    [
        v2.RandomResizedCrop(32, scale=(0.5, 1.0)),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ]
)


def train(
    folder: str, epochs: int, work: Path, save_at: int | None = None, resume: bool = False
) -> tuple[list[float], list[list]]:
    """Returns the losses and, for each step, the labels and the images' sum over all processes."""
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True)
    )
    torch.manual_seed(0)
    photographs = datasets.ImageFolder(folder, TRAINING)
    layers = [nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, len(photographs.classes))]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model, optimizer = accelerator.prepare(model, optimizer)
    loader = headrace.DataLoader(photographs, batch_size=8, shuffle=True, num_workers=2)
    loader = headrace.accelerate.prepare(accelerator, loader)
    if resume:
        accelerator.load_state(str(work / "state"))
    losses, seen = [], []
    while (epoch := loader.iteration) < epochs:
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            losses.append(accelerator.gather_for_metrics(loss.detach()).mean().item())
            every = [labels, images.sum(dim=(1, 2, 3))]
            seen.append([each.tolist() for each in accelerator.gather_for_metrics(every)])
            if len(seen) == save_at:
                accelerator.save_state(str(work / "state"))
        accelerator.print(f"epoch {epoch}: loss {losses[-1]:.3f}")
    accelerator.end_training()
    loader.close()
    return losses, seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--work", type=Path, default=Path("demo"))
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.folder, arguments.epochs, arguments.work, save_at=20)
    train(arguments.folder, arguments.epochs, arguments.work, resume=True)
