"""Loading sections as public training programs have them run natively and unaltered."""

from __future__ import annotations

import contextlib
import random
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image, ImageFilter, ImageOps
from torch.utils import data
from torchvision import datasets
from torchvision.transforms import v2

import headrace as hr
import images
from deferred.test_own_code import compared

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("programs") / "photos", 16, 2)


class Preset:
    """A transform within a callable, as in torchvision's references."""

    def __init__(self, crop: int, train: bool) -> None:
        steps: list[Any] = [tv.RandomResizedCrop(crop), tv.RandomHorizontalFlip()]
        if not train:
            steps = [tv.Resize(crop + 8), tv.CenterCrop(crop)]
        end = [tv.PILToTensor(), tv.ConvertImageDtype(torch.float), tv.Normalize(MEAN, STD)]
        self.transforms = tv.Compose([*steps, *end])

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class TwoCrops:
    """Two views of an image, as in MoCo's and SimSiam's loaders."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, image: Any) -> Any:
        return [self.transform(image), self.transform(image)]


class MultiCrop:
    """Two large and six small views, each with its own transforms, as in DINO."""

    def __init__(self) -> None:
        flip = tv.Compose(
            [tv.RandomHorizontalFlip(), tv.RandomApply([tv.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8)]
        )
        end = tv.Compose([tv.ToTensor(), tv.Normalize(MEAN, STD)])
        self.large = tv.Compose([tv.RandomResizedCrop(32, (0.4, 1.0)), flip, end])
        self.small = tv.Compose([tv.RandomResizedCrop(16, (0.05, 0.4)), flip, end])

    def __call__(self, image: Any) -> Any:
        return [self.large(image), self.large(image), *(self.small(image) for _ in range(6))]


class WithIndex(datasets.ImageFolder):
    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        return image, index


class WithPath(datasets.ImageFolder):
    def __getitem__(self, index: int) -> Any:
        return (*super().__getitem__(index), self.samples[index][0])


class Wrapper(data.Dataset[Any]):
    """Applies a transform to a split, as users of random_split do."""

    def __init__(self, subset: Any, transform: Any) -> None:
        self.subset, self.transform = subset, transform

    def __len__(self) -> int:
        return len(self.subset)

    def __getitem__(self, index: int) -> Any:
        image, label = self.subset[index]
        return self.transform(image), label


EVALUATION = tv.Compose([tv.Resize(40), tv.CenterCrop(32), tv.ToTensor(), tv.Normalize(MEAN, STD)])


def test_presets_wrappers_and_subclasses_give_torchs_batches(root: Path) -> None:
    compared(datasets.ImageFolder(root, Preset(32, False)))
    compared(WithIndex(root, EVALUATION))
    compared(WithPath(root, EVALUATION))
    compared(datasets.ImageFolder(root, EVALUATION, target_transform=lambda n: n + 5))
    compared(datasets.ImageFolder(root, EVALUATION, loader=lambda p: Image.open(p).convert("RGB")))
    compared(Wrapper(data.Subset(datasets.ImageFolder(root), [3, 1, 2]), EVALUATION))


def test_presets_and_wrappers_give_torchs_batches_from_worker_processes(root: Path) -> None:
    compared(datasets.ImageFolder(root, Preset(32, False)), num_workers=2)
    compared(WithPath(root, EVALUATION), num_workers=2, persistent_workers=True)


@pytest.mark.parametrize("workers", [0, 2])
def test_views_of_an_image_have_separate_draws_which_a_seed_repeats(
    root: Path, workers: int
) -> None:
    crop = tv.Compose([tv.RandomResizedCrop(32), tv.RandomHorizontalFlip(), tv.ToTensor()])
    for transform, views in ((TwoCrops(crop), 2), (MultiCrop(), 8)):
        dataset = datasets.ImageFolder(root, transform)
        with contextlib.closing(
            hr.DataLoader(dataset, 5, strict=True, num_workers=workers, seed=3)
        ) as loader:
            first, second = list(loader), list(loader)
        with contextlib.closing(hr.DataLoader(dataset, 7, strict=True, seed=3)) as loader:
            again = list(loader)
        for images_found, _ in first:
            assert len(images_found) == views
            assert not images_found[0].equal(images_found[1])
        for view in range(views):
            whole = torch.cat([batch[0][view] for batch in first])
            assert whole.equal(torch.cat([batch[0][view] for batch in again]))
            assert not whole.equal(torch.cat([batch[0][view] for batch in second]))


@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_like_cifar_make_their_images_of_arrays(tmp_path: Path, workers: int) -> None:
    class Arrays(data.Dataset[Any]):
        data = np.stack([images.pixels(32, 32, seed=n) for n in range(20)])

        def __init__(self, transform: Any) -> None:
            self.transform = transform

        def __len__(self) -> int:
            return len(self.data)

        def __getitem__(self, index: int) -> Any:
            return self.transform(Image.fromarray(self.data[index])), index % 10

    end = [tv.ToTensor(), tv.Normalize(MEAN, STD)]
    compared(Arrays(tv.Compose(end)), num_workers=workers)
    drawn = [tv.RandomCrop(32, padding=4), tv.RandomHorizontalFlip(), *end]
    with contextlib.closing(
        hr.DataLoader(Arrays(tv.Compose(drawn)), 8, strict=True, num_workers=workers)
    ) as loader:
        assert [len(batch[1]) for batch in loader] == [8, 8, 4]


@pytest.mark.parametrize("workers", [0, 2])
def test_mixup_in_a_collate_function_gets_values(root: Path, workers: int) -> None:
    dataset = datasets.ImageFolder(root, EVALUATION, target_transform=lambda n: n + 1)
    mix = v2.MixUp(num_classes=4)

    def collate(samples: Any) -> Any:
        return mix(*data.default_collate(samples))

    with contextlib.closing(
        hr.DataLoader(dataset, 8, num_workers=workers, collate_fn=collate)
    ) as loader:
        for mixed, labels in loader:
            assert type(mixed) is torch.Tensor
            assert mixed.shape == (8, 3, 32, 32)
            assert labels.shape == (8, 4)
            assert mixed.isfinite().all()


def test_masks_move_with_their_images_if_both_are_seeded_equally(root: Path) -> None:
    move = tv.Compose([tv.RandomResizedCrop(24), tv.RandomHorizontalFlip(), tv.ToTensor()])

    class Masked(datasets.ImageFolder):
        def __getitem__(self, index: int) -> Any:
            path, _ = self.samples[index]
            seed = index * 7 + 1
            torch.manual_seed(seed)
            random.seed(seed)
            image = move(Image.open(path).convert("RGB"))
            torch.manual_seed(seed)
            random.seed(seed)
            return image, move(Image.open(path).convert("L"))

    compared(Masked(root), strict=False)


def test_a_python_op_between_known_transforms_gets_the_image_and_passes_it_on(root: Path) -> None:
    class Blur:
        def __call__(self, image: Any) -> Any:
            return image.filter(ImageFilter.GaussianBlur(1.5))

    steps = [tv.Resize(40), tv.CenterCrop(32), Blur(), ImageOps.mirror, tv.ToTensor()]
    dataset = WithIndex(root, tv.Compose(steps))
    compared(dataset, strict=False)
    compared(dataset, strict=False, num_workers=2)


def test_one_channel_grey_images_are_native_as_tensors_and_pillows_as_images(root: Path) -> None:
    ends = [tv.ToTensor(), tv.Normalize(0.5, 0.25)]
    grey = tv.Compose([tv.Resize((20, 24)), tv.Grayscale(1), *ends])
    compared(datasets.ImageFolder(root, lambda image: grey(image)))
    alone = tv.Grayscale(1)
    behind = tv.Compose(ends)
    whole = datasets.ImageFolder(root, lambda image: behind(alone(image).resize((20, 24))))
    compared(whole, strict=False)


def test_transforms_made_anew_for_each_sample_do_not_pile_up() -> None:
    made = []

    class Making(data.Dataset[Any]):
        def __len__(self) -> int:
            return 1_500

        def __getitem__(self, index: int) -> Any:
            transform = tv.Compose([tv.CenterCrop(4), tv.ToTensor()])
            made.append(weakref.ref(transform))
            return transform(Image.fromarray(np.full((6, 6, 3), index % 256, np.uint8)))

    with contextlib.closing(hr.DataLoader(Making(), 100, strict=True)) as loader:
        for batch in loader:
            assert batch.shape == (100, 3, 4, 4)
        assert len(made) == 1_500
        assert sum(transform() is not None for transform in made) <= 1_024
