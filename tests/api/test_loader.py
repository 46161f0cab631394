"""The loader: batches, epochs, states, and that it leaves nothing behind."""

from __future__ import annotations

import copy
import gc
import inspect
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import forking
import headrace as hr
from conftest import engine_threads, slots
from headrace import errors
from timing import eventually, within

CROP = [{"name": "RandomResizedCrop", "size": [20, 24]}]


def loader_of(source: Path, batch_size: int = 5, **arguments: Any) -> hr.Loader:
    return hr.Loader(source, batch_size, **{"transform": CROP, "num_threads": 2, **arguments})


@pytest.fixture
def loader(packed: Path) -> Iterator[hr.Loader]:
    with loader_of(packed, fields=["index"]) as made:
        yield made


class Slow(hr.Loader):
    """A loader whose storage answers every read after a while."""

    delay_ms = 0

    def _open(self) -> int:
        self._config["read_delay_ms"] = self.delay_ms
        return super()._open()


def slow(source: Path, delay_ms: int, **arguments: Any) -> Slow:
    kind = type("Slow", (Slow,), {"delay_ms": delay_ms})
    made: Slow = kind(source, 4, transform=CROP, num_threads=1, read_ahead=1, **arguments)
    return made


def test_an_epoch_has_every_sample_once_in_batches(loader: hr.Loader) -> None:
    batches = list(loader)
    assert len(batches) == len(loader) == 5
    assert [len(images) for images, _, _ in batches] == [5, 5, 5, 5, 4]
    assert torch.cat([more["index"] for _, _, more in batches]).tolist() == list(range(24))
    assert torch.cat([labels for _, labels, _ in batches]).tolist() == [0] * 8 + [1] * 8 + [2] * 8


@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
def test_torch_batches_have_the_requested_dtype_and_layout(
    packed: Path, dtype: str, layout: str
) -> None:
    with loader_of(packed, dtype=dtype, layout=layout) as made:
        images, labels = next(iter(made))
    assert images.dtype == getattr(torch, dtype)
    assert labels.dtype == torch.int64
    assert tuple(images.shape) == ((5, 20, 24, 3) if layout == "NHWC" else (5, 3, 20, 24))
    last = layout == "channels_last"
    assert images.is_contiguous(memory_format=torch.channels_last) == last or layout == "NHWC"


def test_numpy_and_torch_batches_have_the_same_values(packed: Path) -> None:
    for layout in ("NCHW", "NHWC", "channels_last"):
        with (
            loader_of(packed, layout=layout) as tensors,
            loader_of(packed, layout=layout, output="numpy") as arrays,
        ):
            for (a, b), (c, d) in zip(tensors, arrays, strict=True):
                assert isinstance(c, np.ndarray)
                assert c.dtype == np.float32
                assert np.array_equal(a.numpy(), c)
                assert np.array_equal(b.numpy(), d)


def test_a_float_without_normalize_equals_totensors(packed: Path) -> None:
    with loader_of(packed) as floats, loader_of(packed, dtype="uint8") as integers:
        for (a, _), (b, _) in zip(floats, integers, strict=True):
            assert torch.equal(a, b.to(torch.float32) / 255)


def test_batches_kept_in_a_list_are_distinct_and_never_overwritten(packed: Path) -> None:
    with loader_of(packed, 2) as made:
        first = list(made)
        copies = [images.clone() for images, _ in first]
        list(made)
        for (images, _), copy in zip(first, copies, strict=True):
            assert torch.equal(images, copy)
    pointers = {images.data_ptr() for images, _ in first}
    assert len(pointers) == 12


def test_held_batches_outlive_their_loader_and_are_freed_with_their_last_view(
    packed: Path,
) -> None:
    made = loader_of(packed)
    images, labels = next(iter(made))
    copy = images.clone()
    made.close()
    del made
    gc.collect()
    part = images[1:2, :, 3:5]
    del images, labels
    assert torch.equal(part, copy[1:2, :, 3:5])
    assert eventually(lambda: len(slots()) == 1)
    del part
    assert eventually(lambda: not slots())


def test_held_arrays_and_their_slices_are_unchanged_after_close(packed: Path) -> None:
    with loader_of(packed, output="numpy") as made:
        held = [
            (images, images[1:3, :, ::2], labels[::-1], images.copy(), labels.copy())
            for images, labels in made
        ]
        list(made)
    for images, part, turned, kept, numbers in held:
        assert np.array_equal(images, kept)
        assert np.array_equal(part, kept[1:3, :, ::2])
        assert np.array_equal(turned, numbers[::-1])
    del images, part, turned
    slices = [entry[1] for entry in held]
    copies = [entry[3][1:3, :, ::2] for entry in held]
    held.clear()
    assert all(np.array_equal(a, b) for a, b in zip(slices, copies, strict=True))


