"""Hugging Face datasets: tables of images give torch's batches, natively."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import pytest
import torch
import torchvision.transforms as tv
from frameworks_support import FOLDER
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import equal

COUNT = 23
EVALUATION = tv.Compose(
    [tv.Resize(40), tv.CenterCrop(32), tv.ToTensor(), tv.Normalize((0.5,) * 3, (0.2, 0.3, 0.4))]
)
TRAINING = tv.Compose([tv.RandomResizedCrop(32), tv.RandomHorizontalFlip(), tv.ToTensor()])
WORKERS = pytest.mark.parametrize("workers", [0, 2])


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Photographs in two kinds of file and several modes; one is turned by its EXIF."""
    folder = tmp_path_factory.mktemp("photographs")
    made = []
    for number in range(COUNT):
        path = folder / f"{number:02}.{'png' if number % 5 == 3 else 'jpg'}"
        image = Image.fromarray(images.pixels(60 + number, 70 - number, seed=number))
        exif = Image.Exif()
        if number == 4:
            exif[0x0112] = 6
        (image.convert("L") if number % 7 == 2 else image).save(path, exif=exif)
        made.append(str(path))
    return made


def rows(paths: list[str]) -> dict[str, list[Any]]:
    return {
        "image": paths,
        "label": [number % 3 for number in range(len(paths))],
        "caption": [f"picture {number}" for number in range(len(paths))],
        "box": [[number, 2.5, 30.0, 40.0] for number in range(len(paths))],
    }


FEATURES = datasets.Features(
    {
        "image": datasets.Image(),
        "label": datasets.ClassLabel(names=["a", "b", "c"]),
        "caption": datasets.Value("string"),
        "box": datasets.Sequence(datasets.Value("float32"), length=4),
    }
)


def in_memory(paths: list[str], place: Path) -> datasets.Dataset:
    """A table of paths, whose files are opened for each row."""
    return datasets.Dataset.from_dict(rows(paths), features=FEATURES)


def of_bytes(paths: list[str], place: Path) -> datasets.Dataset:
    """A table in memory that contains the files' bytes."""
    columns = rows(paths)
    columns["image"] = [{"bytes": Path(path).read_bytes(), "path": None} for path in paths]
    return datasets.Dataset.from_dict(columns, features=FEATURES)


def saved(paths: list[str], place: Path) -> datasets.Dataset:
    """A table by save_to_disk that contains the files."""
    of_bytes(paths, place).save_to_disk(str(place / "saved"), num_shards=2)
    return datasets.load_from_disk(str(place / "saved"))


def arrow(paths: list[str], place: Path) -> datasets.Dataset:
    """One Arrow file, mapped into memory."""
    of_bytes(paths, place).save_to_disk(str(place / "arrow"))
    (file,) = (place / "arrow").glob("*.arrow")
    return datasets.Dataset.from_file(str(file))


def selected(paths: list[str], place: Path) -> datasets.Dataset:
    """Selected rows of a table in another order."""
    return of_bytes(paths, place).select([*range(COUNT - 1, 3, -1), 5, 5])


KINDS: list[Callable[[list[str], Path], datasets.Dataset]] = [
    *(in_memory, of_bytes, saved, arrow, selected),
]


class Columns:
    """A function for with_transform: its columns are lists of rows, and images become tensors."""

    def __init__(self, transform: Any) -> None:
        self.transform = transform

    def __call__(self, columns: dict[str, Any]) -> dict[str, Any]:
        found = columns.pop("image")
        columns["pixel_values"] = [self.transform(image.convert("RGB")) for image in found]
        return columns


def transformed(table: datasets.Dataset, transform: Any, how: str) -> datasets.Dataset:
    if how == "with_transform":
        return table.with_transform(Columns(transform))
    table.set_transform(Columns(transform))
    return table


