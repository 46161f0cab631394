"""Random datasets by Hypothesis: whatever they do to their images, the batches equal torch's."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from torch.utils import data
from torchvision.transforms import v2

import headrace as hr
import images
from deferred.at_once import AtOnce
from deferred.test_own_code import Pair, equal

pytestmark = pytest.mark.filterwarnings("ignore:headrace.DataLoader")

Op = Callable[[Any], Any]
COUNT = 7  # samples of a dataset


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Encoded images of all kinds that the engine reads, and one that only Pillow decodes."""
    made = [images.jpeg(60, 45, seed=1), images.jpeg(45, 60, "4:4:4", flags=("progressive",))]
    made += [images.jpeg(50, 50, colour="grey", seed=3), images.png(48, 41, 2, seed=4)]
    webp = io.BytesIO()
    Image.fromarray(images.pixels(52, 44, seed=5)).save(webp, "WEBP", lossless=True)
    return [*made, webp.getvalue()]


def _drawn_on(image: Any) -> Any:
    ImageDraw.Draw(image).rectangle((3, 4, 20, 12), fill=(200, 10, 30))
    return image


def _used_twice(image: Any) -> Any:
    part = image.crop((2, 3, 40, 38))
    _drawn_on(image)
    return part


# What programs do to a Pillow image of at least 38 pixels a side; recorded or not.
OPS: dict[str, Op] = {
    "crop": lambda image: image.crop((1, 2, 39, 40)),
    "crop beyond": lambda image: image.crop((-3, -2, 44, 50)),
    "resize": lambda image: image.resize((50, 42), Image.Resampling.BICUBIC),
    "reduced": lambda image: image.resize((40, 41), Image.Resampling.BOX, reducing_gap=2.0),
    "flip": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "turn": lambda image: image.transpose(Image.Transpose.ROTATE_270),
    "rotate": lambda image: image.rotate(13, Image.Resampling.BILINEAR, fillcolor=(9, 8, 7)),
    "copy": lambda image: image.copy(),
    "thumbnail": lambda image: (image.thumbnail((44, 44)), image)[1],
    "fit": lambda image: ImageOps.fit(image, (43, 39)),
    "pad": lambda image: ImageOps.pad(image, (47, 60)),
    "expand": lambda image: ImageOps.expand(image, 3, (1, 2, 3)),
    "mirror": ImageOps.mirror,
    "autocontrast": ImageOps.autocontrast,
    "exif": ImageOps.exif_transpose,
    "sharpness": lambda image: ImageEnhance.Sharpness(image).enhance(1.7),
    "colour": lambda image: ImageEnhance.Color(image).enhance(0.3),
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(1.5)),
    "median": lambda image: image.filter(ImageFilter.MedianFilter(3)),
    "bands": lambda image: Image.merge("RGB", image.split()[::-1]),
    "array": lambda image: Image.fromarray(255 - np.asarray(image)),
    "drawn on": _drawn_on,
    "used twice": _used_twice,
    "loaded": lambda image: (image.load(), image)[1],
    "grey": lambda image: F.rgb_to_grayscale(image, 3),
    "contrast": lambda image: F.adjust_contrast(image, 1.4),
    "hue": lambda image: F.adjust_hue(image, 0.2),
    "one channel": lambda image: image.convert("L"),
    "three channels": lambda image: image.convert("RGB"),
    "grey by torchvision": tv.Grayscale(),
    "saturation": lambda image: F.adjust_saturation(image, 2.0),
    "gamma": lambda image: F.adjust_gamma(image, 0.8),
    "v2 crop": lambda image: v2.functional.center_crop(image, [39, 40]),
    "known": tv.Compose([tv.Resize(44), tv.CenterCrop(40)]),
}
NORMALIZE = tv.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))
# Functions that turn an image into values of one size.
ENDS: dict[str, Op] = {
    "tensor": tv.Compose([tv.Resize((24, 28)), tv.ToTensor(), NORMALIZE]),
    "bytes": tv.Compose([tv.CenterCrop(26), tv.PILToTensor()]),
    "functions": lambda image: F.normalize(F.to_tensor(F.resize(image, [22, 25])), 0.4, 0.2),
    "one number": tv.Compose([tv.CenterCrop(20), tv.ToTensor(), tv.Normalize((0.4,), (0.3,))]),
    "array": lambda image: np.asarray(image.resize((20, 21))),
    "wrapped": lambda image: tv.Compose([tv.Resize((19, 18)), tv.ToTensor(), lambda x: x * 2])(
        image
    ),
    "v2": v2.Compose([v2.Resize((24, 23)), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]),
}
ENDS |= {
    "v2, tensor first": v2.Compose(
        [
            v2.ToImage(),
            v2.Resize((21, 20), antialias=True),
            v2.CenterCrop(19),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
        ]
    ),
    "v2 functions": lambda image: v2.functional.normalize(
        v2.functional.to_dtype(
            v2.functional.center_crop(v2.functional.to_image(image), [18, 19]), scale=True
        ),
        [0.4],
        [0.3],
    ),
}
DRAWN: dict[str, Op] = {
    "crop": tv.Compose([tv.RandomResizedCrop(24), tv.RandomHorizontalFlip(), tv.ToTensor()]),
    "colours": tv.Compose([tv.Resize((24, 24)), tv.ColorJitter(0.4, 0.4, 0.4, 0.1), tv.ToTensor()]),
    "policy": tv.Compose([tv.CenterCrop(30), tv.RandAugment(), tv.ToTensor()]),
}


