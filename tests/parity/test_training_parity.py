"""RandomResizedCrop, RandomCrop and the flips: torchvision's pixels for the drawn parameters."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image
from torchvision import transforms as tv
from torchvision.transforms import functional as torchvision

import headrace as hr
import images
from draws import below, resized_crop_box, uniform, words

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("training")
    for width, height in [(160, 120), (90, 200), (300, 40)]:  # the last often needs the fallback
        files = {f"{k}.jpg": v for k, v in images.every_jpeg(width, height).items()}
        images.write_tree(root / f"{width}x{height}", files)
    return root


@pytest.mark.parametrize("epoch", [0, 3])
@pytest.mark.parametrize("seed", [0, 20261121])
def test_random_resized_crop_and_flips_equal_torchvisions_for_the_drawn_parameters(
    folder: Path, seed: int, epoch: int
) -> None:
    dataset = hr.Dataset(folder)
    transform = [
        hr.transforms.RandomResizedCrop(64),
        hr.transforms.RandomHorizontalFlip(),
        hr.transforms.RandomVerticalFlip(0.25),
        hr.transforms.Normalize(MEAN, STD),
    ]
    finish = tv.Compose([tv.ToTensor(), tv.Normalize(MEAN, STD)])
    loader = hr.Loader(dataset, batch_size=len(dataset), seed=seed, transform=transform)
    loader.set_epoch(epoch)
    [(batch, _)] = list(loader)
    for sample, image in enumerate(batch):

        def draw(op: int, block: int = 0, sample: int = sample) -> list[int]:
            return words(seed, epoch, sample, op, block)

        source = Image.open(dataset.facts(sample)["path"]).convert("RGB")
        box = resized_crop_box(*source.size, lambda block, draw=draw: draw(0, block))
        expected = torchvision.resized_crop(source, *box, [64, 64])
        if uniform(draw(1)[0]) < 0.5:
            expected = torchvision.hflip(expected)
        if uniform(draw(2)[0]) < 0.25:
            expected = torchvision.vflip(expected)
        assert torch.equal(image, finish(expected)), dataset.facts(sample)["path"]
    loader.close()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_random_crop_with_padding_equals_torchvisions_for_the_drawn_place(
    folder: Path, mode: str
) -> None:
    dataset = hr.Dataset(folder)
    transform = [hr.transforms.RandomCrop(32, padding=5, padding_mode=mode)]
    with hr.Loader(dataset, len(dataset), seed=9, transform=transform, dtype="uint8") as loader:
        [(batch, _)] = list(loader)
    for sample, image in enumerate(batch):
        source = Image.open(dataset.facts(sample)["path"]).convert("RGB")
        padded = torchvision.pad(source, 5, 0, mode)
        word = words(9, 0, sample, 0, 0)
        top, left = below(word[0], padded.height - 31), below(word[1], padded.width - 31)
        expected = torchvision.crop(padded, top, left, 32, 32)
        assert torch.equal(image, torchvision.pil_to_tensor(expected)), (sample, mode)


def test_a_photograph_has_different_draws_in_another_epoch_and_with_another_seed(
    folder: Path,
) -> None:
    def batch(seed: int, epoch: int) -> torch.Tensor:
        transform = [hr.transforms.RandomResizedCrop(32)]
        with hr.Loader(folder, 16, seed=seed, transform=transform, dtype="uint8") as loader:
            loader.set_epoch(epoch)
            return next(iter(loader))[0].clone()

    first = batch(1, 0)
    assert torch.equal(first, batch(1, 0))
    assert not torch.equal(first, batch(1, 1))
    assert not torch.equal(first, batch(2, 0))
