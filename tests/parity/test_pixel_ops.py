"""Each op of hr.functional equals torchvision's on PIL images in every byte; random parameters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import InterpolationMode, RandomPerspective, v2
from torchvision.transforms import functional as theirs

import cases
from headrace import functional as ours
from headrace.errors import ArgumentError, LimitError
from images import photographs

DRAWS = cases.some(60, of=200)
FILTERS = ("nearest", "bilinear", "bicubic")
SIDES = (1, 2, 3, 5, 17, 64, 97)


def pictures(seed: int) -> Iterator[tuple[np.ndarray[Any, Any], random.Random]]:
    """Parts of photographs, noise, and images of one colour, of one pixel and more."""
    draw, noise = random.Random(seed), np.random.default_rng(seed)
    sources = photographs()
    for number in range(DRAWS):
        height, width = draw.choice(SIDES), draw.choice(SIDES)
        if number % 10 == 0:
            array = noise.integers(0, 256, (height, width, 3), dtype=np.uint8)
        elif number % 10 == 1:
            array = np.full((height, width, 3), noise.integers(0, 256, 3), np.uint8)
        else:
            source = sources[number % len(sources)]
            top = draw.randrange(source.shape[0] - height)
            left = draw.randrange(source.shape[1] - width)
            array = source[top : top + height, left : left + width]
        yield np.ascontiguousarray(array), draw


def factor(draw: random.Random) -> float:
    return draw.choice((0.0, 1.0, draw.random(), 1 + 4 * draw.random()))


Arguments = Callable[[random.Random], tuple[Any, ...]]

# name in both libraries -> arguments after the image
POINTWISE: dict[str, Arguments] = {
    "adjust_brightness": lambda draw: (factor(draw),),
    "adjust_contrast": lambda draw: (factor(draw),),
    "adjust_saturation": lambda draw: (factor(draw),),
    "adjust_sharpness": lambda draw: (factor(draw),),
    "adjust_hue": lambda draw: (draw.uniform(-0.5, 0.5),),
    "adjust_gamma": lambda draw: (3 * draw.random(), 2 * draw.random()),
    "autocontrast": lambda draw: (),
    "equalize": lambda draw: (),
    "invert": lambda draw: (),
    "posterize": lambda draw: (draw.randint(1, 8),),
    "solarize": lambda draw: (draw.choice((0, 255, 256, 256 * draw.random())),),
    "rgb_to_grayscale": lambda draw: (3,),
    "to_grayscale": lambda draw: (3,),
    "hflip": lambda draw: (),
    "vflip": lambda draw: (),
    "center_crop": lambda draw: ((draw.choice(SIDES), draw.choice(SIDES)),),
}


@pytest.mark.parametrize("name", POINTWISE)
def test_each_op_equals_torchvisions_in_every_byte(name: str) -> None:
    for array, draw in pictures(1):
        arguments = POINTWISE[name](draw)
        wanted = np.asarray(getattr(theirs, name)(Image.fromarray(array), *arguments))
        found = getattr(ours, name)(array, *arguments)
        assert np.array_equal(found, wanted), (array.shape, arguments)


@pytest.mark.parametrize("name", ["rgb_to_grayscale", "to_grayscale"])
def test_grey_has_one_channel_as_by_torchvisions_default(name: str) -> None:
    for array, _ in pictures(12):
        wanted = np.asarray(getattr(theirs, name)(Image.fromarray(array)))
        found = getattr(ours, name)(array)
        assert found.shape == (*wanted.shape, 1)
        assert np.array_equal(found[..., 0], wanted)
    with pytest.raises(ArgumentError, match=r"num_output_channels.*1 or 3"):
        getattr(ours, name)(array, 2)


def test_jpeg_artefacts_equal_torchvisions_in_every_byte() -> None:
    for array, draw in pictures(11):
        quality = draw.choice((1, 100, draw.randint(1, 100)))
        wanted = v2.functional.jpeg(Image.fromarray(array), quality)
        assert np.array_equal(ours.jpeg(array, quality), np.asarray(wanted)), (array.shape, quality)


def fill(draw: random.Random) -> list[int]:
    return [draw.randrange(256) for _ in range(3)]


def centre(draw: random.Random) -> list[int] | None:
    return draw.choice((None, [draw.randrange(99), draw.randrange(99)]))


@pytest.mark.parametrize("filter_name", FILTERS)
def test_an_affine_map_with_each_filter_equals_torchvisions_in_every_byte(filter_name: str) -> None:
    for array, draw in pictures(2):
        arguments = {
            "angle": draw.choice((0.0, draw.uniform(-180, 180))),
            "translate": [draw.randint(-20, 20), draw.randint(-20, 20)],
            "scale": draw.choice((1.0, draw.uniform(0.3, 3))),
            "shear": draw.choice(([0.0, 0.0], [draw.uniform(-40, 40), draw.uniform(-40, 40)])),
            "fill": fill(draw),
            "center": centre(draw),
        }
        mode = InterpolationMode(filter_name)
        wanted = theirs.affine(Image.fromarray(array), interpolation=mode, **arguments)
        found = ours.affine(array, interpolation=filter_name, **arguments)
        assert np.array_equal(found, np.asarray(wanted)), (array.shape, arguments)


@pytest.mark.parametrize("filter_name", FILTERS)
def test_a_rotation_with_each_filter_equals_torchvisions_in_every_byte(filter_name: str) -> None:
    for array, draw in pictures(3):
        angle = draw.choice((0.0, 90.0, -90.0, 180.0, 270.0, 360.0, draw.uniform(-720, 720)))
        arguments = {"center": centre(draw), "fill": fill(draw)}
        mode = InterpolationMode(filter_name)
        wanted = theirs.rotate(Image.fromarray(array), angle, mode, **arguments)
        found = ours.rotate(array, angle, filter_name, **arguments)
        assert np.array_equal(found, np.asarray(wanted)), (array.shape, angle, arguments)


@pytest.mark.parametrize("filter_name", FILTERS)
def test_an_expanding_rotation_with_each_filter_equals_torchvisions_in_every_byte(
    filter_name: str,
) -> None:
    for array, draw in pictures(7):
        angle = draw.choice((0.0, 90.0, -90.0, 180.0, 270.0, 360.0, draw.uniform(-720, 720)))
        arguments = {"expand": True, "center": centre(draw), "fill": fill(draw)}
        mode = InterpolationMode(filter_name)
        wanted = theirs.rotate(Image.fromarray(array), angle, mode, **arguments)
        found = ours.rotate(array, angle, filter_name, **arguments)
        assert np.array_equal(found, np.asarray(wanted)), (array.shape, angle, arguments)


def test_a_resize_to_the_longer_side_equals_torchvisions_in_every_byte() -> None:
    for array, draw in pictures(8):
        longest = draw.choice((1, 7, 64, 130))
        try:
            wanted = v2.functional.resize(Image.fromarray(array), None, max_size=longest)
        except ValueError:  # the shorter side would have no pixels
            with pytest.raises(LimitError, match=f"longer side {longest}"):
                ours.resize(array, None, max_size=longest)
            continue
        found = ours.resize(array, None, max_size=longest)
        assert np.array_equal(found, np.asarray(wanted)), (array.shape, longest)


def some_corners(width: int, height: int, draw: random.Random) -> tuple[Any, Any]:
    """Corners as torchvision draws them, whose eight equations have one solution. If the origin
    goes to infinity there is none, and torchvision takes numbers of 1e15."""
    torch.manual_seed(draw.randrange(1 << 32))
    while True:
        start, end = RandomPerspective.get_params(width, height, draw.random())
        lines = [
            row
            for (x, y), (u, v) in zip(end, start, strict=True)
            for row in ([x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y])
        ]
        if np.linalg.cond(np.asarray(lines, float)) < 1e12:
            return start, end


@pytest.mark.parametrize("filter_name", FILTERS)
def test_a_perspective_with_each_filter_equals_torchvisions_in_every_byte(filter_name: str) -> None:
    for array, draw in pictures(4):
        height, width = array.shape[:2]
        if height < 5 or width < 5:
            continue
        corners = some_corners(width, height, draw)
        colour = fill(draw)
        mode = InterpolationMode(filter_name)
        wanted = theirs.perspective(Image.fromarray(array), *corners, mode, colour)
        found = ours.perspective(array, *corners, filter_name, colour)
        assert np.array_equal(found, np.asarray(wanted)), (array.shape, corners)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_padding_in_each_mode_equals_torchvisions_in_every_byte(mode: str) -> None:
    for array, draw in pictures(5):
        # Like NumPy, we reflect more than once if an image is smaller than its padding.
        padding = [draw.randint(0, min(array.shape[:2]) - 1 or 0) for _ in range(4)]
        colour = tuple(fill(draw))
        wanted = theirs.pad(Image.fromarray(array), padding, colour, mode)
        found = ours.pad(array, padding, colour, mode)
        assert np.array_equal(found, np.asarray(wanted)), (array.shape, padding)


def test_a_blur_differs_from_torchvisions_by_at_most_one() -> None:
    compared = 0
    for array, draw in pictures(6):
        kernel = [draw.choice((1, 3, 5, 9, 23)), draw.choice((1, 3, 5, 9, 23))]
        if kernel[0] // 2 >= array.shape[1] or kernel[1] // 2 >= array.shape[0]:
            continue
        sigma = draw.choice((None, [draw.uniform(0.1, 3), draw.uniform(0.1, 3)]))
        wanted = np.asarray(theirs.gaussian_blur(Image.fromarray(array), kernel, sigma))
        found = ours.gaussian_blur(array, kernel, sigma)
        assert np.abs(found.astype(int) - wanted.astype(int)).max() <= 1, (array.shape, kernel)
        compared += 1
    assert compared > DRAWS / 3


def torch_sum(values: np.ndarray[Any, Any]) -> np.float32:
    """torch's own sum of a vector, because its order of additions affects the weights."""
    return np.float32(torch.from_numpy(values).sum().item())