@dataclasses.dataclass(frozen=True)
class Leaf:
    """An image of a sample: how it is opened, what is done to it, and what it is turned into."""

    opening: str
    ops: tuple[str, ...]
    end: str

    def of(self, path: Path) -> Any:
        image = self._opened(path)
        for op in self.ops:
            image = OPS[op](image)
        return (ENDS | DRAWN)[self.end](image)

    def _opened(self, path: Path) -> Any:
        if self.opening == "file":
            with open(path, "rb") as file:
                return Image.open(file).convert("RGB")
        if self.opening == "grey":
            return Image.open(path).convert("L")
        if self.opening == "unconverted":
            return Image.open(path)
        if self.opening == "bytes":
            return Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
        if self.opening == "array":
            with Image.open(path) as image:
                return Image.fromarray(np.array(image.convert("RGB")))
        return Image.open(path).convert("RGB")


def leaves(ends: dict[str, Op]) -> st.SearchStrategy[Leaf]:
    return st.builds(
        Leaf,
        st.sampled_from(["path", "file", "bytes", "array", "grey", "unconverted"]),
        st.lists(st.sampled_from(sorted(OPS)), max_size=4).map(tuple),
        st.sampled_from(sorted(ends)),
    )


def nested(ends: dict[str, Op]) -> st.SearchStrategy[Any]:
    """The shape of a sample: images and other values at any depth."""
    return st.recursive(
        leaves(ends) | st.sampled_from(["name", 7, 0.5]),
        lambda parts: (
            st.lists(parts, min_size=1, max_size=3)
            | st.tuples(parts, parts)
            | st.dictionaries(st.sampled_from("abc"), parts, min_size=1)
            | st.builds(Pair, parts, st.integers(0, 9))
        ),
        max_leaves=4,
    )


class Written(data.Dataset[Any]):
    """A dataset of samples of one shape; the program itself may refuse one file."""

    def __init__(self, root: Path, sample: Any, refused: int) -> None:
        self.root, self.sample, self.refused = root, sample, refused

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> Any:
        made = self._made(self.sample, self.root / str(index))
        if index == self.refused:
            raise KeyError(f"no label for {index}")
        return made

    def _made(self, part: Any, path: Path) -> Any:
        if isinstance(part, Leaf):
            return part.of(path)
        if isinstance(part, dict):
            return {key: self._made(value, path) for key, value in part.items()}
        if isinstance(part, Pair):
            return Pair(self._made(part.image, path), part.label)
        if isinstance(part, list | tuple):
            return type(part)(self._made(value, path) for value in part)
        return part


def passed(
    kind: type[data.DataLoader[Any]], dataset: Written, options: dict[str, Any]
) -> tuple[list[Any], str]:
    """The batches of one pass with a seed, up to the error that ends it, and that error."""
    torch.manual_seed(3)
    found: list[Any] = []
    with contextlib.ExitStack() as stack:
        loader = kind(dataset, **options)
        if isinstance(loader, hr.DataLoader):
            stack.callback(loader.close)
        try:
            for batch in loader:
                found.append(batch)
        except (KeyError, OSError, TypeError, RuntimeError, ValueError) as error:
            # The text before the last line says where in the user's code the error arose.
            return found, f"{type(error).__name__}: {str(error).splitlines()[-1]}"
    return found, ""


def listed(samples: Any) -> Any:
    return samples


LOADERS = st.fixed_dictionaries(
    {"batch_size": st.sampled_from([None, 1, 2, 3]), "shuffle": st.booleans()},
    optional={"collate_fn": st.just(listed), "drop_last": st.just(False)},
)


