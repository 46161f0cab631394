"""torchvision's functions on a stack of images in a collate function: torch's bytes and memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from torch.utils import data
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F2

import headrace as hr
from deferred.test_own_code import Opens, paths
from deferred.test_tensor_ops import WORKERS, batches, compared, opened, same

__all__ = ["paths"]  # a fixture

# What is said of images that are made in Python.
pytestmark = pytest.mark.filterwarnings("ignore:headrace.DataLoader")

MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.3, 0.4]
AFFINE: dict[str, Any] = {"angle": 0, "translate": [1, 2], "scale": 1.0, "shear": [0.0, 0.0]}

# Each gives one tensor of a stack of floats, or of bytes.
OF_BOTH: dict[str, Callable[[Any], Any]] = {
    "horizontal_flip": F2.horizontal_flip,
    "vertical_flip": F2.vertical_flip,
    "hflip": F.hflip,
    "vflip": F.vflip,
    "crop": lambda x: F2.crop(x, 2, 3, 9, 8),
    "all of it cropped": lambda x: F2.crop(x, 0, 0, *x.shape[-2:]),
    "crop that is too large": lambda x: F2.crop(x, -2, 3, 30, 8),
    "crop of v1": lambda x: F.crop(x, 2, 3, 9, 8),
    "center_crop": lambda x: F2.center_crop(x, [9, 8]),
    "center_crop of all": lambda x: F2.center_crop(x, list(x.shape[-2:])),
    "center_crop that is too large": lambda x: F2.center_crop(x, [30, 8]),
    "five_crop": lambda x: F2.five_crop(x, [9, 8])[1],
    "resize": lambda x: F2.resize(x, [9, 8], antialias=True),
    "resize to its size": lambda x: F2.resize(x, list(x.shape[-2:]), antialias=True),
    "resized_crop": lambda x: F2.resized_crop(x, 1, 2, 9, 8, [17, 20], antialias=True),
    "pad": lambda x: F2.pad(x, [1, 2]),
    "pad by nothing": lambda x: F2.pad(x, [0]),
    "permute_channels": lambda x: F2.permute_channels(x, [2, 1, 0]),
    "rgb_to_grayscale": F2.rgb_to_grayscale,
    "three grey channels": lambda x: F2.rgb_to_grayscale(x, num_output_channels=3),
    "invert": F2.invert,
    "adjust_brightness": lambda x: F2.adjust_brightness(x, 0.7),
    "adjust_brightness by one": lambda x: F2.adjust_brightness(x, 1.0),
    "affine": lambda x: F2.affine(x, **AFFINE),
    "rotate": lambda x: F2.rotate(x, 90.0),
    "erase": lambda x: F2.erase(x, 1, 2, 5, 6, torch.zeros(3, 1, 1, dtype=x.dtype)),
    "erase in place": lambda x: F2.erase(
        x, 1, 2, 5, 6, torch.zeros(3, 1, 1, dtype=x.dtype), inplace=True
    ),
    "to_dtype": lambda x: F2.to_dtype(x, torch.float32, scale=True),
    "to_dtype without a scale": lambda x: F2.to_dtype(x, torch.float32),
    "to_dtype of its own": lambda x: F2.to_dtype(x, x.dtype, scale=True),
    "convert_image_dtype": lambda x: F.convert_image_dtype(x, torch.float32),
    "to_image": F2.to_image,
    "ToPureTensor": v2.ToPureTensor(),
    "an image of tv_tensors flipped": lambda x: F2.horizontal_flip(tv_tensors.Image(x)),
    "an image of tv_tensors cropped": lambda x: F2.crop(tv_tensors.Image(x), 2, 3, 9, 8),
    "gaussian_blur": lambda x: F2.gaussian_blur(x, [3, 3], [0.5, 0.5]),
    "a Compose of v2": v2.Compose(
        [v2.CenterCrop(9), v2.RandomHorizontalFlip(1.0), v2.ToDtype(torch.float32, scale=True)]
    ),
    "a Compose of v1": tv.Compose(
        [tv.CenterCrop(9), tv.RandomVerticalFlip(1.0), tv.ConvertImageDtype(torch.float32)]
    ),
    "a transform that does nothing": v2.RandomHorizontalFlip(0.0),
}
OF_FLOATS: dict[str, Callable[[Any], Any]] = {
    "normalize": lambda x: F2.normalize(x, MEAN, STD),
    "normalize in place": lambda x: F2.normalize(x, MEAN, STD, inplace=True),
    "normalize of v1": lambda x: F.normalize(x, MEAN, STD),
    "normalize of an image of tv_tensors": lambda x: F2.normalize(tv_tensors.Image(x), MEAN, STD),
    "normalised twice": lambda x: F2.normalize(F2.normalize(x, MEAN, STD), MEAN, STD),
    "normalised, then flipped": lambda x: F2.horizontal_flip(F2.normalize(x, MEAN, STD)),
    "flipped, then normalised": lambda x: F2.normalize(F2.horizontal_flip(x), MEAN, STD),
    "cropped, then normalised": lambda x: F2.normalize(F2.crop(x, 2, 3, 9, 8), MEAN, STD),
    "cropped, then normalised in place": lambda x: F2.normalize(
        F2.crop(x, 2, 3, 9, 8), MEAN, STD, inplace=True
    ),
    "to bytes": lambda x: F2.to_dtype(x, torch.uint8, scale=True),
}
FUNCTIONS = {(name, "floats"): of for name, of in {**OF_BOTH, **OF_FLOATS}.items()}
FUNCTIONS |= {(name, "bytes"): of for name, of in OF_BOTH.items()}


def floats(path: str, index: int) -> Any:
    return F.to_tensor(opened(path))


def whole(path: str, index: int) -> Any:
    return F.pil_to_tensor(opened(path)).contiguous()


@pytest.mark.every(2)
@WORKERS
@pytest.mark.parametrize("what", FUNCTIONS, ids=" of ".join)
def test_a_function_of_a_stack_has_torchs_bytes_and_shares_what_torchs_shares(
    paths: list[str], what: tuple[str, str], workers: int
) -> None:
    def collate(samples: Any) -> Any:
        stack = torch.stack(samples)
        return stack, FUNCTIONS[what](stack), stack[:, 1:]

    dataset = Opens(paths[:4], floats if what[1] == "floats" else whole)
    found, expected = (
        batches(kind, dataset, batch_size=2, collate_fn=collate, num_workers=workers)
        for kind in (hr.DataLoader, data.DataLoader)
    )
    assert same(found, expected)
    if workers:  # torch sends parts of one memory in its own way
        return
    for written in (1, 0, 2):
        for batch in (*found, *expected):
            with contextlib.suppress(RuntimeError):  # several elements of one place
                batch[written].add_(written + 1)
        assert same(found, expected), "a write to one is seen where torch shows it"
        assert [one is batch[0] for batch in found for one in batch] == [
            one is batch[0] for batch in expected for one in batch
        ]


NATIVE: dict[str, Callable[[Any], Any]] = {
    "a Compose of floats": v2.Compose(
        [v2.CenterCrop(9), v2.RandomHorizontalFlip(1.0), v2.Normalize(MEAN, STD)]
    ),
    "flipped": lambda x: (F2.horizontal_flip(x), F.vflip(x)),
    "cropped": lambda x: (F2.crop(x, 2, 3, 9, 8), F2.center_crop(x, [9, 8])),
    "channels in an order": lambda x: F2.permute_channels(x, [2, 1, 0]),
    "normalised": lambda x: F2.normalize(F2.normalize(x, MEAN, STD), MEAN, STD),
}


@pytest.mark.parametrize("what", NATIVE)
def test_flips_crops_and_a_normalization_of_a_stack_make_no_pixels_in_python(
    paths: list[str], what: str
) -> None:
    compared(
        Opens(paths[:4], floats),
        batch_size=2,
        collate_fn=lambda samples: NATIVE[what](torch.stack(samples)),
    )
