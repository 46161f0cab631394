"""Loading sections in the shapes of public programs that train classifiers.

Each row of the table in docs/drop-in.md has a test: here, in test_public_views.py (self-supervised
programs), in test_public_formats.py (other sources than folders of images) or, where the programs
need timm, in tests/frameworks/test_public_programs.py. The code is written anew.
"""

from __future__ import annotations

import csv
import hashlib
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data
from torchvision import datasets, models
from torchvision.transforms import InterpolationMode, autoaugment, v2

import images
from deferred.verdicts import CERTAIN, DRAWN, PAGE, Chances, draws, runs, table

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
END = [tv.ToTensor(), tv.Normalize(MEAN, STD)]
EVALUATION = tv.Compose([tv.Resize(40), tv.CenterCrop(32), *END])
WORKERS = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("public") / "photos", 12, 2)


def test_the_table_says_how_many_programs_are_native() -> None:
    words = [*table().values()]
    said = re.search(r"\*\*(\d+) of (\d+) are native\.\*\*", PAGE.read_text())
    assert said is not None
    assert [words.count("native"), len(words)] == [int(number) for number in said.groups()]
    assert len(words) == 25


# ---- folders of images, transforms in a Compose --------------------------------------------------


@WORKERS
def test_imagenet_example(root: Path, workers: int) -> None:
    def train(chances: Chances) -> Any:
        crop = tv.RandomResizedCrop(32, chances.scale)
        return datasets.ImageFolder(
            root, tv.Compose([crop, tv.RandomHorizontalFlip(chances.p), *END])
        )

    program = "pytorch/examples imagenet"
    draws(program, train(DRAWN), num_workers=workers)
    runs(program, train(CERTAIN), num_workers=workers)
    runs(program, datasets.ImageFolder(root, EVALUATION), num_workers=workers)


@WORKERS
def test_mae_pretraining(root: Path, workers: int) -> None:
    def pretrain(chances: Chances) -> Any:
        crop = tv.RandomResizedCrop(32, chances.scale, interpolation=InterpolationMode.BICUBIC)
        return datasets.ImageFolder(
            root, tv.Compose([crop, tv.RandomHorizontalFlip(chances.p), *END])
        )

    def shared(dataset: Any) -> Any:
        return data.DistributedSampler(dataset, 2, 1, shuffle=True, seed=5)

    for run, chances in ((draws, DRAWN), (runs, CERTAIN)):
        dataset = pretrain(chances)
        run(
            "MAE pretrain, finetune",
            dataset,
            sampler=shared(dataset),
            drop_last=True,
            num_workers=workers,
        )


# ---- torchvision's presets -----------------------------------------------------------------------


class TrainingPreset:
    """A callable around a Compose, built as in torchvision's training reference."""

    def __init__(
        self, chances: Chances, policy: str = "", v: Any = tv, backend: str = "pil"
    ) -> None:
        steps: list[Any] = [] if backend == "pil" else [v.PILToTensor()]
        steps += [
            v.RandomResizedCrop(32, chances.scale, antialias=True),
            v.RandomHorizontalFlip(chances.p),
        ]
        policies = v if v is v2 else autoaugment
        if policy == "ra":
            steps.append(policies.RandAugment(magnitude=9))
        elif policy == "ta_wide":
            steps.append(policies.TrivialAugmentWide())
        elif policy == "augmix":
            steps.append(policies.AugMix())
        if backend == "pil":
            steps.append(v.PILToTensor())
        steps += [
            v2.ToDtype(torch.float, scale=True) if v is v2 else tv.ConvertImageDtype(torch.float),
            v.Normalize(mean=MEAN, std=STD),
        ]
        if policy:
            steps.append(v.RandomErasing(p=0.3))
        if v is v2:
            steps.append(v2.ToPureTensor())
        self.transforms = v.Compose(steps)

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


@pytest.mark.slow
@WORKERS
def test_presets_of_torchvisions_references(root: Path, workers: int) -> None:
    program = "torchvision references/classification"
    for policy in ("", "ra", "ta_wide", "augmix"):
        dataset = datasets.ImageFolder(root, TrainingPreset(DRAWN, policy))
        draws(program, dataset, num_workers=workers)
    draws(program, datasets.ImageFolder(root, TrainingPreset(DRAWN, "ra", v2)), num_workers=workers)
    for version in (tv, v2):
        certain = TrainingPreset(CERTAIN, v=version)
        runs(program, datasets.ImageFolder(root, certain), num_workers=workers)


@WORKERS
def test_presets_without_their_wrapper(root: Path, workers: int) -> None:
    program = "the same, with the preset's `.transforms`"
    for version in (tv, v2):
        drawn, certain = (TrainingPreset(c, v=version).transforms for c in (DRAWN, CERTAIN))
        draws(program, datasets.ImageFolder(root, drawn), num_workers=workers)
        runs(program, datasets.ImageFolder(root, certain), num_workers=workers)


@WORKERS
def test_presets_that_resize_tensors(root: Path, workers: int) -> None:
    program = "the same, `--use-v2 --backend tensor`"
    drawn, certain = (TrainingPreset(c, v=v2, backend="tensor") for c in (DRAWN, CERTAIN))
    draws(program, datasets.ImageFolder(root, drawn), num_workers=workers)
    runs(program, datasets.ImageFolder(root, certain), num_workers=workers)


