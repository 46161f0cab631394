"""Functions of Pillow and torchvision on recorded images: recorded if the bytes stay the same."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageOps
from torch.utils import data
from torchvision import tv_tensors
from torchvision.transforms import v2

import headrace as hr
import images
from deferred.test_own_code import compared, equal

F2 = v2.functional
BILINEAR = tv.InterpolationMode.BILINEAR
CORNERS = [[0, 0], [50, 0], [50, 40], [0, 40]], [[3, 4], [45, 2], [50, 44], [1, 40]]


def of_bytes(scaled: Callable[..., Any], *arguments: Any, **named: Any) -> Callable[[Any], Any]:
    return lambda image: scaled(F.pil_to_tensor(image), *arguments, **named)


def enhanced(kind: str, factor: float) -> Callable[[Any], Any]:
    return lambda image: getattr(ImageEnhance, kind)(image).enhance(factor)


def filled(*values: float) -> torch.Tensor:
    return torch.tensor(values)[:, None, None]


def normalized(image: Any) -> Any:
    return F.normalize(F.to_tensor(image), [0.5, 0.4, 0.3], [0.2, 0.3, 0.4])


NORMALIZED = tv.Compose([tv.ToTensor(), tv.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])
GREY = tv.Compose([tv.Resize(30), tv.CenterCrop(28), tv.ToTensor(), tv.Normalize((0.5,), (0.2,))])
BOX = np.array([5, 6, 40, 42])
EVERY = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
RECORDED: dict[str, Callable[[Any], Any]] = {
    "solarize": ImageOps.solarize,
    "solarize above": lambda image: ImageOps.solarize(image, threshold=100.5),
    "posterize": lambda image: ImageOps.posterize(image, 3),
    "equalize": ImageOps.equalize,
    "autocontrast": ImageOps.autocontrast,
    "invert": ImageOps.invert,
    "expand": lambda image: ImageOps.expand(image, 4),
    "expand two": lambda image: ImageOps.expand(image, (1, 2), (3, 4, 5)),
    "expand four": lambda image: ImageOps.expand(image, border=(1, 2, 3, 4)),
    "colour": enhanced("Color", 0.3),
    "contrast": enhanced("Contrast", 1.4),
    "no contrast": enhanced("Contrast", 0),
    "brightness": enhanced("Brightness", 1.7),
    "sharpness": enhanced("Sharpness", 2.5),
    "degenerate": lambda image: ImageEnhance.Color(image).degenerate,
    "blur": lambda image: image.filter(ImageFilter.GaussianBlur(1.7)),
    "blur of two pixels": lambda image: image.filter(ImageFilter.GaussianBlur),
    "no blur": lambda image: image.filter(ImageFilter.GaussianBlur(0)),
    "shear": lambda image: image.transform(
        image.size, Image.Transform.AFFINE, (1, 0.2, 0, 0, 1, 0), fillcolor=(9, 8, 7)
    ),
    "map to a size": lambda image: image.transform(
        (30, 40), Image.Transform.AFFINE, [0.7, 0, 5.5, 0, 0.9, 2], Image.Resampling.BICUBIC
    ),
    "affine": lambda image: F.affine(image, 20, [3, 4], 1.2, [5.0, 6.0], fill=[1, 2, 3]),
    "affine, v2": lambda image: F2.affine(image, 20, [3, 4], 1.2, [5.0, 6.0], BILINEAR),
    "perspective": lambda image: F.perspective(image, *CORNERS, fill=[4, 5, 6]),
    "gamma": lambda image: F.adjust_gamma(image, 0.6, 1.2),
    "grey": lambda image: F.rgb_to_grayscale(image, 3),
    "grey, v2": lambda image: F2.to_grayscale(image, 3),
    "one channel": F.rgb_to_grayscale,
    "one channel, v2": F2.to_grayscale,
    "L": lambda image: image.convert("L"),
    "L, turned": lambda image: image.convert("L").rotate(
        17, Image.Resampling.BILINEAR, fillcolor=99
    ),
    "L, expanded": lambda image: ImageOps.expand(image.convert("L"), 3, 77),
    "L, sharper": lambda image: ImageEnhance.Sharpness(image.convert("L")).enhance(1.8),
    "L, equalized": lambda image: ImageOps.equalize(image.convert("L").crop((3, 4, 50, 40))),
    "L, and RGB again": lambda image: image.convert("L").resize((30, 31)).convert("RGB"),
    "L, normalized": lambda image: F.normalize(F.to_tensor(image.convert("L")), [0.4], [0.2]),
    "L, its hue": lambda image: F.adjust_hue(image.convert("L"), 0.2),
    "L, by transforms": lambda image: GREY(image.convert("L")),
    "one channel, in a Compose": tv.Compose([tv.Resize(30), tv.Grayscale()]),
    "pad": lambda image: F.pad(image, [3], 7),
    "pad four": lambda image: F.pad(image, [1, 2, 3, 4], (1, 2, 3)),
    "pad, v2": lambda image: F2.pad(image, [5, 6, 7, 8], None, "symmetric"),
    "mirrored": lambda image: F.pad(image, [5, 6], padding_mode="reflect"),
    "its edge": lambda image: F.pad(image, 70, padding_mode="edge"),
    "a part": lambda image: image.resize((30, 31), Image.Resampling.LANCZOS, (1.5, 2, 40.25, 47)),
    "a part, nearest": lambda image: image.resize(
        (30, 31), Image.Resampling.NEAREST, (0.3, 2.7, 60.9, 40)
    ),
    "a part of its size": lambda image: image.resize((30, 31), box=(4, 5, 34, 36)),
    "a gap": lambda image: image.resize((30, 31), Image.Resampling.BOX, reducing_gap=2.0),
    "fit": lambda image: ImageOps.fit(image, (43, 39)),
    "fit, without its border": lambda image: ImageOps.fit(
        image, (20, 30), Image.Resampling.BILINEAR, 0.03, (0.1, 0.7)
    ),
    "L, fit": lambda image: ImageOps.fit(image.convert("L"), (43, 39)),
    "fit of a part": lambda image: ImageOps.fit(image.crop((3, 4, 50, 40)), (31, 30)).rotate(9),
    "pad by Pillow": lambda image: ImageOps.pad(image, (50, 70), color=(4, 5, 6)),
    "pad by Pillow, aside": lambda image: ImageOps.pad(
        image, (90, 41), Image.Resampling.BOX, centering=(0.2, 0.9)
    ),
    "thumbnail": lambda image: (image.thumbnail((44, 33)), image)[1],
    "thumbnail of a thumbnail": lambda image: (
        image.thumbnail((44, 33)),
        image.thumbnail((30, 30), Image.Resampling.LANCZOS, None),
        image,
    )[2],
    "no thumbnail": lambda image: (image.thumbnail((440, 330)), image)[1],
    "divided": of_bytes(F.convert_image_dtype, torch.float32),
    "multiplied": of_bytes(F2.convert_image_dtype),
    "scaled": of_bytes(F2.to_dtype, torch.float32, scale=True),
    "of their class": lambda image: F2.normalize(
        F2.to_dtype(F2.to_image(image), scale=True), [0.4], [0.3]
    ),
    "erased": lambda image: F.erase(normalized(image), 3, 4, 10, 12, filled(0.5, 0.1, -2.0)),
    "erased, then normalized": lambda image: F.normalize(
        F.erase(F.to_tensor(image), 0, 7, 50, 9, filled(0.3)), [0.4], [0.3]
    ),
    "erased twice, and beyond": lambda image: F.erase(
        F.erase(normalized(image), 0, 7, 50, 9, torch.tensor(0.25)), 40, 50, 99, 99, filled(1, 2, 3)
    ),
    "erased, behind a Compose": lambda image: F.erase(NORMALIZED(image), 3, 4, 5, 6, filled(0)),
    "erased, v2": lambda image: F2.erase(
        F2.to_dtype(F2.to_image(image), scale=True), 3, 4, 10, 12, filled(0.5)
    ),
    "erased, of one channel": lambda image: F.erase(
        F.to_tensor(image.convert("L")), 3, 4, 10, 12, filled(0.5)
    ),
    "flipped, then erased": lambda image: F.erase(
        F2.horizontal_flip(normalized(image)), 3, 4, 10, 12, filled(0.5)
    ),
    "an image of a tensor": lambda image: tv.ToPILImage()(F.to_tensor(image)).resize((20, 21)),
    "an image of bytes": lambda image: F2.to_pil_image(F.pil_to_tensor(image)).rotate(9),
    "an image of one channel": lambda image: F.to_pil_image(
        F.to_tensor(image.convert("L")), "L"
    ).convert("RGB"),
    "an image of a part of a tensor": lambda image: F.to_pil_image(
        F2.crop(F.to_tensor(image), 3, 4, 20, 21), "RGB"
    ),
    "an image of every byte": lambda image: F.to_pil_image(F.to_tensor(Image.fromarray(EVERY))),
    "a normalized stack": lambda image: F.normalize(
        torch.stack([F.to_tensor(image), F.to_tensor(ImageOps.mirror(image))]),
        [0.5, 0.4, 0.3],
        [0.2, 0.3, 0.4],
    ),
    "a normalized stack, v2": lambda image: v2.Normalize([0.5], [0.2])(
        torch.stack([F2.to_dtype(F2.pil_to_tensor(image), scale=True)] * 3)
    ),
    "a scaled stack": lambda image: v2.Normalize([0.5], [0.2])(
        F.convert_image_dtype(torch.stack([F.pil_to_tensor(image)] * 2))
    ),
    "normalized in place": lambda image: tv.Normalize([0.5], [0.2], inplace=True)(
        F.to_tensor(image)
    ),
    "plain tensors, of v1": lambda image: F.normalize(
        F.convert_image_dtype(F2.to_image(image)), [0.4], [0.3]
    ),
    "finished, then cropped": lambda image: F2.crop(NORMALIZED(image), 3, 4, 20, 30),
    "not scaled": of_bytes(F2.to_dtype, torch.float32),
    "doubles": of_bytes(F.convert_image_dtype, torch.float64),
    "erased in place": lambda image: F.erase(F.to_tensor(image), 3, 4, 5, 6, filled(0), True),
}


NUMPYS: dict[str, Callable[[Any], Any]] = {
    "a box": lambda image: image.crop(tuple(BOX)),
    "a box of singles": lambda image: image.crop(tuple((BOX + 0.5).astype(np.float32))),
    "a box, by torchvision": lambda image: F.crop(image, *BOX),
    "a box, by v2": lambda image: F2.crop(image, *BOX),
    "a box of a tensor": lambda image: F2.crop(F2.pil_to_tensor(image), *BOX.astype(np.int32)),
    "a box beyond a tensor": lambda image: F2.crop(F2.pil_to_tensor(image), *-BOX[:2], *BOX[2:]),
    "a size": lambda image: image.resize((BOX[2], BOX[3])),
    "a size, by torchvision": lambda image: F.resize(image, [BOX[2], BOX[3]]),
    "a part": lambda image: image.resize((BOX[0], 8), box=tuple(BOX / 1.5), reducing_gap=2.0),
    "fit": lambda image: ImageOps.fit(image, (BOX[2], BOX[3])),
    "pad by Pillow": lambda image: ImageOps.pad(image, (BOX[2], BOX[3])),
    "expand": lambda image: ImageOps.expand(image, BOX[0]),
    "pad": lambda image: F.pad(image, [BOX[0], BOX[1]]),
    "pad, mirrored": lambda image: F.pad(image, [BOX[0], BOX[1]], padding_mode="reflect"),
    "brightness": lambda image: F.adjust_brightness(image, np.float64(1.3)),
    "contrast of a single": enhanced("Contrast", np.float32(1.3)),  # type: ignore[arg-type]
    "colour of a whole number": enhanced("Color", np.int64(2)),  # type: ignore[arg-type]
    "hue": lambda image: F.adjust_hue(image, np.float64(-0.1)),
    "solarize": lambda image: ImageOps.solarize(image, np.int64(100)),
    "posterize": lambda image: ImageOps.posterize(image, np.int64(4)),
}
# Arguments that Pillow and torchvision refuse, or that they calculate in another precision.
NUMPYS_IN_PYTHON: dict[str, Callable[[Any], Any]] = {
    "an array": lambda image: image.crop(BOX),
    "a size of fractions": lambda image: image.resize((BOX[2], np.float64(20))),
    "a mirrored border": lambda image: F.pad(image, BOX[0], padding_mode="reflect"),
    "a border of fractions": lambda image: F.pad(image, [np.float64(3), 2]),
    "a hue of a single": lambda image: F.adjust_hue(image, np.float32(0.1)),
    "a hue that is none": lambda image: F.adjust_hue(image, np.float64(0.7)),
    "a radius": lambda image: image.filter(ImageFilter.GaussianBlur(np.float64(1.2))),
    "a box of nothing": lambda image: image.crop(tuple(BOX[::-1])),
    "bits of fractions": lambda image: ImageOps.posterize(image, np.float64(4)),
    "a box of fractions": lambda image: F2.crop(F2.pil_to_tensor(image), *BOX.astype(np.float64)),
}


def drawn_on(image: Any) -> Any:
    enhancer = ImageEnhance.Color(image)
    ImageDraw.Draw(image).rectangle((3, 4, 20, 15), fill=(200, 10, 30))
    return enhancer.enhance(0.5)


def another_image(image: Any) -> Any:
    enhancer = ImageEnhance.Contrast(image)
    enhancer.image = ImageOps.mirror(image)
    return enhancer.enhance(0.5)


MATERIALISED: dict[str, Callable[[Any], Any]] = {
    "drawn on": drawn_on,
    "another image": another_image,
    "negative": enhanced("Color", -1),
    "cut off": lambda image: ImageOps.autocontrast(image, cutoff=2),
    "masked": lambda image: ImageOps.equalize(image, mask=Image.new("L", image.size, 255)),
    "expand with red": lambda image: ImageOps.expand(image, 3, 77),
    "map over red": lambda image: image.transform(
        (30, 40), Image.Transform.AFFINE, (0.7, 0, -5, 0, 0.9, 2), fillcolor=200
    ),
    "quadrilateral": lambda image: image.transform(
        (30, 40), Image.Transform.QUAD, (0, 0, 0, 30, 30, 30, 30, 0)
    ),
    "blur of two radii": lambda image: image.filter(ImageFilter.GaussianBlur((1, 2))),
    "mirrored twice": lambda image: F.pad(image, 60, padding_mode="reflect"),
    "a colour, of grey": lambda image: image.convert("L").rotate(5, fillcolor=(7,)),
    "erased by noise": lambda image: F.erase(
        F.to_tensor(image), 3, 4, 10, 12, torch.arange(360.0).view(3, 10, 12)
    ),
    "bytes, erased": lambda image: F.erase(F.pil_to_tensor(image), 3, 4, 5, 6, filled(0)),
    "erased from the other end": lambda image: F.erase(F.to_tensor(image), -9, 4, 5, 6, filled(0)),
    "finished, then cropped beyond": lambda image: F2.crop(NORMALIZED(image), -3, 4, 20, 30),
    "finished, then its middle": lambda image: F2.center_crop(NORMALIZED(image), [70, 20]),
    "an image of multiplied values": lambda image: F.to_pil_image(
        F2.to_dtype(F2.to_image(image), scale=True)
    ),
    "an image of normalized values": lambda image: F.to_pil_image(normalized(image)),
    "an image of finished values": lambda image: F.to_pil_image(NORMALIZED(image)),
    "an image of other colours": lambda image: F.to_pil_image(F.pil_to_tensor(image), "YCbCr"),
}


class OneOpEach(data.Dataset[Any]):
    """One picture; each sample does something else to it."""

    def __init__(self, ops: dict[str, Callable[[Any], Any]], end: Callable[[Any], Any]) -> None:
        self.ops, self.end = list(ops.values()), end
        self.picture = images.jpeg(61, 47, seed=4)

    def __len__(self) -> int:
        return len(self.ops)

    def __getitem__(self, index: int) -> Any:
        image = Image.open(io.BytesIO(self.picture)).convert("RGB")
        return self.end(self.ops[index](image))


def tensor(made: Any) -> Any:
    return made if isinstance(made, torch.Tensor) else F.to_tensor(made)


@pytest.mark.parametrize("workers", [0, 1])
def test_recorded_functions_give_the_functions_own_bytes(workers: int) -> None:
    compared(OneOpEach(RECORDED, tensor), batch_size=None, num_workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_pixels_needed_after_a_function_are_the_functions_own(workers: int) -> None:
    every = OneOpEach(RECORDED | MATERIALISED, np.array)
    compared(every, strict=False, batch_size=None, num_workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_images_that_functions_return_are_the_functions_own(workers: int) -> None:
    every = OneOpEach(RECORDED | MATERIALISED, lambda made: made)
    compared(every, strict=False, batch_size=None, num_workers=workers)


def test_other_arguments_of_the_same_functions_are_not_recorded() -> None:
    every = OneOpEach(MATERIALISED, tensor)
    with contextlib.closing(hr.DataLoader(every, batch_size=None)) as loader:
        for place, name in enumerate(MATERIALISED):
            assert not loader.explain(place).native, name
        assert equal(list(loader), [every[place] for place in range(len(every))])


def in_place(image: Any) -> Any:
    first = F.to_tensor(image)
    stacked = torch.stack([first, first])
    other = first
    F.normalize(first, [0.5], [0.2], inplace=True)
    F2.normalize(stacked, [0.1], [0.3], inplace=True)
    return first, other, stacked, other is first


def in_place_beside_a_part(image: Any) -> Any:
    whole = F2.to_dtype(F2.pil_to_tensor(image), scale=True)
    part = F2.crop(whole, 3, 4, 20, 21)
    F.normalize(whole, [0.5], [0.2], inplace=True)
    return whole, part


@pytest.mark.parametrize("workers", [0, 1])
def test_an_in_place_normalize_changes_every_reference_and_view_but_no_earlier_stack(
    workers: int,
) -> None:
    both = {"names": in_place, "a view": in_place_beside_a_part}
    compared(OneOpEach(both, lambda made: made), strict=False, batch_size=None, num_workers=workers)
    with contextlib.closing(hr.DataLoader(OneOpEach(both, lambda made: made))) as loader:
        assert loader.explain(0).native


CONTRASTS: dict[str, Callable[[Any], Any]] = {
    "black is ignored": lambda image: ImageOps.autocontrast(image, ignore=0),
    "black is ignored by a falsehood": lambda image: ImageOps.autocontrast(image, ignore=False),
    "and nothing cut off": lambda image: ImageOps.autocontrast(image, 0.0, 0),
    "nothing is ignored": lambda image: ImageOps.autocontrast(image, None, None, None, False),
}


def test_autocontrast_that_ignores_black_equals_pillows() -> None:
    dull, file = images.pixels(61, 47) // 2 + 60, io.BytesIO()
    dull[:9] = 0
    Image.fromarray(dull).save(file, "PNG")
    on_black = OneOpEach(CONTRASTS, lambda made: made)
    on_black.picture = file.getvalue()
    compared(on_black, strict=False, batch_size=None)


@pytest.mark.parametrize("workers", [0, 1])
def test_numpy_numbers_are_recorded_where_pillow_and_torchvision_accept_them(workers: int) -> None:
    compared(OneOpEach(NUMPYS, tensor), batch_size=None, num_workers=workers)


@pytest.mark.parametrize("name", NUMPYS_IN_PYTHON)
def test_numpy_numbers_that_are_refused_or_of_lower_precision_act_as_without_recording(
    name: str,
) -> None:
    def answer(image: Any) -> Any:
        try:
            return np.array(NUMPYS_IN_PYTHON[name](image))
        except Exception as failure:
            return f"{type(failure).__name__}: {failure}"

    does = OneOpEach({name: answer}, lambda made: made)
    compared(does, strict=False, batch_size=None)


def rotations() -> list[tuple[Any, ...]]:
    """Arguments of ``Image.rotate``: angle, filter, expand, centre, move and colour."""
    draw = random.Random(5)
    return [
        (
            draw.choice([0, 45.0, 90, 180, 270, draw.uniform(-400, 400)]),
            draw.choice([0, 2, 3]),
            draw.choice([0, 1]),
            draw.choice([None, (draw.uniform(-5, 60), draw.uniform(-5, 60))]),
            draw.choice([None, (draw.randint(-9, 9), draw.uniform(-9, 9))]),
            draw.choice([None, 0, (4, 5, 6)]),
        )
        for _ in range(200)
    ]


class Rotated(data.Dataset[Any]):
    cases = rotations()

    def __len__(self) -> int:
        return len(self.cases)

    def __getitem__(self, index: int) -> Any:
        pixels = images.pixels(37 + index % 5, 30 + index % 7, seed=index % 9)
        *how, colour = self.cases[index]
        if index % 4:
            return F.to_tensor(Image.fromarray(pixels).rotate(*how, colour))
        return F.to_tensor(Image.fromarray(pixels).convert("L").rotate(*how, 7))


def test_any_rotation_by_pillow_is_native_with_the_same_bytes() -> None:
    compared(Rotated(), batch_size=None)


BLURS: dict[str, Callable[[Any], Any]] = {
    "one number": lambda image: F.gaussian_blur(image, 5),
    "two sides": lambda image: F.gaussian_blur(image, [3, 9], [0.7, 2.1]),
    "a list of one": lambda image: F.gaussian_blur(image, [7, 7], [1.3]),
    "v2": lambda image: F2.gaussian_blur(image, [5, 7], [1.0, 0.5]),
    "v2, one number": lambda image: F2.gaussian_blur(image, 9),
    "grey": lambda image: F.gaussian_blur(image.convert("L"), [5, 5], 1.7),
    "in the middle": lambda image: F.hflip(F.gaussian_blur(image.crop((3, 4, 50, 40)), 23, 4.0)),
}


@pytest.mark.parametrize("workers", [0, 1])
def test_a_gaussian_blur_called_directly_is_native_and_equals_torchvisions_but_for_few_values(
    workers: int,
) -> None:
    """torch's own values depend on the CPU: docs/exactness.md."""
    blurs = OneOpEach(BLURS, F.pil_to_tensor)
    options: dict[str, Any] = {"batch_size": None, "num_workers": workers}
    with contextlib.closing(hr.DataLoader(blurs, strict=True, **options)) as loader:
        found = list(loader)
    wrong = 0
    for made, expected in zip(found, data.DataLoader(blurs, **options), strict=True):
        assert made.shape == expected.shape
        apart = (made.int() - expected.int()).abs()
        assert apart.max() <= 1
        wrong += int(apart.count_nonzero())
    assert wrong <= 3


