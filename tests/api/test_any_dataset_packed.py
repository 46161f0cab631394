"""``pack`` of a program's own datasets: every item once, in order, with its exact pixels."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import headrace as hr
from headrace import errors
from headrace._making import items
from images import jpeg

ROOT = Path(__file__).parents[2]


class Own:
    """A dataset whose items are given beforehand."""

    def __init__(self, held: list[Any], classes: list[str] | None = None) -> None:
        self.held = held
        if classes is not None:
            self.classes = classes

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.held[index], Exception):
            raise self.held[index]
        return self.held[index]


def noise(height: int, width: int, channels: int, seed: int = 0) -> Any:
    shape = (height, width, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, np.uint8)


def packed(source: Any, tmp_path: Path, **options: Any) -> hr.Dataset:
    tmp_path.mkdir(exist_ok=True)
    hr.pack(source, tmp_path / "packed.hr", **options)
    return hr.Dataset(tmp_path / "packed.hr")


@pytest.mark.parametrize("lossless", [None, "png"])
def test_items_of_pixels_keep_every_pixel(tmp_path: Path, lossless: str | None) -> None:
    rgb, grey, rgba = noise(7, 5, 3), noise(6, 4, 1), noise(5, 9, 4)
    palette = Image.fromarray(rgb).convert("P")
    given = [
        rgb,
        torch.as_tensor(rgb[:, ::-1].copy()),
        grey,
        grey[..., 0],
        rgba,
        Image.fromarray(rgb),
        Image.fromarray(grey[..., 0]),
        palette,
    ]
    three = grey.repeat(3, 2)
    wanted = [rgb, rgb[:, ::-1], three, three, rgba[..., :3], rgb, three]
    wanted.append(np.asarray(palette.convert("RGB")))
    with packed(Own([(one, 0) for one in given]), tmp_path, lossless=lossless) as dataset:
        codecs = {dataset.facts(number)["codec"] for number in range(len(dataset))}
        assert codecs == {"png" if lossless else "ppm"}
        for sample, want in zip(dataset, wanted, strict=True):
            assert np.array_equal(sample.image, want)
    assert hr.verify(tmp_path / "packed.hr", decode=True)["ok"]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_encoded_bytes_stay_unchanged_and_in_order(tmp_path: Path, num_workers: int) -> None:
    files = [jpeg(20 + number, 30, seed=number) for number in range(41)]
    source = Own([(data, number % 7) for number, data in enumerate(files)])
    seen: list[tuple[int, ...]] = []
    options: dict[str, Any] = {
        "num_workers": num_workers,
        "on_progress": lambda *now: seen.append(now),
    }
    with packed(source, tmp_path, **options) as dataset:
        assert [bytes(dataset.read(number)) for number in range(41)] == files
        assert [sample.label for sample in dataset] == [number % 7 for number in range(41)]
    assert seen[-1] == (41, 41, sum(map(len, files)), 0)


def test_the_values_of_dicts_become_fields_of_their_types(tmp_path: Path) -> None:
    source = [
        {
            "__key__": "same",
            "img": memoryview(jpeg(20, 20)),
            "target": np.int64(number),
            "caption": "été",
            "score": 0.5 + number,
            "box": torch.tensor([1, 2, number]),
            "tags": {"a": [number, "x"]},
            "path": "p",
        }
        for number in range(2)
    ]
    with packed(source, tmp_path) as dataset:
        assert [sample.key for sample in dataset] == ["same", "same/1"]
        assert [sample.label for sample in dataset] == [0, 1]
        fields = dataset[1].fields
        assert fields.pop("box").tolist() == [1, 2, 1]
        assert fields == {
            "caption": "été",
            "score": 1.5,
            "tags": '{"a": [1, "x"]}',
            "path_": "p",
        }


def test_columns_are_named_as_for_containers(tmp_path: Path) -> None:
    one = {"left": jpeg(20, 20), "right": jpeg(30, 30), "y": 3, "label": 1, "n": 5, "m": 6}
    words: dict[str, Any] = {"image": "middle;right", "label": "y", "fields": ["n"]}
    with packed([one], tmp_path, **words) as dataset:
        assert (bytes(dataset.read(0)), dataset[0].label) == (one["right"], 3)
        assert dataset[0].fields == {"n": 5}


@pytest.mark.parametrize(
    ("labels", "numbers", "classes", "field"),
    [
        ([3, 1], [3, 1], [], None),
        ([2.0, np.float32(0)], [2, 0], [], None),
        ([True, False], [1, 0], [], None),
        ([None, -1], [-1, -1], [], None),
        (["dog", "cat"], [1, 0], ["cat", "dog"], None),
        (["dog", 7], [1, 0], ["7", "dog"], None),
        ([2.0, np.nan], [2, -1], [], None),
        ([np.nan, torch.tensor(1.0)], [-1, 1], [], None),
        (["dog", 7.0], [1, 0], ["7", "dog"], None),
        ([0.5, 1], [-1, -1], [], [0.5, 1.0]),
        ([0.0, 0.5], [-1, -1], [], [0.0, 0.5]),
        ([torch.tensor(1.0), 0.5], [-1, -1], [], [1.0, 0.5]),
        ([np.array([0.5, 1.0]), np.array([2.0, 3.0])], [-1, -1], [], [[0.5, 1.0], [2.0, 3.0]]),
    ],
)
def test_labels_are_numbers_texts_or_a_field(
    tmp_path: Path, labels: list[Any], numbers: list[int], classes: list[str], field: Any
) -> None:
    source = Own([(jpeg(16, 16), label) for label in labels])
    with packed(source, tmp_path) as dataset:
        assert [sample.label for sample in dataset] == numbers
        assert dataset.classes == classes
        if field is not None:
            found = [np.asarray(sample.fields["label_"]).tolist() for sample in dataset]
            assert found == field


def test_class_names_are_the_datasets_own_unless_others_are_given(tmp_path: Path) -> None:
    source = Own([(jpeg(16, 16), "b"), (jpeg(16, 16), 0)], classes=["a", "b"])
    with packed(source, tmp_path) as dataset:
        assert (dataset.classes, [one.label for one in dataset]) == (["a", "b"], [1, 0])
    with packed(source, tmp_path / "other", classes=["b", "c"]) as dataset:
        assert (dataset.classes, [one.label for one in dataset]) == (["b", "c"], [0, 0])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (OSError("the disk is gone"), "the disk is gone"),
        (None, "bytes of an image file"),
        ("a/path.jpg", "bytes of an image file"),
        ((jpeg(16, 16), 0, 0), "a tuple of 3"),
        ((noise(4, 4, 2), 0), r"shape \(4, 4, 2\)"),
        ((noise(3, 8, 8), 0), r"shape \(3, 8, 8\)"),
        ((np.zeros((4, 4, 3)), 0), "float64"),
        ((Image.new("F", (4, 4)), 0), "mode F"),
        ((jpeg(16, 16), -2), "label=-2"),
        ((jpeg(16, 16), 2**70), "label="),
        ((jpeg(16, 16), 0.5), "label=0.5"),
        ((jpeg(16, 16), object()), "label="),
        ((jpeg(16, 16), "cat"), r'"cat" is a text \(expected a whole number, as no classes'),
        ({"image": jpeg(16, 16), "n": 1}, "no field"),
        ({"image": jpeg(16, 16), "img": b""}, "image and img may both be the image"),
        ({"photo": jpeg(16, 16)}, r"no value is known as the image \(found \['photo'\]\)"),
    ],
)
def test_an_error_names_the_index_and_leaves_no_files(tmp_path: Path, bad: Any, words: str) -> None:
    with pytest.raises((errors.HeadraceError, RuntimeError), match=words) as caught:
        hr.pack(Own([(jpeg(16, 16), 0), bad]), tmp_path / "packed.hr")
    assert str(caught.value).startswith("source[1]: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("value", [3, 0.5, "a text", b"bytes", np.arange(3)])
def test_a_field_that_is_none_in_some_items_is_an_error_that_says_what_to_give_instead(
    tmp_path: Path, value: Any, first: bool
) -> None:
    values = [None, value] if first else [value, None]
    source = Own([{"image": jpeg(16, 16), "extra": one} for one in values])
    words = (
        rf"^source\[{0 if first else 1}\]: field 'extra' is None, and every sample has every "
        "field: give .* such as nan, -1 or an empty text$"
    )
    with pytest.raises(errors.ArgumentTypeError, match=words):
        hr.pack(source, tmp_path / "packed.hr")
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_worker_names_the_index(tmp_path: Path) -> None:
    source = Own([(jpeg(16, 16), 0)] * 20 + [ValueError("no such row")])
    with pytest.raises(RuntimeError, match=r"source\[20\]: ValueError: no such row"):
        hr.pack(source, tmp_path / "packed.hr", num_workers=1)
    assert list(tmp_path.iterdir()) == []


def test_a_mapping_of_splits_is_an_error_that_names_them(tmp_path: Path) -> None:
    splits = {"train": Own([(jpeg(16, 16), 0)]), "test": Own([(jpeg(16, 16), 1)])}
    with pytest.raises(errors.ArgumentError, match=r"source has the splits \['train', 'test'\]"):
        hr.pack(splits, tmp_path / "packed.hr")
    with packed(splits, tmp_path, split="test") as dataset:
        assert dataset[0].label == 1


def test_images_can_be_re_encoded_while_packing(tmp_path: Path) -> None:
    made = hr.pack(Own([(jpeg(64, 64), 0)]), tmp_path / "packed.hr", resize=32)
    assert (made["reencoded"], made["lossy"]) == (1, "resize 32, quality 90")
    with hr.Dataset(tmp_path / "packed.hr") as dataset:
        assert dataset[0].image.shape == (32, 32, 3)


def test_any_headrace_dataset_is_packed_with_its_bytes(folder: Path, tmp_path: Path) -> None:
    with hr.Dataset(folder) as listed, hr.Dataset.concat([listed, listed], classes=[]) as twice:
        hr.pack(twice, tmp_path / "packed.hr")
        with hr.Dataset(tmp_path / "packed.hr") as dataset:
            assert len(dataset) == 2 * len(listed)
            assert dataset.read(len(listed)) == listed.read(0) == dataset.read(0)
            assert dataset[-1].label == listed[-1].label


def test_an_undecoded_hugging_face_image_keeps_its_bytes(tmp_path: Path) -> None:
    data = jpeg(20, 20)
    (tmp_path / "a.jpg").write_bytes(data)
    source = [
        {"image": {"bytes": data, "path": None}, "label": 0},
        {"image": {"bytes": None, "path": str(tmp_path / "a.jpg")}, "label": 0},
    ]
    with packed(source, tmp_path) as dataset:
        assert [bytes(dataset.read(number)) for number in range(2)] == [data, data]


def test_the_default_column_names_are_those_of_containers() -> None:
    source = (ROOT / "internal/scan/columns.go").read_text()
    for name, known in (("imageNames", items.IMAGE_NAMES), ("labelNames", items.LABEL_NAMES)):
        found = re.search(name + r"\s*= \[\]string{(.*)}", source)
        assert found is not None
        assert tuple(re.findall('"([^"]+)"', found[1])) == known


def test_a_packed_png_has_the_exact_pixels_in_pillow_too(tmp_path: Path) -> None:
    pixels = noise(9, 9, 3)
    with packed(Own([(pixels, 0)]), tmp_path, lossless="png") as dataset:
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(dataset.read(0)))), pixels)
