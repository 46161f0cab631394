"""``hr_submit``: batches that the caller chooses, through the C ABI."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from ctypes import byref
from pathlib import Path
from typing import Any

import pytest

from headrace._engine import _lib, abi

CONFIG = {
    "batch_size": 4,
    "order": "submitted",
    "transform": [{"name": "RandomResizedCrop", "size": 16}],
    "dtype": "uint8",
    "num_threads": 2,
}
END, TIMEOUT, ARGUMENT, LIMIT = 1, 2, 5, 11


@pytest.fixture
def dataset(packed: Path) -> Iterator[_lib.Handle]:
    handle = _lib.opened("hr_dataset_open", {"path": str(packed)})
    yield handle
    handle.close()


@pytest.fixture
def loader(dataset: _lib.Handle) -> Iterator[int]:
    handle = _lib.opened("hr_loader_open", CONFIG, dataset.value)
    yield handle.value
    handle.close()


def submit(
    loader: int, indices: Sequence[int] | None, draws: Sequence[int] | None = None
) -> tuple[int, str]:
    error = abi.Error()
    count = len(indices or ())
    room = max(1, count)
    chosen = None if indices is None else (ctypes.c_int64 * room)(*indices)
    numbers = None if draws is None else (ctypes.c_uint64 * room)(*draws)
    code = _lib.library().hr_submit(loader, chosen, numbers, count, byref(error))
    return code, error.text.decode()


def received(loader: int, timeout_ms: int = 10_000) -> Any:
    """(epoch, step, indices, pixels) of the next batch, or the returned code."""
    batch, error = abi.Batch(), abi.Error()
    code = _lib.library().hr_next(loader, timeout_ms, batch, error)
    if code:
        return code
    images, _, indices = batch.fields[:3]
    assert images.shape[0] == indices.shape[0] == batch.length
    numbers = list((ctypes.c_int64 * batch.length).from_address(indices.data))
    found = (batch.epoch, batch.step, numbers, ctypes.string_at(images.data, images.bytes))
    _lib.library().hr_release(batch.batch, None)
    return found


def test_batches_come_as_they_were_submitted_and_the_end_is_reported_once(loader: int) -> None:
    assert received(loader, 0) == TIMEOUT
    for indices in ([5, 3, 20, 5], [7], [], list(range(24)) * 3):
        assert submit(loader, indices) == (0, "")
    assert submit(loader, None) == (0, "")
    assert submit(loader, [1]) == (0, "")
    assert received(loader)[:3] == (0, 0, [5, 3, 20, 5])
    assert received(loader)[:3] == (0, 1, [7])
    assert received(loader)[:3] == (0, 2, [])
    assert received(loader)[:3] == (0, 3, list(range(24)) * 3)
    assert received(loader) == END
    assert received(loader)[:3] == (1, 0, [1])
    assert received(loader, 0) == TIMEOUT


def test_a_submitted_batch_has_the_same_pixels_as_in_the_loaders_own_order(
    dataset: _lib.Handle, loader: int
) -> None:
    own = _lib.opened("hr_loader_open", {**CONFIG, "order": "epoch"}, dataset.value)
    for step in range(6):
        assert submit(loader, range(4 * step, 4 * step + 4)) == (0, "")
        assert received(loader) == received(own.value)
    own.close()


def test_draw_numbers_are_in_the_key_of_the_augmentation(loader: int) -> None:
    submit(loader, [2, 2, 2], [0, 1, 0])
    pixels = received(loader)[3]
    first, second, third = (pixels[i * 768 : (i + 1) * 768] for i in range(3))
    assert first == third != second


def test_seek_drops_submitted_batches_and_sets_the_epoch(loader: int) -> None:
    submit(loader, [1])
    submit(loader, [2])
    assert _lib.library().hr_seek(loader, 6, 3, None) == 0
    assert received(loader, 0) == TIMEOUT
    submit(loader, [3])
    assert received(loader)[:3] == (6, 3, [3])


def test_impossible_submissions_are_refused_by_name(dataset: _lib.Handle, loader: int) -> None:
    for index in (-1, 24, 2**62):
        code, text = submit(loader, [0, index])
        assert code == ARGUMENT
        assert f"index {index}," in text
        assert "[0, 24)" in text
    error = abi.Error()
    assert _lib.library().hr_submit(loader, None, None, 3, byref(error)) == ARGUMENT
    assert received(loader, 0) == TIMEOUT
    own = _lib.opened("hr_loader_open", {**CONFIG, "order": "epoch"}, dataset.value)
    assert submit(own.value, [1])[0] == ARGUMENT
    own.close()


def test_submitting_more_batches_than_may_wait_is_a_limit_error(loader: int) -> None:
    for _ in range(4096):
        assert submit(loader, [1])[0] == 0
    code, text = submit(loader, [1])
    assert code == LIMIT
    assert "4096" in text
    assert received(loader)[:3] == (0, 0, [1])
    assert submit(loader, [1])[0] == 0


@pytest.mark.parametrize(
    "settings", [{"shuffle": True}, {"drop_last": True}, {"world_size": 2}, {"order": "random"}]
)
def test_a_submitted_order_refuses_the_settings_of_other_orders(
    dataset: _lib.Handle, settings: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match="order"):
        _lib.opened("hr_loader_open", {**CONFIG, **settings}, dataset.value)
