"""Draws of ops have torchvision's distributions: a Kolmogorov-Smirnov test of each number that is
drawn from an interval, a chi-square test of each choice.

10,000 draws of ours against as many of torchvision's own get_params (100,000 in `make test-slow`),
all seeds fixed, so that no run differs from another.
"""

from __future__ import annotations

import ctypes
import functools
import io
import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels
from PIL import Image
from scipy import stats
from torchvision.transforms import autoaugment, v2
from torchvision.transforms import transforms as v1

import cases
from headrace import transforms as t
from headrace._engine import _lib, abi, arguments

AT_ONCE = 10_000
DRAWS = cases.some(AT_ONCE, of=100_000)
LEAST_P = 1e-4
WIDTH, HEIGHT = 331, 259  # of the image; not symmetric
IMAGE = Image.new("RGB", (WIDTH, HEIGHT))

Steps = list[dict[str, Any]]
Sample = dict[str, Any]  # the outcome of one draw: a float is of an interval, else a choice


def replays(op: Any, count: int) -> Iterable[Steps]:
    """The steps of that many samples, as hr_decode reports them for an image of the test's size."""
    config = {"transform": arguments.transforms("transform", [op]), "seed": 3}
    encoded = io.BytesIO()
    IMAGE.save(encoded, "PPM")
    data = np.frombuffer(encoded.getvalue(), np.uint8)

    def room(image: abi.Image) -> tuple[Any, Any]:
        text = ctypes.create_string_buffer(image.bytes)
        return text, text

    for first in range(0, count, AT_ONCE):
        chunk = {"dtype": "float32", "replay": True, "samples": AT_ONCE, "sample": first}
        yield from json.loads(_lib.decode(data.ctypes.data, data.size, config | chunk, room).raw)


def p_values(ours: Sequence[Sample], theirs: Sequence[Sample]) -> dict[str, float]:
    """One for each part of the samples; a part that is always a float is drawn from an interval."""
    found = {}
    for name in sorted({name for sample in [*ours, *theirs] for name in sample}):
        a = [sample[name] for sample in ours if name in sample]
        b = [sample[name] for sample in theirs if name in sample]
        if all(isinstance(value, float) for value in a + b):
            found[name] = float(stats.ks_2samp(a, b).pvalue)
        else:
            found[name] = chi_square(Counter(a), Counter(b))
    return found


def chi_square(a: Counter[Any], b: Counter[Any]) -> float:
    """Of a table with two rows; rare values share a column, because the test wants five of each."""
    total = sum(b.values()) / (sum(a.values()) + sum(b.values()))
    columns, rest = [], [0, 0]
    for value in {*a, *b}:
        pair = [a[value], b[value]]
        if sum(pair) * min(total, 1 - total) < 5:
            rest = [rest[0] + pair[0], rest[1] + pair[1]]
        else:
            columns.append(pair)
    if sum(rest):
        columns.append(rest)
    if len(columns) == 1:
        return 1.0
    return float(stats.chi2_contingency(np.array(columns).T).pvalue)


def one(steps: Steps, function: str) -> dict[str, Any] | None:
    found = [step["arguments"] for step in steps if step["function"] == function]
    assert len(found) <= 1, steps
    return found[0] if found else None


def share(value: int, length: int) -> float:
    """A position as a fraction of the possible ones."""
    return value / max(length, 1)


# ---- two functions for each op: our draws and torchvision's ----


def our_crop(steps: Steps) -> Sample:
    box = one(steps, "crop")
    assert box is not None
    return box_parts(box["top"], box["left"], box["height"], box["width"])


def box_parts(top: int, left: int, height: int, width: int) -> Sample:
    return {
        "area": float(height * width),
        "aspect": math.log(width / height),
        "down": share(top, HEIGHT - height),
        "across": share(left, WIDTH - width),
    }


def their_crop() -> Sample:
    return box_parts(*v1.RandomResizedCrop.get_params(IMAGE, [0.08, 1.0], [3 / 4, 4 / 3]))


def our_erasing(steps: Steps) -> Sample:
    box = one(steps, "erase")
    if box is None:
        return {"erases": False}
    return {"erases": True} | box_parts(box["i"], box["j"], box["h"], box["w"])


TENSOR = torch.zeros(3, HEIGHT, WIDTH)


