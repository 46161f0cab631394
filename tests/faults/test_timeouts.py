"""Every call that waits ends when its timeout says so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace._engine import _lib, abi

CROP = [{"name": "RandomResizedCrop", "size": 8}]


class Stuck(hr.Loader):
    """Every read takes seconds."""

    def _open(self) -> int:
        self._config["read_delay_ms"] = 1500
        return super()._open()


def least_delay(call: Callable[[], Any], timeout: float) -> float:
    """By how much the call overran, in the best of five tries, because other processes use the CPU
    too."""
    over = []
    for _ in range(5):
        begun = time.monotonic()
        call()
        over.append(time.monotonic() - begun - timeout)
    assert min(over) > -0.005, "it came back early"
    return min(over)


@pytest.mark.slow
@pytest.mark.parametrize("timeout", [0.03, 0.21, 0.45])
def test_next_raises_within_a_tenth_of_a_second_of_its_timeout(
    packed: Path, timeout: float
) -> None:
    with Stuck(packed, 24, transform=CROP, num_threads=1, read_ahead=1, timeout=timeout) as made:
        batches = iter(made)

        def call() -> None:
            with pytest.raises(TimeoutError):
                next(batches)

        assert least_delay(call, timeout) < 0.1


@pytest.mark.parametrize("timeout_ms", [0, 40, 250])
def test_hr_next_returns_within_a_tenth_of_a_second_of_its_timeout(
    packed: Path, timeout_ms: int
) -> None:
    with Stuck(packed, 24, transform=CROP, num_threads=1, read_ahead=1) as made:
        batch, error = abi.Batch(), abi.Error()

        def call() -> None:
            assert made._engine is not None
            handle = made._engine.value
            assert _lib.library().hr_next(handle, timeout_ms, batch, error) == abi.TIMEOUT

        assert least_delay(call, timeout_ms / 1000) < 0.1


@pytest.mark.parametrize("timeout_ms", [0, 60])
def test_hr_job_wait_returns_within_a_tenth_of_a_second_of_its_timeout(
    tmp_path: Path, timeout_ms: int
) -> None:
    """The job has many thousand files: one image with many names."""
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    first = folder / "a" / "first.jpg"
    first.write_bytes(images.jpeg(640, 480))
    for number in range(8000):
        os.link(first, folder / "a" / f"{number}.jpg")
    config = {"job": "pack", "source": str(folder), "destination": str(tmp_path / "packed.hr")}
    job = _lib.opened("hr_job_start", {**config, "threads": 1})
    progress, error = abi.Progress(), abi.Error()

    def call() -> None:
        code = _lib.library().hr_job_wait(job.value, timeout_ms, progress, error)
        assert code == abi.TIMEOUT, "the job is too small for this test"

    over = least_delay(call, timeout_ms / 1000)
    begun = time.monotonic()
    job.close()
    assert over < 0.1
    assert time.monotonic() - begun < 20
