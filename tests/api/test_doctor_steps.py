"""``headrace.doctor`` with a step: whether it calls the loader or the step the limit."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import data

import headrace as hr
from headrace._doctor import stepping


class Late(data.Dataset[Any]):
    """Samples that each take some time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(self._seconds)
        return torch.zeros(3, 8, 8)


@pytest.mark.parametrize(
    ("loader", "share", "limit"),
    [
        (900.0, 0.04, "training"),  # whichever is slower: nothing is waited for
        (900.0, 0.06, "decoding"),  # the slower one sets the pace
        (20_000.0, 0.06, "training"),  # loads in the step's thread, and takes little of its time
        (5000.0, 0.17, "decoding"),  # loads there, too, but takes more
    ],
)
def test_the_limit_depends_on_the_waiting_time_and_on_which_side_is_slower(
    loader: float, share: float, limit: str
) -> None:
    stages = {"decoding": loader, "training": 1000.0, "copy": None}
    assert stepping._limit(stages, "decoding", share, 1000.0, 0) == limit


@pytest.mark.slow
def test_a_step_that_takes_nearly_all_time_is_the_limit_also_without_workers() -> None:
    # Loading takes 6 % of the time: 3.2 ms of 53.2.
    loader = data.DataLoader(Late(3.2e-3), batch_size=1, num_workers=0)
    found = hr.doctor(loader, lambda batch: time.sleep(0.05), seconds=4)
    assert found.measured["decoding"] > 5 * found.measured["training"]
    if found.measured["waiting_share"] < 0.1:  # on a very busy machine it may be more
        assert found.limit == "training"
    assert any("without workers" in note for note in found.notes)
    most = 1 / (1 - found.measured["waiting_share"])
    if found.limit == "training":  # a gain beyond any loader is not promised
        assert all(one["gain"] <= most + 0.001 for one in found.remedies)


@pytest.mark.slow
def test_a_loader_without_workers_that_takes_over_a_tenth_of_the_time_is_the_limit() -> None:
    loader = data.DataLoader(Late(0.02), batch_size=1, num_workers=0)
    found = hr.doctor(loader, lambda batch: time.sleep(0.05), seconds=2)
    assert found.limit == "decoding"


@pytest.mark.slow
def test_a_measured_training_rate_is_never_above_that_of_its_step_alone() -> None:
    batches = [np.zeros((4, 8))] * 8
    calls = iter(range(10**9))

    def step(batch: Any) -> None:
        time.sleep(0.005 if next(calls) < 60 else 0.02)  # slower from its 61st call on

    found = hr.doctor(batches, step, seconds=2)
    assert found.measured["images_per_second"] <= found.measured["training"]
