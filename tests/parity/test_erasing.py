"""Erased boxes: their place in the finished values, and their fill."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torchvision.transforms import functional as theirs

import headrace as hr
from headrace import transforms as t
from images import photographs

IMAGES = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("erasing") / "photos"
    (root / "all").mkdir(parents=True)
    for number in range(IMAGES):
        array = photographs()[number % len(photographs())]
        Image.fromarray(array).resize((96, 90)).save(root / "all" / f"{number}.png")
    return root


def batch(folder: Path, *steps: Any, **options: Any) -> Any:
    recipe = [t.Resize((90, 96)), t.Normalize(0.0, 1.0), *steps]
    with hr.Loader(folder, IMAGES, transform=recipe, output="numpy", **options) as loader:
        return next(iter(loader))[0].copy()


def test_erase_gives_torchvisions_bytes() -> None:
    draw = np.random.default_rng(4)
    for number in range(300):
        source = photographs()[number % len(photographs())]
        height, width = (int(n) for n in draw.integers(1, 60, 2))
        image = np.ascontiguousarray(source[:height, :width])
        i, j, h, w = (int(n) for n in draw.integers(0, 70, 4))
        colour = [int(n) for n in draw.integers(0, 256, 3)]
        value = torch.tensor(colour, dtype=torch.uint8)[:, None, None]
        wanted = theirs.erase(torch.from_numpy(image.transpose(2, 0, 1).copy()), i, j, h, w, value)
        found = hr.functional.erase(image, i, j, h, w, colour)
        assert np.array_equal(found, wanted.numpy().transpose(1, 2, 0)), (number, i, j, h, w)


def test_noise_is_normal_and_different_in_each_of_several_boxes(folder: Path) -> None:
    step = t.TimmErasing(1, 0.3, 0.33, 1, mode="pixel", min_count=3)
    found, plain = batch(folder, step), batch(folder)
    noise = found[found != plain]
    assert len(noise) > IMAGES * 3 * 1000
    assert stats.kstest(noise, "norm").pvalue > 1e-4
    assert len(np.unique(noise)) > 0.99 * len(noise)
    turned = batch(folder, step, layout="NHWC").transpose(0, 3, 1, 2)
    assert np.array_equal(turned, found)


def test_each_box_has_one_random_colour_with_normal_values(folder: Path) -> None:
    step = t.TimmErasing(1, 0.1, 0.2, mode="rand", min_count=2)
    plain = batch(folder)
    colours = []
    for seed in range(30):
        for image, before in zip(batch(folder, step, seed=seed), plain, strict=True):
            erased = (image != before).any(axis=0)
            found = np.unique(image[:, erased].T, axis=0)
            assert 1 <= len(found) <= 2  # boxes may overlap
            colours.append(found)
    values = np.concatenate(colours)
    assert stats.kstest(values.ravel(), "norm").pvalue > 1e-4
    assert abs(np.corrcoef(values.T)[0, 1]) < 0.2


def test_a_cutout_before_normalize_is_filled_with_the_normalized_value(folder: Path) -> None:
    recipe = [t.Resize((40, 40)), t.Cutout(80, fill=(0.1, 0.5, 0.9)), t.Normalize(0.5, 0.25)]
    with hr.Loader(folder, IMAGES, transform=recipe) as loader:
        images = next(iter(loader))[0]
    colour = (torch.tensor((0.1, 0.5, 0.9)) - 0.5) / 0.25
    assert (images == colour[:, None, None]).all(dim=1).flatten(1).any(dim=1).all()
