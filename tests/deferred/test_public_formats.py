"""Loading sections like those of public programs whose images are not in folders of classes."""

from __future__ import annotations

import csv
import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image, ImageOps
from torch.utils import data
from torchvision import datasets, tv_tensors
from torchvision.transforms import v2

import images
from deferred.test_public_programs import END, MEAN, STD
from deferred.verdicts import CERTAIN, DRAWN, Chances, draws, runs

webdataset = pytest.importorskip("webdataset")

WORKERS = pytest.mark.parametrize("workers", [0, 2])
BICUBIC = tv.InterpolationMode.BICUBIC


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    root = images.plain_tree(tmp_path_factory.mktemp("formats") / "photos", 12)
    return sorted(str(path) for path in root.rglob("*.jpg"))


# ---- Hugging Face --------------------------------------------------------------------------------


class Rows(data.Dataset[Any]):
    """An Arrow table of encoded images, decoded and transformed a batch of rows at a time.

    As ``datasets.Dataset.with_transform`` does it: a column of the struct of path and bytes, each
    image opened from memory, ``load``, the turn that EXIF asks for, and the transform over columns.
    """

    def __init__(self, paths: list[str], transform: Any) -> None:
        encoded = [{"bytes": Path(path).read_bytes(), "path": None} for path in paths]
        self.table = pa.table({"image": encoded, "label": [n % 3 for n in range(len(paths))]})
        self.transform = transform

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __getitem__(self, index: Any) -> Any:
        rows = self.table.take(pa.array([index] if isinstance(index, int) else index))
        columns = rows.to_pydict()
        columns["image"] = [decoded(value) for value in columns["image"]]
        columns = self.transform(columns)
        return columns if isinstance(index, list) else {k: v[0] for k, v in columns.items()}

    def __getitems__(self, indices: list[int]) -> list[Any]:
        columns = self[list(indices)]
        return [{key: values[n] for key, values in columns.items()} for n in range(len(indices))]


def decoded(value: dict[str, Any]) -> Any:
    image = Image.open(io.BytesIO(value["bytes"]))
    image.load()
    if image.getexif().get(0x0112) is not None:
        image = ImageOps.exif_transpose(image)
    return image


class OverColumns:
    """A function as programs give it to ``with_transform``."""

    def __init__(self, chances: Chances) -> None:
        crop = tv.RandomResizedCrop(32, chances.scale)
        self.transform = tv.Compose([crop, tv.RandomHorizontalFlip(chances.p), *END])

    def __call__(self, columns: dict[str, Any]) -> Any:
        columns["pixel_values"] = [
            self.transform(image.convert("RGB")) for image in columns["image"]
        ]
        del columns["image"]
        return columns


def pixel_values(samples: list[Any]) -> Any:
    return {
        "pixel_values": torch.stack([sample["pixel_values"] for sample in samples]),
        "labels": torch.tensor([sample["label"] for sample in samples]),
    }


@WORKERS
def test_hugging_face_with_transform(paths: list[str], workers: int) -> None:
    for run, chances in ((draws, DRAWN), (runs, CERTAIN)):
        run(
            "Hugging Face imagefolder, `with_transform`",
            Rows(paths, OverColumns(chances)),
            num_workers=workers,
            collate_fn=pixel_values,
        )


# ---- open_clip -----------------------------------------------------------------------------------


def to_rgb(image: Any) -> Any:
    return image.convert("RGB")


class Captioned(data.Dataset[Any]):
    """A csv file of paths and captions, with a tokenizer."""

    def __init__(self, listing: Path, transform: Any) -> None:
        with listing.open() as file:
            rows = list(csv.DictReader(file, delimiter="\t"))
        self.files = [row["filepath"] for row in rows]
        self.captions = [row["title"] for row in rows]
        self.transform = transform

    def __len__(self) -> int:
        return len(self.captions)

    def __getitem__(self, index: int) -> Any:
        image = self.transform(Image.open(str(self.files[index])))
        return image, tokens([str(self.captions[index])])[0]


def tokens(texts: list[str]) -> torch.Tensor:
    made = torch.zeros(len(texts), 16, dtype=torch.long)
    for row, text in zip(made, texts, strict=True):
        letters = torch.tensor(list(text.encode()[:16]))
        row[: len(letters)] = letters
    return made


