"""Pillow's own operations on one image: every byte is Pillow's for random arguments."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFilter, ImageOps

import headrace as hr
from headrace import functional as ours
from headrace import transforms as t
from headrace.errors import ArgumentError
from images import photographs

FILTERS = {filter.name.lower(): filter for filter in list(Image.Resampling)[:6]}


def picture(draw: random.Random) -> np.ndarray:
    """A crop of a photograph, sometimes one pixel wide, or black and white blocks."""
    height, width = draw.choice((1, 2, 5, 33, 80)), draw.choice((1, 3, 7, 31, 90))
    if draw.random() < 0.3:
        side = draw.choice((1, 3, 8))
        seen = [draw.choice((0, 255)) for _ in range(90 * 90 * 3)]
        blocks = np.array(seen, np.uint8).reshape(90, 90, 3).repeat(side, 0).repeat(side, 1)
        return np.ascontiguousarray(blocks[:height, :width])
    source = draw.choice(photographs())
    top = draw.randrange(source.shape[0] - height)
    left = draw.randrange(source.shape[1] - width)
    return np.ascontiguousarray(source[top : top + height, left : left + width])


def part(draw: random.Random, length: int) -> tuple[float, float]:
    """An interval of an axis: all of it, between whole pixels, or anywhere."""
    low, high = sorted(draw.uniform(0, length) for _ in range(2))
    kind = draw.randrange(4)
    if kind == 0:
        return 0.0, float(length)
    if kind == 1:
        return float(int(low)), float(int(low) + draw.randint(1, length - int(low)))
    return low, max(high, min(low + 0.01, float(length)))


@pytest.mark.every(3)
@pytest.mark.parametrize("name", FILTERS)
def test_a_resize_of_a_part_equals_pillows_in_every_byte(name: str) -> None:
    draw = random.Random(17)
    for _ in range(300):
        array = picture(draw)
        height, width = array.shape[:2]
        (left, right), (top, bottom) = part(draw, width), part(draw, height)
        size, box = (draw.randint(1, 60), draw.randint(1, 60)), (left, top, right, bottom)
        wanted = np.asarray(Image.fromarray(array).resize(size, FILTERS[name], box))
        found = ours.resize_box(array, size[::-1], box, name)
        assert np.array_equal(found, wanted), (array.shape, size, box)


@pytest.mark.parametrize(
    ("box", "said"),
    [
        ((0, 0, 8.5, 4), r"ends at \(8\.5, 4\) in 8x4 pixels"),
        ((3, 1, 3, 2), "left < right"),
        ((-0.5, 0, 8, 4), "from 0 to"),
        ((0, 0, 8), "expected a list of 4"),
    ],
)
def test_a_part_that_is_not_inside_the_image_is_refused(box: Any, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        ours.resize_box(np.zeros((4, 8, 3), np.uint8), 5, box)


def blurred(array: np.ndarray, radius: Any) -> np.ndarray:
    return np.asarray(Image.fromarray(array).filter(ImageFilter.GaussianBlur(radius)))


def test_pillow_blur_equals_pillows_in_every_byte() -> None:
    draw = random.Random(4)
    radii = [0, *range(21), *(tenth / 10 for tenth in range(1, 60)), 0.001, 200.0, 1000.0]
    radii += [draw.uniform(0, 20) for _ in range(100)] + [draw.uniform(0.1, 2) for _ in range(100)]
    for radius in radii:
        array = picture(draw)
        assert np.array_equal(ours.pillow_blur(array, radius), blurred(array, radius)), radius


def test_pillow_blur_with_two_radii_blurs_across_and_down_as_pillow() -> None:
    draw = random.Random(5)
    radii = [(0, 0), (0, 3), (3, 0), (2.5, 2.5), (0.3, 20), (20, 0.7)]
    radii += [(draw.uniform(0, 9), draw.uniform(0, 9)) for _ in range(100)]
    for radius in radii:
        array = picture(draw)
        assert np.array_equal(ours.pillow_blur(array, radius), blurred(array, radius)), radius


@pytest.mark.parametrize("radius", [-1, 1001, (1, -1), (1, 2, 3), (), "2", None, float("nan")])
def test_an_impossible_radius_is_refused_by_name(radius: Any) -> None:
    array = np.zeros((5, 6, 3), np.uint8)
    with pytest.raises(ArgumentError, match="radius"):
        ours.pillow_blur(array, radius)
    with pytest.raises(ArgumentError, match="radius"):
        hr.functional.replay(b"P6 1 1 255\n123", [t.RandomPillowBlur(radius)])


def test_the_bounds_of_a_random_radius_must_be_in_order() -> None:
    with pytest.raises(ArgumentError, match=r"radius is .*lower bound first"):
        hr.functional.replay(b"P6 1 1 255\n123", [t.RandomPillowBlur((2, 1))])


OPS: dict[str, tuple[Callable[..., Any], Callable[..., Any], Callable[[random.Random], Any]]] = {
    "autocontrast": (ImageOps.autocontrast, ours.autocontrast, lambda _: ()),
    "equalize": (ImageOps.equalize, ours.equalize, lambda _: ()),
    "invert": (ImageOps.invert, ours.invert, lambda _: ()),
    "posterize": (ImageOps.posterize, ours.posterize, lambda draw: (draw.randint(1, 8),)),
    "solarize": (ImageOps.solarize, ours.solarize, lambda draw: (draw.randint(0, 256),)),
    "grayscale": (ImageOps.grayscale, lambda a: ours.rgb_to_grayscale(a)[..., 0], lambda _: ()),
    "mirror": (ImageOps.mirror, ours.hflip, lambda _: ()),
    "flip": (ImageOps.flip, ours.vflip, lambda _: ()),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", OPS)
def test_each_op_of_pillow_equals_the_engines_in_every_byte(name: str) -> None:
    theirs, op, arguments = OPS[name]
    draw = random.Random(6)
    for _ in range(150):
        array, given = picture(draw), arguments(draw)
        # Images with few values, which are special cases of autocontrast and equalize.
        if draw.random() < 0.5:
            array = array // draw.choice((2, 64, 255)) + draw.randrange(100)
        wanted = np.asarray(theirs(Image.fromarray(array), *given))
        assert np.array_equal(op(array, *given), wanted), given