def test_a_blur_that_torch_refuses_is_refused_with_its_message() -> None:
    for wrong in ([4, 4], [3, 0], [201, 3], [3]):
        blurs = OneOpEach(
            {"wrong": lambda image, wrong=wrong: F.gaussian_blur(image, wrong)}, tensor
        )
        said = []
        for kind in (data.DataLoader, hr.DataLoader):
            with pytest.raises((ValueError, RuntimeError)) as failure:
                next(iter(kind(blurs, batch_size=None)))
            said.append(str(failure.value))
        assert said[0] == said[1], wrong


TENSORS: dict[str, Callable[[Any], Any]] = {
    "a blur": lambda image: F.gaussian_blur(F.to_tensor(image), 3),
    "a blur of nothing that is late": lambda image: F.gaussian_blur(torch.ones(3, 9, 9), [3, 5]),
    "a box": lambda image: F.erase(F.to_tensor(image), 3, 4, 5, 6, torch.tensor(0.5)),
    "a box of an Image": lambda image: F.erase(
        tv_tensors.Image(F.to_tensor(image)), 3, 4, 5, 6, torch.tensor(0.5)
    ),
}


@pytest.mark.parametrize("workers", [0, 1])
def test_functions_for_images_and_tensors_return_the_same_class_as_torchvision(
    workers: int,
) -> None:
    options: dict[str, Any] = {"batch_size": None, "num_workers": workers}
    does = OneOpEach(TENSORS, lambda made: made)
    expected = list(data.DataLoader(does, **options))
    with contextlib.closing(hr.DataLoader(does, **options)) as loader:
        for made, theirs in zip(loader, expected, strict=True):
            assert type(made) is type(theirs)
            assert torch.equal(made, theirs)


