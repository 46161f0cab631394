"""Resize(256) and CenterCrop(224), the evaluation transform, through the loader."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import images

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# Landscape, portrait, square, smaller than 224 (enlarged), and with odd sides.
SIZES = [(500, 375), (333, 500), (256, 256), (97, 61), (301, 1023)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("parity")
    for width, height in SIZES:
        kinds = images.every_jpeg(width, height)
        # Pillow hands a file over in blocks of 64 KB, which libjpeg's arithmetic decoder refuses.
        del kinds["arithmetic-420"]
        files = {f"{kind}.jpg": data for kind, data in kinds.items()}
        images.write_tree(root / f"jpeg-{width}x{height}", files)
    files = {f"{name}.png": data for name, data in images.every_png(260, 241).items()}
    return images.write_tree(root / "png", files).parent


@pytest.fixture(scope="module")
def packed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("packed") / "all.hr"
    hr.pack(folder, destination)
    return destination


def compare(
    dataset: Path, folder: Path, theirs: tv.Compose, steps: list, **options: object
) -> None:
    """Compares every byte of every sample; returns the names of those that differ."""
    expected = datasets.ImageFolder(str(folder), theirs)
    loader = hr.Loader(dataset, batch_size=32, num_threads=2, transform=steps, **options)
    differing, number = [], 0
    for batch, labels in loader:
        for image, label in zip(batch, labels, strict=True):
            wanted, wanted_label = expected[number]
            assert image.dtype == wanted.dtype
            assert image.shape == wanted.shape
            if not torch.equal(image, wanted) or int(label) != wanted_label:
                differing.append(Path(expected.samples[number][0]).relative_to(folder))
            number += 1
    loader.close()
    assert differing == []
    assert number == len(expected)


def evaluation() -> list:
    return [hr.transforms.Resize(256), hr.transforms.CenterCrop(224)]


@pytest.mark.parametrize("source", ["folder", "packed"])
def test_uint8_equals_pillow_and_torchvision_in_every_byte(source, request) -> None:
    theirs = tv.Compose([tv.Resize(256), tv.CenterCrop(224), tv.PILToTensor()])
    dataset = request.getfixturevalue(source)
    compare(dataset, request.getfixturevalue("folder"), theirs, evaluation(), dtype="uint8")


@pytest.mark.slow
@pytest.mark.parametrize("source", ["folder", "packed"])
def test_normalised_float32_equals_totensor_and_normalize_in_every_byte(source, request) -> None:
    theirs = [tv.Resize(256), tv.CenterCrop(224), tv.ToTensor(), tv.Normalize(MEAN, STD)]
    dataset = request.getfixturevalue(source)
    steps = [*evaluation(), hr.transforms.Normalize(MEAN, STD)]
    compare(dataset, request.getfixturevalue("folder"), tv.Compose(theirs), steps)


def test_float_without_normalise_equals_totensor(folder: Path) -> None:
    theirs = tv.Compose([tv.Resize(256), tv.CenterCrop(224), tv.ToTensor()])
    compare(folder, folder, theirs, evaluation())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float16_and_bfloat16_are_the_rounded_float32_result(folder: Path, dtype: str) -> None:
    theirs = [tv.Resize(256), tv.CenterCrop(224), tv.ToTensor(), tv.Normalize(MEAN, STD)]
    theirs.append(tv.Lambda(lambda image: image.to(getattr(torch, dtype))))
    steps = [*evaluation(), hr.transforms.Normalize(MEAN, STD)]
    compare(folder, folder, tv.Compose(theirs), steps, dtype=dtype)


def test_nhwc_and_channels_last_have_the_values_of_nchw(folder: Path) -> None:
    def first(layout: str) -> torch.Tensor:
        with hr.Loader(folder, batch_size=16, transform=evaluation(), layout=layout) as loader:
            return next(iter(loader))[0]

    nchw, nhwc, channels_last = first("NCHW"), first("NHWC"), first("channels_last")
    assert torch.equal(nhwc.permute(0, 3, 1, 2), nchw)
    assert torch.equal(channels_last, nchw)
    assert channels_last.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.slow
def test_every_filter_of_resize_equals_torchvisions(folder: Path) -> None:
    for name in ["nearest", "bilinear", "bicubic", "box", "hamming", "lanczos"]:
        mode = tv.InterpolationMode(name)
        theirs = tv.Compose([tv.Resize((67, 131), mode), tv.PILToTensor()])
        steps = [hr.transforms.Resize((67, 131), interpolation=name)]
        compare(folder, folder, theirs, steps, dtype="uint8")


def test_numpy_output_is_the_same_as_torch_output(folder: Path) -> None:
    def first(output: str) -> np.ndarray:
        with hr.Loader(folder, batch_size=8, transform=evaluation(), output=output) as loader:
            return np.asarray(next(iter(loader))[0])

    assert np.array_equal(first("numpy"), first("torch"))
