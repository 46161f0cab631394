"""A table of Hugging Face's as it lies, Parquet or save_to_disk: torchvision's transforms, no copy.

python examples/huggingface_table.py "data/train-*.parquet"          # or a folder of save_to_disk

The package datasets is not needed. The table's features say which column is the image and what the
classes are called; if they do not, image= and label= say so.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torchvision.transforms import v2

import headrace as hr

TRAINING = v2.Compose(
    [
        v2.RandomResizedCrop(64),
        v2.RandomHorizontalFlip(),
        v2.ToImage(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="Parquet files, or a folder that save_to_disk wrote")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    torch.manual_seed(0)  # it determines order and augmentations, as in torch
    table = hr.Dataset(arguments.table)
    count = len(table.classes) or 1 + max(table.facts(i)["label"] for i in range(len(table)))
    print(f"{len(table)} images of the classes {', '.join(table.classes) or f'0 to {count - 1}'}")
    loader = hr.DataLoader(
        table, transform=TRAINING, batch_size=arguments.batch_size, shuffle=True, strict=True
    )

    model = nn.Sequential(nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
    model = nn.Sequential(model, nn.Flatten(), nn.Linear(256, count))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(arguments.epochs):
        begun, total, seen = time.perf_counter(), 0.0, 0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, seen = total + loss.item() * len(labels), seen + len(labels)
        rate = seen / (time.perf_counter() - begun)
        print(f"epoch {epoch}: {seen} samples, loss {total / seen:.3f}, {rate:,.0f} images/s")


if __name__ == "__main__":
    main()
