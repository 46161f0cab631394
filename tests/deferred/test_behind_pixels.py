"""Data after the pixels of a file: a program finds them when it does with Pillow."""

from __future__ import annotations

import os
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageOps, PngImagePlugin
from torchvision.datasets import ImageFolder

import images
from deferred.test_own_code import Opens, compared

ORIENTATION = 0x0112
WORKERS = pytest.mark.parametrize("workers", [0, 1])


def chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    """Names and contents of a PNG's chunks."""
    found, at = [], 8
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        found.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    return found


def behind_its_pixels(data: bytes, *names: bytes) -> bytes:
    """The same PNG with these chunks just before its end."""
    parts = chunks(data)
    moved = [part for part in parts if part[0] in names]
    kept = [part for part in parts if part[0] not in names]
    made = data[:8]
    for name, content in [*kept[:-1], *moved, kept[-1]]:
        sum_ = zlib.crc32(name + content)
        made += struct.pack(">I", len(content)) + name + content + struct.pack(">I", sum_)
    return made


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """PNG files of several modes with EXIF and a text after their pixels, and one without."""
    place = tmp_path_factory.mktemp("late") / "class"
    place.mkdir()
    exif, text = Image.Exif(), PngImagePlugin.PngInfo()
    exif[ORIENTATION] = 6
    text.add_text("title", "behind")
    picture = Image.fromarray(images.pixels(40, 30))
    made = []
    for mode in ("RGB", "L", "P", "RGBA"):
        path = place / f"{mode}.png"
        picture.convert(mode).save(path, exif=exif, pnginfo=text, dpi=(72, 72))
        path.write_bytes(behind_its_pixels(path.read_bytes(), b"eXIf", b"tEXt"))
        os.utime(path, (1e9, 1e9))
        made.append(str(path))
    picture.save(place / "plain.png", dpi=(72, 72))
    return [*made, str(place / "plain.png")]


def opened_and_loaded(image: Any) -> Any:
    kept = image.info
    before = sorted(kept)
    image.load()
    return before, sorted(kept), sorted(image.info)


TURNS: dict[str, Callable[[Any], Any]] = {
    "as opened": ImageOps.exif_transpose,
    "as RGB": lambda image: ImageOps.exif_transpose(image.convert("RGB")),
    "resized": lambda image: ImageOps.exif_transpose(image.convert("RGB").resize((20, 31))),
    "in place": lambda image: ImageOps.exif_transpose(image, in_place=True) or image,
}


@WORKERS
@pytest.mark.parametrize("turn", TURNS)
def test_exif_after_a_pngs_pixels_turns_the_image(late: list[str], turn: str, workers: int) -> None:
    def made(path: str, index: int) -> Any:
        upright = TURNS[turn](Image.open(path))
        return F.pil_to_tensor(upright.convert("RGB")), upright.size

    compared(Opens(late, made), strict=False, batch_size=None, num_workers=workers)


def test_an_rgb_image_that_is_turned_by_exif_after_its_pixels_is_native(
    late: list[str],
) -> None:
    def made(path: str, index: int) -> Any:
        return F.pil_to_tensor(ImageOps.exif_transpose(Image.open(path).convert("RGB")))

    compared(Opens(late, made), batch_size=None)


INFOS: dict[str, Callable[[Any], Any]] = {
    "opened and loaded": opened_and_loaded,
    "opened": lambda image: sorted(image.info),
    "converted": lambda image: sorted(image.convert("RGB").info),
    "cropped": lambda image: sorted(image.crop((1, 1, 9, 9)).info),
    "exif and info": lambda image: (image.getexif().get(ORIENTATION), sorted(image.info)),
    "texts": lambda image: (sorted(image.text), sorted(image.info)),
    "taken out before": lambda image: (image.info.clear(), image.load(), sorted(image.info))[2],
    "copied": lambda image: sorted(image.copy().info),
}


@WORKERS
@pytest.mark.parametrize("use", INFOS)
def test_info_has_the_chunks_after_a_pngs_pixels_once_pillow_would_have_read_them(
    late: list[str], use: str, workers: int
) -> None:
    def made(path: str, index: int) -> str:
        return repr(INFOS[use](Image.open(path)))

    compared(Opens(late, made), strict=False, batch_size=None, num_workers=workers)


def test_exif_of_a_png_is_found_although_its_file_was_closed(late: list[str]) -> None:
    def made(path: str, index: int) -> Any:
        with open(path, "rb") as file:
            image = Image.open(file)
            image.getexif()
        return F.pil_to_tensor(image.convert("RGB")), image.getexif().get(ORIENTATION)

    compared(Opens(late, made), strict=False, batch_size=None)


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_truncated_png_raises_when_its_exif_is_asked_for(
    late: list[str], tmp_path: Path, cut: int
) -> None:
    whole = Path(late[0]).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) - cut])

    def made(path: str, index: int) -> Any:
        try:
            return F.pil_to_tensor(ImageOps.exif_transpose(Image.open(path).convert("RGB")))
        except (OSError, SyntaxError):
            return "bad"

    paths = [str(tmp_path / "cut.png"), late[1]]
    compared(Opens(paths, made), strict=False, batch_size=None)


@WORKERS
def test_a_webp_has_the_timestamp_of_its_frame_once_it_is_loaded(
    tmp_path: Path, workers: int
) -> None:
    paths = []
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    options: list[dict[str, Any]] = [{}, {"lossless": True}, {"exif": exif}]
    for number, option in enumerate(options):
        paths.append(str(tmp_path / f"{number}.webp"))
        Image.fromarray(images.pixels(40, 30)).save(paths[-1], **option)

    def made(path: str, index: int) -> str:
        image = Image.open(path)
        return repr([sorted(image.info.items()), sorted(image.convert("RGB").info.items())])

    compared(Opens(paths, made), strict=False, batch_size=None, num_workers=workers)


@WORKERS
def test_a_png_of_an_image_folder_is_turned_by_exif_after_its_pixels(
    late: list[str], workers: int
) -> None:
    own = tv.Compose([ImageOps.exif_transpose, tv.Resize((33, 21)), tv.ToTensor()])
    folder = ImageFolder(str(Path(late[0]).parents[1]), own)
    compared(folder, strict=False, batch_size=3, num_workers=workers)


@WORKERS
def test_pillow_warns_of_a_half_transparent_palette_when_a_program_converts_it(
    tmp_path: Path, workers: int
) -> None:
    picture = Image.fromarray(images.pixels(40, 30)).quantize(256)
    kinds: dict[str, Any] = {"many": bytes(range(256)), "one": 3, "none": None}
    far = PngImagePlugin.PngInfo()
    far.add_text("long", "x" * 5000)
    paths = []
    for name, alpha in kinds.items():
        for where, info in (("near", None), ("far", far)):
            paths.append(str(tmp_path / f"{name}-{where}.png"))
            options = {} if alpha is None else {"transparency": alpha}
            picture.save(paths[-1], pnginfo=info, **options)

    def made(path: str, index: int) -> Any:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            image = Image.open(path).convert("RGB")
        return F.pil_to_tensor(image), [(str(one.message), one.filename) for one in told]

    found = compared(Opens(paths, made), batch_size=None, num_workers=workers)
    assert [len(told) for _, told in found] == [1, 1, 0, 0, 0, 0]
