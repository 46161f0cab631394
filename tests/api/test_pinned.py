"""Batches in PyTorch's own memory, lent to the engine, and batches for a device.

Without an accelerator PyTorch cannot pin; the loans are the same with ordinary tensors.
"""

from __future__ import annotations

import collections
import gc
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace as hr
from conftest import engine_threads, slots
from headrace import errors
from headrace._batch import lending
from headrace._engine import _lib
from headrace._torch import iteration

CROP = [{"name": "RandomResizedCrop", "size": [20, 24]}]

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")


class Lent:
    """Ordinary memory for the engine; notes which of it was lent."""

    def __init__(self) -> None:
        self.lent: set[int] = set()

    def __call__(self, size: int) -> torch.Tensor:
        made = torch.empty(size, dtype=torch.uint8)
        self.lent.add(made.data_ptr())
        return made


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> Lent:
    allocate = Lent()
    monkeypatch.setattr(lending, "allocator", lambda: allocate)
    return allocate


def loader_of(source: Path, batch_size: int = 2, **arguments: Any) -> hr.Loader:
    return hr.Loader(source, batch_size, **{"transform": CROP, "num_threads": 2, **arguments})


def own_slots() -> int:
    return len(slots())


@pytest.mark.parametrize("dtype", ["uint8", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "channels_last"])
@pytest.mark.parametrize("batch_size", [5, 24])
def test_batches_in_lent_memory_equal_those_in_the_engines_own(
    packed: Path, lent: Lent, dtype: str, layout: str, batch_size: int
) -> None:
    form = {"dtype": dtype, "layout": layout, "fields": ["index"], "shuffle": True}
    with (
        loader_of(packed, batch_size, **form) as own,
        loader_of(packed, batch_size, pin_memory=True, **form) as pinned,
    ):
        for _ in range(3):
            for (a, b, c), (d, e, f) in zip(own, pinned, strict=True):
                assert torch.equal(a, d)
                assert a.stride() == d.stride()
                assert torch.equal(b, e)
                assert torch.equal(c["index"], f["index"])
                assert d.untyped_storage().data_ptr() in lent.lent


def test_the_engine_writes_into_lent_memory_and_copies_no_batch_after_the_first(
    packed: Path, lent: Lent
) -> None:
    with loader_of(packed, pin_memory=True) as made:
        tags = []
        view = made._view
        made._view = lambda batch: (tags.append(batch.tag), view(batch))[1]  # type: ignore[func-returns-value]
        for _ in range(5):
            list(made)
    # Batches begun before the first loan lie in the engine's own slots.
    assert tags[:4].count(-1) <= 3
    assert -1 not in tags[4:]
    assert len(set(tags[4:])) == len(tags[4:])


def test_lent_batches_are_never_overwritten_and_their_memory_is_lent_again_once_freed(
    packed: Path, lent: Lent
) -> None:
    with loader_of(packed, pin_memory=True) as made:
        held = [images for _ in range(3) for images, _ in made]
        copies = [images.clone() for images in held]
        assert len({images.data_ptr() for images in held}) == len(held) == 36
        for _ in range(3):
            for images, labels in made:
                assert images.data_ptr() not in {one.data_ptr() for one in held}
                del images, labels
        assert all(torch.equal(a, b) for a, b in zip(held, copies, strict=True))
        # The memory of freed batches goes back to PyTorch's allocator, which gives it out again.
        before = len(lent.lent)
        held.clear()
        for _ in range(20):
            for images, labels in made:
                del images, labels
        assert len(lent.lent) < before + 20 * 12


def decoders_niceness() -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, int(task)) for task in engine_threads()}


def test_decode_threads_yield_to_the_training_and_otherwise_have_the_processs_niceness(
    packed: Path, lent: Lent
) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with loader_of(packed) as made:
        list(made)
        assert decoders_niceness() == {own}
    with loader_of(packed, pin_memory=True) as made:
        list(made)
        assert decoders_niceness() == {min(own + lending.NICE, 19)}
    with loader_of(packed) as made:  # no thread of the runtime inherits the niceness
        list(made)
        assert decoders_niceness() == {own}
    assert os.getpriority(os.PRIO_PROCESS, 0) == own


