"""timm's own pipelines, as from_torchvision translates them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from frameworks_support import FOLDER
from timm.data import auto_augment, create_transform
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import RandomResizedCropAndInterpolation
from torchvision import datasets
from torchvision import transforms as v1

import headrace as hr
from headrace import transforms as t


def told(pipeline: Any) -> list[dict[str, Any]]:
    return [step.to_dict() for step in hr.from_torchvision(pipeline)]


def test_a_training_pipeline_runs_natively_as_a_whole() -> None:
    pipeline = create_transform(
        64,
        is_training=True,
        interpolation="random",
        auto_augment="rand-m9-mstd0.5-inc1",
        re_prob=0.25,
        re_mode="pixel",
    )
    found = hr.from_torchvision(pipeline)
    assert found.size == (64, 64)
    names = [type(step).__name__ for step in found]
    assert names == [
        "RandomChoice",
        "RandomHorizontalFlip",
        "TimmAugment",
        "Normalize",
        "TimmErasing",
    ]
    assert found[2].config == "rand-inc1-m9-n2-p0.5-mstd0.5"
    assert tuple(found[2].fill) == (124, 116, 104)
    assert found[2].interpolation is None
    assert (found[4].probability, found[4].mode) == (0.25, "pixel")
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    images, _ = next(iter(hr.DataLoader(dataset, 8, strict=True, num_workers=1)))
    assert images.shape == (8, 3, 64, 64)
    assert torch.isfinite(images).all()


def test_an_evaluation_pipeline_gives_timms_batches() -> None:
    pipeline = create_transform(64, is_training=False, interpolation="bicubic")
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    found, _ = next(iter(hr.DataLoader(dataset, 8, strict=True, num_workers=1)))
    wanted, _ = next(iter(torch.utils.data.DataLoader(dataset, 8)))
    assert torch.equal(found, wanted)


@pytest.mark.parametrize(
    "config",
    [
        "rand-m9-mstd0.5-inc1",
        "rand-m7-n3-p0.8-mstd101-mmax12",
        "rand-t3a",
        "rand-m5-t3aw",
        "rand-m6-tweights",
        "v0",
        "v0r-mstd0.5",
        "original",
        "originalr",
        "3a",
        "augmix-m5-w4-d2",
        "augmix-mstd1-a0.5",
    ],
)
def test_an_augmentation_becomes_a_configuration_that_builds_the_same(config: str) -> None:
    build: Any = auto_augment.auto_augment_transform
    if config.startswith("rand"):
        build = auto_augment.rand_augment_transform
    elif config.startswith("augmix"):
        build = auto_augment.augment_and_mix_transform
    given = {"translate_const": 100, "img_mean": (1, 2, 3), "translate_pct": 0.3}
    theirs = build(config, dict(given))
    (step,) = hr.from_torchvision(theirs)
    assert (tuple(step.fill), step.translate_pct) == ((1, 2, 3), 0.3)
    built = build(step.config, dict(given))
    assert repr(built) == repr(theirs).replace("m=10.0", "m=10")
    image = b"P6 40 30 255\n" + bytes(40 * 30 * 3)
    hr.functional.replay(image, [step])  # the engine takes it


def test_a_crop_with_a_random_filter_is_a_choice_of_crops() -> None:
    crop = RandomResizedCropAndInterpolation(32, (0.2, 1.0), (0.5, 2.0), "random")
    crops = [
        t.RandomResizedCrop((32, 32), (0.2, 1.0), (0.5, 2.0), name)
        for name in ("bilinear", "bicubic")
    ]
    assert told(crop) == [t.RandomChoice(crops).to_dict()]
    one = RandomResizedCropAndInterpolation((32, 48), interpolation="bicubic")
    assert told(one)[0]["interpolation"] == "bicubic"


def test_what_has_no_equal_is_named() -> None:
    blended = auto_augment.augment_and_mix_transform("augmix-b1")
    own = auto_augment.RandAugment(auto_augment.rand_augment_ops(transforms=["Invert", "Rotate"]))
    erasing = RandomErasing(mode="pixel", device="cpu")
    for pipeline, words in (
        (blended, "blended"),
        (own, "none of timm's own sets"),
        (v1.Compose([v1.ToTensor(), erasing]), "in front of Normalize"),
    ):
        with pytest.raises(hr.errors.UnsupportedError, match=words):
            hr.from_torchvision(pipeline)
