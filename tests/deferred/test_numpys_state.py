"""The state of NumPy's global generator, saved without NumPy's slow function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace._deferred import numpystate


def drawn() -> list[Any]:
    """Numbers that tell two states apart, also by the cached normal number."""
    return [*np.random.standard_normal(3), *np.random.randint(0, 1 << 30, 700)]


def same_as_numpys(found: Any) -> bool:
    """Whether a restored state equals the one that NumPy itself saved."""
    numpys, now = found, np.random.get_state()
    return all(np.array_equal(one, other) for one, other in zip(numpys, now, strict=True))


@pytest.mark.parametrize("draws", range(5))
@pytest.mark.parametrize("normals", range(4))
def test_numpys_generator_is_restored_with_its_cached_normal_number(
    draws: int, normals: int
) -> None:
    np.random.seed(draws)
    np.random.rand(200 * draws)
    np.random.standard_normal(normals)
    before, numpys = numpystate.state(), np.random.get_state()
    assert isinstance(before[0], bytes), "found where it lies"
    expected = drawn()
    assert numpystate.state() != before
    numpystate.put(before)
    assert same_as_numpys(numpys)
    assert numpystate.state() == before
    assert drawn() == expected


def test_using_the_cached_normal_number_changes_the_state() -> None:
    np.random.seed(0)
    np.random.standard_normal()
    before = numpystate.state()
    np.random.standard_normal()  # draws nothing
    behind = numpystate.state()
    assert behind[0] == before[0]
    assert behind != before


def test_a_global_bit_generator_other_than_mt19937_is_restored_through_numpy() -> None:
    usual = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.PCG64(3))
    try:
        with pytest.warns(RuntimeWarning):
            before = numpystate.state()
        expected = drawn()
        numpystate.put(before)
        assert drawn() == expected
    finally:
        np.random.set_bit_generator(usual)
