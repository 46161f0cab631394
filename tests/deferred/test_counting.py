"""How many samples ``stats`` counts in batches that a program's own code makes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils import data

import headrace as hr
from deferred.test_own_code import EVALUATION, Opens, paths

__all__ = ["paths"]  # a fixture


def counted(dataset: Any, **options: Any) -> int:
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        for _ in loader:
            pass
        return int(loader.stats()["samples"])


class Keyed(data.IterableDataset[Any]):
    """A stream as webdataset's: a sample begins with its name."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __iter__(self) -> Iterator[Any]:
        worker = data.get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for path in self.paths[first::step]:
            yield {"__key__": path, "image": EVALUATION(Image.open(path).convert("RGB"))}


def stacked(samples: list[Any]) -> Any:
    return {"of": {"names": "all"}, "images": torch.stack([one["image"] for one in samples])}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("collate", [None, stacked, list], ids=["torch's", "own", "a list"])
def test_samples_of_a_stream_are_counted_whatever_comes_first_in_a_batch(
    paths: list[str], workers: int, collate: Any
) -> None:
    options = {"batch_size": 4, "num_workers": workers, "collate_fn": collate}
    assert counted(Keyed(paths), **options) == len(paths)


class Batches(Keyed):
    """A stream that makes its batches itself."""

    def __iter__(self) -> Iterator[Any]:
        samples = [*super().__iter__()]
        for begin in range(0, len(samples), 3):
            yield data.default_collate(samples[begin : begin + 3])


def test_samples_are_counted_if_a_stream_makes_batches_that_begin_with_names(
    paths: list[str],
) -> None:
    assert counted(Batches(paths), batch_size=None) == len(paths)


def test_a_text_counts_as_one_sample_if_a_stream_gives_single_samples(paths: list[str]) -> None:
    assert counted(Keyed(paths), batch_size=None) == len(paths)


class Lists(Opens):
    def __getitem__(self, indices: Any) -> Any:
        return data.default_collate([Opens.__getitem__(self, index) for index in indices])


def opened(path: str, index: int) -> Any:
    return path, EVALUATION(Image.open(path).convert("RGB"))


def test_samples_are_counted_if_the_sampler_gives_lists_and_the_loader_makes_no_batches(
    paths: list[str],
) -> None:
    dataset = Lists(paths, opened)
    sampler = data.BatchSampler(data.SequentialSampler(dataset), 4, drop_last=False)
    assert counted(dataset, sampler=sampler, batch_size=None) == len(paths)
