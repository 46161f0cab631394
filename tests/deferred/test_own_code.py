"""Datasets that open their own images give the batches of torch's loader, made natively."""

from __future__ import annotations

import dataclasses
import io
import multiprocessing.forkserver
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import PIL
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from PIL.Image import open as opened_early
from torch.utils import data
from torchvision import io as tv_io
from torchvision.datasets.folder import default_loader
from torchvision.transforms import v2

import headrace as hr
import images
from headrace._deferred import behind as file_behind

EVALUATION = tv.Compose(
    [
        tv.Resize(40),
        tv.CenterCrop(32),
        tv.ToTensor(),
        tv.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    ]
)


class Opens(data.Dataset[Any]):
    """Opens each file by the function that it is given."""

    def __init__(self, paths: list[str], make: Callable[[str, int], Any]) -> None:
        self.paths, self.make = paths, make

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.make(self.paths[index], index)


@dataclasses.dataclass
class Pair:
    image: Any
    label: int


class Named(NamedTuple):
    first: Any
    second: Any


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return images.old_files(tmp_path_factory.mktemp("deferred") / "photos")


def equal(found: Any, expected: Any) -> bool:
    """Whether two batches are the same, types included."""
    if isinstance(expected, torch.Tensor):
        return (
            type(found) is type(expected)
            and torch.equal(found, expected)
            and found.dtype == expected.dtype
        )
    if isinstance(expected, Image.Image):
        return (
            isinstance(found, Image.Image)
            and found.mode == expected.mode
            and found.size == expected.size
            and found.tobytes() == expected.tobytes()
        )
    if isinstance(expected, dict):
        return list(found) == list(expected) and all(equal(found[k], expected[k]) for k in expected)
    if isinstance(expected, list | tuple):
        return (
            type(found) is type(expected)
            and len(found) == len(expected)
            and all(map(equal, found, expected))
        )
    if isinstance(expected, np.ndarray):
        return bool(np.array_equal(found, expected))
    if dataclasses.is_dataclass(expected):
        return type(found) is type(expected) and equal(vars(found), vars(expected))
    return bool(type(found) is type(expected) and found == expected)


def compared(
    dataset: Any, strict: bool = True, expected: list[Any] | None = None, **options: Any
) -> list[Any]:
    """All batches, which must be torch's; with ``strict`` the engine must make all images."""
    options = {"batch_size": 5} | options
    if expected is None:
        expected = list(data.DataLoader(dataset, **options))
    loader = hr.DataLoader(dataset, strict=strict, **options)
    try:
        found = list(loader)
        assert equal(found, expected)
        return found
    finally:
        loader.close()


def from_open_file(path: str) -> Image.Image:
    with open(path, "rb") as file:
        return Image.open(file).convert("RGB")


def from_bytes(path: str) -> Image.Image:
    return Image.open(io.BytesIO(Path(path).read_bytes())).convert("RGB")


def in_a_context(path: str) -> Image.Image:
    with Image.open(Path(path)) as image:
        return image.convert("RGB")


OPENINGS: dict[str, Callable[[str], Any]] = {
    "path": lambda path: Image.open(path).convert("RGB"),
    "no convert": Image.open,
    "relative path": lambda path: Image.open(os.path.relpath(path)),
    "bytes of a path": lambda path: Image.open(os.fsencode(path)),
    "open file": from_open_file,
    "bytes": from_bytes,
    "context": in_a_context,
    "torchvision": default_loader,
    "bound early": lambda path: opened_early(path).convert("RGB"),
    "array": lambda path: Image.fromarray(images.pixels(50, 40, seed=int(path[-5]))),
    "grey array": lambda path: Image.fromarray(images.pixels(50, 40)[..., 1].copy()).convert("RGB"),
}


@pytest.mark.parametrize("how", OPENINGS)
def test_an_image_may_be_opened_in_any_way(paths: list[str], how: str) -> None:
    opening = OPENINGS[how]
    compared(Opens(paths, lambda path, index: (EVALUATION(opening(path)), index)))


