"""timm's own pipelines, as translated by from_torchvision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from frameworks_support import FOLDER
from timm.data import auto_augment, create_transform
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import CenterCropOrPad, RandomResizedCropAndInterpolation
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


# Arguments of create_transform. Training pipelines have no random draws: with the whole area and
# ratio 1 no crop fits in an image that is not square, and the middle is taken.
WHOLE = {"is_training": True, "scale": (1.0, 1.0), "ratio": (1.0, 1.0), "color_jitter": None}
PIPELINES: dict[str, dict[str, Any]] = {
    "evaluation": {"interpolation": "bicubic"},
    "evaluation of two sides": {"input_size": (3, 64, 64), "crop_pct": 0.95},
    "evaluation without a border": {"crop_pct": 1.0, "interpolation": "lanczos"},
    "squashed": {"crop_mode": "squash", "crop_pct": 0.9},
    "squashed to two sides": {"input_size": (3, 48, 80), "crop_mode": "squash"},
    "for the prefetcher": {"use_prefetcher": True},
    "bytes": {"normalize": False},
    "with means of its own": {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)},
    "training without augmentation": {"is_training": True, "no_aug": True},
    "training": WHOLE | {"hflip": 1.0, "vflip": 1.0, "interpolation": "bicubic"},
    "training in colours of one factor": WHOLE
    | {"hflip": 0.0, "interpolation": "bilinear", "grayscale_prob": 1.0, "use_prefetcher": True},
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_of_create_transform_gives_timms_batches_byte_for_byte(name: str) -> None:
    pipeline = create_transform(**({"input_size": 64} | PIPELINES[name]))
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    found, labels = next(iter(hr.DataLoader(dataset, 32, strict=True, num_workers=1)))
    wanted, their_labels = next(iter(torch.utils.data.DataLoader(dataset, 32)))
    assert found.dtype == wanted.dtype
    assert torch.equal(found, wanted)
    assert torch.equal(labels, their_labels)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    "pipeline",
    [
        create_transform(64, crop_mode="border", crop_pct=0.9),
        create_transform((3, 64, 48), crop_pct=0.9),
        v1.Compose([CenterCropOrPad(600, fill=(1, 2, 3)), v1.ToTensor()]),
        v1.Compose([v1.Resize(50), CenterCropOrPad(80, padding_mode="reflect"), v1.ToTensor()]),
    ],
    ids=["border", "two sides", "padded", "mirrored"],
)
def test_timms_resizes_that_keep_ratios_and_crops_that_pad_are_recorded(
    pipeline: Any, workers: int
) -> None:
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    found, _ = next(iter(hr.DataLoader(dataset, 8, strict=True, num_workers=workers)))
    wanted, _ = next(iter(torch.utils.data.DataLoader(dataset, 8)))
    assert torch.equal(found, wanted)


def test_each_part_of_a_pipeline_made_in_three_parts_is_translated() -> None:
    options = {"auto_augment": "rand-m9", "grayscale_prob": 0.2, "gaussian_blur_prob": 0.3}
    pipeline = create_transform(64, is_training=True, separate=True, re_prob=0.2, **options)
    first, second, last = map(hr.from_torchvision, pipeline)
    assert [type(step).__name__ for step in first] == ["RandomResizedCrop", "RandomHorizontalFlip"]
    assert [type(step).__name__ for step in second] == [
        *("TimmAugment", "RandomGrayscale", "RandomApply")
    ]
    assert [type(step).__name__ for step in last] == ["Normalize", "TimmErasing"]
    whole = hr.from_torchvision(v1.Compose(pipeline))
    assert list(whole) == [*first, *second, *last]


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
def test_a_translated_augmentations_configuration_builds_the_same_augmentation(config: str) -> None:
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


def test_a_crop_with_a_random_filter_is_translated_to_a_choice_of_crops() -> None:
    crop = RandomResizedCropAndInterpolation(32, (0.2, 1.0), (0.5, 2.0), "random")
    crops = [
        t.RandomResizedCrop((32, 32), (0.2, 1.0), (0.5, 2.0), name)
        for name in ("bilinear", "bicubic")
    ]
    assert told(crop) == [t.RandomChoice(crops).to_dict()]
    one = RandomResizedCropAndInterpolation((32, 48), interpolation="bicubic")
    assert told(one)[0]["interpolation"] == "bicubic"


def test_transforms_without_an_equivalent_are_named() -> None:
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
