"""Plain PyTorch on several processes: DistributedDataParallel, one loader a process.

    torchrun --nproc-per-node 2 examples/torch_ddp.py PHOTOGRAPHS

The loader finds its rank by itself. Every process has the same number of batches, and no photograph
goes to two of them.
"""

import argparse

import torch
import torch.distributed as dist
from torch import nn

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(32, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    dataset = hr.Dataset(arguments.photographs)
    loader = hr.Loader(
        dataset, 8, shuffle=True, drop_last=True, transform=TRAINING, fields=["index"]
    )
    layers = [nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU()]
    layers += [nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, len(dataset.classes))]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    for epoch in range(arguments.epochs):
        loader.set_epoch(epoch)
        losses, seen = [], []
        for images, labels, more in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            seen += more["index"].tolist()
        everyone: list = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, (losses, seen))
        if dist.get_rank() == 0:
            mean = sum(sum(losses) / len(losses) for losses, _ in everyone) / len(everyone)
            count = sum(len(seen) for _, seen in everyone)
            different = len({index for _, seen in everyone for index in seen})
            print(f"epoch {epoch}: {count} photographs, {different} different, loss {mean:.3f}")
    loader.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
