"""Pillow's functions that need a recorded image's pixels, and a program's own image classes."""

from __future__ import annotations

import abc
import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pytest
import torchvision.transforms.functional as F
from PIL import Image, ImageChops, ImageDraw, ImageFilter, ImageOps, ImageStat

import images
from deferred.test_own_code import Opens, compared, paths

__all__ = ["paths"]  # a fixture

SIZE = (40, 30)
SECOND = Image.fromarray(images.pixels(*SIZE, seed=5))
MASK = Image.fromarray(images.pixels(*SIZE, seed=6)[..., 0].copy())


def opened(path: str) -> Image.Image:
    return Image.open(path).convert("RGB").resize(SIZE)


def pasted(image: Any, *arguments: Any) -> Any:
    image.paste(*arguments)
    return image


def on_white(image: Any) -> Any:
    """Puts the image in the middle of a white square, as detectors' loaders do."""
    square = Image.new("RGB", (50, 50), (255, 255, 255))
    square.paste(image, (5, 10))
    return square


def changed(image: Any, change: Callable[[Any], Any]) -> Any:
    change(image)
    return image


CHANNELS = {
    "split": lambda x: x.split(),
    "split and merged": lambda x: Image.merge("RGB", x.split()[::-1]),
    "merged of three": lambda x: Image.merge("RGB", [x.convert("L"), MASK, x.getchannel("G")]),
    "getchannel": lambda x: (x.getchannel(0), x.getchannel("B")),
    "putalpha": lambda x: changed(x, lambda y: y.putalpha(MASK)),
    "of an alpha": lambda x: x.convert("RGBA").getchannel("A"),
}
PASTED = {
    "paste into": lambda x: pasted(x, SECOND.resize((9, 9)), (3, 4)),
    "paste of": on_white,
    "paste by a mask": lambda x: pasted(x, SECOND, None, MASK),
    "as a mask": lambda x: pasted(SECOND.copy(), (255, 0, 0), None, x.convert("L")),
    "paste a colour": lambda x: pasted(x, (1, 2, 3), (2, 2, 9, 9)),
    "paste itself": lambda x: pasted(x, x.crop((0, 0, 9, 9)), (20, 20)),
    "paste another of these": lambda x: pasted(x, x.transpose(0).crop((0, 0, 9, 9)), (20, 20)),
    "drawn on": lambda x: changed(x, lambda y: ImageDraw.Draw(y).line((0, 0, 30, 30), fill=7)),
    "a crop before": lambda x: (x.crop((1, 1, 20, 20)), pasted(x, 0, (0, 0, 30, 30))),
}
MIXED = {
    "blend": lambda x: Image.blend(x, SECOND, 0.3),
    "blend with itself": lambda x: Image.blend(x, x.transpose(0), 0.5),
    "composite": lambda x: Image.composite(x, SECOND, MASK),
    "alpha_composite": lambda x: Image.alpha_composite(x.convert("RGBA"), SECOND.convert("RGBA")),
    "a degenerate": lambda x: Image.blend(x.convert("L").convert("RGB"), x, 1.7),
}
CHOPS = {
    "constant": lambda x: ImageChops.constant(x, 7),
    "duplicate": lambda x: (y := ImageChops.duplicate(x), pasted(y, 0, (0, 0, 9, 9)), x),
    "invert": lambda x: ImageChops.invert(x),
    "offset": lambda x: ImageChops.offset(x, 5, 7),
    "blend": lambda x: ImageChops.blend(x, SECOND, 0.25),
    "composite": lambda x: ImageChops.composite(x, SECOND, MASK),
    **{
        name: lambda x, name=name: (
            getattr(ImageChops, name)(x, SECOND),
            getattr(ImageChops, name)(SECOND, x),
            getattr(ImageChops, name)(x, x.transpose(0)),
        )
        for name in (
            *("lighter", "darker", "difference", "multiply", "screen", "soft_light", "hard_light"),
            *("overlay", "add", "subtract", "add_modulo", "subtract_modulo"),
        )
    },
}
OTHERS = {
    "eval": lambda x: Image.eval(x, lambda value: 255 - value),
    "point": lambda x: x.point(lambda value: value // 2),
    "putpixel": lambda x: changed(x, lambda y: y.putpixel((3, 3), (1, 2, 3))),
    "putdata": lambda x: changed(x, lambda y: y.putdata([(1, 2, 3)] * 99)),
    "pixels": lambda x: (x.getpixel((1, 2)), x.load()[3, 4], list(x.getdata())[:9], x.getbbox()),
    "statistics": lambda x: (ImageStat.Stat(x).mean, x.histogram()[:9], x.getextrema()),
    "quantize": lambda x: x.quantize(8),
    "filters": lambda x: (x.filter(ImageFilter.FIND_EDGES), x.filter(ImageFilter.MedianFilter())),
    "frombytes": lambda x: Image.frombytes("RGB", x.size, x.tobytes()),
    "frombuffer": lambda x: Image.frombuffer("RGB", x.size, x.tobytes(), "raw", "RGB", 0, 1),
    "frombytes of it": lambda x: changed(x, lambda y: y.frombytes(SECOND.tobytes())),
    "array": lambda x: Image.fromarray(np.asarray(x)[:, ::-1, ::-1]),
    "colorize": lambda x: ImageOps.colorize(x.convert("L"), "black", "red"),
    "copies": lambda x: (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))),
    "effect": lambda x: x.effect_spread(0),
    "remap": lambda x: x.convert("P").remap_palette([*range(255, -1, -1)]),
    "entropy": lambda x: x.entropy(),
    "reduced": lambda x: x.reduce(3),
    "transposed a thousand times": lambda x: transposed(x, 1500),
}