ASKED: dict[str, Callable[[Any], Any]] = {
    "verify": lambda image: image.verify(),
    "draft": lambda image: image.draft("YCbCr", (25, 20)),
    "info": lambda image: image.info,
}


UPWARDS: dict[str, Callable[[str], Any]] = {
    "path": lambda path: F.to_tensor(Image.open(path)),
    "bytes of a path": lambda path: F.to_tensor(Image.open(os.fsencode(path))),
    "open file": lambda path: F.to_tensor(from_open_file(path)),
    "torchvision": tv_io.read_image,
    "an image": Image.open,
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("how", UPWARDS)
def test_a_relative_path_that_goes_up_from_a_symlink_leads_where_the_system_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, workers: int
) -> None:
    for number, folder in enumerate(("here/masks", "there/masks", "there/images")):
        (tmp_path / folder).mkdir(parents=True)
        path = tmp_path / folder / "1.png"
        Image.fromarray(images.pixels(40, 30, seed=number)).save(path)
        os.utime(path, (1e9, 1e9))
    (tmp_path / "here" / "images").symlink_to("../there/images")
    monkeypatch.chdir(tmp_path / "here")
    dataset = Opens(["images/../masks/1.png"], lambda path, _: UPWARDS[how](path))
    compared(dataset, strict=how != "an image", num_workers=workers, collate_fn=list)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
@pytest.mark.parametrize("what", ASKED)
def test_an_image_of_an_array_whose_format_is_set_behaves_as_with_pillow(
    paths: list[str], what: str, kind: str
) -> None:
    def sample(path: str, index: int) -> Any:
        image = Image.fromarray(images.pixels(50, 40, seed=index))
        image.format = kind
        return EVALUATION(image), repr(ASKED[what](image))

    compared(Opens(paths, sample))


SAMPLES: dict[str, Callable[[Any, int], Any]] = {
    "alone": lambda image, index: image,
    "pair": lambda image, index: (image, index),
    "list": lambda image, index: [image, index, f"name {index}"],
    "dict": lambda image, index: {"image": image, "label": index, "path": f"{index}.jpg"},
    "nested": lambda image, index: {"a": [image, (index, {"b": image})]},
    "named tuple": lambda image, index: Named(image, {"image": image}),
    "two images": lambda image, index: (image, index, image),
    "array beside it": lambda image, index: (image, np.arange(3) + index),
}


@pytest.mark.parametrize("shape", SAMPLES)
def test_a_sample_may_have_any_shape(paths: list[str], shape: str) -> None:
    made = SAMPLES[shape]
    compared(Opens(paths, lambda path, index: made(EVALUATION(Image.open(path)), index)))


def as_lists(samples: list[Any]) -> Any:
    return [image for image, _ in samples], torch.tensor([label for _, label in samples])


def stacked(samples: list[Any]) -> Any:
    return torch.stack([image for image, _ in samples]), [label for _, label in samples]


def in_an_object(samples: list[Any]) -> Any:
    return Pair(torch.stack([image for image, _ in samples]), len(samples))


def half(samples: list[Any]) -> Any:
    return torch.stack([image for image, _ in samples]).half().mul_(2)


@pytest.mark.parametrize("collate", [as_lists, stacked, in_an_object, half])
def test_a_custom_collate_function_gets_the_samples_that_it_expects(
    paths: list[str], collate: Callable[[Any], Any]
) -> None:
    dataset = Opens(paths, lambda path, index: (EVALUATION(Image.open(path)), index))
    compared(dataset, strict=collate is not half, collate_fn=collate)


def draw_on(image: Image.Image) -> Image.Image:
    ImageDraw.Draw(image).rectangle((3, 4, 20, 15), fill=(200, 10, 30))
    return image


def crop_then_draw(image: Image.Image) -> Image.Image:
    cropped = image.crop((2, 3, 40, 41))
    draw_on(image)
    return cropped


