"""A manifest with any change gives the same dataset, or an error that names it."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=1),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places in a JSON value, each as the keys that lead to it."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, child in inner:
        found.append((*path, key))
        if isinstance(child, dict | list):
            found += places(child, (*path, key))
    return found


@pytest.fixture(scope="module")
def copied(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(packed, tmp_path_factory.mktemp("manifest") / "photos.hr"))


def described(path: Path) -> list[Any]:
    with hr.Dataset(path) as dataset:
        return [dataset.classes, [dataset.facts(i) for i in range(len(dataset))], dataset.read(3)]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), value=VALUES)
def test_a_manifest_with_any_changed_value_gives_the_same_dataset_or_an_error_naming_it(
    packed: Path, copied: Path, data: Any, value: Any
) -> None:
    whole = json.loads((packed / "headrace.json").read_text())
    changed = copy.deepcopy(whole)
    path = data.draw(st.sampled_from(places(whole)))
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if data.draw(st.booleans()):
        holder[path[-1]] = value
    else:
        del holder[path[-1]]
    (copied / "headrace.json").write_text(json.dumps(changed))
    try:
        found = described(copied)
    except hr.HeadraceError as failure:
        said = str(failure)
    else:
        expected = described(packed)
        if path[0] == "classes":  # no other file has the class names
            found, expected = found[1:], expected[1:]
        assert found == expected, path
        return
    assert str(copied) in said, said
