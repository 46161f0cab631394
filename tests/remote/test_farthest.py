"""The simulator of a cache that knows the order, compared with every possible choice of a cache."""

from __future__ import annotations

import functools
import importlib.util
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[int], Sequence[int], int], int]:
    monkeypatch.syspath_prepend(str(BENCH))
    spec = importlib.util.spec_from_file_location("farthest", BENCH / "farthest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop("facts", None)
    found: Callable[[Sequence[int], Sequence[int], int], int] = module.fetched
    return found


def least(order: tuple[int, ...], room: int) -> int:
    """The fewest fetches of samples of one byte, found by trying every choice."""

    @functools.cache
    def rest(position: int, held: frozenset[int]) -> int:
        if position == len(order):
            return 0
        sample = order[position]
        if sample in held:
            return rest(position + 1, held)
        choices = [rest(position + 1, held)]  # bypass
        if len(held) < room:
            choices.append(rest(position + 1, held | {sample}))
        choices += [rest(position + 1, held - {one} | {sample}) for one in held]
        return 1 + min(choices)

    return rest(0, frozenset())


def test_no_choice_fetches_less_for_samples_of_equal_length(
    fetched: Callable[[Sequence[int], Sequence[int], int], int],
) -> None:
    draw = random.Random(2)
    for _ in range(60):
        order = tuple(draw.randrange(5) for _ in range(10))
        for room in range(5):
            assert fetched(order, [1] * 5, room) == least(order, room)


def test_a_set_that_fits_is_fetched_once_and_without_room_it_is_fetched_every_time(
    fetched: Callable[[Sequence[int], Sequence[int], int], int],
) -> None:
    lengths = [3, 5, 7, 11]
    order = [0, 1, 2, 3, 3, 1, 0, 2]
    assert fetched(order, lengths, sum(lengths)) == sum(lengths)
    assert fetched(order, lengths, 0) == 2 * sum(lengths)
