"""What programs know of torch's own iterator."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils import data

import headrace as hr


class Longer(data.IterableDataset[int]):
    """A stream that says less than it has."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(60))

    def __len__(self) -> int:
        return 20

    def __str__(self) -> str:
        return "a stream of numbers"


def warnings_of(kind: Any, workers: int, asked: bool) -> list[str]:
    loader = kind(Longer(), num_workers=workers, batch_size=None)
    with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
        if asked:
            assert len(loader) == 20
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert len(list(loader)) == 60 * max(workers, 1)
    return [str(one.message) for one in found if "have been fetched" in str(one.message)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_that_is_longer_than_len_has_said_is_warned_of_as_torch_does(workers: int) -> None:
    expected = warnings_of(data.DataLoader, workers, asked=True)
    assert "a stream of numbers" in expected[0]
    assert warnings_of(hr.DataLoader, workers, asked=True) == expected
    assert not warnings_of(hr.DataLoader, workers, asked=False)


def test_the_iterator_shows_the_worker_processes_of_torchs() -> None:
    with contextlib.closing(hr.DataLoader(Longer(), num_workers=2, batch_size=None)) as loader:
        batches = iter(loader)
        assert [worker.is_alive() for worker in batches._workers] == [True, True]
        assert len(list(batches)) == 120
    with contextlib.closing(hr.DataLoader(Longer(), batch_size=None)) as loader:
        assert not hasattr(iter(loader), "_workers")