RECORDED: dict[str, Callable[[Any], Any]] = {
    "crop": lambda image: image.crop((5, 6, 37, 38)),
    "crop outside": lambda image: image.crop((-5, -6, 37, 38)),
    "crop of floats": lambda image: image.crop((5.4, 6.5, 37.5, 38.6)),
    "resize": lambda image: image.resize((32, 32)),
    "resize bilinear": lambda image: image.resize((31, 33), Image.Resampling.BILINEAR),
    "resize nearest": lambda image: image.resize((90, 95), Image.Resampling.NEAREST),
    "resize lanczos": lambda image: image.resize((20, 95), Image.Resampling.LANCZOS),
    "flip": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).crop((0, 0, 20, 20)),
    "upside down": lambda image: ImageOps.flip(image).resize((20, 20)),
    "mirror": lambda image: ImageOps.mirror(image).resize((20, 20)),
    "half turn": lambda image: image.transpose(Image.Transpose.ROTATE_180).resize((20, 20)),
    "quarter": lambda image: image.transpose(Image.Transpose.ROTATE_90).crop((0, 0, 30, 20)),
    "three quarters": lambda image: image.transpose(Image.Transpose.ROTATE_270).crop(
        (0, 0, 30, 20)
    ),
    "diagonal": lambda image: image.transpose(Image.Transpose.TRANSPOSE).crop((0, 0, 30, 20)),
    "other diagonal": lambda image: image.transpose(Image.Transpose.TRANSVERSE).crop(
        (0, 0, 30, 20)
    ),
    "rotate": lambda image: image.rotate(17).crop((0, 0, 30, 30)),
    "rotate bilinear": lambda image: image.rotate(
        -33, Image.Resampling.BILINEAR, fillcolor=(1, 2, 3)
    ).crop((0, 0, 30, 30)),
    "functional": lambda image: F.hflip(F.resized_crop(image, 3, 4, 30, 31, [24, 24])),
    "colours": lambda image: F.adjust_contrast(
        F.adjust_brightness(F.center_crop(image, [30, 30]), 0.7), 1.3
    ),
    "saturation and hue": lambda image: F.adjust_hue(
        F.adjust_saturation(F.center_crop(image, [30, 30]), 0.7), 0.2
    ),
    "solarize": lambda image: F.solarize(F.equalize(F.center_crop(image, [30, 30])), 100),
    "v2": lambda image: v2.functional.horizontal_flip(v2.functional.resize(image, [24, 25])),
    "copy": lambda image: image.copy().crop((0, 0, 20, 20)),
    "exif": lambda image: ImageOps.exif_transpose(image).crop((0, 0, 30, 20)),
    "rotate and expand": lambda image: image.rotate(
        40, Image.Resampling.BICUBIC, expand=True, fillcolor=(9, 8, 7)
    ).resize((30, 30)),
    "rotate a quarter and expand": lambda image: image.rotate(90, expand=True).resize((30, 30)),
    "rotate about a corner": lambda image: image.rotate(-7.5, center=(3, 4.5)).crop((0, 0, 30, 30)),
    "rotate and move": lambda image: image.rotate(
        100.25, Image.Resampling.BILINEAR, expand=1, center=(9, 9), translate=(-4, 6)
    ).resize((30, 30)),
    "rotate by nothing": lambda image: image.rotate(0, expand=True).crop((0, 0, 30, 30)),
    "small thumbnail": lambda image: (
        image.thumbnail((30, 30), reducing_gap=None),
        image.crop((0, 0, 20, 20)),
    )[1],
    "grey": lambda image: image.convert("L").convert("RGB").crop((0, 0, 30, 30)),
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(2)).crop((0, 0, 30, 30)),
    "enhance": lambda image: ImageEnhance.Color(image).enhance(0.4).crop((0, 0, 30, 30)),
    "thumbnail": lambda image: (image.thumbnail((30, 30)), image.resize((20, 20)))[1],
    "fit": lambda image: ImageOps.fit(image, (30, 20)),
    "expand": lambda image: ImageOps.expand(image, 5, (1, 2, 3)).crop((0, 0, 30, 30)),
    "pad": lambda image: ImageOps.pad(image, (30, 20)),
    "resize of a box": lambda image: image.resize((20, 20), box=(1.5, 2.5, 30, 40)),
    "reduce": lambda image: image.reduce(2).crop((0, 0, 20, 20)),
}
if int(PIL.__version__.partition(".")[0]) < 13:
    # A crop resized to fewer rows and columns is resized in another order (docs/exactness.md).
    del RECORDED["rotate a quarter and expand"]


