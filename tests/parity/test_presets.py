"""Parts of programs' pipelines other than torchvision's transforms: the presets of its weights, and
functions that make an image RGB.
"""

from __future__ import annotations

import functools
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader
from torchvision import datasets, models
from torchvision import transforms as v1
from torchvision.transforms import _presets, v2
from torchvision.transforms import functional as F

import headrace as hr
import images
from headrace import transforms as t
from headrace._translate.functions import is_to_tensor, makes_rgb
from headrace.errors import UnsupportedError

BICUBIC = v1.InterpolationMode.BICUBIC


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in colour, grey, CMYK and with palettes, of three sizes."""
    root = tmp_path_factory.mktemp("presets")
    for width, height in [(96, 70), (61, 130), (20, 23)]:
        kinds = images.every_jpeg(width, height)
        files = {f"{kind}.jpg": kinds[kind] for kind in ("baseline-420", "grey", "cmyk")}
        images.write_tree(root / f"{width}x{height}", files)
    files = {f"{name}.png": data for name, data in images.every_png(67, 52).items()}
    return images.write_tree(root / "png", files).parent


def compare(folder: Path, transform: Any, size: int = 7) -> None:
    """Every batch of headrace.DataLoader is torch's, in dtype, shape and every byte."""
    dataset = datasets.ImageFolder(str(folder), transform)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = hr.DataLoader(dataset, size, strict=True)
    for mine, theirs in zip(loader, DataLoader(dataset, size), strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert torch.equal(a, b)


PRESETS: dict[str, Any] = {
    "ResNet-50": models.ResNet50_Weights.IMAGENET1K_V2.transforms(),
    "ViT-B/16 SWAG": models.ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1.transforms(),
    "one of a program's own": _presets.ImageClassification(
        crop_size=40, resize_size=37, mean=(0.5,), std=(0.25,), interpolation=BICUBIC
    ),
    "without antialias": _presets.ImageClassification(crop_size=9, antialias=None),
    "in a Compose": v1.Compose([v1.Resize((80, 70)), _presets.ImageClassification(crop_size=64)]),
}


@pytest.mark.parametrize("name", PRESETS)
def test_the_preset_of_weights_gives_torchs_batches_byte_for_byte(folder: Path, name: str) -> None:
    compare(folder, PRESETS[name])


def test_segmentation_and_detection_presets_give_torchs_images_one_by_one(folder: Path) -> None:
    for size in (None, 33):
        compare(folder, _presets.SemanticSegmentation(resize_size=size), 1)
    compare(folder, _presets.ObjectDetection(), 1)


def test_every_preset_of_torchvisions_classification_models_is_translated() -> None:
    seen = 0
    for model in models.list_models(module=models):
        for weights in models.get_model_weights(model):
            preset = weights.transforms()
            found = hr.from_torchvision(preset)
            size, most = preset.resize_size[0], preset.crop_size[0]
            assert found == [
                t.Resize(size, preset.interpolation.value),
                t.CenterCrop(most),
                t.Normalize(tuple(preset.mean), tuple(preset.std)),
            ]
            assert (found.dtype, found.scale, found.size) == ("float32", "div", (most, most))
            seen += 1
    assert seen > 100


class Overridden(_presets.ImageClassification):
    def forward(self, img: Any) -> Any:
        return super().forward(img.rotate(90))


def test_a_preset_that_is_overridden_hooked_or_given_a_tensor_runs_in_python(folder: Path) -> None:
    hooked = _presets.ImageClassification(crop_size=8)
    hooked.register_forward_pre_hook(lambda _module, given: (given[0].rotate(90),))
    damaged = _presets.ImageClassification(crop_size=8)
    damaged.interpolation = 2.5  # type: ignore[assignment]
    for preset, words in (
        (Overridden(crop_size=8), "Overridden has no translation: Headrace has no such"),
        (hooked, "ImageClassification has no translation: Headrace has no such"),
        (v1.Compose([v1.ToTensor(), _presets.ImageClassification(crop_size=8)]), "Resize in what"),
        (damaged, "ImageClassification has no translation: "),
    ):
        with pytest.raises(UnsupportedError, match=words):
            hr.from_torchvision(preset)
    pipeline = v1.Compose([v1.PILToTensor(), _presets.ImageClassification(crop_size=8)])
    dataset = datasets.ImageFolder(str(folder), pipeline)
    with pytest.warns(UserWarning, match="ImageClassification.*resizes a tensor with version 1"):
        found = list(hr.DataLoader(dataset, 7))
    for mine, theirs in zip(found, DataLoader(dataset, 7), strict=True):
        assert torch.equal(mine[0], theirs[0])


# ---- functions that make an image RGB ------------------------------------------------------------


def _convert_to_rgb(image: Any) -> Any:
    return image.convert("RGB")


def documented(picture: Any) -> Any:
    """Makes it RGB."""
    return picture.convert("RGB")


def where_needed(img: Any) -> Any:
    if img.mode != "RGB":
        img = img.convert("RGB")
    return img


def returned_where_needed(img):  # type: ignore[no-untyped-def]
    """Makes it RGB, if it is not."""
    if img.mode != "RGB":
        return img.convert("RGB")
    return img


class ToRGB:
    """Like SAM's class and other programs'."""

    def __init__(self, mode: str = "RGB") -> None:
        self.mode = mode

    def __call__(self, image: Any) -> Any:
        """Makes it RGB."""
        return image.convert("RGB")

    def __repr__(self) -> str:
        return "ToRGB()"


class WhereNeeded:
    def __call__(self, img: Any) -> Any:
        if img.mode != "RGB":
            img = img.convert("RGB")
        return img


class Inherited(ToRGB):
    pass


def within() -> Callable[[Any], Any]:
    return lambda x: x.convert("RGB")


MAKING_RGB: dict[str, Any] = {
    "a lambda": lambda x: x.convert("RGB"),
    "one within a function": within(),
    "a function": _convert_to_rgb,
    "one with a docstring": documented,
    "where needed": where_needed,
    "returned where needed": returned_where_needed,
    "an expression": lambda x: x.convert("RGB") if x.mode != "RGB" else x,
    "the other way round": lambda x: x if x.mode == "RGB" else x.convert("RGB"),
    "a default that nobody needs": lambda x=None: x.convert("RGB"),
    "an object": ToRGB(),
    "an object where needed": WhereNeeded(),
    "an object of a child": Inherited(),
}


def called(step: Any) -> str:
    """How messages name a transform, as a pattern: a function by its name and its place."""
    if hasattr(step, "__code__"):
        return rf"the function \S+ \({__file__}:\d+\)"
    return type(step).__name__


@pytest.mark.parametrize("name", MAKING_RGB)
def test_a_function_that_makes_an_image_rgb_is_recognised_by_its_code(
    folder: Path, name: str
) -> None:
    convert = MAKING_RGB[name]
    for step in (convert, v1.Lambda(convert), v2.Lambda(convert)):
        compare(folder, v1.Compose([step, v1.CenterCrop(20), step, v1.PILToTensor()]))
    name = called(convert)
    with pytest.raises(UnsupportedError, match=f"{name} has no translation: here it has a tensor"):
        hr.from_torchvision(v1.Compose([v1.ToTensor(), convert]))


MODE = "RGB"


def around(mode: str) -> Callable[[Any], Any]:
    return lambda x: x.convert(mode)


def collected(*x: Any) -> Any:
    return x.convert("RGB")  # type: ignore[attr-defined]


def generated(x: Any) -> Any:
    yield x.convert("RGB")


async def awaited(x: Any) -> Any:
    return x.convert("RGB")


def caught(x: Any) -> Any:
    try:
        return x.convert("RGB")
    except ValueError:
        return x


class Converts:
    def convert(self, x: Any) -> Any:
        return x.convert("RGB")


class ByItsMode(ToRGB):
    def __call__(self, image: Any) -> Any:
        return image.convert(self.mode)


class OfItself:
    mode = "L"

    def __call__(self, image: Any) -> Any:
        return self.convert("RGB")

    def convert(self, mode: str) -> Any:
        return mode


class Static:
    @staticmethod
    def __call__(self: Any, image: Any = None) -> Any:
        return image.convert("RGB")


class ByAnother:
    def __call__(self, image: Any, other: Any = None) -> Any:
        return image.convert("RGB")


@functools.wraps(_convert_to_rgb)
def wrapped(x: Any) -> Any:
    return _convert_to_rgb(x.rotate(90))


NOT_MAKING_RGB: dict[str, Any] = {
    "another mode": lambda x: x.convert("L"),
    "another mode where needed": lambda x: x.convert("L") if x.mode != "RGB" else x,
    "two": lambda x: x.convert("L").convert("RGB"),
    "another argument": lambda x: x.convert(matrix="RGB"),  # nearly the same as code
    "another method": lambda x: x.rotate("RGB"),
    "another condition": lambda x: x.convert("RGB") if x.mode == "RGB" else x,
    "an attribute": lambda x: x.convert,
    "a global name": lambda x: x.convert(MODE),
    "a name around it": around("RGB"),
    "two arguments": lambda x, y=0: x.convert("RGB"),
    "a keyword": lambda x, *, y=0: x.convert("RGB"),
    "any arguments": collected,
    "a generator": generated,
    "a coroutine": awaited,
    "an exception": caught,
    "a bound method": Converts().convert,
    "a partial": functools.partial(_convert_to_rgb),
    "wrapped": wrapped,
    "nothing": lambda x: x,
    "a built-in": repr,
    "a class": Converts,
    "an object's mode": ByItsMode(),
    "an object's own method": OfItself(),
    "a static call": Static(),
    "an object that takes two": ByAnother(),
    "an object's class": ToRGB,
}


@pytest.mark.parametrize("name", NOT_MAKING_RGB)
@pytest.mark.every(3)
def test_a_function_that_does_anything_else_is_not_taken_for_a_conversion_to_rgb(name: str) -> None:
    function = NOT_MAKING_RGB[name]
    assert not makes_rgb(function)
    for step in (function, v1.Lambda(function)):
        with pytest.raises(UnsupportedError, match=f"^{called(step)} has no translation"):
            hr.from_torchvision(v1.Compose([step]))


def test_a_function_is_judged_by_its_current_code() -> None:
    function = types.FunctionType(_convert_to_rgb.__code__, {}, "anything")
    assert makes_rgb(function)
    function.__code__ = NOT_MAKING_RGB["another mode"].__code__
    assert not makes_rgb(function)


# ---- ToTensor's children that leave tensors alone ------------------------------------------------


class ByItsParent(v1.ToTensor):
    """Like DINOv2's class and those derived from it."""

    def __init__(self) -> None:
        """Says nothing."""
        super().__init__()

    def __call__(self, pic: Any) -> Any:
        """Makes a tensor."""
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic)


