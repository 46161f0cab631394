"""Masks, boxes and points under each geometric op, compared with torchvision.v2 for equal
parameters.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch_kernels
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as theirs

import cases
import headrace as hr
from headrace import functional as ours
from headrace import transforms as t

DRAWS = cases.some(50, of=200)
SIDES = (1, 2, 3, 5, 17, 64, 97)
FORMATS = ("xyxy", "xywh", "cxcywh")
ROTATED = ("xyxyxyxy", "xywhr", "cxcywhr")
# torch adds in another order in vectors; with sides of a hundred pixels the last bit or two may
# differ.
CLOSE = 1e-4


def sides(draw: random.Random) -> tuple[int, int]:
    return draw.choice(SIDES), draw.choice(SIDES)


def coordinates(draw: random.Random, label: str, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Places inside and beside the image, whole and fractional; for boxes in their format."""
    height, width = size

    def place(length: int) -> float:
        return draw.choice((0.0, float(length), draw.uniform(-0.3, 1.3) * length))

    rows = []
    for _ in range(draw.choice((0, 1, 7))):
        x, y = (place(width), place(width)), (place(height), place(height))
        if label == "points":
            rows.append([x[0], y[0]])
            continue
        box = [min(x), min(y), max(x), max(y)]
        if label != "xyxy":
            box[2:] = [box[2] - box[0], box[3] - box[1]]
        if label == "cxcywh":
            box[:2] = [box[0] + box[2] / 2, box[1] + box[3] / 2]
        rows.append(box)
    return np.array(rows, np.float32).reshape(-1, 2 if label == "points" else 4)


Step = dict[str, Any]
Op = Callable[[random.Random, tuple[int, int]], tuple[Step, Callable[[Any], Any]]]


