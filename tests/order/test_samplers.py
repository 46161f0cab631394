"""Headrace's own samplers and windowed shuffling in the loader."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DistributedSampler

import headrace as hr
import images
from headrace.errors import ArgumentError

COUNT, CLASSES = 60, 4


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("samplers")
    hr.pack(images.plain_tree(root / "photos", COUNT, CLASSES), root / "photos.hr")
    return root / "photos.hr"


def loader(packed: Path, **options: Any) -> hr.Loader:
    settings = {"batch_size": 8, "transform": [hr.transforms.RandomResizedCrop(16)]}
    return hr.Loader(packed, fields=["index"], output="numpy", **{**settings, **options})


def indices(source: hr.Loader) -> list[int]:
    return [int(index) for _, _, fields in source for index in fields["index"]]


def test_windowed_shuffling_gives_every_sample_once_in_a_new_order_each_epoch(packed: Path) -> None:
    with loader(packed, shuffle="window", window=20) as source:
        first, second = indices(source), indices(source)
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second
    assert first != sorted(first)


def test_a_subset_comes_in_its_order_or_shuffled(packed: Path) -> None:
    for chosen in (range(50, 3, -4), [9, 2, 40], np.array([9, 2, 40])):
        subset = hr.samplers.Subset(chosen)
        with loader(packed, sampler=subset) as source:
            assert indices(source) == list(chosen)
            assert len(source) == -(-len(chosen) // 8)
        for shuffle in (True, "window"):
            with loader(packed, sampler=subset, shuffle=shuffle) as source:
                first, second = indices(source), indices(source)
                assert sorted(first) == sorted(second) == sorted(chosen)


def test_weighted_samples_come_as_often_as_their_share(packed: Path) -> None:
    weights = [0.0] * 30 + [1.0] * 20 + [3.5] * 10
    with loader(packed, sampler=hr.samplers.Weighted(weights, 1100)) as source:
        counts = Counter(indices(source))
        assert len(source) == 138
    assert sum(counts.values()) == 1100
    for sample, weight in enumerate(weights):
        assert counts[sample] == pytest.approx(20 * weight, abs=1)


def test_equal_weights_give_every_sample_once(packed: Path) -> None:
    with loader(packed, sampler=hr.samplers.Weighted([0.3] * COUNT)) as source:
        assert sorted(indices(source)) == list(range(COUNT))


def test_a_sample_that_is_drawn_twice_is_augmented_differently(packed: Path) -> None:
    weights = [1.0] + [0.0] * (COUNT - 1)
    with loader(packed, sampler=hr.samplers.Weighted(weights, 8)) as source:
        pixels = [image.tobytes() for batch, _, _ in source for image in batch]
    assert len(set(pixels)) == 8


def test_class_balanced_gives_equally_many_samples_of_each_label(tmp_path: Path) -> None:
    tree = images.plain_tree(tmp_path / "photos", 40, 4)
    for name in ("class0", "class1"):
        for path in sorted((tree / name).iterdir())[1:]:
            path.unlink()
    with loader(tree, sampler=hr.samplers.ClassBalanced(200)) as source:
        labels = [int(label) for _, batch, _ in source for label in batch]
    assert Counter(labels) == dict.fromkeys(range(4), 50)


def test_a_mix_has_its_parts_in_proportion_over_all_ranks(packed: Path) -> None:
    mix = hr.samplers.Mix([range(10), range(10, 60), [59]], [0.25, 0.5, 0.25], 400)
    found = []
    for rank in range(3):
        with loader(packed, sampler=mix, rank=rank, world_size=3) as source:
            found += indices(source)
    counts = Counter(found)
    assert sum(counts[i] for i in range(10)) == 100
    assert counts[59] == pytest.approx(104, abs=1)


def seen(batches: Any) -> list[tuple[int, bytes]]:
    """Each sample's number and pixels."""
    return [
        (int(index), image.tobytes())
        for pixels, _, fields in batches
        for index, image in zip(fields["index"], pixels, strict=True)
    ]


def steps_of(packed: Path, ranks: int, batch_size: int, state: Any = None) -> list[Any]:
    """An epoch of three repeats, or its rest: the samples of each rank in each step."""
    parts = []
    for rank in range(ranks):
        part = {"rank": rank, "world_size": ranks, "batch_size": batch_size}
        repeated = {"sampler": hr.samplers.Repeated(3, 170), "shuffle": True, "num_threads": 1}
        with loader(packed, **part, **repeated) as source:
            if state is not None:
                source.load_state_dict(state)
            parts.append([seen([batch]) for batch in source])
    return list(zip(*parts, strict=True))


