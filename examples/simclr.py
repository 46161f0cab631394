"""SimCLR in one screen: two views of each photograph, from one decode.

python examples/simclr.py DIR          # one folder of JPEG or PNG files a class
"""

from __future__ import annotations

import argparse

import torch
import torch.nn.functional as F

import headrace as hr
from headrace import transforms as t


def contrastive_loss(features: torch.Tensor, temperature: float = 0.5) -> torch.Tensor:
    """Computes NT-Xent (Chen et al., 2020): each view should find its partner among all other
    views."""
    features = F.normalize(features)
    likeness = features @ features.T / temperature
    likeness.fill_diagonal_(float("-inf"))
    count = len(features) // 2
    partner = torch.arange(2 * count).roll(count)
    return F.cross_entropy(likeness, partner)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs", help="an image folder, or a packed dataset")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()

    recipe = [
        t.RandomResizedCrop(96),
        t.RandomHorizontalFlip(),
        t.RandomApply([t.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8),
        t.RandomGrayscale(0.2),
        t.RandomApply([t.GaussianBlur(9)]),
        t.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    ]
    loader = hr.Loader(
        arguments.photographs,
        arguments.batch_size,
        shuffle=True,
        drop_last=True,
        transform=t.Views(recipe, repeat=2),
        resolution={0: 64, 2: 96},  # small images first
    )
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, stride=4),
        torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(32, 64),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with loader:
        for epoch in range(arguments.epochs):
            for views, _ in loader:
                loss = contrastive_loss(model(torch.cat(views)))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(f"epoch {epoch}: {tuple(views[0].shape[2:])} pixels, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
