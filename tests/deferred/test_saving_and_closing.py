"""Images that a dataset's own code saves or closes behave as Pillow's of the same file."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms.functional as F
from PIL import Image, ImageDraw

import images
from deferred.test_own_code import Opens, compared

WORKERS = pytest.mark.parametrize("workers", [0, 1])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """JPEGs with their own tables and samplings, a grey one, and a TIFF with tags."""
    place, made = tmp_path_factory.mktemp("saved"), []
    for name in ("quality30-420", "quality100-444", "grey"):
        made.append(str(place / f"{name}.jpg"))
        (place / f"{name}.jpg").write_bytes(images.every_jpeg(70, 50)[name])
    made.append(str(place / "tags.tif"))
    Image.fromarray(images.pixels(40, 30)).save(made[-1], dpi=(300, 72), x_resolution=300)
    for path in made:
        os.utime(path, (1e9, 1e9))
    return made


def saved(image: Any, **how: Any) -> Any:
    """The saved file, or Pillow's error."""
    buffer, kind = io.BytesIO(), image.format or "JPEG"
    try:
        image.save(buffer, kind, **how)
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"
    return buffer.getvalue()


def kept(image: Any) -> Any:
    return saved(image, **({"quality": "keep"} if image.format != "TIFF" else {}))


def smaller(image: Any) -> Any:
    image.thumbnail((30, 30))
    return kept(image)


def drawn_on(image: Any) -> Any:
    ImageDraw.Draw(image).rectangle((3, 4, 20, 15), fill=90)
    return kept(image)


SAVED: dict[str, Callable[[Any], Any]] = {
    "as it is": saved,
    "with its tables": kept,
    "smaller": smaller,
    "drawn on": drawn_on,
    "a part, which has no tables": lambda image: kept(image.crop((3, 4, 20, 25))),
    "a part": lambda image: saved(image.crop((3, 4, 20, 25))),
    "and used": lambda image: [kept(image), F.to_tensor(image.resize((9, 8)))],
}


@WORKERS
@pytest.mark.parametrize("use", SAVED)
def test_an_image_is_saved_with_the_metadata_of_its_file(
    files: list[str], use: str, workers: int
) -> None:
    dataset = Opens(files, lambda path, _: SAVED[use](Image.open(path)))
    compared(dataset, strict=False, batch_size=None, num_workers=workers)


CLOSED: dict[str, Callable[[Any], Any]] = {
    "converted": lambda image: image.convert("L"),
    "resized": lambda image: image.resize((8, 9)),
    "loaded": lambda image: image.load(),
    "a tensor": F.to_tensor,
    "saved": lambda image: image.save(io.BytesIO(), "PNG"),
    "its size and info": lambda image: [*image.size, image.mode, len(image.info)],
}


@WORKERS
@pytest.mark.parametrize("of", ["as opened", "loaded", "a copy"])
def test_closing_an_image_leaves_images_made_of_it_open(
    files: list[str], of: str, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        answers = []
        for use in CLOSED.values():
            image = Image.open(path)
            if of != "as opened":
                image.load()
            image = image.copy() if of == "a copy" else image
            before = None if of == "as opened" else F.to_tensor(image.rotate(5).convert("RGB"))
            image.close()
            try:
                answers.append((use(image), before))
            except Exception as failure:
                answers.append((f"{type(failure).__name__}: {failure}", before))
        return answers

    found = compared(Opens(files, made), strict=False, batch_size=None, num_workers=workers)
    assert found[0][0][0] == "ValueError: Operation on closed image"


def closed_file(path: str) -> Any:
    with open(path, "rb") as file:
        return Image.open(file)


def closed_bytes(path: str) -> Any:
    with open(path, "rb") as file, io.BytesIO(file.read()) as held:
        return Image.open(held)


def left(path: str) -> Any:
    with Image.open(path) as image:
        return image


def left_with_pixels(path: str) -> Any:
    with Image.open(path) as image:
        image.crop((1, 2, 9, 8))
        return image


@WORKERS
@pytest.mark.parametrize("opens", [closed_file, closed_bytes, left, left_with_pixels])
def test_an_image_whose_file_is_closed_behaves_as_with_pillow(
    files: list[str], opens: Any, workers: int
) -> None:
    def made(path: str, index: int) -> Any:
        answers = []
        for use in CLOSED.values():
            try:
                answers.append(use(opens(path)))
            except Exception as failure:
                answers.append(f"{type(failure).__name__}: {failure}")
        # The result of load() cannot be sent between processes.
        return [one for one in answers if isinstance(one, str | list | torch.Tensor)]

    found = compared(Opens(files, made), strict=False, batch_size=None, num_workers=workers)
    assert isinstance(found[0][0], str) == (opens is not left_with_pixels)


@WORKERS
def test_a_palette_image_is_reduced_as_by_pillow(tmp_path: Any, workers: int) -> None:
    path = str(tmp_path / "palette.png")
    Image.fromarray(images.pixels(90, 70)).convert("P").save(path)

    def made(path: str, index: int) -> Any:
        image = Image.open(path)
        image.thumbnail((20, 20))
        return image.convert("RGB")

    compared(Opens([path], made), strict=False, batch_size=None, num_workers=workers)


def asked(question: Callable[[], Any]) -> Any:
    """The answer, or Pillow's error."""
    try:
        return question()
    except Exception as failure:
        return f"{type(failure).__name__}: {failure}"


def verified(image: Any) -> list[Any]:
    told = [asked(image.verify), image.size]
    told += [asked(lambda: F.to_tensor(image.convert("RGB"))), asked(lambda: image.copy().size)]
    told += [asked(lambda: F.pil_to_tensor(F.resize(image, [8, 9])).contiguous())]
    return [*told, asked(image.verify), asked(lambda: dict(image.getexif()))]


VERIFIED: dict[str, Callable[[Any], Any]] = {
    "as it was opened": verified,
    "after it was loaded": lambda image: (image.load() is None, verified(image)),
    "after its pixels were used": lambda image: (image.getpixel((1, 1)), verified(image)),
    "after it was closed": lambda image: (image.close(), asked(image.verify)),
    "after it was converted": lambda image: verified(image.convert("RGB")),
}


@WORKERS
@pytest.mark.parametrize("what", VERIFIED)
@pytest.mark.filterwarnings("ignore:headrace.DataLoader")
def test_an_image_that_was_verified_behaves_as_pillows(
    tmp_path: Path, what: str, workers: int
) -> None:
    paths = []
    for kind in ("JPEG", "PNG", "WEBP", "BMP", "TIFF"):
        paths.append(str(tmp_path / kind.lower()))
        Image.fromarray(images.pixels(40, 30)).save(paths[-1], kind)
        os.utime(paths[-1], (1e9, 1e9))

    def of(path: str, index: int) -> Any:
        return VERIFIED[what](Image.open(path))

    compared(Opens(paths, of), strict=False, batch_size=None, num_workers=workers)
