"""WebDataset's shards as they lie: a PyTorch training loop over tars that nobody repacked.

python examples/webdataset_tars.py "train-{000000..000146}.tar"      # or a folder of them

With an index, made once (headrace index "train-{000000..000146}.tar" --out train.hr), "train.hr"
opens in milliseconds, and photographs are decoded from seek points.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(64),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shards", help="tars with members KEY.jpg and KEY.cls, or their index")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()

    torch.manual_seed(0)  # for the model's weights; seed= determines order and augmentations
    dataset = hr.Dataset(arguments.shards)
    classes = 1 + max(dataset.facts(i)["label"] for i in range(len(dataset)))
    print(f"{len(dataset)} samples of {classes} classes, the first {dataset.facts(0)['key']}")
    # All samples are shuffled, not shards and a buffer, so the order does not depend on how the
    # shards are cut.
    loader = hr.Loader(dataset, arguments.batch_size, shuffle=True, seed=0, transform=TRAINING)

    model = nn.Sequential(nn.Conv2d(3, 16, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4))
    model = nn.Sequential(model, nn.Flatten(), nn.Linear(256, classes))
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
    loader.close()


if __name__ == "__main__":
    main()
