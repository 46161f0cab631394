"""Single images: decode and resized_crop."""

from __future__ import annotations

import ctypes
import inspect
import io
import json
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as torchvision_functional

import headrace as hr
from headrace import errors
from headrace._engine import _lib, arguments
from images import jpeg, png


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("data", [jpeg(61, 47), png(33, 21, 2)], ids=["jpeg", "png"])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, np.array])
def test_decode_takes_any_bytes_and_gives_pillows_pixels(data: bytes, kind: type) -> None:
    given = np.frombuffer(data, np.uint8) if kind is np.array else kind(data)
    pixels = hr.functional.decode(given)
    assert pixels.dtype == np.uint8
    assert np.array_equal(pixels, pillow(data))


def test_resized_crop_of_a_decoded_image_equals_torchvisions_inside_and_beyond_its_edges() -> None:
    pixels = pillow(jpeg(50, 40))
    for box in ((3, 4, 20, 30), (0, 0, 40, 50), (-3, 40, 20, 30)):
        for hflip in (False, True):
            found = hr.functional.resized_crop(pixels, *box, (9, 60), hflip=hflip)
            expected = torchvision_functional.resized_crop(
                Image.fromarray(pixels), *box, [9, 60], InterpolationMode.BILINEAR
            )
            assert np.array_equal(found, np.asarray(expected)[:, :: -1 if hflip else 1])
    with pytest.raises(errors.ArgumentError, match="float32 array"):
        hr.functional.resized_crop(pixels.astype(np.float32), 0, 0, 9, 9, 5)


@pytest.mark.parametrize("kind", [torchvision_functional, v2.functional], ids=["v1", "v2"])
@pytest.mark.parametrize("size", [11, [11], (11,), np.int64(11), (11, 13), [60, 7], 70, (1,)])
def test_a_size_means_the_same_as_in_torchvision(kind: Any, size: Any) -> None:
    """One number is the shorter side of a resize, and both sides of a crop."""
    data = png(90, 31, 2)
    pixels = hr.functional.decode(data)
    image, theirs = Image.fromarray(pixels), size if np.ndim(size) else int(size)
    for box in ((0, 0, 31, 90), (2, 3, 15, 80), (3, 5, 27, 9), (7, 1, 9, 9)):
        wanted = np.asarray(kind.resized_crop(image, *box, theirs))
        for source in (data, pixels):
            assert np.array_equal(hr.functional.resized_crop(source, *box, size), wanted), box
    for name in ("resize", "center_crop"):
        wanted = np.asarray(getattr(kind, name)(image, theirs))
        assert np.array_equal(getattr(hr.functional, name)(pixels, size), wanted), name
    for name in ("five_crop", "ten_crop"):
        try:
            crops = getattr(kind, name)(image, theirs)
        except ValueError:  # the image is smaller
            with pytest.raises(errors.ArgumentError, match="crop"):
                getattr(hr.functional, name)(pixels, size)
            continue
        found = getattr(hr.functional, name)(pixels, size)
        assert all(map(np.array_equal, found, map(np.asarray, crops))), name
        assert len(found) == len(crops)


def test_resized_crop_equals_pillows_crop_and_resize() -> None:
    data = jpeg(160, 120)
    for hflip in (False, True):
        found = hr.functional.resized_crop(data, 11, 7, 90, 101, (48, 56), "bicubic", hflip)
        image = Image.open(io.BytesIO(data)).convert("RGB").crop((7, 11, 108, 101))
        expected = np.asarray(image.resize((56, 48), Image.Resampling.BICUBIC))
        assert np.array_equal(found, expected[:, ::-1] if hflip else expected)


def test_one_number_as_a_size_means_a_square() -> None:
    assert hr.functional.resized_crop(jpeg(40, 40), 0, 0, 40, 40, 16).shape == (16, 16, 3)