def their_erasing() -> Sample:
    if not torch.rand(1) < 0.4:
        return {"erases": False}
    i, j, h, w, _ = v1.RandomErasing.get_params(TENSOR, (0.02, 0.33), (0.3, 3.3), [0.0])
    return {"erases": True} | box_parts(i, j, h, w)


def our_boxes(steps: Steps) -> Sample:
    boxes = [step["arguments"] for step in steps]
    found: Sample = {"boxes": len(boxes)}
    if boxes:
        found |= box_parts(*(boxes[-1][side] for side in ("i", "j", "h", "w")))
    return found


def their_boxes() -> Sample:
    """timm's: each of n boxes has an n-th of the area, and is otherwise as torchvision's."""
    if not torch.rand(1) < 0.9:
        return {"boxes": 0}
    boxes = random.randint(2, 4)
    scale = (0.02 / boxes, 0.4 / boxes)
    i, j, h, w, _ = v1.RandomErasing.get_params(TENSOR, scale, (0.4, 2.5), [0.0])
    return {"boxes": boxes} | box_parts(i, j, h, w)


def our_squares(steps: Steps) -> Sample:
    boxes = [step["arguments"] for step in steps]
    assert len(boxes) == 2
    return {side: float(boxes[1][side]) for side in ("i", "j", "h", "w")}


def their_squares() -> Sample:
    """As in the code by Cutout's authors."""
    y, x = random.randrange(HEIGHT), random.randrange(WIDTH)
    top, bottom = (int(np.clip(y + side, 0, HEIGHT)) for side in (-40, 40))
    left, right = (int(np.clip(x + side, 0, WIDTH)) for side in (-40, 40))
    return {
        k: float(n) for k, n in zip("ijhw", (top, left, bottom - top, right - left), strict=True)
    }


DISTORT = v2.RandomPhotometricDistort((0.5, 1.5), (0.2, 1.8), (0.0, 2.0), (-0.1, 0.3), 0.7)
JITTER = {"brightness": 0, "contrast": 1, "saturation": 2, "hue": 3}


def our_jitter(steps: Steps) -> Sample:
    names = [step["function"].removeprefix("adjust_") for step in steps]
    sample: Sample = {"order": tuple(JITTER[name] for name in names)}
    for name, step in zip(names, steps, strict=True):
        sample[name] = float(step["arguments"][f"{name}_factor"])
    return sample


def their_jitter() -> Sample:
    order, *factors = v1.ColorJitter.get_params((0.6, 1.4), (0.2, 1.8), (0.0, 2.0), (-0.1, 0.3))
    return {"order": tuple(order.tolist())} | dict(zip(JITTER, factors, strict=True))


def our_distortion(steps: Steps) -> Sample:
    names = [step["function"] for step in steps]
    sample: Sample = {"done": tuple(names)}
    for name, step in zip(names, steps, strict=True):
        (value,) = step["arguments"].values()
        part = name.removeprefix("adjust_")
        if part in JITTER:
            sample[part] = float(value)
        else:
            sample["channels"] = tuple(value)
    return sample


def their_distortion() -> Sample:
    """The number of each part that is drawn; the order is drawn by the transform."""
    found = DISTORT.make_params([IMAGE])
    before = found["contrast_before"]
    order = ("contrast", "saturation", "hue") if before else ("saturation", "hue", "contrast")
    done = [name for name in ("brightness", *order) if found[f"{name}_factor"] is not None]
    sample: Sample = {name: found[f"{name}_factor"] for name in done}
    functions = [f"adjust_{name}" for name in done]
    if found["channel_permutation"] is not None:
        functions.append("permute_channels")
        sample["channels"] = tuple(found["channel_permutation"].tolist())
    return sample | {"done": tuple(functions)}


def our_map(steps: Steps) -> Sample:
    coefficients = one(steps, "affine_map")
    assert coefficients is not None
    return {f"m{k}": float(value) for k, value in enumerate(coefficients["coefficients"])}


def their_affine() -> Sample:
    angle, translate, scale, shear = v1.RandomAffine.get_params(
        [-20.0, 30.0], [0.1, 0.2], [0.7, 1.4], [-10.0, 15.0, -5.0, 25.0], [WIDTH, HEIGHT]
    )
    matrix = v1.F._get_inverse_affine_matrix(
        [WIDTH * 0.5, HEIGHT * 0.5], angle, list(translate), scale, list(shear)
    )
    return {f"m{k}": float(value) for k, value in enumerate(matrix)}


