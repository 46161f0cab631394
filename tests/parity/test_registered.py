"""A program's own transforms that declare their equivalent, through headrace.DataLoader."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageFilter, ImageOps
from torch.utils.data import DataLoader
from torchvision import datasets
from torchvision import transforms as v1
from torchvision.transforms import _presets, v2

import headrace as hr
import images
from headrace import transforms as t
from headrace.errors import ArgumentError, UnsupportedError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("registered"), 12)


class Preset:
    """A pipeline in a class, as in torchvision's references."""

    def __init__(self, *steps: Any) -> None:
        self.transforms = v1.Compose(list(steps))

    def __call__(self, image: Any) -> Any:
        return self.transforms(image)


class Spoken(Preset):
    """The same class, which declares its equivalent itself."""

    def __headrace__(self) -> list[Any]:
        return [self.transforms]


class Solarized:
    """Always solarizes, which torchvision does only with a probability; declared by Headrace's
    transforms."""

    def __call__(self, image: Image.Image) -> Image.Image:
        return image.point(lambda value: value if value < 99 else 255 - value)

    def __headrace__(self) -> list[Any]:
        return [t.RandomSolarize(99, 1.0)]


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    hr.register(Preset, lambda preset: [preset.transforms])
    yield
    hr.register(Preset, None)


END = v1.ToTensor()
EVALUATION = (v1.Resize(48), v1.CenterCrop(40), v1.ToTensor(), v1.Normalize(MEAN, STD))
PIPELINES: dict[str, Callable[[], Any]] = {
    "registered": lambda: Preset(*EVALUATION),
    "with the method": lambda: Spoken(*EVALUATION),
    "in a Compose": lambda: v1.Compose([Preset(*EVALUATION[:2]), v1.PILToTensor()]),
    "one in another": lambda: Spoken(Preset(*EVALUATION[:2]), *EVALUATION[2:]),
    "in a Sequential": lambda: v1.Compose([Spoken(Spoken(*EVALUATION[:1])), *EVALUATION[1:]]),
    "in a group": lambda: v1.Compose(
        [v1.CenterCrop(30), v1.RandomApply([Solarized()], 1.0), v1.ToTensor()]
    ),
    "deep in Composes": lambda: v1.Compose(
        [v1.CenterCrop(30), v1.Compose([v1.Compose([Solarized(), v1.Compose([Solarized()])])]), END]
    ),
    "in a Compose in a group": lambda: v1.Compose(
        [v1.CenterCrop(30), v1.RandomApply([v1.Compose([Solarized()])], 1.0), END]
    ),
    "in a choice": lambda: v1.Compose([v1.CenterCrop(30), v1.RandomChoice([Solarized()] * 2), END]),
    "in an order": lambda: v1.Compose([v1.CenterCrop(30), v1.RandomOrder([Solarized()]), END]),
    "in v2's Compose and group": lambda: v2.Compose(
        [v2.CenterCrop(30), v2.Compose([v2.RandomApply([Solarized()], 1.0)]), v2.ToImage()]
    ),
    "as Headrace's": lambda: v1.Compose([v1.CenterCrop(30), Solarized(), v1.ToTensor()]),
    "two of one object": lambda: v1.Compose([v1.CenterCrop(9), *[Solarized()] * 2, v1.ToTensor()]),
}