class Erases(data.Dataset[Any]):
    """Random boxes of a tensor, erased by a transform that is called directly."""

    def __init__(self, erasing: Any) -> None:
        self.erasing, self.picture = erasing, images.jpeg(61, 47, seed=4)

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        image = Image.open(io.BytesIO(self.picture)).convert("RGB")
        return self.erasing(normalized(image))


@pytest.mark.parametrize(
    "erasing",
    [
        tv.RandomErasing(),
        tv.RandomErasing(1.0, value=(0.1, 0.2, 0.3)),
        tv.RandomErasing(1.0, (0.9, 0.99), (30.0, 40.0)),  # a box that never fits
        v2.RandomErasing(0.7, value=0.5),
        v2.RandomErasing(1.0, (0.9, 0.99), (30.0, 40.0)),
    ],
)
@pytest.mark.parametrize("workers", [0, 2])
def test_random_erasing_called_directly_is_native_with_torchs_draws(
    erasing: Any, workers: int
) -> None:
    found = []
    for kind, more in ((data.DataLoader, {}), (hr.DataLoader, {"strict": True})):
        torch.manual_seed(5)
        loader = kind(Erases(erasing), 5, num_workers=workers, **more)
        found.append(list(loader))
        if more:
            loader.close()
    assert equal(found[1], found[0])