@WORKERS
def test_transforms_that_come_with_weights(root: Path, workers: int) -> None:
    preset = models.ResNet18_Weights.IMAGENET1K_V1.transforms(crop_size=32, resize_size=40)
    dataset = datasets.ImageFolder(root, preset)
    runs("`weights.transforms()`", dataset, num_workers=workers)


# ---- datasets of torchvision's -------------------------------------------------------------------


def small_cifar(root: Path) -> Any:
    """torchvision's CIFAR10 over 20 images; a subclass has their checksums, as CIFAR100 has its
    own."""
    folder = root / "cifar-10-batches-py"
    folder.mkdir()
    pictures = np.stack([images.pixels(32, 32, seed=n) for n in range(20)])
    rows = pictures.transpose(0, 3, 1, 2).reshape(20, -1)
    contents = {
        "data_batch_1": {"data": rows, "labels": [n % 10 for n in range(20)]},
        "batches.meta": {"label_names": [f"class {n}" for n in range(10)]},
    }
    sums = {}
    for name, content in contents.items():
        (folder / name).write_bytes(pickle.dumps(content))
        sums[name] = hashlib.md5((folder / name).read_bytes()).hexdigest()

    meta = {"filename": "batches.meta", "key": "label_names", "md5": sums["batches.meta"]}
    listed = [["data_batch_1", sums["data_batch_1"]]]
    members = {"train_list": listed, "test_list": listed, "meta": meta}
    return type("Small", (datasets.CIFAR10,), members)


@WORKERS
def test_cifar10(tmp_path: Path, workers: int) -> None:
    small = small_cifar(tmp_path)
    crop = [tv.RandomCrop(32, padding=4), tv.RandomHorizontalFlip()]
    train = small(str(tmp_path), train=True, transform=tv.Compose([*crop, *END]))
    certain = tv.Compose([tv.RandomHorizontalFlip(1.0), *END])
    draws("pytorch-cifar", train, num_workers=workers)
    runs("pytorch-cifar", small(str(tmp_path), transform=certain), num_workers=workers)
    runs("pytorch-cifar", small(str(tmp_path), train=False, transform=tv.Compose(END)))


def small_flowers(root: Path) -> Any:
    """torchvision's Flowers102 over 12 JPEGs."""
    from scipy.io import savemat

    folder = root / "flowers-102"
    (folder / "jpg").mkdir(parents=True)
    for number in range(1, 13):
        photograph = images.jpeg(60 + number, 50, seed=number)
        (folder / "jpg" / f"image_{number:05d}.jpg").write_bytes(photograph)
    savemat(folder / "imagelabels.mat", {"labels": np.arange(1, 13)[None]})
    savemat(folder / "setid.mat", {"trnid": np.arange(1, 13)[None]})
    named = {}
    for key, name in (("label", "imagelabels.mat"), ("setid", "setid.mat")):
        named[key] = (name, hashlib.md5((folder / name).read_bytes()).hexdigest())

    members = {"_file_dict": {**named, "image": ("102flowers.tgz", "")}}
    return type("Small", (datasets.Flowers102,), members)


def small_food(root: Path) -> None:
    """The files of torchvision's Food101: two classes of six."""
    folder = root / "food-101"
    (folder / "meta").mkdir(parents=True)
    listed = {f"dish{c}": [f"dish{c}/{n}" for n in range(6)] for c in range(2)}
    for split in ("train", "test"):
        (folder / "meta" / f"{split}.json").write_text(json.dumps(listed))
    photographs = {
        f"images/dish{n % 2}/{n // 2}.jpg": images.jpeg(60, 50, seed=n) for n in range(12)
    }
    images.write_tree(folder, photographs)


@WORKERS
def test_flowers102_and_food101(tmp_path: Path, workers: int) -> None:
    program = "Flowers102, Food101"
    small = small_flowers(tmp_path)
    small_food(tmp_path)
    drawn = tv.Compose([tv.RandomResizedCrop(32), tv.RandomHorizontalFlip(), *END])
    for made in (
        lambda transform: small(str(tmp_path), "train", transform=transform),
        lambda transform: datasets.Food101(str(tmp_path), "train", transform=transform),
    ):
        draws(program, made(drawn), num_workers=workers)
        runs(program, made(EVALUATION), num_workers=workers)


# ---- a table of files ----------------------------------------------------------------------------


class Listed(data.Dataset[Any]):
    """The most common dataset: a csv file of names and labels."""

    def __init__(self, listing: Path, folder: Path, transform: Any) -> None:
        with listing.open() as file:
            self.rows = list(csv.DictReader(file))
        self.folder, self.transform = folder, transform

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        image = Image.open(self.folder / row["file"]).convert("RGB")
        if self.transform:
            image = self.transform(image)
        return {"image": image, "label": torch.tensor(int(row["label"])), "file": row["file"]}


@WORKERS
def test_a_csv_file_and_image_open(root: Path, tmp_path: Path, workers: int) -> None:
    program = "csv and `Image.open`"
    listing = tmp_path / "train.csv"
    names = sorted(path.relative_to(root) for path in root.rglob("*.jpg"))
    rows = [f"{name},{n % 2}" for n, name in enumerate(names)]
    listing.write_text("\n".join(["file,label", *rows]))
    for run, chances in ((draws, DRAWN), (runs, CERTAIN)):
        crop = tv.RandomResizedCrop(32, chances.scale)
        transform = tv.Compose([crop, tv.RandomHorizontalFlip(chances.p), *END])
        run(program, Listed(listing, root, transform), num_workers=workers)
