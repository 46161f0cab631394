"""timm: its prefetcher, models, optimizers and schedules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import timm
import timm.data
import torch
import torchvision
from frameworks_support import FOLDER, learns

import headrace as hr


def test_a_model_of_timms_learns(photographs: Path, example: Callable[[str], ModuleType]) -> None:
    assert learns(example("timm_training").train(str(photographs), 3))


def test_the_prefetcher_gives_the_batches_of_timms_own_loader(
    photographs: Path, example: Callable[[str], ModuleType]
) -> None:
    dataset = hr.Dataset(photographs)
    ours = example("timm_training").loader_for(dataset, training=False, size=56, batch_size=10)
    folder = torchvision.datasets.ImageFolder(FOLDER)
    theirs = timm.data.create_loader(
        folder,
        input_size=(3, 56, 56),
        batch_size=10,
        interpolation="bicubic",
        crop_pct=0.875,
        num_workers=0,
        device=torch.device("cpu"),
    )
    assert len(ours) == len(theirs) == 26
    assert len(ours.dataset) == len(theirs.dataset) == 256
    for (a, b), (c, d) in zip(ours, theirs, strict=True):
        assert torch.equal(a, c)
        assert torch.equal(b, d)
    ours.loader.close()
    dataset.close()