class Event:
    """A stand-in for a stream's event: whether the copies before it are done."""

    def __init__(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done


def test_memory_that_the_loader_copies_from_is_lent_again_after_the_copies(
    packed: Path, lent: Lent
) -> None:
    form: dict[str, Any] = {"transform": [hr.transforms.CenterCrop(24)], "fields": ["index"]}
    with loader_of(packed, **form) as own:
        expected = {int(i): image.clone() for images, _, more in own
                    for i, image in zip(more["index"], images, strict=True)}  # fmt: skip
    with loader_of(packed, pin_memory=True, shuffle=True, **form) as made:
        made._lender._own = False  # as with a device
        pending: collections.deque[tuple[Event, torch.Tensor, list[int]]] = collections.deque()

        def finish_oldest() -> None:
            event, images, indices = pending.popleft()
            for number, image in zip(indices, images, strict=True):
                assert torch.equal(image, expected[number])  # nobody has written there since then
            event.done = True

        for _ in range(20):
            for images, _, more in made:
                event = Event()
                made._lender.copied(event)
                pending.append((event, images, more["index"].tolist()))
                if len(pending) > 3:
                    finish_oldest()
        # Batches on loan, pending ones, and those made before the first copy was done.
        assert len(lent.lent) <= made._lender._loans + 6


def test_the_memory_of_a_batch_whose_copy_was_interrupted_is_not_lent_again(
    packed: Path, lent: Lent
) -> None:
    with loader_of(packed, pin_memory=True) as made:
        made._lender._own = False
        list(made)
        held = next(iter(made))[0]  # no event says that it was copied
        copy = held.clone()
        for _ in range(5):
            for _images, _labels in made:
                event = Event()
                event.done = True
                made._lender.copied(event)
        assert torch.equal(held, copy)


def test_lent_batches_outlive_their_loader(packed: Path, lent: Lent) -> None:
    made = loader_of(packed, pin_memory=True)
    held = list(made)
    copies = [images.clone() for images, _ in held]
    made.close()
    del made
    gc.collect()
    assert own_slots() == 0
    assert all(torch.equal(a, b) for (a, _), b in zip(held, copies, strict=True))


def test_loans_stay_in_order_after_a_seek_an_early_break_and_another_seed(
    packed: Path, lent: Lent
) -> None:
    with (
        loader_of(packed, shuffle=True) as own,
        loader_of(packed, shuffle=True, pin_memory=True) as pinned,
    ):
        for seed in (0, 1):
            own.seed = pinned.seed = seed
            for epoch in (4, 2, 9):
                own.set_epoch(epoch)
                pinned.set_epoch(epoch)
                for step, (a, b) in enumerate(zip(own, pinned, strict=True)):
                    assert torch.equal(a[0], b[0])
                    assert torch.equal(a[1], b[1])
                    if step == 3:
                        break


def test_ready_batches_that_nobody_takes_use_up_no_loan(packed: Path, lent: Lent) -> None:
    with loader_of(packed, pin_memory=True) as made:
        for _ in range(8):
            batches = iter(made)
            next(batches)
            deadline = time.monotonic() + 20
            while not batches.ready():
                assert time.monotonic() < deadline
            del batches
        # An epoch of 12 batches goes through all loans that the engine has.
        before = set(made._lender._lent)
        list(made)
        assert not before & set(made._lender._lent)


@pytest.mark.slow
def test_lent_memory_stays_alive_while_a_stuck_read_may_still_write_into_it(
    packed: Path, lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = _lib.opened

    def stuck(name: str, config: dict[str, Any], *rest: Any) -> _lib.Handle:
        return opened(name, {**config, "read_delay_ms": 3000}, *rest)

    monkeypatch.setattr(
        _lib, "opened", lambda n, c, *r: (stuck if "loader" in n else opened)(n, c, *r)
    )
    monkeypatch.setattr(_lib, "_stuck", [])
    made = loader_of(packed, pin_memory=True, read_ahead=1, num_threads=1)
    loans = set(made._lender._lent)
    time.sleep(0.5)  # the read has begun
    made.close()
    assert _lib._stuck
    assert set(_lib._stuck[0]) == loans
    time.sleep(3)  # the read ends, and the thread with it


@needs_no_gpu
def test_without_an_accelerator_pin_memory_warns_once_and_gives_ordinary_batches(
    packed: Path,
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with loader_of(packed, pin_memory=True) as made, loader_of(packed) as ordinary:
            for (a, b), (c, d) in zip(made, ordinary, strict=True):
                assert torch.equal(a, c)
                assert torch.equal(b, d)
            list(made)
    assert ["no accelerator" in str(one.message) for one in said] == [True]
    assert said[0].filename == __file__


def test_pin_memory_is_refused_with_numpy_output(packed: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(errors.ArgumentError, match=r"pin_memory.*numpy"):
            loader_of(packed, pin_memory=True, output="numpy")


@needs_no_gpu
@pytest.mark.parametrize("device", ["cuda", "cuda:1", torch.device("cuda", 0)], ids=str)
def test_a_missing_cuda_device_is_refused_with_a_sentence(packed: Path, device: Any) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"sees no CUDA device here"):
        loader_of(packed, device=device)


def test_other_devices_are_refused_and_cpu_means_no_device(packed: Path) -> None:
    with pytest.raises(errors.UnsupportedError, match=r"device='meta'.*CUDA"):
        loader_of(packed, device="meta")
    for device in ("cpu", torch.device("cpu"), None):
        with loader_of(packed, device=device) as made:
            assert next(iter(made))[0].device.type == "cpu"


def test_ready_says_whether_next_would_wait(packed: Path) -> None:
    with loader_of(packed, fields=["index"]) as made:
        batches = iter(made)
        assert not batches.ready()  # not yet begun
        seen = next(batches)[2]["index"].tolist()
        for _ in range(11):
            deadline = time.monotonic() + 20
            while not batches.ready():
                assert time.monotonic() < deadline
            seen += next(batches)[2]["index"].tolist()
        assert not batches.ready()  # already ended
        assert seen == list(range(24))


def test_normalising_on_the_device_gives_the_engines_floats(packed: Path) -> None:
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    normalised = [*CROP, hr.transforms.Normalize(mean, std)]
    module = hr.torch.Normalize(mean, std)
    with loader_of(packed, transform=normalised) as floats, loader_of(packed, dtype="uint8") as raw:
        for (a, _), (b, _) in zip(floats, raw, strict=True):
            torch.testing.assert_close(module(b), a)
            torch.testing.assert_close(module(b[0]), a[0])
    assert hr.torch.Normalize(mean, std, torch.bfloat16)(b).dtype == torch.bfloat16


def test_batches_of_dataloader_are_made_in_lent_memory_also_longer_ones(
    packed: Path, lent: Lent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lending, "available", lambda: True)
    # With a batch that is pinned already PyTorch does nothing.
    monkeypatch.setattr(iteration, "_pinned", lambda batch: batch)

    class Uneven:
        def __iter__(self) -> Iterator[list[int]]:
            yield from ([0, 1], [2, 3, 4, 5, 6, 7, 8], [9], [10, 11], [12, 13, 14])

    crop = [hr.transforms.RandomResizedCrop((20, 24))]
    options = {"batch_sampler": Uneven(), "transform": crop, "seed": 3, "strict": True}
    with hr.Dataset(packed) as dataset:
        own = hr.DataLoader(dataset, **options)
        pinned = hr.DataLoader(dataset, **options, pin_memory=True)
        for _ in range(3):
            held = []
            for (a, b), (c, d) in zip(own, pinned, strict=True):
                assert torch.equal(a, c)
                assert torch.equal(b, d)
                assert c.untyped_storage().data_ptr() in lent.lent
                held.append((c, c.clone()))
            assert all(torch.equal(*both) for both in held)
        own.close()
        pinned.close()