def altered(image: Any) -> Any:
    """Changes one pixel of an image."""
    image.putpixel((3, 3), image.getpixel((5, 4)))
    return image


MATERIALISED: dict[str, Callable[[Any], Any]] = {
    "a crop of what is drawn on later": crop_then_draw,
    "draw": lambda image: draw_on(image).crop((0, 0, 30, 30)),
    "array": lambda image: Image.fromarray(255 - np.asarray(image)).crop((0, 0, 30, 30)),
    "pixels": lambda image: (image.putpixel((3, 3), (1, 2, 3)), image.crop((0, 0, 30, 30)))[1],
    "pixels of a smaller one": lambda image: altered(image.resize((30, 30))),
    "load": lambda image: (image.load().__setitem__((3, 3), (1, 2, 3)), image.crop((0, 0, 30, 30)))[
        1
    ],
    "rotate and expand over red": lambda image: image.rotate(33, expand=True, fillcolor=200).crop(
        (0, 0, 30, 30)
    ),
    "rotate over red": lambda image: image.rotate(33, fillcolor=200).crop((0, 0, 30, 30)),
    "split": lambda image: Image.merge("RGB", image.split()[::-1]).crop((0, 0, 30, 30)),
    "paste": lambda image: (
        image.paste(image.crop((0, 0, 9, 9)), (5, 5)),
        image.crop((0, 0, 30, 30)),
    )[1],
}