def compare(folder: Path, transform: Any, **options: Any) -> None:
    dataset = datasets.ImageFolder(str(folder), transform)
    found = hr.DataLoader(dataset, 5, **options)
    for mine, theirs in zip(found, DataLoader(dataset, 5), strict=True):
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_transform_that_declares_its_equivalent_runs_natively_as_a_whole(
    folder: Path, name: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare(folder, PIPELINES[name](), strict=True)


class Blur:
    """Pillow's blur as in DINO's program."""

    def __init__(self, p: float = 0.5, radius_min: float = 0.1, radius_max: float = 2.0) -> None:
        self.p, self.radius_min, self.radius_max = p, radius_min, radius_max

    def __call__(self, image: Image.Image) -> Image.Image:
        if random.random() > self.p:
            return image
        radius = random.uniform(self.radius_min, self.radius_max)
        return image.filter(ImageFilter.GaussianBlur(radius=radius))


class Solarize:
    """Pillow's solarize as in DINO's program."""

    def __init__(self, p: float) -> None:
        self.p = p

    def __call__(self, image: Image.Image) -> Image.Image:
        return ImageOps.solarize(image) if random.random() < self.p else image


@pytest.mark.parametrize("radius", [0.1, 1.3, 2.0])
def test_dinos_pipeline_with_its_classes_registered_gives_torchs_batches(
    folder: Path, radius: float
) -> None:
    classes = {
        Blur: lambda op: [t.RandomPillowBlur((op.radius_min, op.radius_max), op.p)],
        Solarize: lambda op: [t.RandomSolarize(128, op.p)],
    }
    steps = [
        v1.Resize((60, 70), v1.InterpolationMode.BICUBIC),
        v1.RandomApply([v1.ColorJitter((0.7, 0.7))], 1.0),
        Blur(1.0, radius, radius),
        v1.RandomChoice([Solarize(1.0), Solarize(1.0)]),
        Blur(0.0),
        v1.ToTensor(),
        v1.Normalize(MEAN, STD),
    ]
    for kind, equal in classes.items():
        hr.register(kind, equal)
    try:
        compare(folder, v1.Compose(steps), strict=True)
    finally:
        for kind in classes:
            hr.register(kind, None)
    with pytest.raises(UnsupportedError, match="Blur has no translation"):
        hr.from_torchvision(v1.Compose(steps))


class Finished:
    """A whole pipeline declared by Headrace's transforms alone."""

    def __call__(self, image: Image.Image) -> torch.Tensor:
        tensor = v1.functional.to_tensor(image.resize((30, 40)))
        return v1.functional.normalize(tensor, MEAN, STD)

    def __headrace__(self) -> list[Any]:
        return [t.Resize((40, 30), "bicubic"), t.Normalize(MEAN, STD)]


def test_a_declared_normalize_makes_a_tensor_as_in_a_loader(folder: Path) -> None:
    compare(folder, Finished(), strict=True)
    with pytest.raises(UnsupportedError, match=r"ToTensor .* the image is a tensor already"):
        hr.from_torchvision(v1.Compose([Finished(), v1.ToTensor()]))


def test_declared_erasings_stay_before_or_after_normalize() -> None:
    class Erased(Preset):
        def __headrace__(self) -> list[Any]:
            return [t.CenterCrop(9), t.Cutout(3), t.Normalize(MEAN, STD), t.RandomErasing()]

    found = hr.from_torchvision(Erased())
    assert list(found) == Erased().__headrace__()
    assert (found.dtype, found.scale, found.size) == ("float32", "div", (9, 9))
    step = v1.Compose([Erased(), v1.CenterCrop(3)])
    with pytest.raises(UnsupportedError, match=r"CenterCrop .* behind RandomErasing"):
        hr.from_torchvision(step)


def test_the_declaration_is_read_anew_for_each_epoch(folder: Path) -> None:
    preset = Preset(v1.CenterCrop(20), v1.ToTensor())
    loader = hr.DataLoader(datasets.ImageFolder(str(folder), preset), 12, strict=True)
    assert next(iter(loader))[0].shape[2:] == (20, 20)
    preset.transforms.transforms[0] = v1.CenterCrop(8)
    assert next(iter(loader))[0].shape[2:] == (8, 8)


def test_a_registration_takes_precedence_over_the_method_and_over_known_transforms() -> None:
    hr.register(Solarized, lambda _: [t.RandomInvert(1.0)])
    hr.register(v1.Grayscale, lambda _: [t.RandomEqualize(1.0)])
    try:
        found = hr.from_torchvision(v1.Compose([Solarized(), v1.Grayscale(1)]))
        assert found == [t.RandomInvert(1.0), t.RandomEqualize(1.0)]
    finally:
        hr.register(Solarized, None)
        hr.register(v1.Grayscale, None)
    assert hr.from_torchvision(Solarized()) == Solarized().__headrace__()


# ---- declarations that are refused ---------------------------------------------------------------


class ChildOfRegistered(Preset):
    def __call__(self, image: Any) -> Any:
        return image.rotate(90)


class ChildOfSpoken(Spoken):
    def __call__(self, image: Any) -> Any:
        return image.rotate(90)


class CropThatSays(v1.CenterCrop):
    def __headrace__(self) -> list[Any]:
        return [v1.CenterCrop(self.size)]


class GrandchildOfTorchvision(CropThatSays):
    def forward(self, img: Any) -> Any:
        return super().forward(img.rotate(90))


def with_a_method_replaced() -> Any:
    preset: Any = Spoken(v1.CenterCrop(8))
    preset.__dict__["__call__"] = lambda image: image.rotate(90)
    return preset


def with_a_hook() -> Any:
    crop = CropThatSays(8)
    crop.register_forward_hook(lambda _module, _given, image: image.rotate(90))
    return crop


NOT_SPOKEN_OF = {
    "a child of a registered class": (lambda: ChildOfRegistered(), "no such transform"),
    "a child of one with the method": (lambda: ChildOfSpoken(), "from Spoken alone, and a sub"),
    "a child of that of torchvision": (lambda: GrandchildOfTorchvision(8), "from CropThatSays"),
    "a method replaced": (with_a_method_replaced, "one of its methods was replaced"),
    "a hook": (with_a_hook, "it has a hook"),
}


@pytest.mark.parametrize("name", NOT_SPOKEN_OF)
def test_an_overridden_forward_is_never_ignored(folder: Path, name: str) -> None:
    make, words = NOT_SPOKEN_OF[name]
    pipeline = v1.Compose([v1.CenterCrop(20), make(), v1.CenterCrop(8), v1.ToTensor()])
    with pytest.warns(UserWarning, match=f"DataLoader: {type(make()).__name__} has no .*{words}"):
        compare(folder, pipeline)
    with pytest.raises(UnsupportedError, match=words):
        hr.from_torchvision(pipeline)


def test_a_subclass_with_its_own_declaration_runs_natively(folder: Path) -> None:
    class Child(Spoken):
        __headrace__ = Spoken.__headrace__

    compare(folder, Child(*EVALUATION), strict=True)


def test_a_sequential_with_a_hook_is_not_translated_as_its_members() -> None:
    pipeline = torch.nn.Sequential(v2.CenterCrop(8))
    assert hr.from_torchvision(pipeline) == [t.CenterCrop(8)]
    pipeline.register_forward_hook(lambda _module, _given, image: image.rotate(90))
    with pytest.raises(UnsupportedError, match=r"^Sequential has no translation"):
        hr.from_torchvision(pipeline)


class Says:
    """Declares anything in place of a list."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def __call__(self, image: Any) -> Any:
        return image

    def __headrace__(self) -> Any:
        function = type(self.said) is type(failing)
        return self.said(self) if function else self.said


def failing(_: Any) -> Any:
    raise KeyError("size\n")


UNUSABLE = {
    "no list": (7, "its __headrace__ gave 7 .expected a list of transforms"),
    "None": (None, "gave None"),
    "a string": ("blur", "gave 'blur'"),
    "one transform": (v1.Pad(1), "gave Pad"),
    "a translation": (lambda _: hr.from_torchvision(v1.Pad(1)), "expected a list of transforms"),
    "an error": (failing, r"its __headrace__ raised KeyError: 'size\\n'"),
    "a number in it": ([v1.Pad(1), 7], "^Says has .*: int in what it equals has none: Headrace"),
    "a class in it": ([v1.Pad], "type in what it equals has none: Headrace has no such"),
    "None in it": ([None], "NoneType in what it equals has none"),
    "itself": (lambda op: [v1.CenterCrop(20), op], "it is a part of itself"),
    "others without end": (lambda _: [Says(lambda _: UNUSABLE["others without end"][0](0))], "16"),
    "a batch's": ([t.MixUp()], "MixUp in what it equals has none: it takes batches"),
    "several images": ([t.FiveCrop(8)], "several images"),
    "labels": ([t.Boxes()], "labels"),
    "a schedule": ([t.RandomResizedCrop(t.Schedule({0: 8}))], "Schedule, which only a Loader"),
    "finished in a group": ([t.RandomApply([t.Normalize(MEAN, STD)])], "Normalize in it: it works"),
    "a batch's in a group": ([t.RandomApply([t.MixUp()])], "MixUp in it: it takes batches"),
    "torchvision's in a group": ([t.RandomApply([v1.Pad(1)])], "others than headrace.transforms"),
    "a tensor in front": ([v1.ToTensor(), t.CenterCrop(8)], "only Normalize and erasings"),
    "bytes in front": ([v1.PILToTensor(), t.Normalize(MEAN, STD)], "the image is uint8 here"),
    "twice": ([t.Normalize(MEAN, STD)] * 2, "the second of its kind"),
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_declaration_gives_a_message_and_the_object_runs_in_python(
    folder: Path, name: str
) -> None:
    said, words = UNUSABLE[name]
    pipeline = v1.Compose([v1.CenterCrop(20), Says(said), v1.ToTensor()])
    with pytest.raises(UnsupportedError, match=words):
        hr.from_torchvision(pipeline)
    with pytest.warns(UserWarning, match="Says has no translation"):
        compare(folder, pipeline)


def test_a_compose_that_contains_itself_gives_a_message() -> None:
    compose = v1.Compose([v1.CenterCrop(8)])
    compose.transforms.append(compose)
    with pytest.raises(UnsupportedError, match=r"^Compose has .* it is a part of itself"):
        hr.from_torchvision(compose)


def test_headraces_transforms_are_refused_in_torchvisions_compose() -> None:
    with pytest.raises(UnsupportedError, match=r"^CenterCrop has no translation"):
        hr.from_torchvision(v1.Compose([t.CenterCrop(8)]))


def test_the_beginning_of_a_partly_known_pipeline_runs_natively(folder: Path) -> None:
    elastic = v2.Lambda(lambda image: image.rotate(90))
    pipeline = v1.Compose([Preset(v1.Resize((20, 30)), elastic, v1.ToTensor()), Says([])])
    with pytest.warns(UserWarning, match="DataLoader: Lambda has no translation.*in Python"):
        compare(folder, pipeline)
    translation = hr.DataLoader(datasets.ImageFolder(str(folder), pipeline))._reading.look()[1]
    assert list(translation) == [t.Resize((20, 30))]
    assert translation.rest == [elastic, pipeline.transforms[0].transforms.transforms[2]]


def test_a_declared_list_with_headraces_transforms_never_runs_partly_in_python(
    folder: Path,
) -> None:
    mixed = Says([v1.CenterCrop(30), failing, t.CenterCrop(20)])
    last = Says([t.RandomInvert(1.0)])
    pipeline = v1.Compose([v1.Resize((20, 30)), mixed, last, v1.ToTensor()])
    with pytest.warns(UserWarning, match="DataLoader: Says has no .*function in what"):
        compare(folder, pipeline)
    translation = hr.DataLoader(datasets.ImageFolder(str(folder), pipeline))._reading.look()[1]
    assert translation.rest == [mixed, last, pipeline.transforms[3]]


def test_a_torchvision_preset_in_a_declared_list_runs_in_python_as_a_whole(folder: Path) -> None:
    pipeline = Preset(v1.PILToTensor(), _presets.ImageClassification(crop_size=20))
    with pytest.warns(UserWarning, match="ImageClassification.*resizes a tensor with version 1"):
        found = list(hr.DataLoader(datasets.ImageFolder(str(folder), pipeline), 5))
    wanted = DataLoader(datasets.ImageFolder(str(folder), pipeline), 5)
    for mine, theirs in zip(found, wanted, strict=True):
        assert torch.equal(mine[0], theirs[0])


def test_register_checks_its_arguments() -> None:
    for cls, words in ((Preset(), "cls="), ("Preset", "cls='Preset'")):
        with pytest.raises(ArgumentError, match=f"{words}.*a class was expected"):
            hr.register(cls, lambda _: [])  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"fn=.*a function of an object"):
        hr.register(Preset, [v1.Pad(1)])  # type: ignore[arg-type]
    hr.register(Says, None)  # nothing is registered to take back
