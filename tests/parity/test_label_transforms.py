"""Labels under whole transforms, as with torchvision.v2's classes of the same names."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2

import cases
import headrace as hr
from headrace import functional as ours
from headrace import transforms as t

DRAWS = cases.some(50, of=200)
# Sums of products are added in another order in torch's vectors.
CLOSE = 1e-4
Pair = tuple[Any, Callable[[Any], Any]]


def longest(draw: random.Random) -> Pair:
    wanted = {"size": None, "max_size": draw.randint(2, 120)}
    return t.Resize(**wanted), v2.Resize(**wanted)


def bounded(draw: random.Random) -> Pair:
    size = draw.randint(1, 60)
    wanted = {"size": size, "max_size": draw.randint(size + 1, 90)}
    return t.Resize(**wanted), v2.Resize(**wanted)


def shortest(draw: random.Random) -> Pair:
    wanted = {"min_size": [draw.randint(20, 90)], "max_size": draw.choice((None, 70, 120))}
    return t.RandomShortestSize(**wanted), v2.RandomShortestSize(**wanted)


def between(draw: random.Random) -> Pair:
    size = draw.randint(1, 120)
    return t.RandomResize(size, size + 1), v2.RandomResize(size, size + 1)


def jittered(draw: random.Random) -> Pair:
    factor = draw.uniform(0.3, 2)
    wanted = {"target_size": (draw.randint(40, 90), draw.randint(40, 90))}
    wanted |= {"scale_range": (factor, factor)}
    return t.ScaleJitter(**wanted), v2.ScaleJitter(**wanted)


def zoomed(draw: random.Random) -> Pair:
    fill, most = draw.randint(0, 255), draw.uniform(1, 4)
    given = {"fill": fill, "side_range": (1, most), "p": 1}
    other = v2.RandomZoomOut(**given)

    def as_drawn(label: Any) -> Any:
        """With the padding that was drawn, because torchvision would draw a different one."""
        (_, drawn), *_ = ours.replay(ppm(*size_of(label)), [t.RandomZoomOut(**given)], seed=5)
        return other.transform(label, {"padding": drawn["padding"]})

    return t.RandomZoomOut(**given), as_drawn


def padded(draw: random.Random) -> Pair:
    given = {"padding": [draw.randint(0, 40) for _ in range(4)], "fill": draw.randint(0, 255)}
    return t.Pad(**given), v2.Pad(**given)


def cropped(draw: random.Random) -> Pair:
    # As large as the padded image, so that only one place is possible.
    around, fill = draw.randint(0, 30), draw.randint(0, 255)
    size = [HEIGHT + 2 * around, WIDTH + 2 * around]
    given = {"size": size, "padding": around, "fill": fill}
    return t.RandomCrop(**given), v2.RandomCrop(**given)


def single(draw: random.Random, low: float, high: float) -> float:
    """torchvision's draw from an interval of one number: that number in single precision."""
    return float(np.float32(draw.uniform(low, high)))


def turned(draw: random.Random) -> Pair:
    angle = single(draw, -360, 360)
    given = {"degrees": (angle, angle), "expand": draw.random() < 0.7}
    given |= {"fill": draw.randint(0, 255)}
    return t.RandomRotation(**given), v2.RandomRotation(**given)


def stretched(draw: random.Random) -> Pair:
    factor, angle, slope = single(draw, 0.4, 2), single(draw, -90, 90), single(draw, -30, 30)
    given = {"degrees": (angle, angle), "scale": (factor, factor), "shear": (slope, slope)}
    given |= {"fill": draw.randint(0, 255)}
    return t.RandomAffine(**given), v2.RandomAffine(**given)


TRANSFORMS: dict[str, Callable[[random.Random], Pair]] = {
    "Resize by the longer side": longest,
    "Resize by the shorter side, bounded": bounded,
    "RandomShortestSize": shortest,
    "RandomResize": between,
    "ScaleJitter": jittered,
    "RandomZoomOut": zoomed,
    "Pad": padded,
    "RandomCrop": cropped,
    "RandomRotation": turned,
    "RandomAffine": stretched,
}
HEIGHT, WIDTH = 47, 70


def ppm(height: int, width: int) -> bytes:
    return b"P6 %d %d 255\n" % (width, height) + bytes(3 * width * height)


def size_of(label: Any) -> tuple[int, int]:
    return tuple(getattr(label, "canvas_size", label.shape[-2:]))


def some_boxes(draw: random.Random) -> np.ndarray[Any, Any]:
    """Boxes inside and beyond the image."""
    found = []
    for _ in range(5):
        x = sorted(draw.uniform(-8, WIDTH + 8) for _ in range(2))
        y = sorted(draw.uniform(-8, HEIGHT + 8) for _ in range(2))
        found.append([x[0], y[0], x[1], y[1]])
    return np.array(found, np.float32)


def boxes_of(values: np.ndarray[Any, Any]) -> Any:
    canvas = (HEIGHT, WIDTH)
    return tv_tensors.BoundingBoxes(
        torch.from_numpy(values.copy()), format="XYXY", canvas_size=canvas
    )