def test_decode_threads_have_a_name_and_end_with_their_loader(packed: Path) -> None:
    with loader_of(packed, num_threads=3) as made:
        next(iter(made))
        assert eventually(lambda: len(engine_threads()) == 3)  # the last thread may start late
    assert eventually(lambda: not engine_threads())


def test_slots_are_reused_when_their_batches_are_dropped(packed: Path) -> None:
    with loader_of(packed, 2, prefetch=2) as made:
        for _ in range(4):
            for images, labels in made:
                del images, labels
        assert len(slots()) <= 5


def test_threads_may_drop_batches_while_another_iterates(packed: Path) -> None:
    with loader_of(packed, 1) as made:
        for _ in range(10):
            batches = list(made)
            threads = [threading.Thread(target=batches.pop) for _ in range(len(batches))]
            for thread in threads:
                thread.start()
            for images, _ in made:
                assert images.shape[0] == 1
            for thread in threads:
                thread.join()


def test_threads_that_share_an_iterator_get_each_batch_once(packed: Path) -> None:
    def take(batches: Iterator[Any], taken: list[Any]) -> None:
        taken.extend((images.clone(), images, more["index"].item()) for images, _, more in batches)

    with loader_of(packed, 1, fields=["index"]) as made:
        for _ in range(5):
            batches, taken = iter(made), list[Any]()
            threads = [threading.Thread(target=take, args=(batches, taken)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(index for *_, index in taken) == list(range(24))
            assert all(torch.equal(copy, held) for copy, held, _ in taken)


def test_epochs_follow_each_other_and_differ_when_shuffled(packed: Path) -> None:
    def order(made: hr.Loader) -> list[int]:
        return [i for *_, more in made for i in more["index"].tolist()]

    with loader_of(packed, shuffle=True, fields=["index"]) as made:
        epochs = [order(made) for _ in range(3)]
        assert all(sorted(epoch) == list(range(24)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) == 3
        made.set_epoch(1)
        assert order(made) == epochs[1]
        assert order(made) == epochs[2]
        made.set_epoch(0)
        made.set_epoch(0)
        assert order(made) == epochs[0]


def test_an_iterator_that_is_never_used_skips_no_epoch(loader: hr.Loader) -> None:
    iter(loader)
    list(loader)
    assert loader.state_dict()["epoch"] == 1
    iter(loader)
    assert loader.state_dict()["epoch"] == 1


def test_after_an_early_break_the_next_epoch_comes(loader: hr.Loader) -> None:
    for _ in loader:
        break
    assert loader.state_dict()["position"] == 5
    assert len(list(loader)) == 5
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (2, 0)


def test_an_exhausted_iterator_stays_exhausted(loader: hr.Loader) -> None:
    batches = iter(loader)
    list(batches)
    for _ in range(3):
        with pytest.raises(StopIteration):
            next(batches)
    next(iter(loader))
    with pytest.raises(StopIteration):
        next(batches)


def test_a_newer_iteration_ends_an_older_one_with_an_error(loader: hr.Loader) -> None:
    older, newer = iter(loader), iter(loader)
    next(older)
    next(newer)
    with pytest.raises(hr.HeadraceError, match="newer iteration"):
        next(older)
    assert len(list(newer)) == 4


@pytest.mark.parametrize("stop", range(6))
def test_a_state_resumes_after_the_last_batch_handed_out(packed: Path, stop: int) -> None:
    def run(made: hr.Loader, batches: int | None = None) -> list[Any]:
        pairs = iter(made)
        return [next(pairs) for _ in range(batches)] if batches is not None else list(pairs)

    with loader_of(packed, shuffle=True, seed=7) as one, loader_of(packed, shuffle=True) as two:
        run(one)
        whole = run(one)
        one.set_epoch(1)
        run(one, stop)
        state = one.state_dict()
        two.load_state_dict(state)
        expected = (1, stop * 5) if stop < 5 else (2, 0)
        assert (state["epoch"], state["position"]) == expected
        two.set_epoch(state["epoch"])  # as the usual loop does; it keeps the position
        if stop < 5:
            for (a, b), (c, d) in zip(run(two), whole[stop:], strict=True):
                assert torch.equal(a, c)
                assert torch.equal(b, d)
        assert two.seed == 7


def test_a_state_of_another_dataset_or_configuration_is_refused(
    loader: hr.Loader, folder: Path
) -> None:
    state = loader.state_dict()
    for name, value in {
        "version": 99,
        "fingerprint": "x",
        "samples": 3,
        "shuffle": True,
        "epoch": -1,
        "position": 10**9,
        "seed": None,
    }.items():
        with pytest.raises(errors.ArgumentError):
            loader.load_state_dict({**state, name: value})
    with pytest.raises(errors.ArgumentError, match="another dataset"):
        loader.load_state_dict({**state, "fingerprint": "x"})


def test_a_value_that_is_no_state_is_refused_with_the_keys_that_it_lacks(
    loader: hr.Loader, packed: Path
) -> None:
    keys = "'version', 'fingerprint', 'samples', 'shuffle', 'seed', 'epoch', 'position'"
    with pytest.raises(
        errors.ArgumentError, match=f"headrace.Loader.state_dict.* it has no {keys}$"
    ):
        loader.load_state_dict({})
    state = loader.state_dict()
    del state["position"]
    with pytest.raises(errors.ArgumentError, match=r"it has no 'position'$"):
        loader.load_state_dict(state)
    with hr.Dataset(packed) as dataset:
        over = hr.DataLoader(dataset, 4, transform=[hr.transforms.CenterCrop(8)])
        with pytest.raises(errors.ArgumentError, match=r"DataLoader.*has no 'version', 'finger"):
            over.load_state_dict({})
        over.close()


def test_ranks_share_an_epoch(packed: Path) -> None:
    seen: list[int] = []
    for rank in range(3):
        arguments = {"rank": rank, "world_size": 3, "fields": ["index"], "shuffle": True}
        with loader_of(packed, 4, **arguments) as made:
            assert len(made) == 2
            seen += [i for *_, more in made for i in more["index"].tolist()]
    assert sorted(seen) == list(range(24))


def test_ranks_are_read_from_the_environment_at_iteration(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loader_of(packed, 4, fields=["index"]) as made:
        assert len(made) == 6
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert len(made) == 3
        assert next(iter(made))[2]["index"].tolist() == [4, 5, 6, 7]


def test_a_rank_without_samples_in_the_last_step_gets_an_empty_batch(packed: Path) -> None:
    for output in ("torch", "numpy"):
        with loader_of(packed, 1, rank=1, world_size=23, output=output) as made:
            assert [tuple(images.shape) for images, _ in made] == [(1, 3, 20, 24), (0, 3, 20, 24)]
            assert [len(labels) for _, labels in made] == [1, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"dtype": "int3"}, "dtype"),
        ({"layout": "CHWN"}, "layout"),
        ({"output": "jax"}, "output"),
        ({"mode": "approximate"}, "mode"),
        ({"scale": "half"}, "scale"),
        ({"on_error": "ignore"}, "on_error"),
        ({"batch_size": 0}, "batch"),
        ({"prefetch": -1}, "prefetch"),
        ({"num_threads": -1}, "num_threads"),
        ({"timeout": 0}, "timeout"),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"rank": 1}, "world_size"),
        ({"fields": ["caption"]}, "caption"),
        ({"fields": "index"}, "fields='index' is of type str: a sequence"),
        ({"fields": 5}, "fields=5"),
        ({"output": "numpy", "dtype": "bfloat16"}, "bfloat16"),
        ({"transform": [{"name": "Sharpen"}]}, "Sharpen"),
        ({"transform": [{"name": "RandomResizedCrop", "sise": 3}]}, "sise"),
        ({"transform": [{"name": "RandomResizedCrop", "size": 0}]}, "RandomResizedCrop.*size"),
        ({"transform": ["flip"]}, "flip"),
        ({"transform": []}, "size"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_impossible_arguments_are_refused_by_name_when_the_loader_is_made(
    packed: Path, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=words):
        hr.Loader(packed, **{"batch_size": 4, "transform": CROP, **arguments})


def test_transforms_may_be_objects_or_their_dicts(packed: Path) -> None:
    as_classes = [hr.transforms.RandomResizedCrop(20), hr.transforms.RandomHorizontalFlip()]
    as_dicts = [{"name": "RandomResizedCrop", "size": 20}, {"name": "RandomHorizontalFlip"}]
    with loader_of(packed, transform=as_classes) as a, loader_of(packed, transform=as_dicts) as b:
        for (images, _), (others, _) in zip(a, b, strict=True):
            assert torch.equal(images, others)


def test_a_number_that_is_not_finite_is_refused_with_the_names_of_transform_and_argument(
    packed: Path,
) -> None:
    odd = hr.transforms.Normalize(mean=(float("nan"), 0.0, 0.0), std=(1.0, 1.0, 1.0))
    with pytest.raises(errors.ArgumentError, match=r"transform 0 \(Normalize\): mean is nan"):
        loader_of(packed, transform=[odd])


@pytest.mark.slow
def test_a_timeout_is_an_error_and_the_batch_is_not_lost(packed: Path) -> None:
    with slow(packed, 250, timeout=0.1, fields=["index"]) as made:
        batches, seen, timeouts = iter(made), [], []
        while len(seen) < 8:
            try:
                seen += next(batches)[2]["index"].tolist()
            except TimeoutError as failure:
                timeouts.append(str(failure))
        assert seen == list(range(8))
    assert timeouts
    assert all("0.1 s" in text for text in timeouts)


def test_a_loader_that_is_closed_in_an_epoch_says_so_without_a_number(packed: Path) -> None:
    made = hr.Loader(packed, 4, transform=CROP, output="numpy")
    epoch = iter(made)
    next(epoch)
    made.close()
    for ask in (lambda: next(epoch), lambda: next(iter(made)), made.stats):
        with pytest.raises(errors.ClosedError, match=r"^this object was closed$"):
            ask()


@pytest.mark.slow
def test_closing_a_loader_wakes_threads_that_wait_for_it(packed: Path) -> None:
    def wait_and_close() -> float:
        made = slow(packed, 2000)
        closing = threading.Timer(0.2, made.close)
        closing.start()
        begun = time.monotonic()
        with pytest.raises(errors.ClosedError):
            next(iter(made))
        took = time.monotonic() - begun
        with pytest.raises(errors.ClosedError):
            next(iter(made))
        made.close()
        closing.join()
        return took

    within(1.5, wait_and_close)


@pytest.mark.parametrize("leave", ["break", "abandon", "hold", "exit in a loop"])
def test_an_interpreter_ends_cleanly_wherever_it_stops(
    forked: forking.Parent, packed: Path, leave: str
) -> None:
    program = f"""
        import sys, headrace as hr
        made = hr.Loader(sys.argv[1], 4, transform={CROP!r}, num_threads=2)
        batches = iter(made)
        held = [next(batches)]
        if {leave!r} == "break":
            for batch in made:
                break
        elif {leave!r} == "abandon":
            del batches, made
        elif {leave!r} == "exit in a loop":
            for batch in made:
                sys.exit(0)
    """
    process = forked.start(program, packed)
    _, errors_said = process.communicate(timeout=120)
    assert (process.returncode, errors_said) == (0, "")


def test_a_loader_without_references_is_cleaned_up_at_once(packed: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        next(iter(loader_of(packed)))
    assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= descriptors + 1)


def test_a_loader_has_stats_and_a_report(packed: Path) -> None:
    with loader_of(packed) as made:
        list(made)
        assert made.stats()
        assert made.report() == []


@pytest.mark.parametrize("action", [pickle.dumps, copy.copy, copy.deepcopy])
def test_pickling_or_copying_a_loader_is_an_error_that_says_what_to_do_instead(
    loader: hr.Loader, action: Callable[[Any], Any]
) -> None:
    with pytest.raises(TypeError, match="make it in the process that iterates it") as caught:
        action(loader)
    assert isinstance(caught.value, hr.HeadraceError)
    assert len(list(loader)) == len(loader)


def test_missing_torch_is_reported_in_one_sentence(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(hr.HeadraceError, match="PyTorch, which is not installed"):
        loader_of(packed)


def test_an_iterable_dataset_goes_through_torchs_dataloader(packed: Path) -> None:
    batches = hr.IterableDataset(packed, 5, transform=CROP)
    assert isinstance(batches, torch.utils.data.IterableDataset)
    through = torch.utils.data.DataLoader(batches, batch_size=None, num_workers=0)
    assert len(through) == 5
    assert [len(images) for images, _ in through] == [5, 5, 5, 5, 4]
    assert [len(images) for images, _ in through] == [5, 5, 5, 5, 4]
    assert batches.state_dict()["epoch"] == 2
    batches.loader.close()


@pytest.mark.parametrize("kind", [hr.Loader, hr.IterableDataset])
@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("num_workers", "num_threads"),
        ("prefetch_factor", "prefetch is"),
        ("collate_fn", "batch_fn"),
        ("generator", "seed"),
        ("worker_init_fn", "no worker processes"),
    ],
)
def test_an_argument_of_torchs_loader_is_refused_with_its_equivalent(
    packed: Path, kind: Any, name: str, instead: str
) -> None:
    with pytest.raises(TypeError, match=rf"^headrace\.Loader has no {name}: .*{instead}") as caught:
        kind(packed, 2, **{name: 4})
    assert isinstance(caught.value, errors.ArgumentError)
    with pytest.raises(TypeError, match="unexpected keyword argument 'threads'"):
        kind(packed, 2, threads=4)
    assert "num_threads" in inspect.signature(hr.Loader).parameters
