"""Loading sections in the shapes of public self-supervised programs: several views of an image."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image, ImageFilter, ImageOps
from torch.utils import data
from torchvision import datasets

import images
from deferred.test_public_programs import END, EVALUATION, MEAN, STD, small_cifar
from deferred.verdicts import CERTAIN, DRAWN, Chances, draws, runs

WORKERS = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("views") / "photos", 12, 2)


class Blur:
    """Pillow's blur by a radius that Python's generator draws."""

    def __init__(self, p: float, radii: tuple[float, float] = (0.1, 2.0)) -> None:
        self.p, self.radii = p, radii

    def __call__(self, image: Any) -> Any:
        if random.random() > self.p:
            return image
        return image.filter(ImageFilter.GaussianBlur(radius=random.uniform(*self.radii)))


class Solarize:
    """Pillow's solarize with a probability."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Any) -> Any:
        return ImageOps.solarize(image) if random.random() < self.p else image


def radii(chances: Chances) -> tuple[float, float]:
    return (1.5, 1.5) if chances is CERTAIN else (0.1, 2.0)


def colours(chances: Chances) -> Any:
    """Jitter and grey, as in SimCLR and most programs after it."""
    jitter = tv.ColorJitter(chances.factor, 0, 0, 0)
    if chances is DRAWN:
        jitter = tv.ColorJitter(0.4, 0.4, 0.2, 0.1)
    return tv.Compose(
        [
            tv.RandomApply([jitter], p=1.0 if chances is CERTAIN else 0.8),
            tv.RandomGrayscale(p=1.0 if chances is CERTAIN else 0.2),
        ]
    )


def both(program: str, made: Any, **options: Any) -> None:
    """A dataset by its chances: with random draws, and with nothing random."""
    draws(program, made(DRAWN), **options)
    runs(program, made(CERTAIN), **options)


# ---- two crops -----------------------------------------------------------------------------------


class TwoCrops:
    """One view by each of two transforms, which may be the same one."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second

    def __call__(self, image: Any) -> Any:
        return [self.first(image), self.second(image)]


def moco(chances: Chances) -> Any:
    """MoCo v3's: the views differ in blur and solarisation."""

    def view(blur: float, solarize: float) -> Any:
        certain = chances is CERTAIN
        steps = [
            tv.RandomResizedCrop(32, chances.scale),
            colours(chances),
            Blur(1.0 if certain else blur, radii(chances)),
            Solarize(1.0 if certain and solarize else 0.0 if certain else solarize),
            tv.RandomHorizontalFlip(chances.p),
        ]
        return tv.Compose([*steps, *END])

    return TwoCrops(view(1.0, 0.0), view(0.1, 0.2))


def simsiam(chances: Chances) -> Any:
    steps = [
        tv.RandomResizedCrop(32, chances.scale),
        colours(chances),
        tv.RandomApply([Blur(1.0, radii(chances))], p=chances.p),
        tv.RandomHorizontalFlip(chances.p),
    ]
    one = tv.Compose([*steps, *END])
    return TwoCrops(one, one)


@WORKERS
def test_moco_v3_and_simsiam(root: Path, workers: int) -> None:
    program = "MoCo v3, SimSiam, SupContrast"
    for made in (moco, simsiam):
        both(program, lambda c, m=made: datasets.ImageFolder(root, m(c)), num_workers=workers)


@WORKERS
def test_supcontrast_on_cifar(tmp_path: Path, workers: int) -> None:
    small = small_cifar(tmp_path)

    def made(chances: Chances) -> Any:
        crop = [
            tv.RandomResizedCrop(32, chances.scale),
            tv.RandomHorizontalFlip(chances.p),
            colours(chances),
        ]
        one = tv.Compose([*crop, *END])
        return small(str(tmp_path), transform=TwoCrops(one, one))

    both("MoCo v3, SimSiam, SupContrast", made, num_workers=workers)


# ---- DINO ----------------------------------------------------------------------------------------


class Crops:
    """Two large crops and four small ones, as in DINO."""

    def __init__(self, chances: Chances) -> None:
        certain = chances is CERTAIN
        flip = tv.Compose([tv.RandomHorizontalFlip(chances.p), colours(chances)])
        end = tv.Compose(END)

        def crop(size: int, scale: tuple[float, float]) -> Any:
            scale = chances.scale if certain else scale
            return tv.RandomResizedCrop(size, scale=scale, interpolation=Image.Resampling.BICUBIC)

        def blur(p: float) -> Any:
            return Blur(1.0 if certain else p, radii(chances))

        solarize = Solarize(1.0 if certain else 0.2)
        self.first = tv.Compose([crop(32, (0.4, 1.0)), flip, blur(1.0), end])
        self.second = tv.Compose([crop(32, (0.4, 1.0)), flip, blur(0.1), solarize, end])
        self.local = tv.Compose([crop(16, (0.05, 0.4)), flip, blur(0.5), end])

    def __call__(self, image: Any) -> Any:
        crops = [self.first(image), self.second(image)]
        for _ in range(4):
            crops.append(self.local(image))
        return crops


