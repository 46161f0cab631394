"""Whatever arguments a function of hr.functional is given, it does what torchvision does with them
to a PIL image, in both versions: the same bytes, an error where torchvision has one, or a refusal
that says what is wrong. Never other bytes.

Arguments are drawn as programs write them: ints and floats, lists and tuples, one number for two,
in and out of range. A blur has its own measure (docs/exactness.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms import InterpolationMode, functional, v2

import cases
from headrace import functional as ours
from headrace.errors import HeadraceError

KINDS: dict[int, Any] = {1: functional, 2: v2.functional}
SIDES = st.sampled_from((1, 2, 3, 4, 5, 8, 13, 32, 57))
DRAWS = cases.some(15, of=40)

quarter = st.integers(-8, 8).map(lambda turns: 90 * turns)
angle = quarter | quarter.map(float) | st.integers(-400, 400) | st.floats(-400, 400)
factor = st.sampled_from((0, 1, 2, 0.5, -0.5)) | st.floats(0, 5)
place = st.integers(-9, 60)
centre = st.none() | st.lists(place | st.floats(-9, 60), min_size=2, max_size=2)
length = st.integers(1, 40)
size = length | st.lists(length, min_size=1, max_size=3) | st.tuples(length, length) | st.just(0)
byte = st.integers(0, 255)
colour = byte | st.lists(byte, min_size=3, max_size=3) | st.tuples(byte, byte, byte) | st.none()
warp = st.sampled_from((*map(InterpolationMode, ("nearest", "bilinear", "bicubic", "lanczos")),))
resample = st.sampled_from((*InterpolationMode,))
pixels = st.integers(-3, 9)
padding = (
    pixels | st.lists(pixels, min_size=1, max_size=4) | st.tuples(pixels, pixels, pixels, pixels)
)
degrees = st.floats(-80, 80) | st.integers(-80, 80)
shear = degrees | st.lists(degrees, min_size=1, max_size=3) | st.tuples(degrees, degrees)
corner = st.lists(st.integers(-9, 60), min_size=2, max_size=2)
corners = st.lists(corner, min_size=4, max_size=4)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "adjust_brightness": {"brightness_factor": factor},
    "adjust_contrast": {"contrast_factor": factor},
    "adjust_gamma": {"gamma": factor, "gain": factor},
    "adjust_hue": {"hue_factor": st.floats(-0.6, 0.6) | st.sampled_from((0, 0.5, -0.5))},
    "adjust_saturation": {"saturation_factor": factor},
    "adjust_sharpness": {"sharpness_factor": factor},
    "affine": {
        "angle": angle,
        "translate": st.lists(place, min_size=2, max_size=2) | st.tuples(place, place),
        "scale": st.sampled_from((1, 1.0, 2.0, 0.5, 0)) | st.floats(0.1, 4),
        "shear": st.sampled_from(([0.0, 0.0], 0)) | shear,
        "interpolation": warp,
        "fill": colour,
        "center": centre,
    },
    "autocontrast": {},
    "center_crop": {"output_size": size},
    "crop": {"top": place, "left": place, "height": st.integers(0, 60), "width": length},
    "equalize": {},
    "five_crop": {"size": size},
    "hflip": {},
    "invert": {},
    "pad": {
        "padding": padding,
        "fill": colour,
        "padding_mode": st.sampled_from(("constant", "edge", "reflect", "symmetric", "wrap")),
    },
    "perspective": {
        "startpoints": corners,
        "endpoints": corners,
        "interpolation": warp,
        "fill": colour,
    },
    "posterize": {"bits": st.integers(1, 9)},  # 0 is refused by torchvision; ours makes black
    "resize": {
        "size": size,
        "interpolation": resample,
        "max_size": st.none() | st.integers(1, 60),
    },
    "resized_crop": {
        "top": place,
        "left": place,
        "height": length,
        "width": length,
        "size": size,
        "interpolation": resample,
    },
    "rgb_to_grayscale": {"num_output_channels": st.sampled_from((1, 3, 2))},
    "rotate": {
        "angle": angle,
        "interpolation": warp,
        "expand": st.booleans(),
        "center": centre,
        "fill": colour,
    },
    "solarize": {"threshold": st.integers(-3, 258) | st.floats(0, 256)},
    "ten_crop": {"size": size, "vertical_flip": st.booleans()},
    "to_grayscale": {"num_output_channels": st.sampled_from((1, 3))},
    "vflip": {},
}
# Functions that are not compared: only v2 has the first three; the others do not take PIL images.
ELSEWHERE = {
    "jpeg": "test_pixel_ops.py",
    "permute_channels": "test_recipe_parity.py",
    "gaussian_noise": "test_noise.py",
    "elastic": "test_elastic.py",
    "gaussian_blur": "test_pixel_ops.py",
    "erase": "test_erasing.py",
}


def done(function: Callable[..., Any], image: Any, given: dict[str, Any]) -> Any:
    """The returned arrays, or the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = function(image, **given)
        except HeadraceError:
            raise
        except Exception as failure:
            return failure
    made = [np.asarray(part) for part in (found if isinstance(found, tuple) else [found])]
    return [part[..., None] if part.ndim == 2 else part for part in made]


def answer(function: Callable[..., Any], array: Any, given: dict[str, Any]) -> Any:
    """The result of hr.functional, or its refusal."""
    try:
        return function(array, **given)
    except HeadraceError as refusal:
        return refusal


def agree(name: str, version: int, array: Any, given: dict[str, Any]) -> bool:
    """Whether both give the same pixels; otherwise one refuses and says why."""
    theirs = done(getattr(KINDS[version], name), Image.fromarray(array), given)
    more = {"version": version} if name == "affine" else {}
    mine = answer(getattr(ours, name), array, given | more)
    if isinstance(mine, HeadraceError):
        assert any(word in str(mine) for word in (*given, "crop", "side"))
        return False
    assert not isinstance(theirs, Exception), theirs
    made = mine if isinstance(mine, tuple) else [mine]
    assert len(made) == len(theirs)
    for found, wanted in zip(made, theirs, strict=True):
        assert np.array_equal(found, wanted)
    return True


@pytest.mark.parametrize("name", ARGUMENTS)
def test_each_function_gives_torchvisions_bytes_or_says_why_not(name: str) -> None:
    taken = 0

    @settings(max_examples=DRAWS, deadline=None, derandomize=True, database=None)
    @given(SIDES, SIDES, st.integers(0, 2**32 - 1), st.fixed_dictionaries(ARGUMENTS[name]))
    def compare(height: int, width: int, seed: int, arguments: dict[str, Any]) -> None:
        nonlocal taken
        array = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
        for version in KINDS:
            taken += agree(name, version, array, arguments)

    compare()
    assert taken > DRAWS / 5


def test_every_function_that_torchvision_has_is_compared() -> None:
    known = {*dir(functional), *dir(v2.functional)} & {*ours.__all__}
    assert known == {*ARGUMENTS, *ELSEWHERE}
