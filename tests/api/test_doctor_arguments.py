"""Arguments of ``headrace.doctor`` and ``headrace.plan``, and which of them are refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import errors

BATCHES = [np.zeros((4, 8))]


@pytest.mark.parametrize(
    "rate", [0, -5, math.nan, 1e308, pytest.param(10**400, id="an int too large for a float")]
)
def test_an_impossible_rate_is_refused_with_its_unit(folder: Path, rate: Any) -> None:
    words = r"^rate=.*: a number of images a second, more than 0 and at most 1,000,000,000,000, was"
    for asked in (hr.doctor, hr.plan):
        with pytest.raises(errors.ArgumentError, match=words):
            asked(folder, rate=rate)


@pytest.mark.parametrize("seconds", [1e-9, 0.1, 0.999])
def test_less_than_a_second_of_measuring_is_refused(folder: Path, seconds: float) -> None:
    words = rf"^seconds={seconds}: at least 1 second was expected"
    with pytest.raises(errors.ArgumentError, match=words):
        hr.doctor(folder, seconds=seconds)
    with pytest.raises(errors.ArgumentError, match=words):
        hr.doctor([np.zeros((4, 8))], lambda batch: None, seconds=seconds)


@pytest.mark.parametrize("word", ["storage", "cache", "cache_size"])
@pytest.mark.parametrize("call", ["doctor", "doctor with a step", "Loader", "plan"])
def test_arguments_for_an_address_are_refused_beside_an_open_dataset(
    folder: Path, call: str, word: str
) -> None:
    if (call, word[:5]) == ("plan", "cache"):
        return  # plan has no such argument
    given: dict[str, Any] = {word: {"storage": {"key": "secret"}, "cache": "/none"}.get(word, "1G")}
    whose = "a loader" if "step" in call else "a headrace.Dataset"
    with hr.Dataset(folder) as dataset:
        called: dict[str, Any] = {
            "doctor": lambda: hr.doctor(dataset, seconds=1, **given),
            "doctor with a step": lambda: hr.doctor(BATCHES, print, seconds=1, **given),
            "Loader": lambda: hr.Loader(dataset, output="numpy", **given),
            "plan": lambda: hr.plan(dataset, rate=1, **given),
        }
        with pytest.raises(errors.ArgumentError) as caught:
            called[call]()
    assert str(caught.value) == f"{word}= is for an address; {whose} has its own"


@pytest.mark.parametrize(
    "given", [{"transform": "eval"}, {"transform": []}, {"batch_size": 128}, {"size": 32}]
)
def test_arguments_that_a_loader_already_has_are_refused_beside_a_step(
    given: dict[str, Any],
) -> None:
    (name,) = given
    with pytest.raises(errors.ArgumentError) as caught:
        hr.doctor(BATCHES, lambda batch: None, seconds=1, **given)
    assert str(caught.value) == f"{name}= is for a dataset; a loader has its own"


@pytest.mark.parametrize("paths", [["a", "b"], ("a",), [Path("a")], b"a", [b"a"]])
def test_paths_are_refused_as_a_loader_before_the_step_is_called(paths: Any) -> None:
    called: list[Any] = []
    with pytest.raises(errors.ArgumentTypeError, match=r"a loader, beside a step was expected"):
        hr.doctor(paths, called.append, seconds=1)
    assert called == []


def test_a_step_time_that_means_too_many_images_a_second_is_refused() -> None:
    words = "step_seconds=1e-300: a step that takes at most 1,000,000,000,000 images a second was"
    with pytest.raises(errors.ArgumentError, match=words):
        hr.plan(step_seconds=1e-300, images=1, image_bytes=1)


def test_a_batch_too_large_for_memory_is_refused_as_by_a_loader(folder: Path) -> None:
    crop = [hr.transforms.CenterCrop(224)]
    with pytest.raises(errors.MemoryShortError) as by_loader:
        hr.Loader(folder, 10**11, transform=crop, output="numpy")
    with pytest.raises(errors.MemoryShortError) as by_doctor:
        hr.doctor(folder, batch_size=10**11, transform=crop)
    needed = str(by_loader.value).partition(" bytes")[0]
    assert str(by_doctor.value).startswith(f"{needed} bytes")