def test_repeats_of_a_sample_are_augmented_differently(packed: Path) -> None:
    for shuffle in (False, True, "window"):
        sampler = hr.samplers.Repeated(3, 3 * COUNT)
        with loader(packed, sampler=sampler, shuffle=shuffle) as source:
            found = seen(source)
        assert Counter(index for index, _ in found) == dict.fromkeys(range(COUNT), 3)
        assert len({pixels for _, pixels in found}) == 3 * COUNT


def test_an_epoch_of_repeats_is_as_long_as_one_without(packed: Path) -> None:
    with loader(packed, sampler=hr.samplers.Repeated(4), shuffle=True) as source:
        first, second = indices(source), indices(source)
        assert len(source) == -(-COUNT // 8)
    assert len(first) == len(second) == COUNT
    assert set(Counter(first).values()) == set(Counter(second).values()) == {4}
    assert set(first) != set(second)


@pytest.mark.parametrize("ranks", [3, 4])
def test_repeats_fall_on_different_ranks_of_one_step(packed: Path, ranks: int) -> None:
    steps = steps_of(packed, ranks, 24 // ranks)
    for number, step in enumerate(steps):
        together = Counter(index for part in step for index, _ in part)
        if number < len(steps) - 1:
            assert set(together.values()) == {3}
        for part in step:
            assert set(Counter(index for index, _ in part).values()) <= {1}


def test_a_step_of_repeats_is_the_same_for_any_number_of_ranks(packed: Path) -> None:
    def joined(steps: list[Any]) -> list[Any]:
        return [list(chain.from_iterable(step)) for step in steps]

    alone = joined(steps_of(packed, 1, 24))
    assert joined(steps_of(packed, 3, 8)) == joined(steps_of(packed, 4, 6)) == alone


def test_repeats_resume_at_any_batch_with_any_ranks_and_batch_size(packed: Path) -> None:
    def flat(steps: list[Any]) -> list[tuple[int, bytes]]:
        return [sample for step in steps for part in step for sample in part]

    expected = flat(steps_of(packed, 1, 24))
    options = {"sampler": hr.samplers.Repeated(3, 170), "shuffle": True, "batch_size": 24}
    with loader(packed, **options) as source:
        iterator = iter(source)
        for step, (ranks, batch_size) in enumerate([(1, 24), (3, 8), (2, 5), (4, 1), (1, 7)]):
            taken = 24 * step
            state = source.state_dict()
            assert state["position"] == taken
            rest = flat(steps_of(packed, ranks, batch_size, state))
            if ranks * batch_size == 24:
                assert rest == expected[taken:]
            assert sorted(rest) == sorted(expected[taken:])
            next(iterator)


def test_impossible_samplers_and_windows_are_refused(packed: Path) -> None:
    samplers = hr.samplers
    for options, words in (
        ({"sampler": samplers.Subset([COUNT])}, f"sample {COUNT}"),
        ({"sampler": samplers.Subset([1, 1])}, "twice"),
        ({"sampler": samplers.Subset("ab")}, "no sample numbers"),
        ({"sampler": samplers.Weighted([1.0])}, "1 weights"),
        ({"sampler": samplers.Weighted([-1.0] * COUNT)}, "weight 0 is -1"),
        ({"sampler": samplers.Weighted([float("nan")] * COUNT)}, "finite"),
        ({"sampler": samplers.Mix([range(3)], [1, 2])}, "1 parts have 2 weights"),
        ({"sampler": samplers.ClassBalanced(-1)}, "-1"),
        ({"sampler": samplers.ClassBalanced(), "shuffle": "window"}, "window"),
        ({"sampler": samplers.Repeated(0)}, "times"),
        ({"sampler": samplers.Repeated(1.5)}, "times"),
        ({"sampler": samplers.Repeated(2, 2 * COUNT + 1)}, "length"),
        ({"shuffle": "windows"}, "windows"),
        ({"window": 8}, "window"),
        ({"shuffle": True, "window": 8}, "window"),
        ({"shuffle": "window", "window": 0}, "window"),
        ({"pad": True, "drop_last": True}, "drop_last"),
        ({"pad": True, "drop_last": True, "sampler": [1]}, "drop_last"),
        ({"pad": True, "sampler": DistributedSampler([1], 2, 0)}, "shards itself"),
    ):
        with pytest.raises(ArgumentError, match=words):
            loader(packed, **options)


def test_weights_in_place_of_the_parts_of_a_mix_are_refused_with_the_right_call() -> None:
    with pytest.raises(ArgumentError, match=r"parts is \[3, 1\].*Mix\(weights=\[3, 1\]\)"):
        hr.samplers.Mix([3, 1])
    with pytest.raises(ArgumentError, match="Mix"):
        hr.samplers.Mix((0.5, 0.5))