def test_the_error_for_bytes_that_are_no_image_says_what_is_wrong() -> None:
    data = jpeg(64, 48)
    with pytest.raises(errors.TruncatedError):
        hr.functional.decode(data[: len(data) // 2])
    with pytest.raises(errors.UnsupportedError, match="JPEG XL"):
        hr.functional.decode(b"\xff\x0a" + bytes(64))
    for nothing in (b"", b"\0" * 64):
        with pytest.raises(hr.HeadraceError):
            hr.functional.decode(nothing)


def test_a_limit_is_checked_before_pixels_are_made() -> None:
    with pytest.raises(errors.LimitError, match="max_pixels is 6399"):
        hr.functional.decode(jpeg(80, 80), limits={"max_pixels": 6399})
    assert hr.functional.decode(jpeg(80, 80), limits={"max_pixels": 6400}).shape == (80, 80, 3)


def test_impossible_arguments_are_named() -> None:
    with pytest.raises(errors.ArgumentError, match="interpolation"):
        hr.functional.resized_crop(jpeg(8, 8), 0, 0, 8, 8, 4, "cubic")
    with pytest.raises(errors.ArgumentError, match="mode"):
        hr.functional.resized_crop(jpeg(8, 8), 0, 0, 8, 8, 4, mode="quick")
    with pytest.raises(errors.ArgumentError, match="mode"):
        hr.functional.decode(jpeg(8, 8), mode="quick")
    with pytest.raises(ValueError, match="height"):
        hr.functional.resized_crop(jpeg(8, 8), 0, 0, 0, 8, 4)


def test_a_replay_of_transforms_that_do_nothing_is_an_empty_list() -> None:
    flip = hr.transforms.RandomHorizontalFlip(p=0.0)
    assert hr.functional.replay(jpeg(8, 8), []) == []
    assert hr.functional.replay(jpeg(8, 8), [flip]) == []


def test_a_replay_of_many_samples_equals_the_replay_of_each() -> None:
    data = np.frombuffer(jpeg(40, 30), np.uint8)
    ops = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandAugment()]
    config = {
        "transform": arguments.transforms("transform", ops),
        "dtype": "float32",
        "replay": True,
    }

    def replayed(**more: int) -> Any:
        def room(image: Any) -> tuple[Any, Any]:
            text = ctypes.create_string_buffer(image.bytes)
            return text, text

        return json.loads(_lib.decode(data.ctypes.data, data.size, config | more, room).raw)

    alone = [replayed(seed=4, epoch=1, sample=sample, draw=2) for sample in range(5, 12)]
    assert replayed(seed=4, epoch=1, sample=5, draw=2, samples=7) == alone
    for wrong in ({"samples": 1 << 21}, {"samples": 2, "sample": (1 << 64) - 1}):
        with pytest.raises(errors.ArgumentError, match="samples"):
            replayed(**wrong)


def test_functions_have_torchvisions_arguments_by_name() -> None:
    known = {**vars(v2.functional), **vars(torchvision_functional)}
    own = {"gaussian_noise": ["key"], "resized_crop": None, "decode": None}
    compared = 0
    for name in hr.functional.__all__:
        if name not in known or own.get(name, []) is None:
            continue  # resized_crop takes an encoded file
        theirs = [*inspect.signature(known[name]).parameters]
        ours = inspect.signature(getattr(hr.functional, name)).parameters.values()
        found = [each.name for each in ours if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        assert found == ["img", *theirs[1:], *own.get(name, [])], name
        compared += 1
    assert compared > 20


def test_resized_crop_takes_torchvisions_and_pillows_filters() -> None:
    data, box = jpeg(40, 40), (1, 2, 30, 31, 16)
    wanted = hr.functional.resized_crop(data, *box, "bicubic")
    for method in (InterpolationMode.BICUBIC, Image.Resampling.BICUBIC, 3):
        assert np.array_equal(hr.functional.resized_crop(data, *box, method), wanted)