def test_images_have_their_info_also_with_a_pillow_without_copy_info(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Pillow 13 images have no `_copy_info`."""
    opened = SimpleNamespace(info={"dpi": (72, 72)})
    monkeypatch.setattr(file_behind, "header", lambda _: opened)

    class Rows(data.Dataset[Any]):
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, index: int) -> Any:
            small = Image.open(paths[index]).convert("RGB").resize((24, 24))
            return f"{np.asarray(small).shape} {small.info}"

    found = list(hr.DataLoader(Rows(), batch_size=None))
    assert found == [f"{(24, 24, 3)} {opened.info}"] * len(paths)


@pytest.mark.parametrize("what", RECORDED)
def test_recorded_operations_give_pillows_bytes(paths: list[str], what: str) -> None:
    op = RECORDED[what]
    compared(Opens(paths, lambda path, index: F.to_tensor(op(Image.open(path).convert("RGB")))))


@pytest.mark.parametrize("what", RECORDED | MATERIALISED)
@pytest.mark.parametrize("behind", ["array", "PIL image"])
def test_operations_that_need_pixels_get_pillows_pixels(
    paths: list[str], what: str, behind: str
) -> None:
    op = (RECORDED | MATERIALISED)[what]
    if behind == "array":
        compared(Opens(paths, lambda path, index: np.asarray(op(Image.open(path)))), strict=False)
    else:
        compared(
            Opens(paths, lambda path, index: op(Image.open(path))),
            strict=False,
            collate_fn=list,
        )


def test_a_missing_file_does_not_make_other_images_be_made_in_python(paths: list[str]) -> None:
    def make(path: str, index: int) -> Any:
        try:
            image = Image.open(f"{path}.gone")
        except FileNotFoundError:
            image = Image.open(path)
        return EVALUATION(image.convert("RGB"))

    compared(Opens(paths, make))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_by_their_exif_orientation(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(images.pixels(50, 40)).save(tmp_path / "turned.jpg", exif=exif)
    turned = Opens(
        [str(tmp_path / "turned.jpg")],
        lambda path, index: F.to_tensor(ImageOps.exif_transpose(Image.open(path))),
    )
    compared(turned)


# Processes that are spawned or forked from a server import torch anew.
@pytest.mark.parametrize(
    "method",
    ["fork", *(pytest.param(name, marks=pytest.mark.slow) for name in ("forkserver", "spawn"))],
)
def test_worker_processes_send_recorded_images(paths: list[str], method: str) -> None:
    dataset = Opens(paths, sample)
    alive = hr.DataLoader(dataset, 2)
    under_way = iter(alive)
    first = next(under_way)  # the engine runs in this process from here on
    # Spawned processes import torch anew, which takes seconds: torch's own batches are made here.
    batches = compared(dataset)
    compared(dataset, expected=batches, num_workers=2, multiprocessing_context=method)
    if method == "fork":
        compared(dataset, num_workers=2, multiprocessing_context=method, batch_size=None)
    assert equal([first, *under_way], list(data.DataLoader(dataset, 2)))
    alive.close()
    if method == "forkserver":  # it would stay alive for the next processes
        multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]


def sample(path: str, index: int) -> Any:
    return {"image": EVALUATION(Image.open(path).convert("RGB")), "path": path}


class Stream(data.IterableDataset[Any]):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[Any]:
        for path in self.paths:
            yield EVALUATION(Image.open(path))


class Many(Opens):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


def test_streams_custom_batches_and_single_samples_give_torchs_batches(paths: list[str]) -> None:
    compared(Stream(paths))
    compared(Many(paths, sample))
    compared(Opens(paths, sample), batch_size=None)
    compared(Opens(paths, sample), sampler=[3, 1, 1, 2], batch_size=3)
    compared(data.Subset(Opens(paths, sample), [5, 2, 7]), batch_size=2)


def test_a_dataset_may_be_indexed_by_anything(paths: list[str]) -> None:
    class ByName(data.Dataset[Any]):
        def __getitem__(self, name: str) -> Any:
            return sample(name, 0)

    compared(ByName(), sampler=paths, batch_size=4)


def test_a_file_may_be_deleted_or_changed_as_soon_as_it_was_opened(
    paths: list[str], tmp_path: Path
) -> None:
    def deleted(path: str, index: int) -> Any:
        copy = tmp_path / f"{index}.jpg"
        shutil.copy2(path, copy)
        made = EVALUATION(Image.open(copy).convert("RGB"))
        copy.unlink()
        return made

    def replaced(path: str, index: int) -> Any:
        copy = tmp_path / f"{index}.jpg"
        shutil.copy2(path, copy)
        made = EVALUATION(Image.open(copy).convert("RGB"))
        os.replace(shutil.copy2(paths[0], tmp_path / "other"), copy)
        return made

    def overwritten(path: str, index: int) -> Any:
        copy = tmp_path / f"{index}.jpg"
        shutil.copy2(path, copy)
        made = EVALUATION(Image.open(copy).convert("RGB"))
        copy.write_bytes(b"no image")
        return made

    for make in (deleted, replaced, overwritten):
        compared(Opens(paths, make), strict=make is not overwritten)


def test_seeds_that_the_dataset_sets_decide_torchvisions_draws(paths: list[str]) -> None:
    draws = tv.Compose(
        [
            tv.RandomResizedCrop(24),
            tv.RandomHorizontalFlip(),
            tv.ColorJitter(0.3, 0.3),
            tv.ToTensor(),
        ]
    )

    def by_index(path: str, index: int) -> Any:
        torch.manual_seed(index)
        return draws(Image.open(path))

    def twice(path: str, index: int) -> Any:
        state = torch.get_rng_state()
        torch.manual_seed(index)
        first = draws(Image.open(path))
        torch.manual_seed(index)
        second = draws(Image.open(path))
        torch.set_rng_state(state)
        return first, second

    compared(Opens(paths, by_index))
    compared(Opens(paths, twice))


def test_the_class_of_an_image_has_the_name_of_pillows_class(paths: list[str]) -> None:
    """Programs that also take arrays ask for the name, and convert everything else to an image."""

    def asked(path: str, index: int) -> Any:
        image: Any = Image.open(path).convert("RGB")
        if type(image).__name__ != "Image":
            image = Image.fromarray(image)
        return F.to_tensor(image), str(type(image)), repr(image).partition(" at ")[0]

    compared(Opens(paths[:3], asked), batch_size=None)