def transposed(image: Any, times: int) -> Any:
    for _ in range(times):
        image = image.transpose(0)
    return image


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f"{kind}: {name}": of
    for kind, functions in (
        *(("channels", CHANNELS), ("pasted", PASTED), ("mixed", MIXED)),
        *(("ImageChops", CHOPS), ("others", OTHERS)),
    )
    for name, of in functions.items()
}


def plain(value: Any) -> Any:
    return list(map(plain, value)) if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", FUNCTIONS)
def test_functions_that_need_pixels_give_pillows_pixels(
    paths: list[str], what: str, workers: int
) -> None:
    dataset = Opens(paths[:2], lambda path, index: plain(FUNCTIONS[what](opened(path))))
    compared(
        dataset, strict=False, batch_size=1, collate_fn=list, num_workers=workers,
        **({"multiprocessing_context": "fork"} if workers else {}),
    )  # fmt: skip


@pytest.mark.parametrize("what", [*CHANNELS, *MIXED])
def test_an_image_that_a_function_left_unchanged_stays_native(paths: list[str], what: str) -> None:
    functions = CHANNELS | MIXED
    if what == "putalpha":
        return

    def made(path: str, index: int) -> Any:
        image = opened(path)
        functions[what](image)
        return F.to_tensor(image)

    compared(Opens(paths[:2], made), strict=False, batch_size=2)


# ---- classes of the program's own ----------------------------------------------------------------


class Abstract(Image.Image, abc.ABC):
    """An image with a base of abstract methods."""


class Kind(type):
    pass


class OfKind(Image.Image, metaclass=Kind):
    pass


@runtime_checkable
class HasSize(Protocol):
    size: Any

    def tobytes(self) -> bytes: ...


@runtime_checkable
class HasInfo(Protocol):
    info: Any
    mode: str


class Registered(abc.ABC):  # noqa: B024
    pass


Registered.register(Image.Image)


def as_own(kind: Any) -> Callable[[Any], Any]:
    """An image of the program's own class with the pixels of another image."""

    def made(image: Any) -> Any:
        own = kind()
        own.im = image.im
        own._mode, own._size = image.mode, image.size
        return own

    return made


KINDS: dict[str, Callable[[Any], Any]] = {
    "abstract": lambda x: (type(y := as_own(Abstract)(x)) is Abstract, y.tobytes()),
    "a kind of classes": lambda x: (type(y := as_own(OfKind)(x)) is OfKind, y.tobytes()),
    "a method of it": lambda x: as_own(OfKind)(x).crop((1, 1, 9, 9)).tobytes(),
    "given to a function": lambda x: F.pil_to_tensor(as_own(Abstract)(x)),
    "given to a transform": lambda x: F.to_tensor(F.resize(as_own(OfKind)(x), [9, 9])),
    "protocols": lambda x: (isinstance(x, HasSize), isinstance(x, HasInfo)),
    "registered": lambda x: (isinstance(x, Registered), issubclass(type(x), Registered)),
    "another class": lambda x: (isinstance(x, Abstract), isinstance(x, OfKind)),
    "a class of two": lambda x: isinstance(x, type("Two", (Image.Image, HasSize), {})),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", KINDS)
def test_a_programs_own_image_class_works_as_with_pillow(
    paths: list[str], what: str, workers: int
) -> None:
    dataset = Opens(paths[:2], lambda path, index: plain(KINDS[what](opened(path))))
    compared(
        dataset, strict=False, batch_size=1, collate_fn=list, num_workers=workers,
        **({"multiprocessing_context": "fork"} if workers else {}),
    )  # fmt: skip


def has_attributes(image: Image.Image) -> list[tuple[str, bool]]:
    """Which of these an image has, as ``isinstance`` with a Protocol looks from Python 3.12 on."""
    names = ["format", "filename", "im", "info", "mode", "palette", "readonly", "size"]
    nothing = object()
    return [(name, inspect.getattr_static(image, name, nothing) is not nothing) for name in names]


def test_a_protocol_finds_the_attributes_that_pillows_image_has(paths: list[str]) -> None:
    def made(path: str, index: int) -> Any:
        image = Image.open(path)
        small = image.convert("RGB").resize(SIZE)
        found = [has_attributes(one) for one in (image, small, Image.fromarray(np.asarray(SECOND)))]
        return found, F.to_tensor(small)

    compared(Opens(paths[:2], made), batch_size=1, collate_fn=list)