def stacked(samples: list[Any]) -> Any:
    """Stacks the parts that are tensors in all samples, and lists the others."""
    first = samples[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(samples)
    if isinstance(first, dict):
        return {key: stacked([sample[key] for sample in samples]) for key in first}
    if isinstance(first, list | tuple):
        return [stacked([sample[n] for sample in samples]) for n in range(len(first))]
    if isinstance(first, Pair):
        return stacked([sample.image for sample in samples]), [one.label for one in samples]
    return samples


class Batch:
    """A batch as a program's own type, which torch does not know."""

    def __init__(self, samples: Any) -> None:
        self.samples = samples


def wrapped(samples: list[Any]) -> Any:
    return [vars(Batch(samples)), len(samples)]


def brightness(samples: list[Any]) -> Any:
    """Needs the values of all tensors."""
    return samples, [float(part.double().sum()) for part in tensors(samples)]


def brighter(samples: list[Any]) -> Any:
    """Changes the first tensor of each sample in place."""
    for part in tensors(samples)[:1]:
        part.add_(1)
    return stacked(samples)


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Pair):
        return tensors(value.image)
    parts = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list | tuple):
        return [found for part in parts for found in tensors(part)]
    return []


COLLATED = st.fixed_dictionaries(
    {
        "batch_size": st.sampled_from([1, 2, 3]),
        "shuffle": st.booleans(),
        "num_workers": st.sampled_from([0, 0, 1, 2]),
        "collate_fn": st.sampled_from([None, listed, stacked, wrapped, brightness, brighter]),
    }
)


def written(tmp_path: Path, files: list[bytes], sample: Any, refused: int) -> Written:
    for index in range(COUNT):
        (tmp_path / str(index)).write_bytes(files[index % len(files)])
    return Written(tmp_path, sample, refused)


QUICK = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def has_torchs_batches(dataset: Any, options: dict[str, Any]) -> None:
    kinds = (hr.DataLoader, data.DataLoader)
    (found, error), (expected, torchs) = (passed(kind, dataset, options) for kind in kinds)
    assert error == torchs
    assert equal(found, expected)


@pytest.mark.slow
@QUICK
@given(nested(ENDS), st.integers(-1, 2 * COUNT), LOADERS)
def test_a_dataset_without_random_draws_gives_torchs_batches_and_errors(
    tmp_path: Path, files: list[bytes], sample: Any, refused: int, options: dict[str, Any]
) -> None:
    has_torchs_batches(written(tmp_path, files, sample, refused), options)


@pytest.mark.slow
@settings(QUICK, max_examples=30)
@given(nested(ENDS), st.integers(-1, 3 * COUNT), COLLATED)
def test_a_dataset_with_workers_and_its_own_collate_function_gives_torchs_batches(
    tmp_path: Path, files: list[bytes], sample: Any, refused: int, options: dict[str, Any]
) -> None:
    has_torchs_batches(written(tmp_path, files, sample, refused), options)


@pytest.mark.slow
@QUICK
@given(nested(ENDS | DRAWN), LOADERS)
def test_a_random_dataset_gives_torchs_structure_and_images_made_later_equal_those_made_at_once(
    tmp_path: Path, files: list[bytes], at_once: AtOnce, sample: Any, options: dict[str, Any]
) -> None:
    dataset = written(tmp_path, files, sample, -1)

    kinds = (hr.DataLoader, hr.DataLoader, data.DataLoader)
    found, again, expected = (passed(kind, dataset, options) for kind in kinds)
    assert equal(found, again)
    assert shaped(found) == shaped(expected)


def test_images_made_at_once_are_compared_and_a_different_image_is_found(
    tmp_path: Path, files: list[bytes], at_once: AtOnce
) -> None:
    dataset = written(tmp_path, files[:4], Leaf("path", ("crop",), "crop"), -1)
    with contextlib.closing(hr.DataLoader(dataset, 2, strict=True)) as loader:
        list(loader)
    assert at_once.compared == COUNT
    at_once.another = True
    with (
        pytest.raises(AssertionError, match="another image at once"),
        contextlib.closing(hr.DataLoader(dataset, 2, strict=True)) as loader,
    ):
        list(loader)


def shaped(value: Any) -> Any:
    """Types, shapes and dtypes at any depth, without values."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return type(value), tuple(value.shape), value.dtype
    if isinstance(value, dict):
        return {key: shaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [shaped(part) for part in value]
    if dataclasses.is_dataclass(value):
        return type(value), shaped(vars(value))
    return value
