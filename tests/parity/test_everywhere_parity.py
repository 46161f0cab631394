"""Random crops of photographs and of every kind of JPEG through each entry point: the function, the
dataset, and the loader over a folder and over packed shards with and without seek points.

PARITY_IMAGES=DIR compares the images below a folder instead of those that scikit-image and
scikit-learn install, and prints how many crops were compared (pytest -s).
"""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import transforms as tv
from torchvision.transforms import InterpolationMode, v2
from torchvision.transforms import functional as torchvision

import headrace as hr
import images
from draws import Box, resized_crop_box, some_boxes, uniform, words

# Each kind with a different size, larger and smaller than the crops.
FILTERS = {
    "nearest": (61, 40),
    "bilinear": (96, 96),
    "bicubic": (224, 200),
    "box": (33, 75),
    "hamming": (300, 64),
    "lanczos": (50, 170),
}
EPOCHS = 4  # x 6 filters: 24 crops of each image through each loader
SEED = 77
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def installed_photographs() -> dict[str, bytes]:
    """JPEGs unchanged, and losslessly stored pictures encoded in every sampling."""
    import skimage
    import sklearn.datasets

    data = Path(skimage.__file__).parent / "data"
    files = {p.name: p.read_bytes() for p in [data / "rocket.jpg", data / "hubble_deep_field.jpg"]}
    for path in (Path(sklearn.datasets.__file__).parent / "images").glob("*.jpg"):
        files[path.name] = path.read_bytes()
    for name, sampling in zip(
        ["astronaut", "chelsea", "coffee"] * 2, images.SAMPLINGS, strict=True
    ):
        picture = np.asarray(Image.open(data / f"{name}.png").convert("RGB"))
        height, width = picture.shape[:2]
        flags = ("progressive",) if sampling == "4:4:4" else ()
        encoded = images.jpeg(width, height, sampling, flags=flags, samples=picture)
        files[f"{name}-{sampling.replace(':', '')}.jpg"] = encoded
    return files


def is_good(data: bytes) -> bool:
    try:
        Image.open(io.BytesIO(data)).convert("RGB")
    except (OSError, SyntaxError, ValueError):
        return False
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("everywhere")
    chosen = os.environ.get("PARITY_IMAGES")
    if chosen:
        paths = (
            p for p in Path(chosen).rglob("*") if p.suffix.lower() in (".jpg", ".jpeg", ".png")
        )
        files = {f"{number:06}.jpg": path.read_bytes() for number, path in enumerate(sorted(paths))}
        files = {name: data for name, data in files.items() if is_good(data)}
    else:
        files = installed_photographs()
        for size in ((320, 211), (97, 150)):
            kinds = images.every_jpeg(*size)
            files |= {f"{kind}-{size[0]}.jpg": data for kind, data in kinds.items()}
    return images.write_tree(root, {f"photos/{name}": data for name, data in files.items()})


