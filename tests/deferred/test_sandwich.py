"""A Python op between transforms that are known: native, Python, native."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageDraw, ImageFilter, ImageOps
from torch.utils import data
from torchvision import datasets
from torchvision.transforms import v2

import headrace as hr
import images
from deferred.at_once import AtOnce
from deferred.test_own_code import compared
from headrace._deferred import given

FILES = 8


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("sandwich") / "photos", FILES, 2, 90)


def framed(image: Any) -> Any:
    """A new image with the old one and a line on it."""
    made = Image.new("RGB", (image.width + 4, image.height + 6), (9, 8, 7))
    made.paste(image, (2, 3))
    ImageDraw.Draw(made).line((0, 0, 30, 20), (200, 10, 10), 3)
    return made


OPS: dict[str, Callable[[Any], Any]] = {
    "point": lambda image: image.point(lambda value: value // 2 + 30),
    "median": lambda image: image.filter(ImageFilter.MedianFilter(3)),
    "drawn": framed,
    "drawn in place": lambda image: (ImageDraw.Draw(image).line((0, 0, 9, 9)), image)[1],
    "channel": lambda image: image.getchannel("G"),
    "array": lambda image: Image.fromarray(np.asarray(image)[::-1].copy()),
}
MEAN, STD = (0.5,), (0.2,)
ENDS: dict[str, list[Any]] = {
    "tensor": [tv.Resize((21, 22)), tv.ToTensor(), tv.Normalize(MEAN, STD)],
    "bytes": [tv.CenterCrop(20), tv.PILToTensor()],
    "v2": [v2.Resize((24, 20)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)],
}


def leaves(dataset: Any) -> list[bool]:
    with contextlib.closing(hr.DataLoader(dataset, 4)) as loader:
        return [leaf.native for leaf in hr.explain(loader).leaves]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("op", OPS)
def test_known_transforms_after_a_python_op_are_native_with_torchs_bytes(
    root: Path, op: str, workers: int, at_once: AtOnce
) -> None:
    for end in ENDS.values() if not workers else [ENDS["tensor"]]:
        compose = tv.Compose([tv.Resize(60), OPS[op], *end])
        dataset = datasets.ImageFolder(root, compose)
        assert leaves(dataset) == [True]
        compared(dataset, strict=False, num_workers=workers)
    assert workers or at_once.compared


def test_transforms_after_a_python_op_are_drawn_by_the_engine_with_the_seed(root: Path) -> None:
    end = [tv.RandomCrop(24), tv.ToTensor()]
    dataset = datasets.ImageFolder(root, tv.Compose([tv.CenterCrop(60), OPS["point"], *end]))
    runs = []
    for workers in (0, 2, 0):
        with contextlib.closing(hr.DataLoader(dataset, 4, seed=5, num_workers=workers)) as loader:
            torch.manual_seed(len(runs))  # the numbers themselves do not matter
            runs.append(torch.cat([batch for batch, _ in loader]))
    assert runs[0].equal(runs[1])
    assert runs[0].equal(runs[2])
    whole = [
        sample
        for sample, _ in datasets.ImageFolder(
            root, tv.Compose([tv.CenterCrop(60), OPS["point"], tv.ToTensor()])
        )
    ]
    places = set()
    for crop, full in zip(runs[0], whole, strict=True):
        windows = full.unfold(1, 24, 1).unfold(2, 24, 1)
        found = (windows == crop[:, None, None]).all(-1).all(-1).all(0).nonzero()
        assert len(found) == 1
        places.add(tuple(found[0].tolist()))
    assert len(places) > FILES // 2


class MadeInPython(data.Dataset[Any]):
    """Transforms an image that was made in Python, and then changes the image."""

    def __init__(self, transform: Any, info: dict[Any, Any]) -> None:
        self.transform, self.info = transform, info

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Any:
        image = Image.fromarray(images.pixels(50, 40, seed=index)).point(lambda value: value)
        image.info = dict(self.info)
        made = self.transform(image)
        image.paste((1, 2, 3), (0, 0, 50, 40))  # after the transform was called
        return made


@pytest.mark.parametrize("workers", [0, 2])
def test_a_transform_sees_the_image_as_it_was_when_the_transform_was_called(workers: int) -> None:
    resized = MadeInPython(tv.Compose([tv.Resize((20, 20)), tv.ToTensor()]), {})
    compared(resized, strict=False, num_workers=workers)
    images_too = MadeInPython(tv.Resize((20, 20)), {"dpi": (3, 4), "words": ["a"]})
    options: dict[str, Any] = {"num_workers": workers, "collate_fn": list}
    with contextlib.closing(hr.DataLoader(images_too, 3, **options)) as loader:
        (found,) = loader
    (wanted,) = data.DataLoader(images_too, 3, collate_fn=list)
    for one, other in zip(found, wanted, strict=True):
        assert one == other
        assert (one.info, one.mode, one.size) == (other.info, other.mode, other.size)


def test_an_image_that_is_large_or_of_another_class_or_mode_stays_in_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = tv.ToTensor()

    class Own(Image.Image):
        pass

    def own(image: Any) -> Any:
        made = Own()
        made.__dict__.update(image.point(lambda value: value).__dict__)
        return made

    def dataset(op: Callable[[Any], Any]) -> Any:
        return MadeInPython(lambda image: end(op(image)), {})

    for op, native in (
        (lambda image: image.point(lambda value: value), True),
        (own, False),
        (lambda image: image.convert("RGBA"), False),
        (lambda image: image.resize((1000, 350)), False),  # a little more than 1 MiB
    ):
        assert leaves(dataset(op)) == [native]
        compared(dataset(op), strict=False)
    monkeypatch.setattr(given, "_MOST_BYTES", 0)
    assert leaves(dataset(lambda image: image)) == [False]


class Upright:
    """A program's own function at the end: turns the image by its EXIF."""

    def __call__(self, image: Any) -> Any:
        return F.pil_to_tensor(ImageOps.exif_transpose(image))


