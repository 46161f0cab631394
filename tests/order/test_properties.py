"""Orders and states of random configurations, drawn by Hypothesis."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
import images

COUNT = 23
SHUFFLES = st.sampled_from([{}, {"shuffle": True}, {"shuffle": "window", "window": 5}])
WORLDS = st.integers(1, 5)
SIZES = st.integers(1, 9)
usual = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hr.Dataset]:
    root = tmp_path_factory.mktemp("properties")
    hr.pack(images.plain_tree(root / "photos", COUNT), root / "photos.hr", shard_size="16KiB")
    with hr.Dataset(root / "photos.hr") as opened:
        yield opened


def loader(dataset: hr.Dataset, **options: Any) -> hr.Loader:
    crop = [hr.transforms.RandomResizedCrop(4)]
    return hr.Loader(
        dataset, transform=crop, num_threads=1, fields=["index"], output="numpy", **options
    )


def rounded_up(samples: int, step: int) -> int:
    return -(-samples // step)


def numbers(batches: Any) -> list[int]:
    return [int(index) for _, _, fields in batches for index in fields["index"]]


@usual
@given(order=SHUFFLES, seed=st.integers(0, 2**64 - 1), world=WORLDS, size=SIZES, data=st.data())
def test_all_ranks_together_have_each_sample_once_apart_from_drop_last_and_padding(
    dataset: hr.Dataset, order: dict[str, Any], seed: int, world: int, size: int, data: Any
) -> None:
    end = data.draw(st.sampled_from(["", "drop_last", "pad"]))
    options = {**order, "seed": seed, "batch_size": size, "world_size": world}
    if end:
        options[end] = True
    found, lengths = [], []
    for rank in range(world):
        with loader(dataset, rank=rank, **options) as one:
            batches = list(one)
            # All ranks have equally many steps, also if a rank has no sample left for the last one.
            steps = (
                COUNT // (size * world) if end == "drop_last" else rounded_up(COUNT, size * world)
            )
            assert len(one) == len(batches) == steps
        mine = numbers(batches)
        found += mine
        lengths.append(len(mine))
    counts = Counter(found)
    assert set(counts) <= set(range(COUNT))
    if end == "drop_last":
        assert max(counts.values(), default=1) == 1
        assert set(lengths) == {COUNT // (size * world) * size}
    elif end == "pad":
        assert len(counts) == COUNT
        assert len(set(lengths)) == 1
    else:
        assert counts == Counter(range(COUNT))


@usual
@given(order=SHUFFLES, seed=st.integers(0, 2**64 - 1), data=st.data())
def test_an_epoch_stopped_anywhere_resumes_with_other_ranks_and_sizes_to_the_same_end(
    dataset: hr.Dataset, order: dict[str, Any], seed: int, data: Any
) -> None:
    with loader(dataset, seed=seed, batch_size=COUNT, **order) as whole:
        expected = numbers(whole)
    found: list[int] = []
    state: dict[str, Any] | None = None
    while state is None or not state["epoch"]:
        world, size = data.draw(WORLDS), data.draw(SIZES)
        steps = data.draw(st.integers(1, 4))
        parts, states = [], []
        for rank in range(world):
            part = {"rank": rank, "world_size": world, "batch_size": size}
            with loader(dataset, seed=seed, **part, **order) as one:
                if state is not None:
                    one.load_state_dict(json.loads(json.dumps(state)))
                parts.append(numbers(islice(one, steps)))
                states.append(one.state_dict())
        assert all(each == states[0] for each in states)
        found += [number for part in parts for number in part]
        state = states[0]
    assert Counter(found) == Counter(expected)


@usual
@given(
    name=st.sampled_from(["version", "fingerprint", "seed", "epoch", "position"]),
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.lists(st.integers(), max_size=2),
    ),
)
def test_a_state_with_any_changed_value_is_refused_or_is_a_valid_position(
    dataset: hr.Dataset, name: str, value: Any
) -> None:
    with loader(dataset, batch_size=4, shuffle=True) as one:
        before = one.state_dict()
        try:
            one.load_state_dict({**before, name: value})
        except hr.HeadraceError:
            assert one.state_dict() == before
            return
        state = one.state_dict()
        assert set(state) == set(before)
        assert set(numbers(one)) <= set(range(COUNT))
