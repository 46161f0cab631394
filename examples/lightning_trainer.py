"""Lightning: a Trainer over a Headrace loader, stopped in mid-epoch and resumed.

    python examples/lightning_trainer.py PHOTOGRAPHS

The loader has ``state_dict`` and ``load_state_dict``, which Lightning saves in its checkpoints. So
the resumed run continues with the very next batch.
"""

import argparse
from pathlib import Path

import lightning
import torch
from torch import nn

import headrace as hr

TRAINING = [
    hr.transforms.RandomResizedCrop(32, scale=(0.5, 1.0)),
    hr.transforms.RandomHorizontalFlip(),
    hr.transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
]


class Classifier(lightning.LightningModule):
    def __init__(self, classes: int) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 16, 5, stride=2), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2)]
        layers += [nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, classes)]
        self.layers = nn.Sequential(*layers)
        self.losses: list[float] = []
        self.seen: list[list[int]] = []

    def training_step(self, batch: tuple, _number: int) -> torch.Tensor:
        images, labels, more = batch
        loss = nn.functional.cross_entropy(self.layers(images), labels)
        self.losses.append(loss.item())
        self.seen.append(more["index"].tolist())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def fit(photographs: str, folder: Path, steps: int, resume: Path | None = None) -> Classifier:
    """Trains up to `steps` steps in all, and saves folder/last.ckpt."""
    lightning.seed_everything(0)
    dataset = hr.Dataset(photographs)
    model = Classifier(len(dataset.classes))
    trainer = lightning.Trainer(
        max_steps=steps,
        accelerator="cpu",
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    with hr.Loader(dataset, 16, shuffle=True, transform=TRAINING, fields=["index"]) as loader:
        trainer.fit(model, loader, ckpt_path=resume, weights_only=False)
        trainer.save_checkpoint(folder / "last.ckpt")
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photographs")
    parser.add_argument("--work", type=Path, default=Path("demo"))
    arguments = parser.parse_args()
    begun = fit(arguments.photographs, arguments.work, 21)
    print(f"stopped in mid-epoch after {len(begun.losses)} steps, loss {begun.losses[-1]:.3f}")
    resumed = fit(arguments.photographs, arguments.work, 48, arguments.work / "last.ckpt")
    print(f"resumed for {len(resumed.losses)} more, loss {resumed.losses[-1]:.3f}")