def blur_weights(size: int, sigma: float) -> np.ndarray[Any, Any]:
    """torchvision's weights, with the exponential rounded from its double."""
    distance = (np.arange(size) - (size - 1) / 2).astype(np.float32) / np.float32(sigma)
    exponent = np.float32(-0.5) * (distance * distance)
    weights = np.exp(exponent.astype(np.float64)).astype(np.float32)
    return weights / torch_sum(weights)


def blurred_in_torchs_order(
    array: np.ndarray[Any, Any], kernel: list[int], sigma: list[float]
) -> np.ndarray[Any, Any]:
    """Fused multiply-adds one after the other, row by row of the kernel. The product of two floats
    is exact as a double."""
    across, down = blur_weights(kernel[0], sigma[0]), blur_weights(kernel[1], sigma[1])
    rows, columns = array.shape[:2]
    margins = [(kernel[1] // 2,) * 2, (kernel[0] // 2,) * 2, (0, 0)]
    padded = np.pad(array, margins, mode="reflect").astype(np.float64)
    total = np.zeros(array.shape, np.float32)
    for y in range(kernel[1]):
        for x in range(kernel[0]):
            product = np.float64(down[y] * across[x]) * padded[y : y + rows, x : x + columns]
            total = (product + total).astype(np.float32)
    return np.rint(total).astype(np.uint8)


def test_a_blur_adds_in_the_order_of_torchs_convolution() -> None:
    draw = random.Random(8)
    for number in range(16):
        source = photographs()[number % len(photographs())]
        top, left = draw.randrange(source.shape[0] - 150), draw.randrange(source.shape[1] - 120)
        array = np.ascontiguousarray(source[top : top + 150, left : left + 120])
        kernel = [draw.choice((3, 5, 9, 23)), draw.choice((3, 5, 7, 23))]
        sigma = [draw.uniform(0.1, 3), draw.uniform(0.1, 3)]
        wanted = blurred_in_torchs_order(array, kernel, sigma)
        found = ours.gaussian_blur(array, kernel, sigma)
        assert np.array_equal(found, wanted), (number, kernel, sigma)


def test_every_hue_of_every_colour_equals_pillows() -> None:
    green, blue = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    for red in range(0, 256, 5):
        array = np.stack([np.full_like(green, red), green, blue], -1)
        turn = red / 255 - 0.5
        wanted = np.asarray(theirs.adjust_hue(Image.fromarray(array), turn))
        assert np.array_equal(ours.adjust_hue(array, turn), wanted), red