def cropped(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    height, width = sides(draw)
    # Not wholly above or left of the image, because torchvision then slices a mask from its other
    # end.
    box = {"top": draw.randint(max(-5, 1 - height), min(20, size[0] - 1))}
    box["left"] = draw.randint(max(-5, 1 - width), min(20, size[1] - 1))
    box |= {"height": height, "width": width}
    return {"name": "Crop", **box}, lambda of: theirs.crop(of, **box)


def centred(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    wanted = list(sides(draw))
    return {"name": "CenterCrop", "size": wanted}, lambda of: theirs.center_crop(of, wanted)


def resized(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    wanted = list(sides(draw))
    return {"name": "Resize", "size": wanted}, lambda of: theirs.resize(of, wanted)


def shortened(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    shorter = draw.choice((3, 40))
    return {"name": "Resize", "size": shorter}, lambda of: theirs.resize(of, [shorter])


def padded(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    around = [draw.randint(0, 9) for _ in range(4)]
    step = {"name": "Pad", "padding": around}
    return step, lambda of: theirs.pad(of, around, fill=7)


def flipped(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    across = draw.random() < 0.5
    name = "RandomHorizontalFlip" if across else "RandomVerticalFlip"
    flip = theirs.horizontal_flip if across else theirs.vertical_flip
    return {"name": name, "p": 1}, flip


def centre(draw: random.Random) -> Any:
    return draw.choice((None, [draw.uniform(0, 99), draw.uniform(0, 99)]))


def rotated(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    angle, middle = draw.choice((0.0, 180.0, draw.uniform(-720, 720))), centre(draw)
    step = {"name": "Rotate", "angle": angle, "center": middle}
    return step, lambda of: theirs.rotate(of, angle, center=middle, fill=7)


def expanded(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    angle = draw.choice((0.0, 90.0, 180.0, -90.0, draw.uniform(-720, 720)))
    step = {"name": "Rotate", "angle": angle, "expand": True}
    return step, lambda of: theirs.rotate(of, angle, expand=True, fill=7)


def sheared(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    given = {
        "angle": draw.choice((0.0, draw.uniform(-180, 180))),
        "translate": [draw.randint(-20, 20), draw.randint(-20, 20)],
        "scale": draw.uniform(0.4, 2.5),
        "shear": draw.choice(([0.0, 0.0], [draw.uniform(-40, 40), draw.uniform(-40, 40)])),
        "center": centre(draw),
    }
    return {"name": "Affine", **given}, lambda of: theirs.affine(of, fill=7, **given)


def tilted(draw: random.Random, size: tuple[int, int]) -> tuple[Step, Callable[[Any], Any]]:
    height, width = max(size[0], 4), max(size[1], 4)
    corners = v2.RandomPerspective(0.5 * draw.random(), p=1).make_params(
        [torch.empty(3, height, width)]
    )
    given = corners["coefficients"]
    step = {"name": "Perspective", "coefficients": given}
    return step, lambda of: theirs.perspective(of, None, None, fill=7, coefficients=given)


def turned(step: Step, size: tuple[int, int]) -> tuple[int, int]:
    """Height and width of the transformed PIL image."""
    return Image.new("L", size[::-1]).rotate(step["angle"], expand=True).size[::-1]


OPS: dict[str, Op] = {
    "crop": cropped,
    "center_crop": centred,
    "resize": resized,
    "resize of the shorter side": shortened,
    "pad": padded,
    "flip": flipped,
    "rotate": rotated,
    "rotate and expand": expanded,
    "affine": sheared,
    "perspective": tilted,
}


def draws(op: str, seed: int) -> Iterator[tuple[random.Random, tuple[int, int], Step, Any]]:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    for _ in range(DRAWS):
        size = sides(draw)
        step, other = OPS[op](draw, size)
        yield draw, size, step, other


@pytest.mark.parametrize("op", OPS)
def test_a_mask_moves_as_in_torchvision(op: str) -> None:
    noise = np.random.default_rng(1)
    total = 0
    for _, size, step, other in draws(op, 1):
        mask = noise.integers(0, 256, size, dtype=np.uint8)
        with torch_kernels.fused():
            wanted = other(tv_tensors.Mask(torch.from_numpy(mask))).numpy()
        found = ours.move(t.Mask(fill=7), mask, size, [step])
        if op == "rotate and expand" and found.shape != wanted.shape:
            continue  # it truncates sides that Pillow, and so the image, rounds up
        assert np.array_equal(found, wanted), (size, step)
        total += found.size
    assert total > 200 * DRAWS


@pytest.mark.parametrize("clamp", ["soft", "hard", None])
@pytest.mark.parametrize("label", FORMATS)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.every(3)
def test_boxes_move_as_in_torchvision(op: str, label: str, clamp: str | None) -> None:
    for draw, size, step, other in draws(op, 2):
        values = coordinates(draw, label, size)
        boxes = tv_tensors.BoundingBoxes(
            torch.from_numpy(values.copy()),
            format=label.upper(),
            canvas_size=size,
            clamping_mode=clamp,
        )
        moved = other(boxes)
        if op == "rotate and expand" and clamp and moved.canvas_size != turned(step, size):
            continue  # there torchvision clamps boxes to another size than a PIL image's
        wanted = moved.numpy()
        rule = t.Boxes(label, clamp is not None, clamping_mode=clamp or "soft")
        found, kept = ours.move(rule, values, size, [step])
        assert np.allclose(found, wanted, rtol=1e-5, atol=CLOSE), (size, step, values)
        assert kept.tolist() == list(range(len(values)))


def turned_boxes(draw: random.Random, label: str, size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Rectangles at any angle, most of them across an edge of the image."""
    height, width = size
    rows = [
        [
            draw.uniform(-0.2, 1.1) * width,
            draw.uniform(-0.2, 1.1) * height,
            draw.uniform(0.05, 0.9) * width + 0.5,
            draw.uniform(0.05, 0.9) * height + 0.5,
            draw.uniform(-180, 180),
        ]
        for _ in range(draw.choice((1, 7)))
    ]
    if label != "xyxyxyxy":
        return np.array(rows, np.float32)
    boxes = tv_tensors.BoundingBoxes(torch.tensor(rows), format="CXCYWHR", canvas_size=size)
    return theirs.convert_bounding_box_format(boxes, new_format="XYXYXYXY").numpy()


def well_conditioned(boxes: Any) -> Any:
    """Which boxes are neither slivers nor almost upright. For those, torchvision's cuts at the
    edges divide by what rounding has left of a side, and depend on whether that is a number."""
    row = theirs.convert_bounding_box_format(boxes, new_format="CXCYWHR").numpy()
    off = row[:, 4] % 90
    return (row[:, 2:4].min(1) > 1) & (off > 1) & (off < 89)


@pytest.mark.parametrize("clamp", ["soft", "hard", None])
@pytest.mark.parametrize("label", ROTATED)
@pytest.mark.parametrize("op", OPS)
@pytest.mark.every(3)
def test_rotated_boxes_move_as_in_torchvision(op: str, label: str, clamp: str | None) -> None:
    rows = 0
    for draw, size, step, other in draws(op, 8):
        if min(size) < 3:
            continue
        values = turned_boxes(draw, label, size)
        given: dict[str, Any] = {"format": label.upper(), "canvas_size": size}
        boxes = tv_tensors.BoundingBoxes(
            torch.from_numpy(values.copy()), clamping_mode=clamp, **given
        )
        moved = other(boxes)
        if op == "rotate and expand" and clamp and moved.canvas_size != turned(step, size):
            continue
        rule = t.Boxes(label, clamp is not None, clamping_mode=clamp or "soft")
        found, kept = ours.move(rule, values, size, [step])
        whole = tv_tensors.BoundingBoxes(
            torch.from_numpy(values.copy()), clamping_mode=None, **given
        )
        firm = well_conditioned(other(whole)) & well_conditioned(moved)
        wanted = moved.numpy()
        assert np.allclose(found[firm], wanted[firm], rtol=1e-3, atol=1e-2), (size, step, values)
        assert kept.tolist() == list(range(len(values)))
        rows += int(firm.sum())
    assert rows > DRAWS / 10


@pytest.mark.parametrize("op", OPS)
def test_points_move_as_in_torchvision(op: str) -> None:
    for draw, size, step, other in draws(op, 3):
        values = coordinates(draw, "points", size)
        points = tv_tensors.KeyPoints(torch.from_numpy(values.copy()), canvas_size=size)
        found, _ = ours.move(t.KeyPoints(), values, size, [step])
        assert np.allclose(found, other(points).numpy(), rtol=1e-5, atol=CLOSE), (size, step)


@pytest.mark.parametrize("label", FORMATS)
def test_boxes_are_sanitized_as_in_torchvision(label: str) -> None:
    dropped = 0
    for draw, size, step, other in draws("crop", 4):
        values = coordinates(draw, label, size)
        boxes = tv_tensors.BoundingBoxes(
            torch.from_numpy(values.copy()), format=label.upper(), canvas_size=size
        )
        least, area = draw.choice((1.0, 3.5)), draw.choice((1.0, 20.0))
        wanted, valid = theirs.sanitize_bounding_boxes(other(boxes), min_size=least, min_area=area)
        rule = t.Boxes(label, sanitize=least, min_area=area)
        found, kept = ours.move(rule, values, size, [step])
        assert kept.tolist() == valid.nonzero().flatten().tolist(), (size, step, values)
        assert np.allclose(found, wanted.numpy(), atol=CLOSE)
        dropped += len(values) - len(kept)
    assert dropped > DRAWS / 4


@pytest.mark.parametrize("label", ROTATED)
def test_rotated_boxes_are_sanitized_as_in_torchvision(label: str) -> None:
    dropped = rows = 0
    for draw, size, step, other in draws("flip", 9):
        values = turned_boxes(draw, label, size)
        boxes = tv_tensors.BoundingBoxes(
            torch.from_numpy(values.copy()), format=label.upper(), canvas_size=size
        )
        _, valid = theirs.sanitize_bounding_boxes(other(boxes), min_size=2, min_area=4)
        _, kept = ours.move(t.Boxes(label, sanitize=2, min_area=4), values, size, [step])
        assert kept.tolist() == valid.nonzero().flatten().tolist(), (size, step, values)
        dropped += len(values) - len(kept)
        rows += len(values)
    assert DRAWS / 4 < dropped < rows


def test_points_outside_the_image_are_removed_with_sanitize() -> None:
    for draw, size, step, other in draws("crop", 5):
        values = coordinates(draw, "points", size)
        moved = other(tv_tensors.KeyPoints(torch.from_numpy(values.copy()), canvas_size=size))
        _, valid = theirs.sanitize_keypoints(moved)
        _, kept = ours.move(t.KeyPoints(sanitize=True), values, size, [step])
        assert kept.tolist() == valid.nonzero().flatten().tolist()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric"])
def test_a_mask_is_padded_in_each_mode_as_in_torchvision(mode: str) -> None:
    draw = random.Random(6)
    for _ in range(DRAWS):
        size = draw.choice((5, 17, 64)), draw.choice((5, 17, 64))
        mask = np.random.default_rng(draw.randrange(99)).integers(0, 9, size, dtype=np.uint8)
        around = [draw.randint(0, 4) for _ in range(4)]
        wanted = theirs.pad(tv_tensors.Mask(torch.from_numpy(mask)), around, 7, mode)
        step = {"name": "Pad", "padding": around, "padding_mode": mode}
        assert np.array_equal(ours.move(t.Mask(7), mask, size, [step]), wanted.numpy())


@pytest.mark.parametrize(
    ("label", "values", "step", "words"),
    [
        (t.Boxes(), [[1, 2, np.nan, 4]], t.CenterCrop(5), "row 0 holds NaN"),
        (t.Boxes(), [[1, 2, 3, 4], [1, np.inf, 3, 4]], t.CenterCrop(5), "row 1 holds"),
        (t.Boxes(), [[1, 2, 3]], t.CenterCrop(5), r"shape \(1, 3\)"),
        (t.KeyPoints(), [1, 2], t.CenterCrop(5), r"shape \(2,\)"),
        (t.Mask(), np.zeros((9, 8), np.uint8), t.CenterCrop(5), r"must be uint8 of shape \(8, 9\)"),
        (t.Mask(), np.zeros((8, 9)), t.CenterCrop(5), "a float64 array"),
        (t.Boxes(), [[1, 2, 3, 4]], t.RandAugment(), "RandAugment.: it moves no labels"),
        (t.Boxes(), [[1, 2, 3, 4]], t.AugMix(), "AugMix.: it moves no labels"),
        (t.Mask(), np.zeros((8, 9), np.uint8), t.TimmAugment("3a"), "TimmAugment.: it moves"),
        (t.Boxes(), [], t.RandomApply([t.AutoAugment()]), r"shape \(0,\)"),
        (t.Boxes(), np.empty((0, 4)), t.RandomApply([t.AutoAugment()]), "moves no labels"),
        (t.KeyPoints(), [[1, 2]], t.Pad(3, padding_mode="edge"), "padding_mode is .edge"),
        (t.Boxes("xyx"), [[1, 2, 3, 4]], t.CenterCrop(5), "format is .xyx"),
        (t.Boxes(clamping_mode="firm"), [[1, 2, 3, 4]], t.CenterCrop(5), "clamping_mode is .firm"),
        (t.Boxes(sanitize=0), [[1, 2, 3, 4]], t.CenterCrop(5), "sanitize is 0"),
        (t.Mask(256), np.zeros((8, 9), np.uint8), t.CenterCrop(5), "fill is 256"),
    ],
)
def test_labels_that_cannot_be_moved_are_refused(
    label: Any, values: Any, step: Any, words: str
) -> None:
    with pytest.raises(hr.errors.ArgumentError, match=words):
        ours.move(label, values, (8, 9), [step])


def test_random_ops_move_labels_by_the_parameters_drawn_for_the_image() -> None:
    """torchvision moves boxes and points by the ops that a replay of each recipe names."""
    recipe = [
        t.RandomShortestSize((50, 60), 90),
        t.RandomZoomOut(side_range=(1, 2)),
        t.RandomHorizontalFlip(),
        t.ColorJitter(0.3),
        t.RandomChoice([t.Pad(3), t.RandomApply([t.CenterCrop((40, 70))])]),
        t.RandomResizedCrop((40, 50)),
        t.RandomVerticalFlip(),
        t.RandomCrop(45, padding=3, pad_if_needed=True),
    ]
    image = b"P6 80 60 255\n" + bytes(80 * 60 * 3)
    values = np.array([[3, 4, 60, 50], [10, 10, 12, 40]], np.float32)
    mask = np.random.default_rng(7).integers(0, 99, (60, 80), dtype=np.uint8)
    for sample in range(DRAWS):
        boxes: Any = tv_tensors.BoundingBoxes(
            torch.from_numpy(values.copy()), format="XYXY", canvas_size=(60, 80)
        )
        classes: Any = tv_tensors.Mask(torch.from_numpy(mask))
        for function, given in ours.replay(image, recipe, sample=sample):
            if function in ("crop", "center_crop", "resize", "hflip", "vflip", "pad"):
                given = {k: v for k, v in given.items() if k not in ("fill", "interpolation")}
                name = {"hflip": "horizontal_flip", "vflip": "vertical_flip"}.get(
                    function, function
                )
                boxes, classes = (getattr(theirs, name)(of, **given) for of in (boxes, classes))
        found, _ = ours.move(t.Boxes(), values, (60, 80), recipe, sample=sample)
        assert np.allclose(found, boxes.numpy(), atol=CLOSE)
        moved = ours.move(t.Mask(), mask, (60, 80), recipe, sample=sample)
        assert np.array_equal(moved, classes.numpy())
