"""Grayscale(1): batches of one channel, which equals each of the three of Grayscale(3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import v2

import headrace as hr
import images
from headrace import transforms as t
from headrace.errors import ArgumentError, UnsupportedError


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("grey"), 12)


NORMALIZE = t.Normalize(0.4, 0.3)
# Transforms after Grayscale.
BEHIND: dict[str, list[Any]] = {
    "nothing": [],
    "values": [NORMALIZE],
    "a flip": [t.RandomHorizontalFlip(), t.RandomVerticalFlip(), NORMALIZE],
    "colours and warps": [
        t.ColorJitter(0.4, 0.4, 0.4, 0.1),
        t.RandomRotation(30, fill=7),
        t.RandomApply([t.RandomPillowBlur()], 0.5),
        t.RandomEqualize(),
        NORMALIZE,
    ],
    "erasings": [*(t.RandomErasing(0.8, value=0.3), t.Cutout(7, count=2, fill=0.5), NORMALIZE)],
    "erasings behind Normalize": [
        *(NORMALIZE, t.RandomErasing(0.8, value="random")),
        t.TimmErasing(0.9, mode="pixel", max_count=3),
    ],
    "MixUp": [NORMALIZE, t.MixUp(num_classes=12)],
    "CutMix": [t.RandomHorizontalFlip(), NORMALIZE, t.CutMix(num_classes=12)],
    "either, with erasings": [
        *(NORMALIZE, t.RandomErasing(0.5)),
        t.RandomChoice([t.MixUp(num_classes=12), t.CutMix(num_classes=12)]),
    ],
    "five crops": [t.FiveCrop(20), NORMALIZE],
    "ten crops": [t.TenCrop((20, 15)), NORMALIZE],
}
FORMS = {
    "float32": {},
    "float32 NHWC": {"layout": "NHWC"},
    "channels_last": {"layout": "channels_last"},
    "float16": {"dtype": "float16", "scale": "mul"},
    "bfloat16 NHWC": {"dtype": "bfloat16", "layout": "NHWC"},
}


def batches(folder: Path, channels: int, behind: list[Any], **form: Any) -> list[Any]:
    steps = [t.RandomResizedCrop(33), t.Grayscale(channels), *behind]
    with hr.Loader(folder, 4, seed=5, transform=steps, num_threads=2, **form) as loader:
        return [images.clone() for images, *_ in loader]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.every(3)
def test_batches_of_one_channel_equal_the_first_channel_of_three(
    folder: Path, name: str, form: str
) -> None:
    options: dict[str, Any] = FORMS[form]
    ones, threes = (batches(folder, count, BEHIND[name], **options) for count in (1, 3))
    channel = -1 if options.get("layout") == "NHWC" else -3
    assert len(ones) == len(threes) == 3
    for one, three in zip(ones, threes, strict=True):
        assert one.shape[channel] == 1
        assert (one.dtype, one.stride(0) * 3) == (three.dtype, three.stride(0))
        assert torch.equal(one, three.narrow(channel, 0, 1))


def test_the_last_grayscale_decides_the_number_of_channels_also_for_uint8(folder: Path) -> None:
    one = batches(folder, 1, [t.RandomHorizontalFlip(1.0)], dtype="uint8")
    assert {images.shape for images in one} == {(4, 1, 33, 33)}
    again = batches(folder, 3, [t.Grayscale(1), t.RandomHorizontalFlip(1.0)], dtype="uint8")
    assert all(torch.equal(a, b) for a, b in zip(one, again, strict=True))
    back = batches(folder, 1, [t.Grayscale(3)], dtype="uint8")
    assert {images.shape for images in back} == {(4, 3, 33, 33)}


def test_each_view_may_have_its_own_number_of_channels(folder: Path) -> None:
    views = t.Views(
        grey=[t.CenterCrop(20), t.Grayscale(1)], full=[t.CenterCrop(20), t.Grayscale(3)]
    )
    with hr.Loader(folder, 4, transform=views, output="numpy") as loader:
        for found, *_ in loader:
            assert found["grey"].shape == (4, 1, 20, 20)
            assert np.array_equal(found["grey"], found["full"][:, :1])


def colours(kind: Any) -> Any:
    """All transforms that may change the values of one channel, without random draws."""
    return kind.Compose(
        [
            kind.Resize((50, 60)),
            kind.Grayscale(1),
            kind.ColorJitter((1.3, 1.3)),
            kind.ColorJitter(contrast=(0.6, 0.6)),
            kind.ColorJitter(saturation=(1.7, 1.7)),
            kind.ColorJitter(hue=(0.2, 0.2)),
            kind.RandomSolarize(120, 1.0),
            kind.RandomEqualize(1.0),
            kind.RandomPosterize(5, 1.0),
            kind.RandomInvert(1.0),
            kind.RandomGrayscale(1.0),
            kind.RandomResizedCrop((41, 37), (1, 1), (1, 1), v1.InterpolationMode.BICUBIC),
            kind.RandomAutocontrast(1.0),
            v1.PILToTensor(),
        ]
    )


PIPELINES: dict[str, Callable[[], Any]] = {
    "v1": lambda: v1.Compose(
        [
            *(v1.Resize(48), v1.CenterCrop(40), v1.Grayscale(), v1.RandomHorizontalFlip(1.0)),
            *(v1.ToTensor(), v1.Normalize(0.5, 0.25)),
        ]
    ),
    "v2": lambda: v2.Compose(
        [
            *(v2.Grayscale(), v2.RandomVerticalFlip(1.0), v2.Resize((40, 30)), v2.ToImage()),
            *(v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5], [0.25])),
        ]
    ),
    "bytes": lambda: v1.Compose([v1.Grayscale(1), v1.Resize((33, 44)), v1.PILToTensor()]),
    "padded": lambda: v1.Compose(
        [v1.Grayscale(1), v1.Pad(3, fill=9), v1.CenterCrop(30), v1.ToTensor()]
    ),
    "turned": lambda: v1.Compose(
        [
            *(v1.CenterCrop(50), v1.Grayscale(1)),
            v1.RandomRotation((30, 30), v1.InterpolationMode.BILINEAR, fill=9),
            *(v1.RandomAffine((9, 9), None, (1.2, 1.2), fill=3), v1.ToTensor()),
        ]
    ),
    "colours in v1": lambda: colours(v1),
    "colours in v2": lambda: colours(v2),
    "three channels again": lambda: v1.Compose(
        [v1.CenterCrop(30), v1.Grayscale(1), v1.Grayscale(3), v1.RandAugment(0), v1.ToTensor()]
    ),
    "grey twice": lambda: v1.Compose(
        [v1.CenterCrop(30), v1.Grayscale(1), v1.Grayscale(1), v1.ToTensor()]
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_translated_pipeline_with_grayscale_gives_torchvisions_batches_in_a_loader(
    folder: Path, name: str
) -> None:
    pipeline = PIPELINES[name]()
    dataset = datasets.ImageFolder(str(folder), pipeline)
    paths, labels = zip(*dataset.samples, strict=True)
    files = hr.Dataset.from_files(paths, labels)
    with hr.Loader(files, 5, **hr.from_torchvision(pipeline).keywords) as loader:
        for mine, theirs in zip(loader, DataLoader(dataset, 5), strict=True):
            assert mine[0].dtype == theirs[0].dtype
            assert torch.equal(mine[0], theirs[0])


class Scan:
    """Declares its equivalent in Headrace's transforms."""

    def __call__(self, image: Any) -> Any:
        return v1.functional.normalize(v1.functional.to_tensor(image.convert("L")), 0.5, 0.25)

    def __headrace__(self) -> list[Any]:
        return [t.Grayscale(1), t.Normalize(0.5, 0.25)]


