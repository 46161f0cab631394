"""timm: a model, an optimizer and a schedule of timm's, fed by Headrace through its prefetcher.

    python examples/timm_training.py PHOTOGRAPHS

``PrefetchLoader`` takes uint8 batches and normalises them on the device.
"""

import argparse

import timm
import timm.data
import timm.optim
import timm.scheduler
import torch

import headrace as hr


def loader_for(dataset: hr.Dataset, training: bool, size: int, batch_size: int) -> timm.data.loader:
    steps = (
        [
            hr.transforms.RandomResizedCrop(size, scale=(0.5, 1), interpolation="bicubic"),
            hr.transforms.RandomHorizontalFlip(),
        ]
        if training
        else [
            hr.transforms.Resize(int(size / 0.875), interpolation="bicubic"),
            hr.transforms.CenterCrop(size),
        ]
    )
    batches = hr.Loader(
        dataset, batch_size, shuffle=training, drop_last=training, transform=steps, dtype="uint8"
    )
    return timm.data.loader.PrefetchLoader(batches, device=torch.device("cpu"))


def train(photographs: str, epochs: int) -> list[float]:
    torch.manual_seed(0)
    dataset = hr.Dataset(photographs)
    loader = loader_for(dataset, training=True, size=64, batch_size=16)
    model = timm.create_model("test_resnet", num_classes=len(dataset.classes))
    optimizer = timm.optim.create_optimizer_v2(model, "adamw", lr=2e-3)
    scheduler = timm.scheduler.CosineLRScheduler(optimizer, t_initial=epochs * len(loader))
    losses = []
    for epoch in range(epochs):
        for step, (images, labels) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step_update(epoch * len(loader) + step)
            losses.append(loss.item())
        print(f"epoch {epoch}: loss {sum(losses[-len(loader) :]) / len(loader):.3f}")
    loader.loader.close()
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--epochs", type=int, default=3)
    arguments = parser.parse_args()
    train(arguments.photographs, arguments.epochs)
