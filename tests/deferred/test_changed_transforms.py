"""Transforms that a program changes between one sample and the next."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch
import torchvision.transforms as tv
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import Opens, compared


def steps() -> tv.Compose:
    return tv.Compose(
        [tv.Resize(40), tv.CenterCrop(32), tv.ToTensor(), tv.Normalize([0.5] * 3, [0.2] * 3)]
    )


def another_number(made: tv.Compose, index: int) -> None:
    made.transforms[1].size = (16 + index % 3, 16)


def another_list(made: tv.Compose, index: int) -> None:
    made.transforms[3].mean = [0.5, 0.5, 0.1 * (index % 3)]


def within_a_list(made: tv.Compose, index: int) -> None:
    if index % 2:
        made.transforms[3].mean = list(made.transforms[3].mean)  # equal, but another object
    made.transforms[3].mean[0] = 0.1 * (index % 3)


def an_array(made: tv.Compose, index: int) -> None:
    made.transforms[3].mean = np.array([0.5, 0.4, 0.1 * (index % 3)], np.float32)


def a_tensor(made: tv.Compose, index: int) -> None:
    made.transforms[3].std = torch.tensor([0.5, 0.4, 0.1 * (1 + index % 3)])


def another_transform(made: tv.Compose, index: int) -> None:
    made.transforms[1] = tv.CenterCrop(20) if index % 2 else tv.Grayscale(3)


def one_more(made: tv.Compose, index: int) -> None:
    made.transforms.insert(1, tv.CenterCrop(39 - index))


def a_function(made: tv.Compose, index: int) -> None:
    made.transforms[4:] = [lambda values: values + index]


def a_hook(made: tv.Compose, index: int) -> None:
    if index == 3:
        made.transforms[3].register_forward_hook(lambda *of: of[2] * 2)


CHANGES = (
    *(another_number, another_list, within_a_list, an_array, a_tensor),
    *(another_transform, one_more, a_function, a_hook),
)


class Changing(data.Dataset[Any]):
    """Changes its transform before each sample."""

    def __init__(self, paths: list[str], change: Callable[[tv.Compose, int], None]) -> None:
        self.paths, self.change, self.transform = paths, change, steps()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        self.change(self.transform, index)
        return self.transform(PIL.Image.open(self.paths[index]).convert("RGB"))


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return images.old_files(tmp_path_factory.mktemp("changing") / "photos", 10)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_each_sample_has_the_transform_that_was_set_when_it_was_made(
    paths: list[str], change: Callable[[tv.Compose, int], None]
) -> None:
    one_by_one: dict[str, Any] = {"batch_size": None}
    expected = list(data.DataLoader(Changing(paths, change), **one_by_one))
    loader = hr.DataLoader(Changing(paths, change), **one_by_one)
    with contextlib.closing(loader):
        found = list(loader)
    assert len(found) == len(expected) == 10
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)
    assert any(not torch.equal(expected[0], other) for other in expected[1:])


def test_a_changed_transform_still_runs_in_the_engine(paths: list[str]) -> None:
    loader = hr.DataLoader(Changing(paths, another_list), batch_size=5, strict=True)
    with contextlib.closing(loader):
        assert len(list(loader)) == 2


@pytest.mark.parametrize("wraps", [False, True])
def test_a_method_that_a_program_sets_on_a_class_is_called(
    paths: list[str], wraps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tv.RandomCrop.get_params

    def get_params(image: Any, size: tuple[int, int]) -> tuple[int, int, int, int]:
        return 1, 2, *size

    put = functools.wraps(own)(get_params) if wraps else get_params
    monkeypatch.setattr(tv.RandomCrop, "get_params", staticmethod(put))
    crops = tv.Compose([tv.RandomCrop(20), tv.ToTensor()])
    dataset = Opens(paths, lambda path, _: crops(PIL.Image.open(path).convert("RGB")))
    compared(dataset)