@pytest.mark.parametrize("name", PIPELINES)
def test_the_drop_in_gives_torchs_batches_of_one_channel(folder: Path, name: str) -> None:
    dataset = datasets.ImageFolder(str(folder), PIPELINES[name]())
    loader = hr.DataLoader(dataset, 5, strict=True)
    for mine, theirs in zip(loader, DataLoader(dataset, 5), strict=True):
        assert torch.equal(mine[0], theirs[0])


def test_one_channel_samples_made_one_by_one_equal_torchs(folder: Path) -> None:
    scan = v1.Compose([v1.Resize((30, 40)), Scan()])
    one_by_one = v1.Compose([v1.Resize(30), v1.Grayscale(1)])
    for pipeline, batch_size in ((scan, 5), (scan, None), (one_by_one, None)):
        dataset = datasets.ImageFolder(str(folder), pipeline)
        ours = hr.DataLoader(dataset, batch_size, strict=True)
        for mine, theirs in zip(ours, DataLoader(dataset, batch_size), strict=True):
            if isinstance(theirs[0], torch.Tensor):
                assert torch.equal(mine[0], theirs[0])
            else:
                assert (mine[0].mode, mine[0].tobytes()) == ("L", theirs[0].tobytes())
    given = [t.CenterCrop(8), t.Grayscale(1)]
    assert next(iter(hr.DataLoader(hr.Dataset(folder), 5, transform=given)))[0].shape[1] == 1


def test_transforms_after_grayscale_that_are_not_known_to_be_equal_are_refused() -> None:
    grey = v1.Grayscale(1)
    for step, words in (
        (v1.RandomRotation(9, fill=(1, 2, 3)), "RandomRotation"),
        (v1.Compose([v1.ToTensor(), v1.Normalize([0.1] * 3, [0.2] * 3)]), "Normalize"),
        (v1.GaussianBlur(3), "GaussianBlur"),
        (v2.JPEG(50), "JPEG"),
        (v1.RandAugment(), "RandAugment"),
        (v1.RandomApply([v1.RandomInvert(1.0)]), "RandomApply"),
        (lambda image: image.convert("RGB"), "function"),
    ):
        with pytest.raises(UnsupportedError, match=f"{words}.*Grayscale"):
            hr.from_torchvision(v1.Compose([grey, step]))
    with pytest.raises(UnsupportedError, match=r"RandomApply .*Grayscale in it"):
        hr.from_torchvision(v1.RandomApply([grey]))


def test_a_transform_that_needs_three_channels_after_grayscale_is_refused_by_name(
    folder: Path,
) -> None:
    grey = t.Grayscale(1)
    for steps, words in (
        ([grey, t.Normalize((0.1, 0.2, 0.3), 1)], "(Normalize): mean has 3 numbers"),
        ([grey, t.Pad(2, (1, 2, 3))], "(Pad): fill has 3 numbers"),
        ([t.RandomApply([grey])], "num_output_channels is 1 in a group"),
        ([t.Grayscale(2)], "num_output_channels is 2 (expected 1 or 3)"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(words)):
            hr.Loader(folder, 2, transform=[t.CenterCrop(9), *steps])