class NamedCrops(Crops):
    """DINOv2's: a dict, whose large crops come in a list."""

    def __call__(self, image: Any) -> Any:
        first, second, *local = super().__call__(image)
        return {"global_crops": [first, second], "local_crops": local, "offsets": ()}


@WORKERS
def test_dino_and_dinov2(root: Path, workers: int) -> None:
    for kind in (Crops, NamedCrops):
        both(
            "DINO, DINOv2",
            lambda c, k=kind: datasets.ImageFolder(root, k(c)),
            num_workers=workers,
        )


class MaybeToTensor(tv.ToTensor):
    """ToTensor, but tensors are left unchanged."""

    def __call__(self, picture: Any) -> Any:
        return picture if isinstance(picture, torch.Tensor) else super().__call__(picture)


class Sampled(datasets.ImageFolder):
    """A folder whose dataset decodes and transforms in its own code, as in DINOv2."""

    def __getitem__(self, index: int) -> Any:
        path, target = self.samples[index]
        with open(path, "rb") as file:
            image = Image.open(file).convert(mode="RGB")
        return self.transform(image), target


@WORKERS
def test_dinov2_linear_evaluation(root: Path, workers: int) -> None:
    def made(chances: Chances) -> Any:
        crop = tv.RandomResizedCrop(32, chances.scale)
        end = [MaybeToTensor(), tv.Normalize(mean=MEAN, std=STD)]
        return Sampled(root, tv.Compose([crop, tv.RandomHorizontalFlip(chances.p), *end]))

    both("DINOv2 linear evaluation", made, num_workers=workers)


class ReturnsIndex(datasets.ImageFolder):
    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, index


@WORKERS
def test_dino_nearest_neighbours(root: Path, workers: int) -> None:
    runs("DINO knn", ReturnsIndex(root, EVALUATION), num_workers=workers)


# ---- SimMIM --------------------------------------------------------------------------------------


class Masks:
    """Which patches of an image are hidden."""

    def __init__(self, size: int, patch: int, share: float) -> None:
        self.side, self.count = size // patch, math.ceil((size // patch) ** 2 * share)

    def __call__(self) -> Any:
        mask = np.zeros(self.side**2, dtype=int)
        mask[np.random.permutation(self.side**2)[: self.count]] = 1
        return mask.reshape(self.side, self.side)


class ImageAndMask:
    def __init__(self, chances: Chances) -> None:
        crop = tv.RandomResizedCrop(32, scale=chances.scale, ratio=(3 / 4, 4 / 3))
        self.image = tv.Compose([tv.Lambda(as_rgb), crop, tv.RandomHorizontalFlip(chances.p), *END])
        self.mask = Masks(32, 8, 1.0 if chances is CERTAIN else 0.6)

    def __call__(self, image: Any) -> Any:
        return self.image(image), self.mask()


def as_rgb(image: Any) -> Any:
    return image if image.mode == "RGB" else image.convert("RGB")


def side_by_side(samples: list[Any]) -> Any:
    """Collates images, masks and labels one by one."""
    columns = [data.default_collate([sample[0][n] for sample in samples]) for n in range(2)]
    return [*columns, data.default_collate([sample[1] for sample in samples])]


@WORKERS
def test_simmim(root: Path, workers: int) -> None:
    both(
        "SimMIM",
        lambda chances: datasets.ImageFolder(root, ImageAndMask(chances)),
        num_workers=workers,
        collate_fn=side_by_side,
    )


# ---- SwAV ----------------------------------------------------------------------------------------


class MultiCrop(datasets.ImageFolder):
    """Crops of several sizes, each by a transform of its own, made in ``__getitem__``."""

    def __init__(self, root: Path, chances: Chances) -> None:
        super().__init__(str(root))
        self.views = []
        for size, count in ((32, 2), (16, 3)):
            steps = [
                tv.RandomResizedCrop(size, scale=chances.scale),
                tv.RandomHorizontalFlip(p=chances.p),
                tv.Compose([colours(chances), Blur(chances.p, radii(chances))]),
            ]
            self.views.extend([tv.Compose([*steps, *END])] * count)

    def __getitem__(self, index: int) -> Any:
        path, _ = self.samples[index]
        image = self.loader(path)
        return [view(image) for view in self.views]


@WORKERS
def test_swav(root: Path, workers: int) -> None:
    both("SwAV", lambda chances: MultiCrop(root, chances), num_workers=workers)
