"""RandomResizedCrop, RandomCrop and the flips: torchvision's pixels for replayed parameters.

The draws are Philox 4x64-10 with key (seed, epoch) and counter (block, op, draw, sample), a promise
of native/native.h; NumPy has the same generator, so a test can know what was drawn.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import PIL
import pytest
import torch
from PIL import Image
from torchvision import transforms as tv
from torchvision.transforms import functional as torchvision

import headrace as hr
import images

pytestmark = pytest.mark.skipif(
    int(PIL.__version__.split(".")[0]) < 13, reason=f"Pillow {PIL.__version__} is older than 13"
)

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def words(seed: int, epoch: int, sample: int, op: int, block: int) -> list[int]:
    """The four words of one block."""
    counter = block | op << 64 | sample << 192
    # NumPy steps the counter before it makes a block.
    generator = np.random.Philox(counter=(counter - 1) % 2**256, key=seed | epoch << 64)
    return [int(word) for word in generator.random_raw(4)]


def uniform(word: int) -> float:
    return (word >> 11) * 2.0**-53


def below(word: int, n: int) -> int:
    return word * n >> 64


def resized_crop_box(width: int, height: int, draw) -> tuple[int, int, int, int]:
    """torchvision's get_params with its defaults, from the words of `draw(block)`."""
    for block in range(10):
        word = draw(block)
        area = width * height * (0.08 + (1.0 - 0.08) * uniform(word[0]))
        low, high = math.log(3 / 4), math.log(4 / 3)
        ratio = math.exp(low + (high - low) * uniform(word[1]))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return below(word[2], height - h + 1), below(word[3], width - w + 1), h, w
    w, h = width, height
    if width / height < 3 / 4:
        h = round(width / (3 / 4))
    elif width / height > 4 / 3:
        w = round(height * (4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("training")
    for width, height in [(160, 120), (90, 200), (300, 40)]:  # the last often falls back
        files = {f"{k}.jpg": v for k, v in images.every_jpeg(width, height).items()}
        images.write_tree(root / f"{width}x{height}", files)
    return root


@pytest.mark.parametrize("epoch", [0, 3])
@pytest.mark.parametrize("seed", [0, 20261121])
def test_random_resized_crop_and_flips_are_torchvisions_for_the_parameters_drawn(
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
def test_random_crop_with_padding_is_torchvisions_for_the_place_drawn(
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


def test_a_photograph_is_drawn_differently_in_another_epoch_and_with_another_seed(
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
