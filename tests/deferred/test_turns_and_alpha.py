"""EXIF and transparency of images that a dataset's own code opens: as by Pillow, native or not."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageOps
from torch.utils import data
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

import headrace as hr
import images
from deferred.test_own_code import Opens, compared, equal

ORIENTATION = 0x0112
WORKERS = pytest.mark.parametrize("workers", [0, 1])


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """One JPEG of each orientation."""
    made = []
    for number in range(9):
        path = tmp_path_factory.mktemp("turned") / f"{number}.jpg"
        exif = Image.Exif()
        exif[ORIENTATION] = number
        Image.fromarray(images.pixels(40, 30, seed=number)).save(path, exif=exif)
        os.utime(path, (1e9, 1e9))
        made.append(str(path))
    return made


@WORKERS
def test_an_image_is_turned_only_where_the_program_turns_it_and_keeps_its_files_exif(
    turned: list[str], workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        image = Image.open(path)
        orientation = image.getexif().get(ORIENTATION), "exif" in image.info
        upright = ImageOps.exif_transpose(image)
        left = upright.getexif().get(ORIENTATION)
        return F.to_tensor(image), F.to_tensor(upright.convert("RGB")), orientation, left

    compared(Opens(turned, made), batch_size=None, num_workers=workers)


@pytest.fixture(scope="module")
def transparent(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """PNG files with alpha: in colour, grey, with a palette, and with one transparent colour of
    three kinds."""
    place, made = tmp_path_factory.mktemp("transparent"), []
    colours = np.concatenate([images.pixels(40, 30), images.pixels(40, 30, 1, seed=4)], axis=2)
    photograph = Image.fromarray(colours, "RGBA")
    pictures = {
        "RGBA": (photograph, {}),
        "LA": (photograph.convert("LA"), {}),
        "P": (photograph.convert("RGB").quantize(256), {"transparency": bytes(range(256))}),
        "RGB": (photograph.convert("RGB"), {"transparency": tuple(colours[3, 4, :3].tolist())}),
        "P of one": (photograph.convert("RGB").quantize(256), {"transparency": 3}),
        "L": (photograph.convert("L"), {"transparency": 77}),
    }
    for name, (picture, options) in pictures.items():
        made.append(str(place / f"{name}.png"))
        picture.save(made[-1], **options)
        os.utime(made[-1], (1e9, 1e9))
    return made


@WORKERS
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_transparent_pixels_keep_their_colour_and_are_native_without_alpha(
    transparent: list[str], workers: int
) -> None:
    dataset = Opens(transparent, lambda path, _: F.to_tensor(Image.open(path).convert("RGB")))
    compared(dataset, batch_size=None, num_workers=workers)


def on_white(image: Any) -> Any:
    white = Image.new("RGB", image.size, (255, 255, 255))
    masked = image.convert("RGBA")
    white.paste(masked, mask=masked.split()[3])
    return white


USES: dict[str, Callable[[Any], Any]] = {
    "pasted on white": on_white,
    "composited": lambda image: Image.alpha_composite(
        Image.new("RGBA", image.size, (0, 0, 0, 255)), image.convert("RGBA")
    ),
    "four channels": lambda image: image.convert("RGBA"),
    "as it is": lambda image: image,
}


@WORKERS
@pytest.mark.parametrize("use", USES)
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_an_operation_with_transparency_gives_pillows_pixels_in_python_and_explain_says_the_cure(
    transparent: list[str], use: str, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        return F.pil_to_tensor(USES[use](Image.open(path)))

    dataset = Opens(transparent[:3], made)  # an image that is RGB already is native
    compared(dataset, strict=False, batch_size=None, num_workers=workers)
    with contextlib.closing(hr.DataLoader(dataset, batch_size=None)) as loader:
        for index in range(3):
            told = loader.explain(index)
            assert not told.native
            assert told.cure


def saved(image: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def shrunk(image: Any) -> Any:
    image.thumbnail((20, 20))
    return image


def without(image: Any) -> Any:
    image.info.pop("transparency", None)
    return image


COLOURS: dict[str, Callable[[Any], Any]] = {
    "RGBA of RGB": lambda image: image.convert("RGB").convert("RGBA"),
    "LA of L": lambda image: image.convert("RGB").convert("L").convert("LA"),
    "RGBA of L": lambda image: F.to_grayscale(image.convert("RGB")).convert("RGBA"),
    "RGBA of L that was RGB": lambda image: image.convert("L").convert("RGB").convert("RGBA"),
    "RGBA of a part": lambda image: image.convert("RGB").crop((1, 2, 20, 25)).convert("RGBA"),
    "RGBA behind a border": lambda image: ImageOps.expand(image.convert("RGB"), 3).convert("RGBA"),
    "RGBA of what was flipped": lambda image: tv.RandomHorizontalFlip(1.0)(
        image.convert("RGB")
    ).convert("RGBA"),
    "RGB of a thumbnail": lambda image: (image.thumbnail((20, 20)), image.convert("RGB"))[1],
    "RGBA of a copy's thumbnail": lambda image: shrunk(image.copy()).convert("RGBA"),
    "RGBA without it": lambda image: without(image).convert("RGB").convert("RGBA"),
    "RGBA without it later": lambda image: without(image.convert("RGB")).rotate(9).convert("RGBA"),
    "what it says of itself": lambda image: repr(
        [image.convert(mode).info.get("transparency") for mode in ("RGB", "L")]
    ),
    "a file": lambda image: saved(image.convert("RGB").resize((20, 21))),
}


@WORKERS
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_the_transparent_colour_of_a_file_is_converted_with_the_image(
    transparent: list[str], workers: int
) -> None:
    for use in COLOURS.values():
        dataset = Opens(transparent, lambda path, _, use=use: use(Image.open(path)))
        compared(dataset, strict=False, batch_size=None, num_workers=workers)


def marked(image: Any) -> Any:
    image.info["k"] = 1
    return image


SENT: dict[str, Callable[[Any], Any]] = {
    "RGB": lambda image: image.convert("RGB"),
    "L": lambda image: image.convert("L"),
    "resized": lambda image: image.resize((4, 5)),
    "a part": lambda image: image.crop((1, 2, 20, 25)),
    "flipped RGB": lambda image: tv.RandomHorizontalFlip(1.0)(image.convert("RGB")),
    "marked": marked,
    "marked and resized": lambda image: marked(image).resize((4, 5)),
    "as opened": lambda image: image,
}


def info_and_pixels(image: Any) -> Any:
    """What the training process finds in an image that a worker process sent."""
    told = {key: image.info.get(key) for key in ("k", "transparency")}
    left = image.getexif().get(ORIENTATION)
    return repr(told), left, image.mode, F.pil_to_tensor(image.convert("RGBA"))


@pytest.mark.parametrize("use", SENT)
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_an_image_from_a_worker_process_has_the_info_and_pixels_it_had_there(
    transparent: list[str], turned: list[str], use: str
) -> None:
    dataset = Opens(transparent + turned[1:3], lambda path, _: SENT[use](Image.open(path)))
    options: dict[str, Any] = {"batch_size": None, "num_workers": 1}
    expected = map(info_and_pixels, data.DataLoader(dataset, **options))
    with contextlib.closing(hr.DataLoader(dataset, strict=False, **options)) as loader:
        assert equal([*map(info_and_pixels, loader)], [*expected])


def test_an_image_that_was_turned_in_a_worker_process_is_not_turned_again(
    turned: list[str],
) -> None:
    dataset = Opens(turned, lambda path, _: ImageOps.exif_transpose(Image.open(path)))
    with contextlib.closing(hr.DataLoader(dataset, batch_size=None, num_workers=1)) as loader:
        assert [image.getexif().get(ORIENTATION, 1) for image in loader] == [0] + [1] * 8


ANEW: dict[str, Callable[[Any], Any]] = {
    "a border": lambda image: ImageOps.expand(image, 4),
    "torchvision's border": lambda image: F.pad(image, [3]),
    "brightness": lambda image: F.adjust_brightness(image, 0.7),
    "contrast": lambda image: F.adjust_contrast(image, 0.7),
    "saturation": lambda image: F.adjust_saturation(image, 0.7),
    "hue": lambda image: F.adjust_hue(image, 0.1),
    "sharpness": lambda image: F.adjust_sharpness(image, 0.7),
    "gamma": lambda image: F.adjust_gamma(image, 0.7),
    "grey": lambda image: F.to_grayscale(image, 3),
    "blur": lambda image: F.gaussian_blur(image, 3),
    "solarized": lambda image: ImageOps.solarize(image, 100),
    "equalized": ImageOps.equalize,
    "a Compose": tv.Compose([tv.Resize(20), tv.Pad(2)]),
    "a Compose with JPEG artefacts": v2.Compose([v2.Resize(20), v2.JPEG((50, 50))]),
    "a Compose of groups": tv.Compose(
        [tv.RandomApply([tv.RandomChoice([tv.Pad(1)])], 1.0), tv.CenterCrop(9)]
    ),
    "a Compose that keeps it": tv.Compose([tv.Resize(20), tv.CenterCrop(16)]),
    "a border, resized": lambda image: ImageOps.expand(image, 4).resize((9, 8)),
}


@WORKERS
@pytest.mark.parametrize("asked", [False, True])
def test_the_result_of_a_function_has_pillows_info_and_is_turned_by_it_only(
    turned: list[str], asked: bool, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        sample = []
        for use in ANEW.values():
            image = Image.open(path)
            if asked:
                image.info["k"] = 1
            image = use(image)
            upright = F.pil_to_tensor(ImageOps.exif_transpose(image))
            sample += [upright, "exif" in image.info, image.info.get("k")]
        return sample

    compared(Opens(turned[5:7], made), batch_size=None, num_workers=workers)


def test_a_transparent_colour_deleted_from_info_is_not_transparent_after_a_function(
    transparent: list[str],
) -> None:
    def made(path: str, index: int) -> Any:
        image = without(Image.open(path).convert("RGB"))
        return F.pil_to_tensor(ImageOps.solarize(image, 300).convert("RGBA"))

    compared(Opens([transparent[3]], made), strict=False, batch_size=None)


def test_an_image_with_a_border_from_a_worker_process_is_not_turned(turned: list[str]) -> None:
    dataset = Opens(turned[5:7], lambda path, _: F.pad(Image.open(path), [3]))
    with contextlib.closing(hr.DataLoader(dataset, batch_size=None, num_workers=1)) as loader:
        assert [image.getexif().get(ORIENTATION) for image in loader] == [None, None]


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_an_image_of_a_folder_has_its_transparent_colour_converted_as_by_pillow(
    transparent: list[str], tmp_path: Path
) -> None:
    (tmp_path / "class").mkdir()
    for path in transparent:
        shutil.copy(path, tmp_path / "class")
    steps: tuple[list[Any], ...] = ([tv.CenterCrop(20)], [tv.Grayscale(1), tv.Resize(21)])
    for before in steps:
        own = tv.Compose([*before, lambda image: F.pil_to_tensor(image.convert("RGBA"))])
        compared(ImageFolder(str(tmp_path), own), strict=False, batch_size=None)


def test_an_image_of_a_folder_that_pillow_decodes_is_turned_by_its_exif(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    for number, kind in enumerate(("AVIF", "JPEG")):
        picture = Image.fromarray(images.pixels(40, 30, seed=number))
        picture.save(tmp_path / "class" / f"{number}.jpg", kind, exif=exif)
    own = tv.Compose([tv.CenterCrop((20, 26)), ImageOps.exif_transpose, tv.ToTensor()])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "headrace.DataLoader: Pillow decodes")
        compared(ImageFolder(str(tmp_path), own), strict=False, batch_size=None)


def test_an_image_of_a_folder_with_a_border_is_not_turned(
    turned: list[str], tmp_path: Path
) -> None:
    (tmp_path / "class").mkdir()
    shutil.copy(turned[6], tmp_path / "class")
    own = tv.Compose([tv.Pad(4), ImageOps.exif_transpose, tv.ToTensor()])
    compared(ImageFolder(str(tmp_path), own), strict=False, batch_size=None)