@pytest.mark.parametrize("workers", [0, 2])
def test_code_after_the_native_part_sees_the_info_and_exif_of_the_file(
    tmp_path: Path, workers: int
) -> None:
    (tmp_path / "a").mkdir()
    for number in range(4):
        exif = Image.Exif()
        exif[0x0112] = 6
        photo = Image.fromarray(images.pixels(70, 50))
        photo.save(tmp_path / "a" / f"{number}.jpg", exif=exif, dpi=(90, 90), icc_profile=b"icc")
    transform = tv.Compose([tv.CenterCrop((40, 60)), Upright()])
    dataset = datasets.ImageFolder(str(tmp_path), transform)
    with contextlib.closing(hr.DataLoader(dataset, 2, num_workers=workers)) as loader:
        for ours, theirs in zip(loader, data.DataLoader(dataset, 2), strict=True):
            assert torch.equal(ours[0], theirs[0])
    plain = datasets.ImageFolder(str(tmp_path))
    with contextlib.closing(hr.DataLoader(plain, 2, collate_fn=list)) as loader:
        [(image, _), *_] = next(iter(loader))
    assert image.info == plain[0][0].info
    assert image.getexif()[0x0112] == 6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_totensor_gives_torchs_default_dtype(
    tmp_path: Path, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = images.plain_tree(tmp_path, 4)
    paths = sorted(str(path) for path in root.rglob("*.jpg"))

    class Opens(data.Dataset[Any]):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> Any:
            return F.to_tensor(Image.open(paths[index]).convert("RGB").resize((20, 20)))

    transform = tv.Compose([tv.Resize((20, 20)), tv.ToTensor()])
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        for dataset in (Opens(), datasets.ImageFolder(str(root), transform)):
            expected = list(data.DataLoader(dataset, 2))
            with contextlib.closing(hr.DataLoader(dataset, 2)) as loader:
                for ours, theirs in zip(loader, expected, strict=True):
                    ours, theirs = (x if torch.is_tensor(x) else x[0] for x in (ours, theirs))
                    assert ours.dtype == dtype
                    assert torch.equal(ours, theirs)
    finally:
        torch.set_default_dtype(before)