def compared(table: Any, **options: Any) -> list[Any]:
    """The batches of an epoch, which must be torch's; all of their images must be native."""
    torch.manual_seed(3)
    expected = list(data.DataLoader(table, 5, **options))
    torch.manual_seed(3)
    with contextlib.closing(hr.DataLoader(table, 5, strict=True, **options)) as loader:
        found = list(loader)
        assert loader.explain().native
    assert equal(found, expected)
    return found


@WORKERS
@pytest.mark.parametrize("how", ["with_transform", "set_transform"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_of_images_gives_torchs_batches_natively(
    paths: list[str], tmp_path: Path, kind: Any, how: str, workers: int
) -> None:
    table = transformed(kind(paths, tmp_path), EVALUATION, how)
    found = compared(table, num_workers=workers)
    assert found[0]["pixel_values"].shape == (5, 3, 32, 32)
    assert set(found[0]) == {"pixel_values", "label", "caption", "box"}


@WORKERS
def test_a_shuffled_table_gives_torchs_order_and_keeps_fields_with_their_images(
    paths: list[str], tmp_path: Path, workers: int
) -> None:
    table = transformed(saved(paths, tmp_path), EVALUATION, "with_transform")
    found = compared(table, shuffle=True, num_workers=workers)
    seen = {}
    for batch in found:
        for image, caption, label in zip(
            batch["pixel_values"], batch["caption"], batch["label"], strict=True
        ):
            seen[caption] = (image, int(label))
    assert [*seen] != sorted(seen)  # shuffled
    for number in range(COUNT):
        row = table[number]
        assert torch.equal(seen[f"picture {number}"][0], row["pixel_values"])
        assert seen[f"picture {number}"][1] == number % 3


@WORKERS
def test_an_epoch_over_a_table_resumes_from_a_state(
    paths: list[str], tmp_path: Path, workers: int
) -> None:
    table = transformed(arrow(paths, tmp_path), TRAINING, "with_transform")
    options: dict[str, Any] = {"shuffle": True, "num_workers": workers, "seed": 5, "strict": True}

    def made() -> Any:
        generator = torch.Generator().manual_seed(8)
        return contextlib.closing(hr.DataLoader(table, 4, generator=generator, **options))

    with made() as loader:
        whole = list(loader)
    with made() as loader:
        begun = [*itertools.islice(iter(loader), 2)]
        state = json.loads(json.dumps(loader.state_dict()))
    with made() as loader:
        loader.load_state_dict(state)
        rest = list(loader)
    assert equal([*begun, *rest], whole)


def test_a_folder_of_images_is_native_with_torchs_bytes(tmp_path: Path) -> None:
    """Loaded as programs do: by the imagefolder builder of datasets."""
    table = datasets.load_dataset("imagefolder", data_dir=str(FOLDER), cache_dir=str(tmp_path))
    compared(transformed(table["train"].select(range(17)), EVALUATION, "with_transform"))


def test_a_streamed_table_gives_torchs_batches_natively(paths: list[str], tmp_path: Path) -> None:
    """An iterable dataset whose map() passes each row's image to a function."""
    stream = of_bytes(paths, tmp_path).to_iterable_dataset(num_shards=2)

    def made(row: dict[str, Any]) -> dict[str, Any]:
        return {"pixel_values": EVALUATION(row["image"].convert("RGB")), "label": row["label"]}

    table = stream.map(made, remove_columns=["image", "caption", "box"])
    expected = list(data.DataLoader(table, 5))
    with contextlib.closing(hr.DataLoader(table, 5)) as loader:
        assert equal(list(loader), expected)


def test_images_that_are_not_converted_or_transformed_equal_those_of_torchs_loader(
    paths: list[str], tmp_path: Path
) -> None:
    table = in_memory(paths, tmp_path)

    def of(loader: Any) -> list[Any]:
        return [[(row["image"], row["caption"]) for row in batch] for batch in loader]

    with contextlib.closing(hr.DataLoader(table, 5, collate_fn=list)) as loader:
        assert equal(of(loader), of(data.DataLoader(table, 5, collate_fn=list)))
