"""Saved states: exactly the rest of the stream, whatever changed between saving and loading."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace.errors import ArgumentError

COUNT = 117
WORLDS = (1, 2, 3, 4, 8, 16)
ORDERS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "windowed": {"shuffle": "window", "window": 40},
    "subset": {"sampler": hr.samplers.Subset(range(3, 117, 2)), "shuffle": True},
    "weighted": {"sampler": hr.samplers.Weighted([1 + i % 5 for i in range(COUNT)], 90)},
    "balanced": {"sampler": hr.samplers.ClassBalanced()},
    "user": {"sampler": [i * 5 % COUNT for i in range(100)]},
}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("resume")
    hr.pack(images.plain_tree(root / "photos", COUNT), root / "photos.hr", shard_size="64KiB")
    return root / "photos.hr"


def loader(dataset: Any, **options: Any) -> hr.Loader:
    settings = {
        "batch_size": 8,
        "seed": 3,
        "transform": [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()],
        "dtype": "uint8",
        "fields": ["index"],
        "num_threads": 1,
    }
    return hr.Loader(dataset, output="numpy", **{**settings, **options})


def samples(batches: Any) -> list[tuple[int, bytes]]:
    """Each sample's number and pixels."""
    return [
        (int(index), image.tobytes())
        for pixels, _, fields in batches
        for index, image in zip(fields["index"], pixels, strict=True)
    ]


@pytest.mark.parametrize("order", ORDERS)
def test_every_batch_boundary_of_an_epoch_can_be_resumed_with_anything_changed(
    packed: Path, order: str
) -> None:
    options = ORDERS[order]
    with loader(packed, **options) as whole:
        expected = samples(whole)
        following = samples(whole)
    changes = itertools.cycle(
        itertools.product((1, 3), (1, 4), ("mmap", "pread"), (8, 5, 1))  # 24 of them
    )
    with loader(packed, **options) as first, loader(packed, **options) as other:
        iterator = iter(first)
        found: list[tuple[int, bytes]] = []
        while len(found) < len(expected):
            state = json.loads(json.dumps(first.state_dict()))
            assert state["position"] == len(found)
            threads, prefetch, backend, batch_size = next(changes)
            with (
                hr.Dataset(packed, backend=backend) as dataset,
                loader(
                    dataset,
                    num_threads=threads,
                    prefetch=prefetch,
                    batch_size=batch_size,
                    **options,
                ) as changed,
            ):
                changed.load_state_dict(state)
                assert found + samples(changed) == expected
            other.load_state_dict(state)  # the same loader, again and again
            assert samples([next(iter(other))]) == expected[len(found) :][:8]
            found += samples([next(iterator)])
        # The state at the end is that of the start of the next epoch.
        with loader(packed, **options) as changed:
            changed.load_state_dict(first.state_dict())
            assert samples(changed) == following


@pytest.mark.parametrize("order", ["shuffled", "windowed", "user"])
def test_chains_of_five_world_size_changes_give_every_sample_exactly_once(
    packed: Path, order: str
) -> None:
    options = ORDERS[order]
    with loader(packed, **options) as whole:
        expected = samples(whole)
    choose = random.Random(order)
    with hr.Dataset(packed) as dataset:
        for _ in range(3):
            state, found = None, []
            for change in range(6):
                world, batch_size = choose.choice(WORLDS), choose.randint(1, 3)
                steps = choose.randint(1, 4) if change < 5 else None
                states = []
                for rank in range(world):
                    part = {"rank": rank, "world_size": world, "batch_size": batch_size}
                    with loader(dataset, **part, **options) as one:
                        if state is not None:
                            one.load_state_dict(state)
                            if state["epoch"]:  # the chain ended early
                                break
                        found += samples(itertools.islice(one, steps))
                        states.append(one.state_dict())
                # One state serves all ranks.
                assert all(each == states[0] for each in states)
                state = states[0] if states else state
            assert sorted(found) == sorted(expected)


def test_a_state_is_small_json_and_counts_the_samples_handed_out(packed: Path) -> None:
    weights = hr.samplers.Weighted([0.1 + i for i in range(COUNT)])
    with loader(packed, sampler=weights, prefetch=8) as source:
        assert source.state_dict()["position"] == 0
        iterator = iter(source)
        for step in range(5):
            text = json.dumps(source.state_dict())
            assert len(text) <= 1024
            assert json.loads(text)["position"] == 8 * step
            next(iterator)


def test_a_resumed_epoch_with_drop_last_drops_the_incomplete_step(packed: Path) -> None:
    with loader(packed, shuffle=True) as whole:
        expected = samples(whole)
        source = iter(whole)
        for _ in range(14):
            next(source)
        state = whole.state_dict()
    with loader(packed, shuffle=True, drop_last=True, batch_size=20) as source:
        source.load_state_dict({**state, "epoch": 0})  # 5 of 117 samples are left
        assert list(source) == []
        assert (source.state_dict()["epoch"], source.state_dict()["position"]) == (1, 0)
        source.load_state_dict({**state, "epoch": 0, "position": 40})
        assert samples(source) == expected[40:100]


def test_states_of_another_dataset_or_order_are_refused(packed: Path, folder: Path) -> None:
    with loader(packed, shuffle=True) as source:
        state = source.state_dict()
    with loader(folder, shuffle=True) as other, pytest.raises(ArgumentError, match="another data"):
        other.load_state_dict(state)
    for options in (
        {},
        {"shuffle": "window"},
        {"shuffle": True, "sampler": hr.samplers.Subset(range(9))},
        ORDERS["balanced"],
        ORDERS["user"],
    ):
        with (
            loader(packed, **options) as other,
            pytest.raises(ArgumentError, match="the state has"),
        ):
            other.load_state_dict(state)
    with (
        loader(packed, shuffle="window", window=8) as one,
        loader(packed, shuffle="window", window=9) as two,
        pytest.raises(ArgumentError, match="window=8"),
    ):
        two.load_state_dict(one.state_dict())


@pytest.mark.parametrize(
    "spoilt",
    [
        {"position": 118},
        {"position": -1},
        {"position": 1.5},
        {"position": True},
        {"epoch": "0"},
        {"seed": None},
        {"version": 2},
        {"samples": 1},
    ],
)
def test_a_tampered_state_is_refused(packed: Path, spoilt: dict[str, Any]) -> None:
    with loader(packed, shuffle=True) as source, pytest.raises(ArgumentError, match="state"):
        source.load_state_dict({**source.state_dict(), **spoilt})
