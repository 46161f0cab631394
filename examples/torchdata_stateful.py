"""torchdata: a StatefulDataLoader over Headrace batches, saved and resumed in mid-epoch.

    python examples/torchdata_stateful.py PHOTOGRAPHS

It also works with worker processes: each has its own part of the batches and its own state.
"""

import argparse
import json

import torch
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(32, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def loader_over(photographs: str, workers: int = 0) -> StatefulDataLoader:
    batches = hr.IterableDataset(
        photographs, 16, shuffle=True, transform=TRAINING, fields=["index"]
    )
    return StatefulDataLoader(batches, batch_size=None, num_workers=workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
    model = nn.Sequential(model, nn.Flatten(), nn.LazyLinear(100))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def train(loader: StatefulDataLoader, steps: int | None = None) -> list[int]:
        seen = []
        for step, (images, labels, more) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += more["index"].tolist()
            if step + 1 == steps:
                break
        print(f"{len(seen)} photographs, loss {loss.item():.3f}")
        return seen

    first = loader_over(arguments.photographs)
    begun = train(first, 5)
    state = json.loads(json.dumps(first.state_dict()))
    second = loader_over(arguments.photographs)
    second.load_state_dict(state)
    resumed = train(second)
    print(f"together {len({*begun, *resumed})} different photographs of {len(begun + resumed)}")


if __name__ == "__main__":
    main()
