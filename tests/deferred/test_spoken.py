"""A program's own transforms that declare their equivalent, as its dataset calls them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data
from torchvision import datasets

import headrace as hr
import images
from deferred.test_own_code import Opens, compared, equal, paths
from headrace.errors import UnsupportedError

__all__ = ["paths"]  # a fixture
WORKERS = pytest.mark.parametrize("workers", [0, 2])
TENSOR = tv.ToTensor()


class Inverts:
    """Its call needs pixels; what it declares does not."""

    def __call__(self, image: Any) -> Any:
        return Image.fromarray(255 - np.asarray(image))

    def __headrace__(self) -> list[Any]:
        return [tv.RandomInvert(1.0)]


class BySuper(Inverts):
    def __call__(self, image: Any) -> Any:
        return super().__call__(image)

    __headrace__ = Inverts.__headrace__


class Inherits(Inverts):
    __headrace__ = Inverts.__headrace__


class AsModule(torch.nn.Module):
    def forward(self, image: Any) -> Any:
        return Inverts()(image)

    def __headrace__(self) -> list[Any]:
        return [tv.RandomInvert(1.0)]


class Registered:
    def __call__(self, image: Any) -> Any:
        return Image.fromarray(255 - np.asarray(image))


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    hr.register(Registered, lambda _: [tv.RandomInvert(1.0)])
    yield
    hr.register(Registered, None)


KINDS: list[Callable[[], Any]] = [Inverts, BySuper, Inherits, AsModule, Registered]
GLOBAL = Inverts()


def of_attribute(kind: Any) -> Any:
    class Calls(data.Dataset[Any]):
        def __init__(self, paths: list[str]) -> None:
            self.paths, self.transform = paths, {"train": [kind()]}

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> Any:
            image = Image.open(self.paths[index]).convert("RGB").resize((40, 30))
            return TENSOR(self.transform["train"][0](image))

    return Calls


@WORKERS
@pytest.mark.parametrize("kind", KINDS)
def test_a_transform_that_declares_its_equivalent_runs_natively_when_a_dataset_calls_it(
    paths: list[str], kind: Any, workers: int
) -> None:
    compared(of_attribute(kind)(paths), num_workers=workers)


def opened(path: str) -> Any:
    return Image.open(path).convert("RGB").resize((40, 30))


def test_a_declared_transform_is_found_in_closures_defaults_and_globals(paths: list[str]) -> None:
    inside, default = Inverts(), BySuper()

    def cell(path: str, index: int) -> Any:
        return TENSOR(inside(opened(path)))

    def by_default(path: str, index: int, op: Any = default) -> Any:
        return TENSOR(op(opened(path)))

    def by_name(path: str, index: int) -> Any:
        return TENSOR(GLOBAL(opened(path)))

    for make in (cell, by_default, by_name):
        compared(Opens(paths, make))


class Stream(data.IterableDataset[Any]):
    def __init__(self, paths: list[str]) -> None:
        self.paths, self.transform = paths, Inverts()

    def __iter__(self) -> Iterator[Any]:
        for path in self.paths:
            yield TENSOR(self.transform(opened(path)))


class ByGlobalName(Stream):
    def __iter__(self) -> Iterator[Any]:
        for path in self.paths:
            yield TENSOR(OF_A_STREAM(opened(path)))


class OnlyInAStream(Inverts):
    def __call__(self, image: Any) -> Any:
        return Image.fromarray(255 - np.asarray(image))

    __headrace__ = Inverts.__headrace__


OF_A_STREAM = OnlyInAStream()


@pytest.mark.parametrize("kind", [Stream, ByGlobalName])
def test_a_streams_transform_is_native_too(paths: list[str], kind: Any) -> None:
    compared(kind(paths))


class Crops:
    def __call__(self, image: Any) -> Any:
        raise AssertionError("the engine draws")

    def __headrace__(self) -> list[Any]:
        return [tv.RandomCrop(20)]


@WORKERS
def test_a_declared_random_transform_is_drawn_by_the_engine_with_the_seed(
    paths: list[str], workers: int
) -> None:
    def passed(dataset: Any) -> list[Any]:
        options: dict[str, Any] = {"seed": 5, "strict": True, "num_workers": workers}
        with contextlib.closing(hr.DataLoader(dataset, 3, **options)) as loader:
            return list(loader)

    own, crop = Crops(), tv.RandomCrop(20)
    said = Opens(paths, lambda path, index: TENSOR(own(opened(path))))
    known = Opens(paths, lambda path, index: TENSOR(crop(opened(path))))
    if workers:  # a random transform is sent between processes, and a lambda cannot be
        said, known = of_attribute(Crops)(paths), of_attribute(lambda: tv.RandomCrop(20))(paths)
    assert equal(passed(said), passed(known))


def test_a_declared_transform_after_a_function_in_a_compose_is_native(tmp_path: Any) -> None:
    root = images.plain_tree(tmp_path / "photos", 6, 2)
    darker = tv.Lambda(lambda image: image.point(lambda value: value // 2))
    steps = [tv.CenterCrop(30), darker, Inverts(), TENSOR]
    dataset = datasets.ImageFolder(root, tv.Compose(steps))
    compared(dataset, strict=False)
    with contextlib.closing(hr.DataLoader(dataset, 2)) as loader:
        (reason,) = loader.explain(0).reasons
        assert reason.text == "Image.point needs the pixels"


class Child(Inverts):
    def __call__(self, image: Any) -> Any:
        return image.rotate(90)


def test_a_subclass_that_overrides_call_without_declaring_an_equivalent_runs_its_own_call(
    paths: list[str],
) -> None:
    compared(of_attribute(Child)(paths))


class Counts(Inverts):
    calls = 0

    def __call__(self, image: Any) -> Any:
        Counts.calls += 1
        return super().__call__(image)

    __headrace__ = Inverts.__headrace__


def test_outside_of_a_loader_the_transforms_own_call_runs(paths: list[str]) -> None:
    dataset, before = of_attribute(Counts)(paths), Counts.__call__
    with contextlib.closing(hr.DataLoader(dataset, 3, strict=True)) as loader:
        for _ in loader:
            pass
    assert Counts.calls == 0
    assert Counts.__call__ is before
    assert dataset[0].equal(TENSOR(Image.fromarray(255 - np.asarray(opened(paths[0])))))
    assert Counts.calls == 1
    hr.register(Counts, lambda _: [7])
    try:
        with contextlib.closing(hr.DataLoader(dataset, 3)) as loader:
            assert equal(list(loader), list(data.DataLoader(dataset, 3)))
        with pytest.raises(UnsupportedError, match="needs the pixels"):
            list(hr.DataLoader(dataset, 3, strict=True))
    finally:
        hr.register(Counts, None)


class Turned(tv.Resize):
    """A subclass of torchvision's whose forward does more, and declares it."""

    def forward(self, image: Any) -> Any:
        return super().forward(image.convert("RGB")).transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    def __headrace__(self) -> list[Any]:
        return [tv.Resize((20, 24)), tv.RandomHorizontalFlip(1.0)]


class ByForward:
    def forward(self, image: Any) -> Any:
        return image.convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT)

    def __call__(self, image: Any) -> Any:
        return self.forward(image).transpose(Image.Transpose.FLIP_TOP_BOTTOM)

    def __headrace__(self) -> list[Any]:
        return [tv.RandomHorizontalFlip(1.0), tv.RandomVerticalFlip(1.0)]


@WORKERS
@pytest.mark.parametrize("kind", [lambda: Turned((20, 24)), ByForward])
def test_calls_within_a_declared_transforms_own_code_run_as_written(
    tmp_path: Path, kind: Any, workers: int
) -> None:
    for number in range(3):  # palettes, for which the engine does not run the whole transform
        image = Image.fromarray(np.arange(1200, dtype=np.uint8).reshape(30, 40) + number)
        image.convert("P").save(tmp_path / f"{number}.png")
    op = kind()

    def made(path: str, index: int) -> Any:
        return TENSOR(op(Image.open(path)))

    files = [str(path) for path in sorted(tmp_path.iterdir())]
    compared(Opens(files, made), strict=False, num_workers=workers)