def our_rotation(steps: Steps) -> Sample:
    a, b = our_map(steps)["m0"], our_map(steps)["m1"]
    return {"angle": math.degrees(math.atan2(-b, a))}


def their_rotation() -> Sample:
    return {"angle": v1.RandomRotation.get_params([-25.0, 70.0])}


def our_perspective(steps: Steps) -> Sample:
    found = one(steps, "perspective_map")
    if found is None:
        return {"done": False}
    m = found["coefficients"]
    # The source of each corner, by the inverse of the map.
    matrix = np.linalg.inv(np.array([*m, 1.0]).reshape(3, 3))
    sample: Sample = {"done": True}
    for k, corner in enumerate([(0, 0), (WIDTH - 1, 0), (WIDTH - 1, HEIGHT - 1), (0, HEIGHT - 1)]):
        x, y, w = matrix @ (*corner, 1)
        sample |= {f"x{k}": round(x / w), f"y{k}": round(y / w)}
    return sample


def their_perspective() -> Sample:
    if not torch.rand(1) < 0.6:
        return {"done": False}
    _, corners = v1.RandomPerspective.get_params(WIDTH, HEIGHT, 0.3)
    sample: Sample = {"done": True}
    for k, (x, y) in enumerate(corners):
        sample |= {f"x{k}": x, f"y{k}": y}
    return sample


def our_blur(steps: Steps) -> Sample:
    found = one(steps, "gaussian_blur")
    assert found is not None
    return {"sigma": float(found["sigma"][0])}


def their_blur() -> Sample:
    return {"sigma": v1.GaussianBlur.get_params(0.1, 2.0)}


def our_pillow_blur(steps: Steps) -> Sample:
    found = one(steps, "pillow_blur")
    return {"done": False} if found is None else {"done": True, "radius": found["radius"]}


def dinos_blur() -> Sample:
    """The class by DINO's authors: PIL's filter with a radius that Python draws."""
    if random.random() > 0.4:
        return {"done": False}
    return {"done": True, "radius": random.uniform(0.1, 2.0)}


def our_window(steps: Steps) -> Sample:
    box = one(steps, "crop")
    assert box is not None
    return {"top": box["top"], "left": box["left"]}


def their_window() -> Sample:
    padded = Image.new("RGB", (WIDTH + 8, HEIGHT + 8))
    top, left, _, _ = v1.RandomCrop.get_params(padded, (240, 320))
    return {"top": top, "left": left}


def our_size(steps: Steps) -> Sample:
    found = one(steps, "resize")
    assert found is not None
    height, width = found["size"]
    return {"height": float(height), "width": float(width)}


def their_size(op: Any) -> Callable[[], Sample]:
    def draw() -> Sample:
        height, width = op.make_params([IMAGE])["size"]
        return {"height": float(height), "width": float(width)}

    return draw


def their_shorter_side() -> Sample:
    (side,) = v2.RandomResize(100, 300).make_params([IMAGE])["size"]
    return {"height": float(side), "width": float(int(side * WIDTH / HEIGHT))}


def our_margins(steps: Steps) -> Sample:
    found = one(steps, "pad")
    if found is None:
        return {"done": False}
    sides = zip(("left", "top", "right", "bottom"), found["padding"], strict=True)
    return {"done": True} | {side: float(width) for side, width in sides}


def their_margins() -> Sample:
    if not torch.rand(1) < 0.6:
        return {"done": False}
    padding = v2.RandomZoomOut(side_range=(1.0, 3.0)).make_params([IMAGE])["padding"]
    sides = zip(("left", "top", "right", "bottom"), padding, strict=True)
    return {"done": True} | {side: float(width) for side, width in sides}


def our_functions(steps: Steps) -> Sample:
    return {"functions": tuple(step["function"] for step in steps)}


def done(function: str, p: float) -> Callable[[], Sample]:
    def draw() -> Sample:
        return {"functions": (function,) if torch.rand(1) < p else ()}

    return draw


def our_permutation(steps: Steps) -> Sample:
    found = one(steps, "permute_channels")
    assert found is not None
    return {"order": tuple(found["permutation"])}


# ---- groups and policies ----

GROUP = ["invert", "equalize", "autocontrast"]


def their_choice() -> Sample:
    return {"functions": (random.choices(GROUP, weights=[1, 2, 0.5])[0],)}


