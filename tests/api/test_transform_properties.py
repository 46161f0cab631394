"""Transforms as JSON: any list of them gives whole batches, or is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import errors

TABLE = Path(__file__).parents[2] / "internal/transform/transforms.json"
ENTRIES = json.loads(TABLE.read_text())["transforms"]
NUMBERS = st.one_of(
    st.integers(-3, 40), st.floats(allow_nan=False, allow_infinity=False), st.integers()
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        NUMBERS,
        st.sampled_from(["bilinear", "nearest", "reflect", "edge", ""]),
    ),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """A transform of the table with some of its arguments, or with an unknown one."""
    entry = draw(st.sampled_from(ENTRIES))
    names = [argument["name"] for argument in entry.get("arguments", [])] + ["other"]
    chosen = draw(st.dictionaries(st.sampled_from(names), VALUES, max_size=3))
    return {"name": entry["name"], **chosen}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(given=st.lists(steps(), min_size=1, max_size=4))
def test_any_list_of_transforms_gives_batches_or_is_refused_with_a_transforms_name(
    packed: Path, given: list[dict[str, Any]]
) -> None:
    end = {"name": "CenterCrop", "size": 8}
    try:
        with hr.Loader(packed, 4, transform=[*given, end], num_threads=1, output="numpy") as loader:
            first = next(iter(loader))[0]
    except errors.MemoryShortError:
        return
    except (errors.ArgumentError, errors.UnsupportedError, errors.LimitError) as failure:
        said = str(failure)
    else:
        assert np.asarray(first).shape[0] == 4
        return
    assert any(step["name"] in said for step in [*given, end]), said
