"""Loading sections in the shapes of public programs over timm: the table of docs/drop-in.md.

The others, which need torchvision alone, are in tests/deferred.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm.data
import torch
import torch.utils.data
import torchvision.transforms as tv
from PIL import ImageFilter, ImageOps
from timm.data.distributed_sampler import RepeatAugSampler
from torchvision import datasets

import headrace as hr
import images
from deferred.verdicts import draws, equal, runs, table

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WORKERS = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("timm") / "photos", 12, 2)


def training(**options: Any) -> Any:
    """timm's transforms with the arguments of the training scripts of DeiT, Swin, ConvNeXt and
    MAE."""
    given = {
        "input_size": 32,
        "is_training": True,
        "color_jitter": 0.4,
        "auto_augment": "rand-m9-mstd0.5-inc1",
        "interpolation": "bicubic",
        "re_prob": 0.25,
        "re_mode": "pixel",
        "re_count": 1,
    }
    return timm.data.create_transform(**(given | options))


def evaluation() -> Any:
    steps = [tv.Resize(36, interpolation=tv.InterpolationMode.BICUBIC), tv.CenterCrop(32)]
    return tv.Compose([*steps, tv.ToTensor(), tv.Normalize(MEAN, STD)])


@WORKERS
@pytest.mark.parametrize("program", ["MAE pretrain, finetune", "ConvNeXt, Swin"])
def test_finetuning_with_timms_transforms(root: Path, program: str, workers: int) -> None:
    without = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)} if "Swin" in program else {}
    dataset = datasets.ImageFolder(str(root), transform=training(**without))
    draws(program, dataset, num_workers=workers, drop_last=True)
    runs(program, datasets.ImageFolder(str(root), transform=evaluation()), num_workers=workers)


@WORKERS
def test_deit(root: Path, workers: int) -> None:
    dataset = datasets.ImageFolder(str(root), transform=training())
    sampler = RepeatAugSampler(dataset, num_replicas=2, rank=0, shuffle=True, num_repeats=3)
    draws("DeiT", dataset, num_workers=workers, sampler=sampler)
    runs("DeiT", datasets.ImageFolder(str(root), transform=evaluation()), num_workers=workers)


class Now:
    """Does something to an image with a probability."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return self.change(image) if random.random() < self.p else image

    def change(self, image: Any) -> Any:
        raise NotImplementedError


class Blur(Now):
    def change(self, image: Any) -> Any:
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(0.1, 2.0)))


class Solarization(Now):
    def change(self, image: Any) -> Any:
        return ImageOps.solarize(image)


class Grey(Now):
    def __init__(self, p: float) -> None:
        super().__init__(p)
        self.change = tv.Grayscale(3)  # type: ignore[method-assign]


def three_augment(simple_crop: bool, choices: list[Any], jitter: float) -> Any:
    """One of three ops, jitter and a crop: simple or of random size."""
    crop = [timm.data.transforms.RandomResizedCropAndInterpolation(32, interpolation="bicubic")]
    if simple_crop:
        resize = tv.Resize(32, interpolation=tv.InterpolationMode.BICUBIC)
        crop = [resize, tv.RandomCrop(32, padding=4, padding_mode="reflect")]
    steps = [*crop, tv.RandomHorizontalFlip(), tv.RandomChoice(choices)]
    end = [tv.ColorJitter(jitter, jitter, jitter), tv.ToTensor(), tv.Normalize(MEAN, STD)]
    return tv.Compose([*steps, *end])


@pytest.mark.parametrize("simple_crop", [False, True])
def test_deit_iii_three_augment(root: Path, simple_crop: bool) -> None:
    workers = 2  # without them, what follows in a folder's Compose runs in Python threads
    choices = [Grey(p=1.0), Solarization(p=1.0), Blur(p=1.0)]
    transform = three_augment(simple_crop, choices, 0.3)
    dataset = datasets.ImageFolder(str(root), transform=transform)
    draws("DeiT-III 3-Augment", dataset, num_workers=workers)
    for choice in (Grey(p=1.0), Solarization(p=1.0)):
        steps = [tv.Resize((32, 32)), tv.RandomChoice([choice]), tv.ToTensor()]
        certain = datasets.ImageFolder(str(root), transform=tv.Compose(steps))
        runs("DeiT-III 3-Augment", certain, num_workers=workers)


# ---- timm's own scripts --------------------------------------------------------------------------


@contextlib.contextmanager
def installed(kind: Any) -> Iterator[None]:
    """Puts a loader in the place where timm looks for torch's."""
    before, torch.utils.data.DataLoader = torch.utils.data.DataLoader, kind
    try:
        yield
    finally:
        torch.utils.data.DataLoader = before


def batches(kind: Any, dataset: Any, **options: Any) -> tuple[Any, list[Any]]:
    """A loader as timm wraps it, and its batches of one epoch from seeded generators."""
    torch.manual_seed(7)
    random.seed(7)
    np.random.seed(7)
    with installed(kind):
        loader = timm.data.create_loader(
            dataset, (3, 32, 32), 6, device=torch.device("cpu"), mean=MEAN, std=STD, **options
        )
    return loader, [[part.clone() for part in batch] for batch in loader]


@WORKERS
@pytest.mark.parametrize("name", ["", "torch/image_folder"])
def test_timms_loaders(root: Path, name: str, workers: int) -> None:
    program = "timm `--dataset torch/image_folder`, mixup" if name else "timm train and validate"
    dataset = timm.data.create_dataset(name, root=str(root), split="." if name else "")
    mixup = timm.data.FastCollateMixup(0.8, 1.0, num_classes=2)
    train = {"is_training": True, "auto_augment": "rand-m9-mstd0.5", "re_prob": 0.25}
    train |= {"collate_fn": mixup, "num_workers": workers}
    checked = {"is_training": False, "num_workers": workers, "crop_pct": 0.9}
    _, expected = batches(torch.utils.data.DataLoader, dataset, **checked)
    loader, found = batches(hr.DataLoader, dataset, **checked)
    assert equal(found, expected)
    assert loader.loader.explain().native == (table()[program] == "native")
    loader.loader.close()
    _, expected = batches(torch.utils.data.DataLoader, dataset, **train)
    passes = [batches(hr.DataLoader, dataset, **train) for _ in range(2)]
    for loader, found in passes:
        assert [[(p.shape, p.dtype) for p in batch] for batch in found] == [
            [(p.shape, p.dtype) for p in batch] for batch in expected
        ]
        loader.loader.close()
    assert equal(passes[0][1], passes[1][1])
