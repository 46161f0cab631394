"""A user's own function on finished batches: what it gets, and what happens if it fails."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.data

import headrace as hr
import images
from conftest import slots
from timing import eventually

COUNT = 23
TRANSFORM = [hr.transforms.RandomResizedCrop(8)]


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("batch_fn")
    hr.pack(images.plain_tree(root / "photos", COUNT), root / "photos.hr")
    return root / "photos.hr"


def loader(packed: Path, function: Any, **options: Any) -> hr.Loader:
    settings: dict[str, Any] = {"transform": TRANSFORM, "shuffle": True, "fields": ["index"]}
    return hr.Loader(packed, 4, batch_fn=function, **{"output": "numpy", **settings, **options})


def summed(batch: Any) -> tuple[list[int], float]:
    """A batch's samples, and a number by which its pixels are recognised."""
    pixels, _, fields = batch
    return fields["index"].tolist(), float(pixels.sum())


class FailsOnce:
    """A function that raises in one of its calls."""

    def __init__(self, at: int, error: BaseException) -> None:
        self.at, self.error, self.calls = at, error, 0

    def __call__(self, batch: Any) -> Any:
        self.calls += 1
        if self.calls == self.at:
            raise self.error
        return summed(batch)


@pytest.mark.parametrize("output", ["torch", "numpy"])
def test_the_loader_hands_out_the_functions_results(packed: Path, output: str) -> None:
    kind = torch.Tensor if output == "torch" else np.ndarray

    def halves(batch: Any) -> dict[str, Any]:
        pixels, labels, fields = batch
        assert isinstance(pixels, kind)
        assert isinstance(labels, kind)
        return {"x": pixels / 2, "y": labels, **fields}

    with (
        loader(packed, None, output=output) as plain,
        loader(packed, halves, output=output) as source,
    ):
        assert len(source) == len(plain)
        for (pixels, labels, fields), made in zip(plain, source, strict=True):
            assert (made["x"] * 2 == pixels).all()
            assert (made["y"] == labels).all()
            assert (made["index"] == fields["index"]).all()


def test_the_function_runs_when_a_batch_is_asked_for_and_not_before(packed: Path) -> None:
    calls = []
    with loader(packed, calls.append, prefetch=4) as source:
        iterator = iter(source)
        assert calls == []
        assert next(iterator) is None
        assert len(calls) == 1


def test_a_batch_for_which_the_function_raises_is_skipped_and_the_loop_goes_on(
    packed: Path,
) -> None:
    with loader(packed, summed) as source:
        expected = list(source)
    with loader(packed, FailsOnce(3, ValueError("my own"))) as source:
        iterator = iter(source)
        found = [next(iterator), next(iterator)]
        with pytest.raises(ValueError, match="my own"):
            next(iterator)
        assert source.state_dict()["position"] == 12
        assert found + list(iterator) == expected[:2] + expected[3:]
        assert source.state_dict()["epoch"] == 1


def test_a_function_that_raises_keeps_no_slot(packed: Path) -> None:
    failing = FailsOnce(0, ValueError("mine"))
    with loader(packed, failing) as source:
        for _ in range(20):  # each iteration is broken off
            failing.calls, failing.at = 0, 2
            iterator = iter(source)
            next(iterator)
            with pytest.raises(ValueError, match="mine"):
                next(iterator)
            del iterator
        failing.error.__traceback__ = None
        gc.collect()
        # Far fewer than the calls that raised: only batches that are prefetched, being made, or
        # held.
        assert len(slots()) < 12
    assert eventually(lambda: not slots())


def test_a_stop_iteration_raised_by_the_function_does_not_end_the_epoch(packed: Path) -> None:
    with loader(packed, FailsOnce(2, StopIteration())) as source:
        iterator = iter(source)
        next(iterator)
        with pytest.raises(RuntimeError, match="StopIteration"):
            next(iterator)
        assert len(list(iterator)) == 4


@pytest.mark.parametrize("saved_at", [0, 2, 6])
def test_a_state_saved_with_a_function_resumes_with_the_function_or_without(
    packed: Path, saved_at: int
) -> None:
    with loader(packed, summed) as source:
        expected = list(source) + list(source)
        source.set_epoch(0)
        iterator = iter(source)
        for _ in range(saved_at):
            next(iterator)
        state = json.loads(json.dumps(source.state_dict()))
    with loader(packed, summed) as source, loader(packed, None) as plain:
        assert state.keys() == plain.state_dict().keys()
        source.load_state_dict(state)
        plain.load_state_dict(state)
        rest = list(source)
        assert rest == expected[saved_at:][: len(rest)]
        assert list(map(summed, plain)) == rest


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_an_iterable_dataset_applies_the_function(packed: Path, workers: int) -> None:
    with loader(packed, summed) as source:
        expected = list(source)
    options: dict[str, Any] = {"transform": TRANSFORM, "shuffle": True, "fields": ["index"]}
    dataset = hr.IterableDataset(packed, 4, batch_fn=summed, num_threads=1, **options)
    settings: dict[str, Any] = {"multiprocessing_context": "spawn"} if workers else {}
    batches = torch.utils.data.DataLoader(
        dataset, batch_size=None, num_workers=workers, collate_fn=list, **settings
    )
    found = [(indices, total) for indices, total in batches]
    assert [indices for indices, _ in found] == [indices for indices, _ in expected]
    for (_, mine), (_, theirs) in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-5)