class ByTheFunction(v1.ToTensor):
    def __call__(self, image: Any) -> torch.Tensor:
        if isinstance(image, torch.Tensor):
            return image
        return F.to_tensor(image)

    def __repr__(self) -> str:
        return "ByTheFunction()"


@pytest.mark.parametrize("kind", [ByItsParent, ByTheFunction])
def test_a_subclass_of_totensor_that_leaves_tensors_unchanged_is_recognised_by_its_code(
    folder: Path, kind: Any
) -> None:
    compare(folder, v1.Compose([v1.CenterCrop(20), kind(), kind(), v1.Normalize(0.5, 0.5)]))
    compare(folder, v1.Compose([v1.CenterCrop(20), v1.PILToTensor(), kind()]))


class Halved(v1.ToTensor):
    def __call__(self, pic: Any) -> Any:
        if isinstance(pic, torch.Tensor):
            return pic
        return super().__call__(pic) / 2


class Typed(ByItsParent):
    pass


class Attributed(v1.ToTensor):
    __call__ = ByTheFunction.__call__

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Lent(v1.ToTensor):
    __call__ = ByItsParent.__call__  # whose super() belongs to another class


class OfNobody:
    __call__ = ByTheFunction.__call__


def otherwise(name: str, value: Any) -> Any:
    """A class with the same code, in which one name means something else."""
    call = ByTheFunction.__call__
    named = {"torch": torch, "F": F, name: value}
    return type("Otherwise", (v1.ToTensor,), {"__call__": types.FunctionType(call.__code__, named)})


def with_an_attribute() -> Any:
    op: Any = ByTheFunction()
    op.scale = 2
    return op


NOT_TO_TENSOR: dict[str, Callable[[], Any]] = {
    "more to do": Halved,
    "a grandchild": Typed,
    "a class whose attributes are made": Attributed,
    "another's method": Lent,
    "no child": OfNobody,
    "another torch": otherwise("torch", types.SimpleNamespace(Tensor=object)),
    "another module F": otherwise("F", torch.nn.functional),
    "another isinstance": otherwise("isinstance", issubclass),
    "an attribute": with_an_attribute,
    "a function": lambda: _convert_to_rgb,
}


@pytest.mark.parametrize("name", NOT_TO_TENSOR)
def test_a_class_that_does_anything_else_is_not_taken_for_totensor(name: str) -> None:
    op = NOT_TO_TENSOR[name]()
    assert not is_to_tensor(op)
    # A name that the code does not use may mean anything.
    assert is_to_tensor(otherwise("super", None)())
