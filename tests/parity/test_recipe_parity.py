"""Whole recipes: torchvision, given the ops that a loader drew, makes the loader's pixels."""

from __future__ import annotations

import io
import unittest.mock
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from torchvision import transforms as v1
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as theirs

import headrace as hr
import versions
from draws import noise_of
from headrace import transforms as t
from images import photographs

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
EPOCHS = 6

RECIPES: dict[str, list[Any]] = {
    "RandAugment and erasing": [
        t.RandomResizedCrop(96),
        t.RandomHorizontalFlip(),
        t.RandAugment(2, 9),
        t.Normalize(MEAN, STD),
        t.RandomErasing(0.5),
    ],
    "strong RandAugment, bilinear": [
        t.RandomResizedCrop(64),
        t.RandAugment(4, 25, interpolation="bilinear", fill=(9, 99, 199)),
    ],
    "TrivialAugmentWide": [t.RandomResizedCrop(80), t.TrivialAugmentWide(interpolation="bicubic")],
    "AutoAugment, three policies": [
        t.Resize((70, 90)),
        t.AutoAugment(),
        t.AutoAugment("cifar10"),
        t.AutoAugment("svhn", fill=128),
    ],
    "colour jitter, grey, sharpness": [
        t.RandomResizedCrop(64),
        t.RandomApply([t.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=0.8),
        t.RandomGrayscale(0.3),
        t.RandomAdjustSharpness(2.5),
        t.RandomChannelPermutation(),
    ],
    "geometry before, between and after": [
        t.Resize(80),
        t.RandomAffine(20, (0.1, 0.2), (0.8, 1.2), (-10, 10, -5, 5), fill=77),
        t.RandomCrop(64, padding=8, padding_mode="reflect"),
        t.RandomSolarize(128),
        t.RandomHorizontalFlip(),
        t.RandomPosterize(3),
        t.RandomVerticalFlip(),
        t.Pad((1, 2, 3, 4), fill=(1, 2, 3)),
        t.RandomEqualize(),
        t.Resize((48, 56), interpolation="bicubic"),
        t.RandomAutocontrast(),
        t.RandomInvert(0.3),
    ],
    "sizes left to chance": [
        t.RandomShortestSize((50, 60, 70), max_size=90),
        t.RandomZoomOut(fill=(9, 8, 7), side_range=(1, 2)),
        t.RandomRotation(40, expand=True, fill=50),
        t.RandomInvert(0.5),
        t.RandomHorizontalFlip(),
        t.RandomChoice([t.ScaleJitter((80, 90), (0.5, 1.5)), t.RandomResize(40, 80)]),
        t.RandomRotation((90, 90), expand=True),
        t.Resize(None, max_size=77),
        t.RandomCrop(64, pad_if_needed=True, fill=3),
    ],
    "groups": [
        t.Resize((60, 60)),
        t.RandomChoice(
            [
                t.RandomRotation(30, interpolation="bilinear"),
                t.RandomApply([t.RandomInvert(1), t.RandomApply([t.RandomEqualize(1)])]),
                t.Pad(0),
            ],
            p=[0.5, 2, 1],
        ),
        t.RandomOrder([t.RandomPosterize(2, p=1), t.RandomSolarize(100, p=1), t.CenterCrop(60)]),
        t.Normalize(MEAN, STD),
        t.RandomErasing(1, value=(1, 2, 3)),
        t.RandomErasing(0.5, scale=(0.1, 0.2), ratio=(1, 1)),
    ],
    "SSD's colours": [
        t.RandomPhotometricDistort(p=0.7),
        t.ScaleJitter((90, 110), (0.5, 1.5)),
        t.RandomCrop(64, pad_if_needed=True),
        t.RandomHorizontalFlip(),
    ],
    "JPEG artefacts": [
        t.RandomResizedCrop(72),
        t.JPEG((1, 100)),
        t.RandomInvert(),
        t.Resize((50, 61)),
        t.RandomHorizontalFlip(),
        t.RandomApply([t.JPEG(30)]),
    ],
    "Pillow's blur, as DINO's programs have it": [
        t.RandomResizedCrop(72, interpolation="bicubic"),
        t.RandomHorizontalFlip(),
        t.RandomApply([t.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
        t.RandomGrayscale(0.2),
        t.RandomPillowBlur((0.1, 2.0), 0.8),
        t.RandomSolarize(128, 0.2),
        t.Resize((50, 61)),
        t.RandomPillowBlur(3, 0.5),
    ],
    "noise": [
        t.RandomResizedCrop(72),
        t.GaussianNoise(),
        t.RandomHorizontalFlip(),
        t.RandomApply([t.GaussianNoise(0.1, 0.4, clip=False)]),
        t.Resize((50, 61)),
        t.RandomInvert(),
    ],
    "several boxes, timm's and Cutout's": [
        t.RandomResizedCrop(64),
        t.RandomHorizontalFlip(),
        t.RandomInvert(),
        t.Normalize(MEAN, STD),
        t.TimmErasing(0.8, min_count=2, max_count=4),
        t.TimmErasing(0.8, mode="rand", max_count=3, max_aspect=1),
        t.Cutout(33, count=2, fill=(0.5, -1, 2), p=0.7),
    ],
}


def applied(image: Image.Image, function: str, given: dict[str, Any]) -> Image.Image:
    """Applies one op of a replay by torchvision or, for a map given by coefficients, by Pillow."""
    arguments = dict(given)
    if "interpolation" in arguments:
        arguments["interpolation"] = InterpolationMode(arguments["interpolation"])
    if function in ("affine_map", "perspective_map"):
        kind = Image.Transform.AFFINE if function == "affine_map" else Image.Transform.PERSPECTIVE
        resample = {"nearest": 0, "bilinear": 2, "bicubic": 3}[arguments["interpolation"].value]
        colour = tuple(arguments["fill"])
        size = arguments.get("size", image.size[::-1])[::-1]
        return image.transform(size, kind, arguments["coefficients"], resample, fillcolor=colour)
    if function == "permute_channels":
        return Image.fromarray(np.asarray(image)[..., arguments["permutation"]])
    if function == "pad":
        arguments["fill"] = tuple(arguments["fill"])
    if function == "pillow_blur":
        return image.filter(ImageFilter.GaussianBlur(**arguments))
    if function == "gaussian_noise":
        return noisy(image, **arguments)
    of_v2 = function == "jpeg" or arguments.get("size", 0) is None
    module: Any = v2.functional if of_v2 else theirs
    found: Image.Image = getattr(module, function)(image, **arguments)
    return found


def noisy(image: Image.Image, mean: float, sigma: float, clip: bool, key: list[int]) -> Image.Image:
    """torchvision's noise on bytes, with our normal values instead of its own."""
    normal = torch.from_numpy(noise_of(key, image.height, image.width)).permute(2, 0, 1)
    with unittest.mock.patch("torch.randn_like", return_value=normal):
        tensor = v2.functional.gaussian_noise(v2.functional.pil_to_tensor(image), mean, sigma, clip)
    found: Image.Image = v2.functional.to_pil_image(tensor)
    return found


def finished(image: Image.Image, steps: list[Any], normalizes: bool) -> torch.Tensor:
    """Applies a replay's ops, then the recipe's transforms of tensors."""
    for function, arguments in steps:
        if function != "erase":
            image = applied(image, function, arguments)
    tensor = v1.functional.to_tensor(image)
    if normalizes:
        tensor = v1.functional.normalize(tensor, MEAN, STD)
    for function, arguments in steps:
        if function == "erase":
            value = torch.tensor(arguments.pop("v"))[:, None, None]
            tensor = theirs.erase(tensor, v=value, **arguments)
    return tensor


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("recipes") / "photos"
    (root / "all").mkdir(parents=True)
    for number, array in enumerate(photographs()):
        cut = Image.fromarray(array).resize((150 + 11 * number, 130 - 9 * number))
        cut.save(root / "all" / f"{number}.jpg", quality=90)
    return root


# torchvision passes a list on to Pillow as a pad's fill, which Pillow before 13 refuses.
PADS = "sizes left to chance"
NAMES = [name for name in RECIPES if name != PADS]


@pytest.mark.parametrize("name", [*NAMES, pytest.param(PADS, marks=versions.since_pillow_13)])
def test_each_recipe_gives_torchvisions_tensors_for_the_same_draws(name: str, folder: Path) -> None:
    recipe = RECIPES[name]
    normalizes = any(isinstance(step, t.Normalize) for step in recipe)
    files = sorted(folder.rglob("*.jpg"))
    used = set()
    with hr.Loader(folder, 2, seed=7, transform=recipe, num_threads=2, fields=["index"]) as loader:
        for epoch in range(EPOCHS):
            for images, _labels, fields in loader:
                for found, index in zip(images, fields["index"].tolist(), strict=True):
                    data = files[index].read_bytes()
                    steps = hr.functional.replay(data, recipe, seed=7, epoch=epoch, sample=index)
                    used |= {function for function, _ in steps}
                    with Image.open(io.BytesIO(data)) as opened:
                        wanted = finished(opened.convert("RGB"), steps, normalizes)
                    assert torch.equal(found, wanted), (epoch, index, steps)
    assert len(used) >= 4  # else there were too few draws to show anything


def test_a_photometric_distortion_equals_torchvisions_in_every_byte() -> None:
    op, distort = t.RandomPhotometricDistort(p=0.7), v2.RandomPhotometricDistort()
    rng = np.random.default_rng(2)
    for sample in range(200):
        size = [int(side) for side in rng.integers(1, 90, 2)]
        picture = Image.fromarray(photographs()[sample % len(photographs())]).resize(size)
        array = np.asarray(picture)
        ppm = b"P6 %d %d 255\n" % tuple(size) + array.tobytes()
        steps = hr.functional.replay(ppm, [op], sample=sample)
        names = [function.removeprefix("adjust_") for function, _ in steps]
        drawn = dict(zip(names, [next(iter(given.values())) for _, given in steps], strict=True))
        params = {
            f"{part}_factor": drawn.get(part)
            for part in ("brightness", "contrast", "saturation", "hue")
        }
        params["channel_permutation"] = drawn.get("permute_channels")
        behind = names[names.index("contrast") :] if "contrast" in names else []
        params["contrast_before"] = "saturation" in behind or "hue" in behind
        for function, given in steps:
            array = getattr(hr.functional, function)(array, **given)
        assert np.array_equal(array, np.asarray(distort.transform(picture, params))), steps


def test_an_erasing_with_noise_is_normal_and_the_same_in_every_layout_and_run(folder: Path) -> None:
    recipe = [
        t.Resize((80, 80)),
        t.Normalize(0.0, 1.0),
        t.RandomErasing(1, (0.3, 0.33), (1, 1), "random"),
    ]
    batches = []
    for layout in ("NCHW", "NHWC", "NCHW"):
        with hr.Loader(folder, 5, transform=recipe, layout=layout, output="numpy") as loader:
            images = next(iter(loader))[0].copy()
        batches.append(images if layout == "NCHW" else images.transpose(0, 3, 1, 2))
    assert np.array_equal(batches[0], batches[1])
    assert np.array_equal(batches[0], batches[2])
    with hr.Loader(folder, 5, transform=recipe[:2], output="numpy") as loader:
        plain = next(iter(loader))[0].copy()
    noise = batches[0][batches[0] != plain]
    assert len(noise) > 5 * 3 * 1900
    assert abs(noise.mean()) < 0.03
    assert abs(noise.std() - 1) < 0.03


def test_erasing_before_normalize_fills_with_the_normalized_value(folder: Path) -> None:
    value = (0.1, 0.5, 0.9)
    recipe = [t.Resize((40, 40)), t.RandomErasing(1, value=value), t.Normalize(MEAN, STD)]
    with hr.Loader(folder, 5, transform=recipe) as loader:
        images = next(iter(loader))[0]
    colour = torch.tensor(value)[:, None, None]
    wanted = v1.functional.normalize(colour, MEAN, STD)
    assert (images == wanted).all(dim=1).flatten(1).any(dim=1).all()
