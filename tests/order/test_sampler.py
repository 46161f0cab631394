"""A user's sampler decides which samples come whatever else is set, and runs again on a resume."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.utils.data

import headrace as hr
import images
from headrace.errors import ArgumentError

COUNT = 53


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sampler")
    hr.pack(images.plain_tree(root / "photos", COUNT), root / "photos.hr")
    return root / "photos.hr"


def loader(packed: Path, sampler: Any, **options: Any) -> hr.Loader:
    settings = {"batch_size": 8, "transform": [hr.transforms.RandomResizedCrop(8)]}
    return hr.Loader(
        packed, sampler=sampler, fields=["index"], output="numpy", **{**settings, **options}
    )


def batches(source: hr.Loader) -> list[tuple[list[int], bytes]]:
    return [(fields["index"].tolist(), pixels.tobytes()) for pixels, _, fields in source]


def indices(source: hr.Loader) -> list[int]:
    return [index for batch, _ in batches(source) for index in batch]


class Shuffled:
    """A sampler with the method that training loops call."""

    def __init__(self, count: int = 30) -> None:
        self.epoch = -1
        self.count = count

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter(random.Random(self.epoch).choices(range(COUNT), k=self.count))


def made(epoch: int, count: int = 30) -> list[int]:
    sampler = Shuffled(count)
    sampler.set_epoch(epoch)
    return list(sampler)


def test_samples_come_in_the_samplers_order(packed: Path) -> None:
    chosen = [5, 52, 0, 5, 5, 17, 3, 2, 1, 30, 5]

    def generator() -> Iterator[int]:
        yield from chosen

    subset = torch.utils.data.SubsetRandomSampler(chosen)
    for sampler in (chosen, tuple(chosen), np.array(chosen), torch.tensor(chosen), generator):
        with loader(packed, sampler) as source:
            for _ in range(2):  # drawn anew each epoch
                assert indices(source) == chosen
    with loader(packed, subset) as source:
        assert sorted(indices(source)) == sorted(chosen)
        assert len(source) == 2


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 200])
@pytest.mark.parametrize("drop_last", [False, True])
def test_all_batches_but_the_last_have_batch_size_samples(
    packed: Path, count: int, drop_last: bool
) -> None:
    chosen = [i * 7 % COUNT for i in range(count)]
    whole, rest = divmod(count, 8)
    with loader(packed, chosen, drop_last=drop_last) as source:
        sizes = [len(batch) for batch, _ in batches(source)]
        assert sizes == [8] * whole + [rest] * (rest > 0 and not drop_last)
        assert len(source) == len(sizes)


def test_the_samplers_stream_is_the_same_for_any_threads_prefetch_and_backend(packed: Path) -> None:
    streams = []
    for threads, prefetch, backend in itertools.product((1, 3), (1, 8), ("mmap", "pread")):
        options = {"num_threads": threads, "prefetch": prefetch}
        with (
            hr.Dataset(packed, backend=backend) as dataset,
            loader(dataset, Shuffled(), **options) as source,
        ):
            streams.append(batches(source) + batches(source))
    assert all(stream == streams[0] for stream in streams)


def test_a_sample_that_the_sampler_repeats_is_augmented_differently(packed: Path) -> None:
    with loader(packed, [4] * 8, transform=[hr.transforms.RandomResizedCrop(16)]) as source:
        (pixels, _, _), *_ = source
        assert len({image.tobytes() for image in pixels}) == 8


def test_set_epoch_is_called_on_a_sampler_that_has_it(packed: Path) -> None:
    with loader(packed, Shuffled()) as source:
        assert [indices(source) for _ in range(2)] == [made(0), made(1)]
        source.set_epoch(7)
        assert indices(source) == made(7)
        assert indices(source) == made(8)


@pytest.mark.parametrize("saved_at", range(5))
def test_a_saved_state_runs_the_sampler_again_up_to_its_position(
    packed: Path, saved_at: int
) -> None:
    with loader(packed, Shuffled()) as whole:
        expected = batches(whole) + batches(whole)
    with loader(packed, Shuffled(), num_threads=1) as first:
        iterator = iter(first)
        found = [
            (f["index"].tolist(), p.tobytes()) for p, _, f in itertools.islice(iterator, saved_at)
        ]
        state = json.loads(json.dumps(first.state_dict()))
    with loader(packed, Shuffled(), num_threads=3) as second:
        second.load_state_dict(state)
        found += batches(second)
        if saved_at < 4:
            found += batches(second)
    assert found == expected


@pytest.mark.parametrize("pad", [False, True])
def test_a_sampler_that_gives_other_samples_after_a_resume_is_refused(
    packed: Path, pad: bool
) -> None:
    def drawn() -> Iterator[int]:
        return iter(random.choices(range(COUNT), k=40))

    random.seed(4)
    with loader(packed, drawn, pad=pad) as first:
        iterator = iter(first)
        begun = first.state_dict()
        next(iterator)
        next(iterator)
        state = json.loads(json.dumps(first.state_dict()))
        assert len(json.dumps(state)) <= 1024
        expected = [index for *_, fields in iterator for index in fields["index"].tolist()]
    assert "drawn" not in begun
    for part in ({}, {"rank": 1, "world_size": 2, "batch_size": 3}):
        random.seed(5)
        with loader(packed, drawn, pad=pad, **part) as other:
            other.load_state_dict(state)
            for _ in range(2):
                with pytest.raises(ArgumentError, match="does not give the 16 samples again"):
                    next(iter(other))
                other.load_state_dict(state)
                assert other.state_dict() == state
    found: list[int] = []
    for rank in range(2):
        random.seed(4)
        with loader(packed, drawn, pad=pad, rank=rank, world_size=2, batch_size=3) as alike:
            alike.load_state_dict(state)
            found += indices(alike)
    assert sorted(found) == sorted(expected)
    random.seed(4)
    with loader(packed, lambda: itertools.islice(drawn(), 9)) as short:
        short.load_state_dict(state)
        with pytest.raises(ArgumentError, match="again"):
            next(iter(short))
    with loader(packed, drawn) as other:
        for broken in (3, [1], [1, 2, "x"], [1, 2, -3]):
            with pytest.raises(ArgumentError, match="drawn"):
                other.load_state_dict({**state, "drawn": broken})


def test_a_state_of_a_sampler_that_splits_by_rank_is_checked_only_for_its_own_rank(
    packed: Path,
) -> None:
    """The samples of another rank or number of ranks differ, so they cannot be checked."""

    def one(rank: int, world_size: int, seed: int = 3) -> hr.Loader:
        sampler = torch.utils.data.DistributedSampler(range(COUNT), world_size, rank, seed=seed)
        return loader(packed, sampler, rank=rank, world_size=world_size, batch_size=6)

    with one(0, 2) as source:
        iterator = iter(source)
        next(iterator)
        state = source.state_dict()
    for rank, world_size in ((0, 2), (1, 2), (2, 3)):
        with one(rank, world_size) as source:
            source.load_state_dict(state)
            assert len(indices(source)) == -(-COUNT // world_size) - 12 // world_size
    with one(0, 2, seed=4) as source:
        source.load_state_dict(state)
        with pytest.raises(ArgumentError, match="again"):
            next(iter(source))


@pytest.mark.parametrize("world_size", [2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 23, 24, 53])
def test_ranks_split_the_samplers_order_as_they_split_headraces_own(
    packed: Path, world_size: int, count: int
) -> None:
    for rank in range(world_size):
        part = {"rank": rank, "world_size": world_size, "batch_size": 4}
        with (
            loader(packed, list(range(COUNT)), **part) as sampled,
            loader(packed, None, **part) as own,
        ):
            assert [b for b, _ in batches(sampled)] == [b for b, _ in batches(own)]
            assert len(sampled) == len(own)
        with loader(packed, list(range(count)), **part) as short:
            assert len(batches(short)) == len(short) == -(-count // (4 * world_size))


def test_a_sampler_that_splits_by_rank_itself_is_not_split_again(packed: Path) -> None:
    found = []
    for rank in range(3):
        sampler = torch.utils.data.DistributedSampler(range(COUNT), 3, rank, seed=3)
        with loader(packed, sampler, rank=rank, world_size=3, batch_size=5) as source:
            list(source)
            sampler.set_epoch(1)
            assert indices(source) == list(sampler)
            assert len(source) == 4
            found += list(sampler)
            # It resumes at its own position.
            source.set_epoch(1)
            next(iterator := iter(source))
            state = source.state_dict()
            del iterator
            source.load_state_dict(state)
            assert indices(source) == list(sampler)[5:]
    assert set(found) == set(range(COUNT))


def test_an_exception_of_a_sampler_comes_after_the_batches_before_it(packed: Path) -> None:
    def failing() -> Iterator[int]:
        yield from range(20)
        raise RuntimeError("the sampler's own words")

    with loader(packed, failing) as source:
        iterator = iter(source)
        assert [len(next(iterator)[0]) for _ in range(2)] == [8, 8]
        with pytest.raises(RuntimeError, match="own words"):
            next(iterator)


@pytest.mark.parametrize("index", [-1, COUNT, 2**63, 2.5, "3", None])
def test_a_value_that_is_no_sample_number_is_named_in_the_error(packed: Path, index: Any) -> None:
    with loader(packed, [*range(8), index]) as source:
        iterator = iter(source)
        assert len(next(iterator)[0]) == 8
        with pytest.raises(ArgumentError, match=str(index)):
            next(iterator)


def test_no_setting_submits_more_batches_than_may_wait(packed: Path) -> None:
    settings = {"batch_size": 1, "prefetch": 1024, "read_ahead": 4096}
    chosen = [i % COUNT for i in range(5000)]
    with loader(packed, chosen, transform=[hr.transforms.Resize((1, 1))], **settings) as source:
        assert indices(source) == chosen


def test_a_state_at_the_end_of_a_sampler_resumes_with_the_next_epoch(packed: Path) -> None:
    with loader(packed, Shuffled()) as source:
        state = {**source.state_dict(), "epoch": 3, "position": 30}
        source.load_state_dict(state)
        assert indices(source) == []
        assert source.state_dict()["epoch"] == 4
        assert indices(source) == made(4)


def test_a_sampler_that_cannot_be_iterated_every_epoch_is_refused(packed: Path) -> None:
    with pytest.raises(ArgumentError, match="used up"):
        loader(packed, iter([1, 2]))
    with pytest.raises(ArgumentError, match="no iterable"):
        loader(packed, 7)
    with pytest.raises(ArgumentError, match="says the order itself"):
        loader(packed, [1], shuffle=True)
    with loader(packed, Shuffled()) as source, pytest.raises(TypeError, match="no length"):
        len(source)


def test_after_a_break_no_batch_of_the_old_epoch_comes(packed: Path) -> None:
    with loader(packed, Shuffled()) as source:
        next(iter(source))
        assert indices(source) == made(1)


def test_a_state_of_another_kind_of_order_is_refused(packed: Path) -> None:
    with loader(packed, [1, 2]) as sampled, loader(packed, None, shuffle=True) as own:
        with pytest.raises(ArgumentError, match="shuffle"):
            own.load_state_dict(sampled.state_dict())
        with pytest.raises(ArgumentError, match="shuffle"):
            sampled.load_state_dict(own.state_dict())