def their_order() -> Sample:
    order = list(range(3))
    random.shuffle(order)
    return {"functions": tuple(GROUP[k] for k in order)}


def their_apply() -> Sample:
    return {"functions": () if random.random() > 0.8 else (GROUP[0], GROUP[1])}


FACTORS = {
    "adjust_brightness": ("Brightness", "brightness_factor"),
    "adjust_saturation": ("Color", "saturation_factor"),
    "adjust_contrast": ("Contrast", "contrast_factor"),
    "adjust_sharpness": ("Sharpness", "sharpness_factor"),
}
PLAIN = {"autocontrast": "AutoContrast", "equalize": "Equalize", "invert": "Invert"}


def policy_step(step: dict[str, Any]) -> tuple[str, float]:
    """torchvision's name and magnitude for a step of ours."""
    function, given = step["function"], step["arguments"]
    if function in FACTORS:
        name, argument = FACTORS[function]
        return name, round(given[argument] - 1, 4)
    if function in PLAIN:
        return PLAIN[function], 0.0
    if function == "posterize":
        return "Posterize", float(given["bits"])
    if function == "solarize":
        return "Solarize", round(given["threshold"], 3)
    a, b, c, d, _e, f = given["coefficients"]
    if a != 1:
        return "Rotate", round(math.degrees(math.atan2(-b, a)), 3)
    if (b, d) == (0, 0):  # a translation, or an op with magnitude 0, which all look alike
        return ("TranslateX", -c) if c else ("TranslateY", -f) if f else ("still", 0.0)
    return ("ShearX", round(-b, 4)) if b else ("ShearY", round(-d, 4))


def their_step(name: str, magnitude: float) -> tuple[str, float]:
    if name in ("TranslateX", "TranslateY"):
        magnitude = float(int(magnitude))
    if name in ("Rotate", "ShearX", "ShearY", "TranslateX", "TranslateY") and magnitude == 0:
        return "still", 0.0
    if name in PLAIN.values():
        return name, 0.0
    return name, round(magnitude, 3 if name in ("Rotate", "Solarize") else 4)


def our_policy(steps: Steps) -> Sample:
    return {"steps": tuple(policy_step(step) for step in steps)}


def their_policy(policy: Any) -> Callable[[], Sample]:
    """torchvision's own forward, but each op is noted instead of done. Its table of magnitudes,
    which it makes for each image and which depends only on the image's size, is made once."""
    space = torch_kernels.fused()(policy._augmentation_space)
    policy._augmentation_space = functools.cache(space)

    def draw() -> Sample:
        steps: list[tuple[str, float]] = []

        def apply(image: Any, name: str, magnitude: float, *_: Any, **__: Any) -> Any:
            if name != "Identity":
                steps.append(their_step(name, magnitude))
            return image

        kept = autoaugment._apply_op
        autoaugment._apply_op = apply
        try:
            policy(IMAGE)
        finally:
            autoaugment._apply_op = kept
        return {"steps": tuple(steps)}

    return draw