def image_size(step: Any) -> tuple[int, int]:
    """Height and width of the image after the op."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for function, given in ours.replay(ppm(HEIGHT, WIDTH), [step], seed=5):
        image = getattr(ours, function)(image, **given)
    return image.shape[:2]


@pytest.mark.parametrize("name", TRANSFORMS)
def test_labels_are_moved_and_filled_as_by_torchvisions_class(name: str) -> None:
    draw = random.Random(name)
    noise = np.random.default_rng(1)
    compared = 0
    for _ in range(DRAWS):
        step, other = TRANSFORMS[name](draw)
        mask = noise.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
        values = some_boxes(draw)
        points = values[:, :2].copy()
        found = ours.move(t.Mask(), mask, mask.shape, [step], seed=5)
        assert found.shape == image_size(step)
        with torch_kernels.fused():
            wanted = other(tv_tensors.Mask(torch.from_numpy(mask))).numpy()
        boxes = other(boxes_of(values))
        if not wanted.shape == boxes.canvas_size == found.shape:
            assert name == "RandomRotation"
            continue  # it truncates sides that Pillow, and so the image, rounds up
        assert np.array_equal(found, wanted), step
        moved, _ = ours.move(t.Boxes(), values, mask.shape, [step], seed=5)
        assert np.allclose(moved, boxes.numpy(), rtol=1e-5, atol=CLOSE), step
        placed, _ = ours.move(t.KeyPoints(), points, mask.shape, [step], seed=5)
        tensor = tv_tensors.KeyPoints(torch.from_numpy(points), canvas_size=mask.shape)
        assert np.allclose(placed, other(tensor).numpy(), rtol=1e-5, atol=CLOSE), step
        compared += 1
    assert compared > DRAWS / 2


def test_labels_are_clamped_after_the_last_transform_with_clamp_at_end() -> None:
    draw = random.Random(8)
    for _ in range(DRAWS):
        values = some_boxes(draw)
        step = draw.choice((t.RandomHorizontalFlip(1), t.Resize((30, 90)), t.CenterCrop(40)))
        other = getattr(v2, type(step).__name__)(**vars(step))
        wanted = v2.ClampBoundingBoxes()(other(boxes_of(values)))
        rule = t.Boxes(clamp_at_end=True)
        found, _ = ours.move(rule, values, (HEIGHT, WIDTH), [step])
        assert np.allclose(found, wanted.numpy(), atol=CLOSE)
        points = values[:, :2].copy()
        tensor = tv_tensors.KeyPoints(torch.from_numpy(points), canvas_size=(HEIGHT, WIDTH))
        placed, kept = ours.move(
            t.KeyPoints(clamp_at_end=True, sanitize=True), points, (HEIGHT, WIDTH), [step]
        )
        assert np.allclose(placed, v2.ClampKeyPoints()(other(tensor)).numpy(), atol=CLOSE)
        assert len(kept) == len(points)


@pytest.mark.parametrize(
    ("step", "other"),
    [
        (t.JPEG(30), v2.JPEG(30)),
        (t.RandomErasing(1), v2.RandomErasing(1)),
        (t.TimmErasing(1), None),
        (t.Cutout(20), None),
        (t.ColorJitter(0.5, 0.5, 0.5, 0.5), v2.ColorJitter(0.5, 0.5, 0.5, 0.5)),
        (t.RandomPhotometricDistort(p=1), v2.RandomPhotometricDistort(p=1)),
        (t.GaussianBlur(3), v2.GaussianBlur(3)),
        (t.GaussianNoise(), v2.GaussianNoise()),
        (t.RandomPosterize(2, 1), v2.RandomPosterize(2, 1)),
        (t.RandomChannelPermutation(), v2.RandomChannelPermutation()),
        (t.Grayscale(3), v2.Grayscale(3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_ops_on_colours_leave_labels_unchanged_as_in_torchvision(step: Any, other: Any) -> None:
    values = np.array([[3, 4, 20, 30]], np.float32)
    mask = np.random.default_rng(2).integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
    if other is not None:
        image = Image.new("RGB", (WIDTH, HEIGHT))
        tensors = (boxes_of(values), tv_tensors.Mask(torch.from_numpy(mask)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says that an erasing leaves labels unchanged
            _, boxes, same = other(v2.PILToTensor()(image), *tensors)
        assert np.array_equal(boxes.numpy(), values)
        assert np.array_equal(same.numpy(), mask)
    found, kept = ours.move(t.Boxes(), values, mask.shape, [step])
    assert np.array_equal(found, values)
    assert kept.tolist() == [0]
    assert np.array_equal(ours.move(t.Mask(), mask, mask.shape, [step]), mask)


@pytest.mark.parametrize(
    ("step", "other"),
    [
        (t.RandAugment(), v2.RandAugment()),
        (t.AutoAugment(), v2.AutoAugment()),
        (t.TrivialAugmentWide(), v2.TrivialAugmentWide()),
        (t.AugMix(), v2.AugMix()),
        (t.FiveCrop(8), v2.FiveCrop(8)),
        (t.TenCrop(8), v2.TenCrop(8)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_ops_that_torchvision_refuses_for_labels_are_refused(step: Any, other: Any) -> None:
    image, values = torch.zeros(3, HEIGHT, WIDTH, dtype=torch.uint8), np.ones((1, 4), np.float32)
    with pytest.raises((TypeError, ValueError)):
        other(image, boxes_of(values))
    with pytest.raises(hr.errors.ArgumentError, match=f"{type(step).__name__}.*moves no labels"):
        ours.move(t.Boxes(), values, (HEIGHT, WIDTH), [step])


@pytest.mark.parametrize(
    "step",
    [
        t.Pad(3, fill=(1, 2, 3)),
        t.RandomZoomOut(fill=(1, 2, 3)),
        t.RandomRotation(9, fill=(1, 2, 3)),
        t.RandomApply([t.RandomCrop(5, 3, fill=(1, 2, 3))]),
    ],
)
def test_a_mask_needs_its_own_fill_if_the_fill_has_a_number_for_each_channel(step: Any) -> None:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    with pytest.raises(hr.errors.ArgumentError, match="fill has a number for each channel"):
        ours.move(t.Mask(), mask, mask.shape, [step])
    ours.move(t.Mask(fill=3), mask, mask.shape, [step])
