"""Wrong arguments: each is an ``ArgumentError`` that names the argument, and never a bare error."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import headrace as hr
from headrace import errors
from images import jpeg

# What no argument below takes, whatever it is for.
NOTHING_TAKES = [object(), {1, 2}, 1j, {1: object()}, lambda: None, 1.5]

PATHS = ["", "a\0b", "\ud800", b"\xff", 3, None, ["a"]]
FLAGS = ["yes", 1, None, [], 0.0]
COUNTS = [0, -1, 2**63, 2**70, "2", 1.0, [1], math.nan]
TEXTS = [b"x", 3, None, ["a"], "\ud800"]

CASES: dict[str, dict[str, list[Any]]] = {
    "Dataset": {
        "path": PATHS,
        "backend": ["carrier pigeon", None, 3],
        "index_dir": [value for value in PATHS if value is not None],
        "verify_crc": FLAGS,
        "limits": [
            3,
            "many",
            [1],
            {"max_pixels": "9"},
            {"max_pixels": -1},
            {"max_pxels": 9},
            {2: 3},
        ],
    },
    "Dataset.from_files": {
        "paths": ["a.jpg", 3, None, [3], [""], ["a"] * 3],
        "labels": ["ab", 3, None, ["cat", 0], [-1, 0], [0, 1.5], [0], [2**63, 0], np.float32(1)],
        "classes": ["ab", 3, [1, 2], [b"a", b"b"], [None]],
        "backend": ["tape", None],
        "limits": [3, {"max_scans": 1.5}],
    },
    "pack": {
        "source": PATHS,
        "destination": PATHS,
        "shard_size": [0, -1, 1.5, "big", None, "0MB", "9999999999999999GB", 2**70, "²MB"],
        "resize": [0, -1, "256", 1.5, 2**70],
        "quality": [0, 101, "90", 1.5],
        "baseline": FLAGS,
        "seek": FLAGS,
        "overwrite": FLAGS,
        "on_fault": ["ignore", None, 3, True],
        "allow_empty": FLAGS,
        "path_column": TEXTS,
        "label_column": TEXTS,
        "root": [value for value in PATHS if value is not None],
        "num_threads": COUNTS,
        "on_progress": [3, "print"],
    },
    "index": {
        "source": PATHS,
        "index_dir": [value for value in PATHS if value is not None],
        "seek": FLAGS,
        "on_fault": ["ignore", None, 3],
        "allow_empty": FLAGS,
        "num_threads": COUNTS,
        "on_progress": [3],
    },
    "verify": {
        "source": PATHS,
        "index_dir": [value for value in PATHS if value is not None],
        "decode": FLAGS,
        "num_threads": COUNTS,
        "on_progress": [3],
    },
    "Writer": {
        "destination": PATHS,
        "shard_size": [0, "big", None],
        "classes": ["abc", 3, [1], [None]],
        "fields": ["abc", 3, [1], ["n"], [{1: 2}], [{"name": object()}], [{"name": "n"}]],
        "seek": FLAGS,
        "overwrite": FLAGS,
        "on_fault": ["ignore", None],
    },
}


def good(call: str, folder: Path, tmp_path: Path) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A public callable, and arguments that it takes."""
    files = [str(path) for path in sorted(folder.rglob("*.jpg"))[:2]]
    return {
        "Dataset": (hr.Dataset, {"path": folder}),
        "Dataset.from_files": (hr.Dataset.from_files, {"paths": files, "labels": [0, 1]}),
        "pack": (hr.pack, {"source": folder, "destination": tmp_path / "out"}),
        "index": (hr.index, {"source": folder, "index_dir": tmp_path / "out"}),
        "verify": (hr.verify, {"source": folder}),
        "Writer": (hr.Writer, {"destination": tmp_path / "out"}),
    }[call]


def refused(function: Callable[..., Any], arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(errors.ArgumentError) as caught:
        function(**arguments)
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400


def test_every_argument_of_the_public_functions_has_wrong_values_here(
    folder: Path, tmp_path: Path
) -> None:
    for call, cases in CASES.items():
        function, _ = good(call, folder, tmp_path)
        assert set(cases) == set(inspect.signature(function).parameters), call


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, cases in CASES.items() for name in cases]
)
def test_a_wrong_value_is_refused_with_the_arguments_name(
    packed: Path, folder: Path, tmp_path: Path, call: str, name: str
) -> None:
    function, arguments = good(call, folder, tmp_path)
    if call == "verify":
        arguments = {"source": packed}
    for value in [*CASES[call][name], *NOTHING_TAKES]:
        if name == "on_progress" and callable(value):
            continue
        if name == "labels" and isinstance(value, set):
            continue  # any iterable will do that has the right parts
        refused(function, {**arguments, name: value}, name)
    assert not (tmp_path / "out").exists()


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just(np.zeros((2, 2))),
    st.just(np.float16(1)),
    st.builds(object),
)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> hr.Writer:
    """One for all examples: a refused sample leaves it as it was."""
    made = hr.Writer(tmp_path_factory.mktemp("fuzz") / "out", classes=["a", "b"])
    made.add(jpeg(8, 8), 0, key="first", n=1)
    return made


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(image=ANYTHING, label=ANYTHING, key=ANYTHING, n=ANYTHING)
def test_whatever_a_sample_is_given_as_it_is_taken_or_refused_by_name(
    writer: hr.Writer, image: Any, label: Any, key: Any, n: Any
) -> None:
    good: dict[str, Any] = {"image": b"", "label": 0, "key": None, "n": 1}
    for name, value in {"image": image, "label": label, "key": key, "n": n}.items():
        try:
            writer.add(**{**good, name: value})
        except errors.DuplicateKeyError:
            assert name == "key"
        except errors.ArgumentError as failure:
            said = str(failure)
            assert name in said, value


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=ANYTHING)
def test_whatever_is_given_for_an_index_is_a_sample_or_refused(packed: Path, value: Any) -> None:
    with hr.Dataset(packed) as dataset:
        for ask in (dataset.__getitem__, dataset.facts, dataset.read):
            try:
                assert ask(value)
            except errors.NoSampleError:
                assert isinstance(value, int)
            except errors.ArgumentTypeError as failure:
                said = str(failure)
                assert "index=" in said
