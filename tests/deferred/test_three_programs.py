"""Three programs in the style of public ones: every batch equals torch's, seeds included.

Their own code makes all random draws, so the engine draws nothing.
"""

from __future__ import annotations

import contextlib
import csv
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import equal

MEAN, STD = (0.48, 0.46, 0.41), (0.27, 0.26, 0.28)


def to_rgb(image: Any) -> Any:
    return image.convert("RGB")


def tokens(text: str, length: int = 12) -> torch.Tensor:
    codes = [1, *(ord(letter) for letter in text.lower()), 2][:length]
    return torch.tensor(codes + [0] * (length - len(codes)))


class Captions(data.Dataset[Any]):
    """CLIP's: a table of paths and titles."""

    def __init__(self, root: Path) -> None:
        with (root / "captions.csv").open() as file:
            self.rows = list(csv.DictReader(file, delimiter="\t"))
        resize = tv.Resize(24, interpolation=tv.InterpolationMode.BICUBIC)
        steps = [resize, tv.CenterCrop(24), to_rgb, tv.ToTensor(), tv.Normalize(MEAN, STD)]
        self.transforms = tv.Compose(steps)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        row = self.rows[index]
        return self.transforms(Image.open(str(row["filepath"]))), tokens(row["title"])


class Segmentation(data.Dataset[Any]):
    """Images and masks that are cropped and mirrored together by draws of Python and torch."""

    def __init__(self, root: Path) -> None:
        self.images = sorted((root / "images").iterdir())
        self.masks = root / "masks"

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        path = self.images[index]
        image = Image.open(path).convert("RGB")
        mask = Image.open(self.masks / f"{path.stem}.png")
        size = random.randint(30, 50)
        image = F.resize(image, [size, size])
        mask = F.resize(mask, [size, size], interpolation=tv.InterpolationMode.NEAREST)
        if random.random() < 0.5:
            image, mask = F.hflip(image), F.hflip(mask)
        box = tv.RandomCrop.get_params(image, (28, 28))
        image, mask = F.crop(image, *box), F.crop(mask, *box)
        image = F.adjust_brightness(image, 1 + 0.4 * (random.random() - 0.5))
        target = torch.as_tensor(np.array(mask), dtype=torch.int64)
        return {
            "image": F.normalize(F.to_tensor(image), MEAN, STD),
            "mask": target,
            "name": path.stem,
        }


class Clips(data.Dataset[Any]):
    """Frames of a clip, each transformed with the same seed, and a thumbnail of the first."""

    def __init__(self, root: Path) -> None:
        self.clips = [sorted(clip.iterdir()) for clip in sorted((root / "clips").iterdir())]
        crop = tv.RandomResizedCrop(20, scale=(0.5, 1.0))
        self.transform = tv.Compose([crop, tv.RandomHorizontalFlip(), tv.ToTensor()])

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> Any:
        frames = self.clips[index]
        first = int(torch.randint(len(frames) - 2, ()))
        seed = int(np.random.randint(1 << 30))
        made = []
        for path in frames[first : first + 3]:
            torch.manual_seed(seed)
            made.append(self.transform(Image.open(path)))
        small = Image.open(frames[0])
        small.thumbnail((10, 10))
        return torch.stack(made), F.pil_to_tensor(small), first


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("programs")
    for name in ("photos", "images", "masks", "clips"):
        (root / name).mkdir()
    formats = ("jpg", "png", "webp", "gif", "bmp", "tiff")
    with (root / "captions.csv").open("w") as table:
        table.write("filepath\ttitle\n")
        for n in range(12):
            path = root / "photos" / f"{n}.{formats[n % 6]}"
            picture = Image.fromarray(images.pixels(50 + n, 40, seed=n))
            (picture.convert("L") if n in (6, 7) else picture).save(path)
            table.write(f"{path}\tPhotograph {n}\n")
    for n in range(8):
        (root / "images" / f"{n}.jpg").write_bytes(images.jpeg(52 + n, 47, seed=n))
        mask = Image.fromarray(images.pixels(52 + n, 47, 1, n)[..., 0] // 64)
        mask.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
        mask.save(root / "masks" / f"{n}.png")
        (root / "clips" / f"{n}").mkdir()
        for frame in range(5):
            file = root / "clips" / f"{n}" / f"{frame}.jpg"
            file.write_bytes(images.jpeg(64, 48, seed=10 * n + frame))
    return root


def seeded(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def seed_worker(_: int) -> None:
    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)


def epochs(kind: Any, dataset: Any, workers: int) -> Any:
    """Two epochs by PyTorch's recipe for runs that repeat."""
    seeded(7)
    options: dict[str, Any] = {"ahead": 0} if kind is hr.DataLoader else {}
    generator = torch.Generator().manual_seed(3)
    loader = kind(
        dataset,
        batch_size=3,
        shuffle=True,
        num_workers=workers,
        worker_init_fn=seed_worker if workers else None,
        generator=generator,
        **options,
    )
    with contextlib.closing(loader) if options else contextlib.nullcontext():
        return [list(loader), list(loader)]


@pytest.mark.parametrize("program", [Captions, Segmentation, Clips])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_batch_of_a_program_equals_torchs(root: Path, program: Any, workers: int) -> None:
    dataset = program(root)
    expected = epochs(data.DataLoader, dataset, workers)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert equal(epochs(hr.DataLoader, dataset, workers), expected)


def test_images_of_the_programs_are_native(root: Path) -> None:
    for program in (Captions, Segmentation, Clips):
        with contextlib.closing(hr.DataLoader(program(root))) as loader:
            found = loader.explain()
        native = [leaf.where for leaf in found.leaves if leaf.native]
        assert native == {Segmentation: ["['image']"], Clips: ["[0]", "[1]"]}.get(program, ["[0]"])
