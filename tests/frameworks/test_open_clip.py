"""open_clip's pipelines, as translated by from_torchvision."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from frameworks_support import FOLDER
from open_clip.transform import AugmentationCfg, MaybeConvertMode, MaybeToTensor, image_transform
from torchvision import datasets
from torchvision import transforms as v1

import headrace as hr
from headrace import transforms as t


@pytest.mark.parametrize("size", [64, (64, 64)])
@pytest.mark.parametrize("mode", ["shortest", "squash"])
def test_an_evaluation_pipeline_gives_open_clips_batches(mode: str, size: Any) -> None:
    pipeline = image_transform(size, is_train=False, resize_mode=mode)
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    found, _ = next(iter(hr.DataLoader(dataset, 32, strict=True, num_workers=1)))
    wanted, _ = next(iter(torch.utils.data.DataLoader(dataset, 32)))
    assert torch.equal(found, wanted)


def test_a_training_pipeline_runs_natively_as_a_whole() -> None:
    config = AugmentationCfg(
        color_jitter=(0.4, 0.3, 0.2, 0.1), color_jitter_prob=0.8, gray_scale_prob=0.2
    )
    pipeline = image_transform(64, is_train=True, aug_cfg=config)
    crop, jitter, grey, last = hr.from_torchvision(pipeline)
    assert crop == t.RandomResizedCrop(64, (0.9, 1.0), (0.75, 4 / 3), "bicubic")
    assert jitter.p == 0.8
    assert jitter.transforms == [t.ColorJitter((0.6, 1.4), (0.7, 1.3), (0.8, 1.2), (-0.1, 0.1))]
    assert grey == t.RandomApply([t.Grayscale(3)], 0.2)
    assert type(last) is t.Normalize
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    images, _ = next(iter(hr.DataLoader(dataset, 8, strict=True, num_workers=1)))
    assert images.shape == (8, 3, 64, 64)


def test_open_clips_training_pipeline_by_timm_runs_natively_too() -> None:
    pipeline = image_transform(64, is_train=True, aug_cfg=AugmentationCfg(use_timm=True))
    dataset = datasets.ImageFolder(str(FOLDER), pipeline)
    images, _ = next(iter(hr.DataLoader(dataset, 8, strict=True, num_workers=1)))
    assert images.shape == (8, 3, 64, 64)


def test_another_mode_is_refused_and_tensors_stay_unchanged() -> None:
    with pytest.raises(hr.errors.UnsupportedError, match=r"MaybeConvertMode has no .*mode='L'"):
        hr.from_torchvision(MaybeConvertMode("L"))
    steps = [v1.CenterCrop(8), v1.ToTensor(), MaybeConvertMode("L"), MaybeToTensor()]
    assert hr.from_torchvision(v1.Compose(steps)) == [t.CenterCrop(8)]
