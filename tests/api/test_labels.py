"""Boxes, points and masks in a loader's batches: they move with the images they belong to."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import headrace as hr
import images
from headrace import functional
from headrace import transforms as t
from headrace.errors import (
    ArgumentError,
    BadFileError,
    BadImageError,
    HeadraceError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)

SAMPLES = 23
RECIPE = [
    t.RandomShortestSize((40, 60)),
    t.RandomHorizontalFlip(),
    t.RandomRotation(20, expand=True),
    t.ColorJitter(0.2),
    t.RandomResizedCrop((32, 48), scale=(0.2, 1)),
]
LABELS = {
    "boxes": t.Boxes("xywh", sanitize=1),
    "classes": t.Along("boxes"),
    "points": t.KeyPoints(),
    "mask": t.Mask(fill=255),
    "palette": t.Mask(),
}


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


def some_sample(number: int) -> dict[str, Any]:
    """An image that shows its mask in colours of its number, so that samples can be told apart."""
    noise = np.random.default_rng(number)
    height, width = 50 + number, 90 - number
    count = number % 4
    corner = noise.uniform(0, 40, (count, 2))
    mask = noise.integers(0, 20, (height // 10 + 1, width // 10 + 1), dtype=np.uint8)
    mask = mask.repeat(10, 0).repeat(10, 1)[:height, :width]
    palette = Image.fromarray(mask, "P")
    palette.putpalette([n % 256 for n in range(768)])
    return {
        "image": encoded(Image.fromarray(np.stack([mask] * 3, -1) * 12)),
        "boxes": np.concatenate([corner, noise.uniform(0, 30, (count, 2))], 1).astype(np.float32),
        "classes": np.arange(count) + 100 * number,
        "points": noise.uniform(0, 50, (count + 1, 2)),
        "mask": mask.copy(),
        "palette": encoded(palette),
    }


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labels") / "set"
    with hr.Writer(path) as writer:
        for number in range(SAMPLES):
            writer.add(**some_sample(number), label=number)
    return path


def loader(path: Path, **changed: Any) -> hr.Loader:
    given = {"batch_size": 5, "seed": 3, "shuffle": True, "dtype": "uint8", "layout": "NHWC"}
    given |= {"transform": RECIPE, "labels": LABELS}
    return hr.Loader(path, **given | changed)


def singly(path: Path, epochs: int = 1, **changed: Any) -> list[dict[str, Any]]:
    """All samples in the order in which they came, with their labels."""
    found = []
    with loader(path, **changed) as made:
        for epoch in range(epochs):
            for images, labels, moved in made:
                for place, number in enumerate(labels.tolist()):
                    sample = {name: np.asarray(moved[name][place]) for name in LABELS}
                    found.append({**sample, "number": number, "epoch": epoch})
                    found[-1]["image"] = np.asarray(images[place])
    return found


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[k], other[k]) for k in one)


def test_labels_move_by_the_parameters_drawn_for_their_image(labelled: Path) -> None:
    dropped = 0
    for got in singly(labelled, epochs=3):
        given = some_sample(got["number"])
        size = given["mask"].shape
        key = {"seed": 3, "epoch": got["epoch"], "sample": got["number"]}
        boxes, kept = functional.move(LABELS["boxes"], given["boxes"], size, RECIPE, **key)
        assert np.array_equal(got["boxes"], boxes)
        assert np.array_equal(got["classes"], given["classes"][kept])
        points, _ = functional.move(LABELS["points"], given["points"], size, RECIPE, **key)
        assert np.array_equal(got["points"], points)
        for name in ("mask", "palette"):
            mask = functional.move(LABELS[name], given["mask"], size, RECIPE, **key)
            assert np.array_equal(got[name], mask)
        dropped += len(given["boxes"]) - len(kept)
    assert dropped > 0


def test_a_mask_covers_the_same_pixels_as_its_image(labelled: Path) -> None:
    """With nearest pixels the image shows its mask: the two rounding rules differ only at edges."""
    still = [t.Resize((100, 160), "nearest"), t.RandomHorizontalFlip(), t.RandomCrop((64, 96))]
    with loader(labelled, transform=still, labels={"mask": t.Mask()}) as made:
        for images, _, moved in made:
            same = images[..., 0] == 12 * moved["mask"]
            assert same.float().mean() > 0.9


@pytest.mark.parametrize("changed", [{"num_threads": 1}, {"num_threads": 7}, {"prefetch": 9}])
def test_labels_do_not_depend_on_threads_and_prefetch(
    labelled: Path, changed: dict[str, Any]
) -> None:
    wanted = singly(labelled, 2)
    assert all(map(equal, singly(labelled, 2, **changed), wanted))


def test_labels_move_in_sizes_that_follow_a_schedule(labelled: Path) -> None:
    """As in one loader for each size, whose epochs are compared."""
    sizes = {0: (32, 48), 1: (24, 20)}
    steps = [t.RandomShortestSize((40, 60)), t.RandomHorizontalFlip(), t.RandomRotation(20)]

    def of(size: Any) -> list[Any]:
        return [*steps, t.RandomApply([t.RandomGrayscale()]), t.RandomResizedCrop(size)]

    found = singly(labelled, 2, transform=of(t.Schedule(sizes)))
    for epoch, size in sizes.items():
        wanted = singly(labelled, 2, transform=of(size))
        these = [[one for one in of_both if one["epoch"] == epoch] for of_both in (found, wanted)]
        assert len(these[0]) == SAMPLES
        assert all(map(equal, *these))
        assert {one["mask"].shape for one in these[0]} == {size}


def test_all_ranks_together_have_the_same_labels_as_one(labelled: Path) -> None:
    wanted = {sample["number"]: sample for sample in singly(labelled)}
    found = [sample for rank in range(3) for sample in singly(labelled, rank=rank, world_size=3)]
    assert len(found) == len(wanted)
    assert all(equal(sample, wanted[sample["number"]]) for sample in found)


def test_a_resumed_loader_continues_with_the_same_labels(labelled: Path) -> None:
    def batches(made: hr.Loader) -> Iterator[Any]:
        return (moved for _, _, moved in made)

    with loader(labelled) as made:
        every = list(batches(made))
    with loader(labelled) as made:
        iteration = iter(made)
        next(iteration), next(iteration)
        state = made.state_dict()
    with loader(labelled) as made:
        made.load_state_dict(state)
        rest = list(batches(made))
    assert len(rest) == len(every) - 2
    for got, wanted in zip(rest, every[2:], strict=True):
        assert torch.equal(got["mask"], wanted["mask"])
        assert all(map(torch.equal, got["boxes"], wanted["boxes"]))


def test_the_labels_of_a_batch_have_the_documented_classes_and_dtypes(labelled: Path) -> None:
    with loader(labelled, fields=["index"]) as made:
        images, _, moved = next(iter(made))
        assert list(moved) == ["index", "boxes", "points", "mask", "palette", "classes"]
        assert moved["mask"].shape == images.shape[:3]
        assert moved["mask"].dtype == torch.uint8
        assert [tuple(boxes.shape[1:]) for boxes in moved["boxes"]] == [(4,)] * 5
        assert {boxes.dtype for boxes in moved["boxes"]} == {torch.float32}
        assert {classes.dtype for classes in moved["classes"]} == {torch.int64}
    with loader(labelled, output="numpy") as made:
        _, _, moved = next(iter(made))
        kinds = moved["mask"], moved["boxes"][0], moved["classes"][0]
        assert all(isinstance(value, np.ndarray) for value in kinds)


def test_moved_labels_outlive_their_loader(labelled: Path) -> None:
    with loader(labelled) as made:
        _, _, moved = next(iter(made))
        copy = [boxes.clone() for boxes in moved["boxes"]]
        for _ in made:
            pass
    assert all(map(torch.equal, moved["boxes"], copy))


SMALL = [t.Resize((8, 8))]
# A header that claims 3.6 thousand million pixels, with data for only a few.
BOMB = images.png(60000, 1, 0)
BOMB = BOMB.replace(struct.pack(">II", 60000, 1), struct.pack(">II", 60000, 60000))
BOMB = BOMB[:29] + struct.pack(">I", zlib.crc32(BOMB[12:29])) + BOMB[33:]


@pytest.mark.parametrize(
    ("given", "label", "kind", "words"),
    [
        ([[1, 2, np.nan, 4]], t.Boxes(), BadFileError, r"row 0 holds NaN \(expected finite"),
        ([[1, 2, 3]], t.Boxes(), BadFileError, r"an array of shape \[1 3\] \(expected \[n 4\]"),
        ([1.0, 2.0], t.KeyPoints(), BadFileError, r"shape \[2\] \(expected \[n 2\]"),
        (np.zeros((9, 9), np.uint8), t.Mask(), BadFileError,
         r"shape \[9 9\] \(expected the image's \[50 90\]"),
        (np.zeros((2, 50, 90), np.uint8), t.Mask(), BadFileError, r"shape \[2 50 90\]"),
        (b"no PNG", t.Mask(), BadImageError, "nor any other known type of image"),
        (encoded(Image.new("RGB", (90, 50)), "JPEG"), t.Mask(), UnsupportedError, "no PNG"),
        (encoded(Image.new("L", (9, 50))), t.Mask(), BadImageError, "a mask of 50 x 9"),
        (encoded(Image.new("RGB", (90, 50))), t.Mask(), UnsupportedError, "a PNG of another kind"),
        (encoded(Image.new("I;16", (90, 50))), t.Mask(), UnsupportedError, "of another kind"),
        (images.png(90, 50, 6), t.Mask(), UnsupportedError, "a PNG of another kind"),
        (BOMB, t.Mask(), LimitError, "60000 x 60000 pixels.*max_pixels"),
        (b"", t.Mask(), TruncatedError, "it is empty"),
        ([[1, 2, -np.inf, 4]], t.Boxes(), BadFileError, r"row 0 holds -Inf"),
        ([[1e300, 2]], t.KeyPoints(), BadFileError, r"row 0 holds \+Inf"),
        (encoded(Image.new("L", (90, 50)))[:-30], t.Mask(), TruncatedError, "file is truncated"),
    ],
)  # fmt: skip
def test_a_label_that_does_not_fit_is_an_error_that_names_the_sample(
    tmp_path: Path, given: Any, label: Any, kind: type[HeadraceError], words: str
) -> None:
    good = some_sample(0)["image"]
    with hr.Writer(tmp_path / "p") as writer:
        writer.add(good, 0, key="its/key", v=given)
    with hr.Loader(tmp_path / "p", transform=SMALL, labels={"v": label}) as made:
        with pytest.raises(kind, match=f"field .v.: .*{words}") as caught:
            next(iter(made))
        assert caught.value.record == 0
        assert "its/key" in str(caught.value)


# The message is like torchvision's transforms', which take no boxes, masks and points.
MIXINGS = [t.MixUp(num_classes=30), t.CutMix(num_classes=30), t.Mixup(num_classes=30)]
MIXINGS.append(t.RandomChoice(MIXINGS[:2]))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"labels": {"box": t.Boxes()}}, "has no field 'box'; it has boxes, classes"),
        ({"labels": {"boxes": 3}}, r"labels\['boxes'\]"),
        ({"labels": {"boxes": t.CenterCrop(3)}}, r"labels\['boxes'\]"),
        ({"labels": {"classes": t.Along("boxes")}}, "'boxes' is not among its Boxes"),
        ({"labels": {"boxes": t.Boxes()}, "fields": ["boxes"]}, "'boxes' is in labels, too"),
        ({"labels": {"palette": t.Boxes()}}, "is bytes .expected arrays of numbers"),
        ({"labels": {"boxes": t.Mask()}}, "array of float32 .expected bytes or arrays of uint8"),
        ({"labels": {"boxes": t.Boxes("xy")}}, r"labels: .boxes. .Boxes.: format is"),
        ({"transform": [t.Resize((9, 9)), t.RandAugment()]}, "RandAugment.: it moves no labels"),
        ({"transform": [t.RandomCrop(9, 2, padding_mode="edge")]}, "padding_mode is"),
        (
            {"transform": [t.RandomCrop(9, 2, fill=(1, 2, 3))], "labels": {"mask": t.Mask()}},
            "fill has",
        ),
        *(
            ({"transform": [t.Resize((9, 9)), mixing], "dtype": "float32"}, "it moves no labels")
            for mixing in MIXINGS
        ),
        ({"transform": hr.transforms.Views([t.Resize((9, 9))], [t.Resize((9, 9))])}, "one view"),
    ],
)
def test_impossible_labels_are_refused(labelled: Path, changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        loader(labelled, **changed)


def test_concatenated_datasets_keep_their_labels(tmp_path: Path, labelled: Path) -> None:
    with hr.Writer(tmp_path / "other") as writer:
        for number in range(SAMPLES, SAMPLES + 9):  # more boxes a sample than the first dataset has
            boxes = np.full((number, 4), 5, np.float32)
            writer.add(**some_sample(number) | {"boxes": boxes, "classes": range(number)})
    given = {"labels": {"boxes": t.Boxes("xywh"), "mask": t.Mask()}, "transform": RECIPE}
    with hr.Loader(
        [labelled, tmp_path / "other"], 4, shuffle=True, fields=["index"], **given
    ) as made:
        counts = {}
        for _, _, moved in made:
            for index, boxes in zip(moved["index"].tolist(), moved["boxes"], strict=True):
                counts[index] = len(boxes)
    assert counts == {n: n % 4 if n < SAMPLES else n for n in range(SAMPLES + 9)}


def test_a_loader_moves_at_most_twelve_labels(tmp_path: Path) -> None:
    names = [f"v{number}" for number in range(13)]
    with hr.Writer(tmp_path / "p") as writer:
        writer.add(some_sample(0)["image"], 0, **{name: [[1.0, 2, 3, 4]] for name in names})
    most = {name: t.Boxes() for name in names[:12]}
    with hr.Loader(tmp_path / "p", transform=[t.CenterCrop((50, 90))], labels=most) as made:
        _, _, moved = next(iter(made))
        assert all(moved[name][0].tolist() == [[1, 2, 3, 4]] for name in most)
    with pytest.raises(ArgumentError, match=r"labels is 13 \(expected at most 12\)"):
        hr.Loader(tmp_path / "p", transform=SMALL, labels={name: t.Boxes() for name in names})


def test_a_png_mask_has_the_classes_that_pillow_reads(tmp_path: Path) -> None:
    kinds = {name: data for name, data in images.every_png(90, 50).items() if "16bit" not in name}
    kinds = {name: kinds[name] for name in kinds if name.startswith(("type0", "type3", "palette"))}
    with hr.Writer(tmp_path / "p") as writer:
        for number, data in enumerate(kinds.values()):
            writer.add(some_sample(0)["image"], number, v=data)
    given = {"transform": [t.CenterCrop((50, 90))], "labels": {"v": t.Mask()}}
    with hr.Loader(tmp_path / "p", **given) as made:
        for (_, _, moved), (name, data) in zip(made, kinds.items(), strict=True):
            wanted = np.asarray(Image.open(io.BytesIO(data)))
            wanted = wanted * 255 if wanted.dtype == bool else wanted
            assert np.array_equal(moved["v"][0].numpy(), wanted), name
    assert len(kinds) == 17


def test_a_sample_with_a_bad_label_is_replaced_if_on_error_says_so(tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "p") as writer:
        for number in range(4):
            boxes = np.full((1, 4), np.nan if number == 2 else 3, np.float32)
            writer.add(some_sample(number)["image"], number, boxes=boxes)
    given = {"transform": SMALL, "labels": {"boxes": t.Boxes()}, "on_error": "replace"}
    with hr.Loader(tmp_path / "p", 4, **given) as made:
        _, labels, moved = next(iter(made))
        assert 2 not in labels.tolist()
        assert all(len(boxes) == 1 for boxes in moved["boxes"])
        assert len(made.report()) == 1
