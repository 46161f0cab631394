"""What pending tensors share: memory, strides, and the moment at which they get their values."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms.functional as F
from torchvision import tv_tensors

from deferred.test_own_code import Opens, paths
from deferred.test_tensor_ops import MEAN, WORKERS, compared, opened
from headrace._deferred import recording, tensor

__all__ = ["paths"]  # a fixture


def floats(path: str) -> Any:
    return F.to_tensor(opened(path))


@WORKERS
def test_an_index_out_of_bounds_is_an_error_in_the_datasets_own_line(
    paths: list[str], workers: int
) -> None:
    def of(path: str, index: int) -> Any:
        try:
            return floats(path)[:, (2, 1, 9 + index)]
        except IndexError:
            return torch.zeros(3)

    compared(Opens(paths[:4], of), batch_size=2, num_workers=workers, strict=False)


@WORKERS
def test_arithmetic_on_one_channel_in_channels_last_order_has_torchs_strides(
    paths: list[str], workers: int
) -> None:
    def of(path: str, index: int) -> Any:
        one = floats(path)[:1].permute(1, 2, 0)
        return one * 2, 1 - one, one + MEAN[0, 0], one.double(), one[None] / 3

    compared(Opens(paths[:3], of), batch_size=None, num_workers=workers, strict=False)


@WORKERS
def test_a_tv_tensor_image_and_the_tensor_it_was_made_of_share_memory(
    paths: list[str], workers: int
) -> None:
    def of(path: str, index: int) -> Any:
        plain, image = floats(path), tv_tensors.Image(floats(path))
        return plain, tv_tensors.Image(plain), plain[0], image, image.float(), image[:, 1:]

    found = compared(Opens(paths[:2], of), batch_size=None, num_workers=workers)
    for batch in found:
        batch[1].zero_()
        batch[4].zero_()
        assert not any(part.any() for part in batch)


def test_a_stack_of_permuted_tensors_some_of_which_have_values_has_torchs_strides(
    paths: list[str],
) -> None:
    def of(path: str, index: int) -> Any:
        x = floats(path)[None].permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
        if index % 2:
            float(x.mean())
        return x

    compared(Opens(paths[:4], of), batch_size=2, strict=False)


def test_views_whose_values_threads_need_at_the_same_time_share_memory(paths: list[str]) -> None:
    def of(path: str, index: int) -> Any:
        x = floats(path)
        tensors = [x, x[0], x * 2, x[1:]]
        together = threading.Barrier(len(tensors))

        def asked(one: Any) -> None:
            together.wait()
            float(one.sum())

        threads = [threading.Thread(target=asked, args=(one,)) for one in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tensors[1].zero_()
        return tuple(tensors)

    for _ in range(5):
        compared(Opens(paths, of), batch_size=None, strict=False)


def test_an_exception_between_two_views_getting_their_values_leaves_their_memory_shared(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def of(path: str, index: int) -> Any:
        x = floats(path)
        replaced = 0

        def interrupted(value: Any, made: Any) -> None:
            nonlocal replaced
            own(value, made)
            replaced += 1
            if replaced == 1:
                raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            if recording.current() is not None:
                patched.setattr(tensor, "replace", interrupted)
            view = x[0]
            if recording.current() is not None:
                with pytest.raises(KeyboardInterrupt):
                    float(x.sum())
                assert replaced == 1
        view.zero_()
        return x, view

    own = tensor.replace
    compared(Opens(paths[:2], of), batch_size=None, strict=False)


def steps(work: Callable[[], Any]) -> int:
    """How many of Python's instructions the recording of images takes meanwhile."""
    counted, before = 0, sys.gettrace()
    place = str(Path(recording.__file__).parent)

    def traced(frame: Any, event: str, _: Any) -> Any:
        nonlocal counted
        if not frame.f_code.co_filename.startswith(place):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        counted += event == "opcode"
        return traced

    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


@pytest.mark.parametrize("made", ["views", "copies"])
def test_each_of_many_views_of_a_tensor_takes_as_many_steps_as_one_of_few(
    paths: list[str], made: str
) -> None:
    counted: dict[int, int] = {}

    def of(path: str, index: int) -> Any:
        x, many = floats(path), 300 * (index + 1)

        def some() -> None:
            kept = [x[row % 3] if made == "views" else x + row for row in range(many)]
            float(x.sum())
            assert len(kept) == many

        if recording.current() is not None:
            counted[index] = steps(some)
        return x

    compared(Opens(paths[:3], of), batch_size=1, strict=False)
    first, second, third = (counted[index] for index in range(3))
    assert 0 < third - second < 1.2 * (second - first)
