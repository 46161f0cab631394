"""A random transform after another random transform: the engine draws for both."""

from __future__ import annotations

import contextlib
import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torchvision.transforms import v2

import headrace as hr
from deferred.test_own_code import Opens, equal, paths

__all__ = ["paths"]  # a fixture

FLIP, CROP, TURN = tv.RandomHorizontalFlip(), tv.RandomCrop(20), tv.RandomRotation(30)
RESIZED = tv.Compose([tv.RandomResizedCrop(40), tv.ColorJitter(0.4, 0.4)])
TENSOR = tv.ToTensor()


def opened(path: str) -> Any:
    return Image.open(path).convert("RGB")


def one_behind_another(path: str, index: int) -> Any:
    return TENSOR(CROP(FLIP(opened(path)))), index


def many(path: str, index: int) -> Any:
    """With ops in between that draw nothing, of v1 and v2, and one without them."""
    image = RESIZED(opened(path)).resize((36, 36))
    return TENSOR(image), TENSOR(TURN(v2.RandomCrop(24)(image))), TENSOR(FLIP(CROP(image)))


PROGRAMS = pytest.mark.parametrize("make", [one_behind_another, many])


def epoch(dataset: Any, torchs_seed: int, **options: Any) -> list[Any]:
    torch.manual_seed(torchs_seed)
    loader = hr.DataLoader(dataset, 3, seed=7, strict=True, **options)
    with contextlib.closing(loader):
        return list(loader)


@PROGRAMS
def test_a_seed_alone_decides_the_draws_of_both_transforms_with_any_number_of_workers(
    paths: list[str], make: Any
) -> None:
    dataset = Opens(paths, make)
    expected = epoch(dataset, 1)
    assert equal(epoch(dataset, 2), expected)
    assert equal(epoch(dataset, 3, num_workers=2), expected)


@PROGRAMS
@pytest.mark.parametrize("workers", [0, 2])
def test_an_epoch_resumes_mid_epoch_whatever_the_state_of_torchs_generator(
    paths: list[str], make: Any, workers: int
) -> None:
    dataset = Opens(paths, make)
    options = {"batch_size": 3, "seed": 7, "num_workers": workers}
    expected = epoch(dataset, 1, num_workers=workers)
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        taken = list(itertools.islice(iter(loader), 2))
        state = json.loads(json.dumps(loader.state_dict()))
    torch.manual_seed(4)
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        loader.load_state_dict(state)
        assert equal([*taken, *loader], expected)


class CropsInCollate:
    def __call__(self, samples: list[Any]) -> Any:
        return torch.stack([TENSOR(CROP(image)) for image, _ in samples])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_second_random_transform_in_the_collate_function_is_drawn_by_the_seed(
    paths: list[str], workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: (FLIP(opened(path)), index))
    options = {"collate_fn": CropsInCollate(), "num_workers": workers}
    assert equal(epoch(dataset, 1, **options), epoch(dataset, 2, **options))


def test_several_crops_of_one_flipped_image_share_its_flip_and_have_their_own_draws(
    paths: list[str],
) -> None:
    crop = tv.RandomCrop((1, 1))

    def make(path: str, index: int) -> Any:
        ramp = np.arange(200 * 250, dtype=np.uint32).reshape(200, 250)
        image = np.stack([ramp >> 16, ramp >> 8 & 255, ramp & 255], 2).astype(np.uint8)
        turned = FLIP(Image.fromarray(image))
        wide = [crop(turned) for _ in range(4)]
        return [tv.PILToTensor()(one) for one in (turned, *wide, crop(turned.crop((0, 0, 99, 99))))]

    loader = hr.DataLoader(Opens(paths, make), 1, seed=3, strict=True)
    with contextlib.closing(loader):
        samples = [[image[0, :, 0, 0].tolist() for image in sample] for sample in loader]
    assert {turned[2] for turned, *_ in samples} == {0, 249}  # flipped or not
    seen = [tuple(part) for _, *parts in samples for part in parts]
    assert len(set(seen)) > 0.95 * len(seen)


@pytest.mark.parametrize("workers", [0, 1])
def test_everything_made_of_an_image_after_both_transforms_has_the_same_draws(
    paths: list[str], workers: int
) -> None:
    def make(path: str, index: int) -> Any:
        image = CROP(FLIP(opened(path)))
        before = tv.PILToTensor()(image)
        array = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return before, array, tv.PILToTensor()(image)

    with contextlib.closing(hr.DataLoader(Opens(paths, make), 4, num_workers=workers)) as loader:
        for before, array, behind in loader:
            assert before.equal(array)
            assert behind.equal(array)


def test_a_cached_image_is_cropped_anew_in_every_epoch(paths: list[str]) -> None:
    kept: dict[int, Any] = {}
    crop = tv.RandomCrop(8)

    def make(path: str, index: int) -> Any:
        image = kept.setdefault(index, FLIP(opened(path)))
        return TENSOR(crop(image)), index

    with contextlib.closing(hr.DataLoader(Opens(paths, make), 4, seed=3)) as loader:
        epochs = [list(loader) for _ in range(3)]
    assert not equal(epochs[1], epochs[2])


def test_draws_beyond_the_engines_limit_are_torchvisions(paths: list[str]) -> None:
    def make(path: str, index: int) -> Any:
        image = opened(path).resize((24, 25))
        for _ in range(40):
            image = tv.RandomVerticalFlip(1.0)(tv.RandomHorizontalFlip(1.0)(image))
        return TENSOR(image)

    dataset = Opens(paths, make)
    with contextlib.closing(hr.DataLoader(dataset, 4)) as loader:
        assert equal(list(loader), [torch.stack(b) for b in _batches(dataset, 4)])


def _batches(dataset: Any, size: int) -> list[list[Any]]:
    samples = [dataset[index] for index in range(len(dataset))]
    return [samples[at : at + size] for at in range(0, len(samples), size)]