@pytest.fixture(scope="module")
def sources(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("everywhere-packed")
    hr.pack(folder, root / "seek.hr")
    hr.pack(folder, root / "plain.hr", seek=False)
    assert hr.Dataset(root / "seek.hr").info["seek_bytes"] > 0
    assert hr.Dataset(root / "plain.hr").info["seek_bytes"] == 0
    return {"folder": folder, "with seek points": root / "seek.hr", "without": root / "plain.hr"}


class Tally:
    """How many crops were compared, and in how many bytes they differ."""

    def __init__(self) -> None:
        self.crops = self.bytes = self.differing = 0
        self.where: list[object] = []

    def compare(self, found: np.ndarray, expected: np.ndarray, where: object) -> None:
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        self.crops += 1
        self.bytes += expected.nbytes
        mine, theirs = (np.ascontiguousarray(a).view(np.uint8) for a in (found, expected))
        differing = int(np.count_nonzero(mine != theirs))
        self.differing += differing
        if differing and len(self.where) < 20:
            self.where.append(where)

    def close(self, what: str) -> None:
        print(f"\n{what}: {self.crops:,} crops, {self.bytes:,} bytes, {self.differing} differ")
        assert self.crops > 0
        assert (self.differing, self.where) == (0, [])


@functools.lru_cache(maxsize=400)
def opened(path: Path) -> Image.Image:
    # Pillow hands a file over in blocks of 64 KB, which libjpeg's arithmetic decoder refuses.
    return Image.open(io.BytesIO(path.read_bytes())).convert("RGB")


def photographs(folder: Path) -> Iterator[Path]:
    yield from sorted((folder / "photos").iterdir())


@pytest.mark.slow
def test_crops_through_the_function_and_the_dataset_equal_torchvisions(
    folder: Path, sources: dict[str, Path]
) -> None:
    function, dataset = Tally(), Tally()
    with hr.Dataset(sources["with seek points"]) as packed:
        for number, path in enumerate(photographs(folder)):
            whole, data = opened(path), path.read_bytes()
            dataset.compare(packed[number].image, np.asarray(whole), path.name)
            mine = Image.fromarray(packed[number].image)
            random = np.random.default_rng(number)
            boxes = some_boxes(*whole.size, 4 * len(FILTERS), number)
            for box, interpolation in zip(boxes, 4 * list(FILTERS), strict=True):
                size = [int(n) for n in random.integers(1, 300, 2)]
                flip = bool(random.integers(2))
                method = InterpolationMode(interpolation)
                wanted = torchvision.resized_crop(whole, *box, size, method)
                wanted = np.asarray(torchvision.hflip(wanted) if flip else wanted)
                where = (path.name, box, size, interpolation, flip)
                made = hr.functional.resized_crop(data, *box, size, interpolation, hflip=flip)
                function.compare(made, wanted, where)
                again = torchvision.resized_crop(mine, *box, size, method)
                again = np.asarray(torchvision.hflip(again) if flip else again)
                dataset.compare(again, wanted, where)
    function.close("function")
    dataset.close("dataset")


def drawn(epoch: int, sample: int, size: tuple[int, int]) -> tuple[Box, bool]:
    """The crop and the flip of [RandomResizedCrop, RandomHorizontalFlip]."""
    box = resized_crop_box(*size, lambda block: words(SEED, epoch, sample, 0, block))
    return box, uniform(words(SEED, epoch, sample, 1, 0)[0]) < 0.5


def steps(interpolation: str, *more: object) -> list[object]:
    crop = hr.transforms.RandomResizedCrop(FILTERS[interpolation], interpolation=interpolation)
    return [crop, hr.transforms.RandomHorizontalFlip(), *more]


def theirs(whole: Image.Image, epoch: int, sample: int, interpolation: str) -> Image.Image:
    box, flip = drawn(epoch, sample, whole.size)
    method = InterpolationMode(interpolation)
    made = torchvision.resized_crop(whole, *box, list(FILTERS[interpolation]), method)
    return torchvision.hflip(made) if flip else made


@pytest.mark.every(3)
@pytest.mark.parametrize("interpolation", FILTERS)
def test_crops_through_the_loader_equal_torchvisions_with_and_without_seek_points(
    folder: Path, sources: dict[str, Path], interpolation: str
) -> None:
    tallies = {source: Tally() for source in sources}
    paths = list(photographs(folder))
    loaders = {
        source: hr.Loader(
            path,
            16,
            seed=SEED,
            transform=steps(interpolation),
            dtype="uint8",
            layout="NHWC",
            output="numpy",
            num_threads=2,
        )
        for source, path in sources.items()
    }
    for epoch in range(EPOCHS):
        sample = 0
        for batches in zip(*loaders.values(), strict=True):
            for found in zip(*(images_ for images_, _ in batches), strict=True):
                wanted = np.asarray(theirs(opened(paths[sample]), epoch, sample, interpolation))
                for source, made in zip(loaders, found, strict=True):
                    tallies[source].compare(made, wanted, (paths[sample].name, epoch))
                sample += 1
        assert sample == len(paths)
    for source, loader in loaders.items():
        loader.close()
        tallies[source].close(f"loader, {source}, {interpolation}")


V1 = tv.Compose([tv.ToTensor(), tv.Normalize(MEAN, STD)])
V2 = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize(("scale", "finish"), [("div", V1), ("mul", V2)], ids=["v1", "v2"])
def test_normalised_crops_equal_both_forms_of_torchvisions_to_the_last_bit(
    folder: Path, sources: dict[str, Path], scale: str, finish: object, dtype: str
) -> None:
    tally = Tally()
    paths = list(photographs(folder))
    with hr.Loader(
        sources["with seek points"],
        16,
        seed=SEED,
        transform=steps("bilinear", hr.transforms.Normalize(MEAN, STD)),
        dtype=dtype,
        scale=scale,
        num_threads=2,
    ) as loader:
        found = [image for batch, _ in loader for image in batch]
    for sample, (path, image) in enumerate(zip(paths, found, strict=True)):
        wanted = finish(theirs(opened(path), 0, sample, "bilinear")).to(getattr(torch, dtype))
        # Compared as integers, because of NaN and signed zeros, and because NumPy has no bfloat16.
        bits = torch.int32 if dtype == "float32" else torch.int16
        tally.compare(image.view(bits).numpy(), wanted.view(bits).numpy(), path.name)
    tally.close(f"normalised, {scale}, {dtype}")
