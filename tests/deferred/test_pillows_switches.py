"""Pillow's switches and ``limits=`` over datasets that open their own images."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageFile
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import Opens, compared
from headrace import errors

BOMB = 89_478_485  # Image.MAX_IMAGE_PIXELS as Pillow has it, and max_pixels as the engine has it


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A JPEG of 90 million pixels."""
    path = tmp_path_factory.mktemp("large") / "large.jpg"
    Image.new("L", (9500, 9500), 77).save(path)
    os.utime(path, (1e9, 1e9))
    return str(path)


WAYS: dict[str, Callable[[Any], Any]] = {
    "recorded": lambda image: F.to_tensor(image.crop((9400, 9400, 9432, 9432))),
    "at once": lambda image: np.asarray(image)[9400:9432, 9400:9432].copy(),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("most", [None, 100_000_000])
@pytest.mark.parametrize("way", WAYS)
def test_an_image_within_pillows_configured_pixel_limit_is_decoded(
    large: str, way: str, most: int | None, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
    with warnings.catch_warnings():
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        dataset = Opens([large], lambda path, index: WAYS[way](Image.open(path)))
        compared(dataset, strict=way == "recorded", num_workers=workers)


def test_an_image_beyond_pillows_pixel_limit_goes_to_pillow_which_warns_or_refuses(
    large: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = Opens([large], lambda path, index: WAYS["recorded"](Image.open(path)))
    with pytest.warns(Image.DecompressionBombWarning):
        compared(dataset, strict=False)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", BOMB // 2)
    with pytest.raises(Image.DecompressionBombError):
        list(hr.DataLoader(dataset))


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Three JPEGs; the second one is truncated."""
    made = []
    for number in range(3):
        path = tmp_path / f"{number}.jpg"
        Image.fromarray(images.pixels(60, 50, seed=number)).save(path)
        if number == 1:
            path.write_bytes(path.read_bytes()[:-600])
        os.utime(path, (1e9, 1e9))
        made.append(str(path))
    return made


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("at_once", [False, True])
def test_truncated_images_are_loaded_if_pillow_is_told_to(
    paths: list[str], at_once: bool, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(path: str, index: int) -> Any:
        image = Image.open(path).convert("RGB")
        return np.asarray(image) if at_once else F.to_tensor(image)

    dataset = Opens(paths, made)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    compared(dataset, strict=False, num_workers=workers)
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
    with pytest.raises(OSError, match="truncated"):
        list(hr.DataLoader(dataset, num_workers=workers))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("at_once", [False, True])
def test_limits_hold_for_images_that_a_datasets_own_code_opens(
    paths: list[str], at_once: bool, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        image = Image.open(path).convert("RGB")
        return np.array(image) if at_once else F.to_tensor(image)

    dataset = Opens(paths[:1], made)
    for limits in ({"max_pixels": 2999}, {"max_record_bytes": 100}):
        (name,) = limits
        if at_once and workers:
            continue  # worker processes have no engine: Pillow decodes there
        with contextlib.closing(
            hr.DataLoader(dataset, limits=limits, num_workers=workers)
        ) as loader:
            with pytest.raises(errors.LimitError, match=name) as raised:
                list(loader)
            assert isinstance(raised.value, OSError)
    compared(dataset, strict=not at_once, num_workers=workers)
    with contextlib.closing(hr.DataLoader(dataset, limits={"max_pixels": 3000})) as loader:
        assert len(list(loader)) == 1


@pytest.mark.parametrize("limits", [{"max_record_bytes": 2_000}, {"max_pixels": 3_500}])
def test_a_larger_image_that_python_makes_of_an_image_within_the_limits_is_allowed(
    paths: list[str], limits: dict[str, int]
) -> None:
    """It stays in Python, where a limit for opened images refuses nothing."""
    Image.new("RGB", (60, 50)).save(paths[0])
    transform = tv.Compose([lambda image: image.resize((90, 80)).point(int), tv.ToTensor()])

    def made(path: str, index: int) -> Any:
        return transform(Image.open(path).convert("RGB"))

    dataset = Opens(paths[:1], made)
    (wanted,) = data.DataLoader(dataset)
    with (
        warnings.catch_warnings(),
        contextlib.closing(hr.DataLoader(dataset, limits=limits)) as loader,
    ):
        warnings.simplefilter("ignore")
        (found,) = loader
    assert torch.equal(found, wanted)


def cropped(path: str, index: int) -> Any:
    """A crop with more pixels than the image; zeros if Pillow refuses it."""
    try:
        return F.to_tensor(Image.open(path).convert("RGB").crop((0, 0, 200, 200)).resize((8, 8)))
    except Image.DecompressionBombError:
        return torch.zeros(3, 8, 8)


def test_a_crop_beyond_pillows_pixel_limit_is_refused_by_pillow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "small.png"
    Image.new("RGB", (40, 40), (70, 80, 90)).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2_000)
    dataset = Opens([str(path)], cropped)
    (found,) = compared(dataset, strict=False)
    assert not found.any()
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40_000)
    (found,) = compared(dataset)
    assert found.any()