CASES: dict[str, tuple[Any, Callable[[Steps], Sample], Callable[[], Sample]]] = {
    "RandomResizedCrop": (t.RandomResizedCrop(64), our_crop, their_crop),
    "RandomCrop": (t.RandomCrop((240, 320), padding=4), our_window, their_window),
    "RandomHorizontalFlip": (t.RandomHorizontalFlip(0.3), our_functions, done("hflip", 0.3)),
    "RandomVerticalFlip": (t.RandomVerticalFlip(0.7), our_functions, done("vflip", 0.7)),
    "RandomErasing": (t.RandomErasing(0.4), our_erasing, their_erasing),
    "TimmErasing": (
        t.TimmErasing(0.9, max_area=0.4, min_aspect=0.4, min_count=2, max_count=4),
        our_boxes,
        their_boxes,
    ),
    "Cutout": (t.Cutout(80, 2), our_squares, their_squares),
    "ColorJitter": (t.ColorJitter(0.4, 0.8, 1.0, (-0.1, 0.3)), our_jitter, their_jitter),
    "RandomPhotometricDistort": (
        t.RandomPhotometricDistort((0.5, 1.5), (0.2, 1.8), (0.0, 2.0), (-0.1, 0.3), 0.7),
        our_distortion,
        their_distortion,
    ),
    "RandomGrayscale": (t.RandomGrayscale(0.2), our_functions, done("rgb_to_grayscale", 0.2)),
    "RandomInvert": (t.RandomInvert(0.6), our_functions, done("invert", 0.6)),
    "RandomPosterize": (t.RandomPosterize(3, 0.6), our_functions, done("posterize", 0.6)),
    "RandomSolarize": (t.RandomSolarize(99, 0.1), our_functions, done("solarize", 0.1)),
    "RandomEqualize": (t.RandomEqualize(0.5), our_functions, done("equalize", 0.5)),
    "RandomAutocontrast": (t.RandomAutocontrast(0.9), our_functions, done("autocontrast", 0.9)),
    "RandomAdjustSharpness": (
        t.RandomAdjustSharpness(2, 0.4),
        our_functions,
        done("adjust_sharpness", 0.4),
    ),
    "RandomChannelPermutation": (
        t.RandomChannelPermutation(),
        our_permutation,
        lambda: {"order": tuple(torch.randperm(3).tolist())},
    ),
    "JPEG": (
        t.JPEG((20, 80)),
        lambda steps: {"quality": steps[0]["arguments"]["quality"]},
        lambda: {"quality": v2.JPEG((20, 80)).make_params([])["quality"]},
    ),
    "GaussianBlur": (t.GaussianBlur(9, (0.1, 2.0)), our_blur, their_blur),
    "RandomPillowBlur": (t.RandomPillowBlur((0.1, 2.0), 0.4), our_pillow_blur, dinos_blur),
    "RandomRotation": (t.RandomRotation((-25, 70)), our_rotation, their_rotation),
    "RandomAffine": (
        t.RandomAffine((-20, 30), (0.1, 0.2), (0.7, 1.4), (-10, 15, -5, 25)),
        our_map,
        their_affine,
    ),
    "RandomPerspective": (t.RandomPerspective(0.3, 0.6), our_perspective, their_perspective),
    "RandomShortestSize": (
        t.RandomShortestSize([200, 220, 240], 300),
        our_size,
        their_size(v2.RandomShortestSize([200, 220, 240], 300)),
    ),
    "RandomResize": (t.RandomResize(100, 300), our_size, their_shorter_side),
    "ScaleJitter": (
        t.ScaleJitter((300, 320), (0.5, 1.5)),
        our_size,
        their_size(v2.ScaleJitter((300, 320), (0.5, 1.5))),
    ),
    "RandomZoomOut": (t.RandomZoomOut(side_range=(1.0, 3.0), p=0.6), our_margins, their_margins),
    "RandomApply": (
        t.RandomApply([t.RandomInvert(1), t.RandomEqualize(1)], 0.8),
        our_functions,
        their_apply,
    ),
    "RandomChoice": (
        t.RandomChoice(
            [t.RandomInvert(1), t.RandomEqualize(1), t.RandomAutocontrast(1)], p=[1, 2, 0.5]
        ),
        our_functions,
        their_choice,
    ),
    "RandomOrder": (
        t.RandomOrder([t.RandomInvert(1), t.RandomEqualize(1), t.RandomAutocontrast(1)]),
        our_functions,
        their_order,
    ),
    "RandAugment": (
        t.RandAugment(2, 9),
        our_policy,
        their_policy(autoaugment.RandAugment(2, 9)),
    ),
    "TrivialAugmentWide": (
        t.TrivialAugmentWide(),
        our_policy,
        their_policy(autoaugment.TrivialAugmentWide()),
    ),
} | {
    f"AutoAugment {name}": (
        t.AutoAugment(name),
        our_policy,
        their_policy(autoaugment.AutoAugment(autoaugment.AutoAugmentPolicy(name))),
    )
    for name in ("imagenet", "cifar10", "svhn")
}


@pytest.mark.every(3)
@pytest.mark.parametrize("name", CASES)
def test_draws_of_each_op_have_torchvisions_distribution(name: str) -> None:
    op, ours, theirs = CASES[name]
    random.seed(5)
    torch.manual_seed(5)
    drawn = [ours(steps) for steps in replays(op, DRAWS)]
    assert len(drawn) == DRAWS
    found = p_values(drawn, [theirs() for _ in range(DRAWS)])
    print(name, {part: f"{p:.3g}" for part, p in found.items()})
    assert min(found.values()) > LEAST_P, found
