"""RandomIoUCrop: image and labels by the crop that torchvision finds with the same random words."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as theirs

import draws
import headrace as hr
from headrace import functional as ours
from headrace import transforms as t
from headrace.errors import ArgumentError, LimitError

FORMATS = ("xyxy", "xywh", "cxcywh")
SAMPLES = 17
OPTIONS: list[dict[str, Any]] = [
    {},
    {"min_scale": 0.1, "max_scale": 0.8, "sampler_options": [0.0, 0.2, 1.0]},
    {"sampler_options": [0.05, 0.4, 2.0], "trials": 3},
    {"min_aspect_ratio": 0.9, "max_aspect_ratio": 1.2, "sampler_options": [0.3, 1.0]},
]


@contextmanager
def words(monkeypatch: pytest.MonkeyPatch, op: int, **key: int) -> Iterator[None]:
    """Has torch draw the engine's words, in the order in which it asks for random numbers."""
    blocks: list[int] = []
    taken = 0

    def word() -> int:
        nonlocal taken
        if taken == len(blocks):
            given = {"seed": 0, "epoch": 0, "sample": 0} | key
            blocks.extend(draws.words(**given, op=op, block=taken // 4))
        taken += 1
        return blocks[taken - 1]

    def rand(count: int) -> torch.Tensor:
        return torch.tensor([(word() >> 40) * 2.0**-24 for _ in range(count)])

    def randint(low: int, high: int, size: tuple[int]) -> torch.Tensor:
        return torch.tensor([low + draws.below(word(), high - low)])

    with monkeypatch.context() as patch:
        patch.setattr(torch, "rand", rand)
        patch.setattr(torch, "randint", randint)
        yield


def some_boxes(draw: random.Random, height: int, width: int, count: int) -> np.ndarray[Any, Any]:
    """Left, top, right, bottom; some boxes have no area, and some reach beyond the image."""
    found = []
    for _ in range(count):
        x = sorted(draw.uniform(-0.1, 1.1) * width for _ in range(2))
        y = sorted(draw.uniform(-0.1, 1.1) * height for _ in range(2))
        if draw.random() < 0.1:
            x[1] = x[0]
        found.append([x[0], y[0], x[1], y[1]])
    return np.array(found, np.float32).reshape(-1, 4)


def boxes_of(values: np.ndarray[Any, Any], label: str, size: tuple[int, int]) -> Any:
    boxes = tv_tensors.BoundingBoxes(
        torch.from_numpy(values.copy()), format="XYXY", canvas_size=size
    )
    return theirs.convert_bounding_box_format(boxes, new_format=label.upper())


@pytest.mark.parametrize("label", FORMATS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.every(3)
def test_the_crop_is_the_one_that_torchvision_finds_with_the_same_random_words(
    options: dict[str, Any], label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(f"{options} {label}")
    cropped = 0
    for seed in range(100):
        size = draw.randint(12, 400), draw.randint(12, 400)
        boxes = boxes_of(some_boxes(draw, *size, draw.randint(0, 9)), label, size)
        moved, kept = ours.move(
            t.Boxes(label), boxes.numpy(), size, [t.RandomIoUCrop(**options)], seed=seed
        )
        with words(monkeypatch, 0, seed=seed):
            image, wanted = v2.RandomIoUCrop(**options)(torch.zeros(1, *size), boxes)
        assert kept.tolist() == list(range(len(boxes)))
        assert np.array_equal(moved, wanted.numpy()), (seed, size)
        cropped += tuple(image.shape[-2:]) != size
        left, rows = ours.move(
            t.Boxes(label, sanitize=1), boxes.numpy(), size, [t.RandomIoUCrop(**options)], seed=seed
        )
        sound = v2.SanitizeBoundingBoxes(labels_getter=None)(wanted)
        assert np.array_equal(left, sound.numpy())
        assert len(rows) == len(left)
    assert 10 < cropped < 100


def sample(number: int) -> dict[str, Any]:
    draw = random.Random(number)
    noise = np.random.default_rng(number)
    height, width = 60 + 3 * number, 120 - 2 * number
    image = io.BytesIO()
    Image.fromarray(noise.integers(0, 256, (height, width, 3), np.uint8)).save(image, "PNG")
    return {
        "image": image.getvalue(),
        "boxes": some_boxes(draw, height, width, number % 5),
        "points": noise.uniform(0, 60, (number % 3, 2)).astype(np.float32),
        "mask": noise.integers(0, 9, (height, width), np.uint8),
    }


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("iou") / "set"
    with hr.Writer(path) as writer:
        for number in range(SAMPLES):
            writer.add(**sample(number), label=number)
    return path


LABELS = {"boxes": t.Boxes(), "points": t.KeyPoints(), "mask": t.Mask()}
# Ops 0 and 1 of the plan, a group with op 3 in it, and op 4: a crop of a crop.
RECIPE = [
    t.Pad(3),
    t.RandomIoUCrop(),
    t.RandomApply([t.RandomIoUCrop(0.5, sampler_options=[0, 1])], p=1),
    t.Resize((40, 56)),
]


def loader(path: Path, **changed: Any) -> hr.Loader:
    given: dict[str, Any] = {"batch_size": 4, "seed": 9, "shuffle": True, "dtype": "uint8"}
    return hr.Loader(path, **given | {"transform": RECIPE, "labels": LABELS} | changed)


def singly(path: Path, **changed: Any) -> dict[int, list[Any]]:
    found = {}
    with loader(path, **changed) as made:
        for pictures, numbers, moved in made:
            for place, number in enumerate(numbers.tolist()):
                rest = [np.asarray(moved[name][place]).copy() for name in LABELS]
                found[number] = [np.asarray(pictures[place]).copy(), *rest]
    return found


def test_image_boxes_points_and_mask_of_a_loader_equal_torchvisions(
    dataset: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[tuple[int | None, Callable[..., Any]]] = [
        (None, v2.Pad(3)),
        (1, v2.RandomIoUCrop()),
        (3, v2.RandomIoUCrop(0.5, sampler_options=[0, 1])),
        (None, v2.Resize((40, 56))),
    ]
    found = singly(dataset)
    assert len(found) == SAMPLES
    for number, got in found.items():
        given = sample(number)
        size = given["mask"].shape
        moved: Any = [
            Image.open(io.BytesIO(given["image"])),
            boxes_of(given["boxes"], "xyxy", size),
            tv_tensors.KeyPoints(torch.from_numpy(given["points"]), canvas_size=size),
            tv_tensors.Mask(torch.from_numpy(given["mask"])),
        ]
        for op, step in steps:
            if op is None:
                moved = step(*moved)
                continue
            with words(monkeypatch, op, seed=9, sample=number):
                moved = step(*moved)
        assert np.array_equal(got[0], np.array(moved[0]).transpose(2, 0, 1)), number
        for mine, other in zip(got[1:], moved[1:], strict=True):
            assert np.array_equal(mine, other.numpy()), number


@pytest.mark.parametrize("changed", [{"num_threads": 1}, {"num_threads": 5, "batch_size": 3}])
def test_crops_by_boxes_do_not_depend_on_threads_and_prefetch(
    dataset: Path, changed: dict[str, Any]
) -> None:
    wanted, found = singly(dataset), singly(dataset, **changed)
    assert wanted.keys() == found.keys()
    for number, parts in wanted.items():
        assert all(map(np.array_equal, parts, found[number]))


def test_all_ranks_together_have_the_same_crops_as_one(dataset: Path) -> None:
    wanted = singly(dataset)
    found = {}
    for rank in range(3):
        found |= singly(dataset, rank=rank, world_size=3)
    assert wanted.keys() == found.keys()
    for number, parts in wanted.items():
        assert all(map(np.array_equal, parts, found[number]))


def test_a_resumed_loader_continues_with_the_same_crops(dataset: Path) -> None:
    with loader(dataset) as made:
        batches = iter(made)
        next(batches)
        state = made.state_dict()
        wanted = [np.asarray(pictures).copy() for pictures, *_ in batches]
    with loader(dataset) as made:
        made.load_state_dict(state)
        found = [np.asarray(pictures).copy() for pictures, *_ in made]
    assert len(wanted) == len(found) > 2
    assert all(map(np.array_equal, wanted, found))


ENDLESS = [t.RandomIoUCrop(sampler_options=[0.9]), t.Resize((8, 8))]


def test_a_sample_for_which_torchvision_would_try_for_ever_is_an_error(dataset: Path) -> None:
    for boxes in (np.empty((0, 4)), np.full((3, 4), 900.0)):
        with pytest.raises(LimitError, match="no crop of 50x60 pixels was found that keeps one of"):
            ours.move(t.Boxes(), boxes, (50, 60), ENDLESS)
    many = np.full((200_000, 4), 900.0)
    with pytest.raises(LimitError, match="keeps one of 200000 boxes"):
        ours.move(t.Boxes(), many, (50, 60), ENDLESS)
    with (
        loader(dataset, transform=ENDLESS, shuffle=False) as made,
        pytest.raises(LimitError, match=r"record 0.*field .boxes.*keeps one of 0 boxes"),
    ):
        list(made)


def test_a_sample_without_a_crop_is_replaced_if_on_error_says_so(dataset: Path) -> None:
    recipe = [t.RandomIoUCrop(0.9, 1.0, sampler_options=[0.0]), t.Resize((8, 8))]
    with loader(dataset, transform=recipe, on_error="replace", shuffle=False) as made:
        numbers = [n for _, labels, _ in made for n in labels.tolist()]
    assert len(numbers) == SAMPLES
    assert not set(numbers) & {0, 5, 10, 15}  # samples without boxes


CROP = [t.RandomIoUCrop(), t.Resize((8, 8))]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"labels": None}, "one label of Boxes"),
        ({"labels": {"mask": t.Mask()}}, "one label of Boxes"),
        ({"labels": {"boxes": t.Boxes(), "points": t.Boxes()}}, "one label of Boxes"),
        ({"labels": {"boxes": t.Boxes("xywhr")}}, "one label of Boxes"),
        (
            {"transform": [t.RandomApply([t.RandomIoUCrop()]), *CROP[1:]], "labels": None},
            "one label",
        ),
        ({"transform": [*CROP[:1] * 5, *CROP[1:]]}, "at most 4"),
        ({"transform": [t.RandomIoUCrop(0.5, 0.4), *CROP[1:]]}, "min_scale is 0.5"),
        ({"transform": [t.RandomIoUCrop(sampler_options=[]), *CROP[1:]]}, "sampler_options"),
        ({"transform": [t.RandomIoUCrop(sampler_options=[0] * 13), *CROP[1:]]}, "has 13 numbers"),
        ({"transform": [t.RandomIoUCrop(trials=0), *CROP[1:]]}, "trials is 0"),
        ({"transform": CROP[:1]}, "size"),
    ],
)
def test_an_impossible_crop_by_boxes_is_refused(
    dataset: Path, changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(ArgumentError, match=words):
        loader(dataset, **{"transform": CROP, "labels": {"boxes": t.Boxes()}} | changed).close()


def test_functions_on_single_images_refuse_a_crop_by_boxes() -> None:
    data = sample(1)["image"]
    with pytest.raises(ArgumentError, match="needs the boxes of a sample"):
        ours.replay(data, CROP)
    for label, values in (
        (t.KeyPoints(), np.zeros((1, 2))),
        (t.Mask(), np.zeros((9, 9), np.uint8)),
    ):
        with pytest.raises(ArgumentError, match="one label of Boxes"):
            ours.move(label, values, (9, 9), CROP)


def test_a_trial_without_height_fails_where_torchvision_divides_by_zero() -> None:
    step = t.RandomIoUCrop(0.0, 0.4, sampler_options=[0.0])
    for seed in range(50):
        boxes, _ = ours.move(t.Boxes(), [[0, 0, 7, 3]], (4, 8), [step], seed=seed)
        assert boxes[0, 3] - boxes[0, 1] >= 1
