"""A PyTorch training loop over an image folder, which changed one import line.

python examples/one_import.py DIR      # one folder of JPEG or PNG files a class
"""

from __future__ import annotations

import argparse
import time

import torch
import torchvision
from torchvision.transforms import v2

from headrace import DataLoader, from_torchvision  # was: from torch.utils.data import DataLoader


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs", help="an image folder: one folder a class")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    torch.manual_seed(0)  # it determines order and augmentations
    compose = v2.Compose(
        [
            v2.RandomResizedCrop(64),
            v2.RandomHorizontalFlip(),
            v2.ToImage(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ]
    )
    print(f"The engine runs {from_torchvision(compose)}")
    photos = torchvision.datasets.ImageFolder(arguments.photographs, compose)
    loader = DataLoader(photos, batch_size=arguments.batch_size, shuffle=True, strict=True)

    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(4),
        torch.nn.Flatten(),
        torch.nn.Linear(256, len(photos.classes)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(arguments.epochs):
        begun, total = time.perf_counter(), 0.0
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        rate = len(photos) / (time.perf_counter() - begun)
        print(f"epoch {epoch}: loss {total / len(photos):.3f}, {rate:,.0f} images/s")


if __name__ == "__main__":
    main()