@WORKERS
def test_open_clip_csv(paths: list[str], tmp_path: Path, workers: int) -> None:
    listing = tmp_path / "train.tsv"
    rows = [f"{path}\tpicture {n}" for n, path in enumerate(paths)]
    listing.write_text("\n".join(["filepath\ttitle", *rows]))

    def train(chances: Chances) -> Any:
        crop = tv.RandomResizedCrop(32, scale=chances.scale, interpolation=BICUBIC)
        return Captioned(listing, tv.Compose([crop, to_rgb, *END]))

    evaluation = [tv.Resize(36, interpolation=BICUBIC), tv.CenterCrop(32), to_rgb, *END]
    draws("open_clip csv", train(DRAWN), num_workers=workers)
    runs("open_clip csv", train(CERTAIN), num_workers=workers)
    runs("open_clip csv", Captioned(listing, tv.Compose(evaluation)), num_workers=workers)
    if workers:  # without workers the rest of a folder's Compose runs in threads
        folder = datasets.ImageFolder(Path(paths[0]).parents[1], tv.Compose(evaluation))
        runs("open_clip csv", folder, num_workers=workers)


# ---- WebDataset ----------------------------------------------------------------------------------


def shards(folder: Path, paths: list[str]) -> list[str]:
    """Two tars of JPEGs and labels."""
    made = []
    for number in range(2):
        name = folder / f"train-{number}.tar"
        with tarfile.open(name, "w") as tar:
            for n, path in list(enumerate(paths))[number::2]:
                members = {"jpg": Path(path).read_bytes(), "cls": str(n).encode()}
                for extension, content in members.items():
                    member = tarfile.TarInfo(f"{n:05d}.{extension}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
        made.append(str(name))
    return made


def same(value: Any) -> Any:
    return value


@pytest.mark.filterwarnings("ignore::UserWarning")
@WORKERS
def test_webdataset(paths: list[str], tmp_path: Path, workers: int) -> None:
    urls = shards(tmp_path, paths)

    def pipeline(chances: Chances) -> Any:
        crop = tv.RandomResizedCrop(32, chances.scale)
        transform = tv.Compose([crop, tv.RandomHorizontalFlip(chances.p), *END])
        read = webdataset.WebDataset(urls, shardshuffle=False).decode("pil")
        return read.to_tuple("jpg", "cls").map_tuple(transform, same)

    draws("WebDataset", pipeline(DRAWN), num_workers=workers)
    runs("WebDataset", pipeline(CERTAIN), num_workers=workers)


# ---- masks ---------------------------------------------------------------------------------------


class Segmented(data.Dataset[Any]):
    """An image and its mask, scaled and turned into arrays, as UNets are given them."""

    def __init__(self, paths: list[str], masks: Path, scale: float) -> None:
        self.paths, self.masks, self.scale = paths, masks, scale

    def __len__(self) -> int:
        return len(self.paths)

    def scaled(self, image: Any, is_mask: bool) -> Any:
        width, height = image.size
        size = (int(self.scale * width), int(self.scale * height))
        kind = Image.Resampling.NEAREST if is_mask else Image.Resampling.BICUBIC
        array = np.asarray(image.resize((size[0] // 8 * 8, size[1] // 8 * 8), resample=kind))
        if is_mask:
            return (array > 128).astype(np.int64)
        array = array.transpose((2, 0, 1))
        return array / 255.0 if (array > 1).any() else array

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        image, mask = Image.open(path), Image.open(self.masks / f"{Path(path).stem}.png")
        assert image.size == mask.size
        return {
            "image": torch.as_tensor(self.scaled(image, False).copy()).float().contiguous(),
            "mask": torch.as_tensor(self.scaled(mask, True).copy()).long().contiguous(),
        }


class OfTensors(Segmented):
    """torchvision v2's way: the mask moves with the image."""

    def __init__(self, paths: list[str], masks: Path, chances: Chances) -> None:
        super().__init__(paths, masks, 1.0)
        crop = v2.RandomResizedCrop((32, 32), chances.scale, antialias=True)
        self.transform = v2.Compose(
            [
                crop,
                v2.RandomHorizontalFlip(chances.p),
                v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
                v2.Normalize(MEAN, STD),
            ]
        )

    def __getitem__(self, index: int) -> Any:
        path = self.paths[index]
        image = tv_tensors.Image(Image.open(path).convert("RGB"))
        mask = tv_tensors.Mask(np.array(Image.open(self.masks / f"{Path(path).stem}.png")))
        return self.transform(image, mask)


@WORKERS
def test_masks_beside_images(paths: list[str], tmp_path: Path, workers: int) -> None:
    program = "UNet with masks, v2 (Image, Mask)"
    for path in paths:
        with Image.open(path) as image:
            width, height = image.size
        mask = Image.fromarray(images.pixels(width, height, 1, seed=3)[:, :, 0])
        mask.save(tmp_path / f"{Path(path).stem}.png")
    each = {"batch_size": 1, "num_workers": workers}
    runs(program, Segmented(paths, tmp_path, 0.5), **each)
    draws(program, OfTensors(paths, tmp_path, DRAWN), num_workers=workers)
    runs(program, OfTensors(paths, tmp_path, CERTAIN), num_workers=workers)
