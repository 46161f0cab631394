"""Wrong arguments: each is an ``ArgumentError`` that names the argument, and never a bare error."""

from __future__ import annotations

import inspect
import math
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torchvision import transforms as v1

import headrace as hr
from headrace import errors
from images import jpeg
from timing import eventually

# Values that no argument below accepts.
NOTHING_TAKES = [object(), {1, 2}, 1j, {1: object()}, lambda: None, 1.5]
TAKE_ANY_ITERABLE = [("Dataset.from_files", "labels"), ("Loader", "sampler")]

PATHS = ["", "a\0b", "\ud800", b"\xff\0", 3, None, ["a"]]
SOURCES = [*PATHS[:-1], [""], [3], [["a"]], ("a\0b",)]
NAMES = [b"x", 3, ["a"], "\ud800", "", "a\0b"]
# The test's folder is no container, so arguments that name columns are refused.
CONTAINERS: dict[str, list[Any]] = {
    "format": [*NAMES, "pickle"],
    "image": [*NAMES, "jpg"],
    "label": [*NAMES, "cls"],
    "fields": ["ab", 3, [1], [""], ["txt"], []],
    "classes": ["ab", 3, [1, 2], [None], ["a"]],
    "split": [*NAMES, "train"],
    "root": [value for value in PATHS if value is not None],
}
FLAGS = ["yes", 1, None, [], 0.0]
COUNTS = [0, -1, 2**63, 2**70, "2", 1.0, [1], math.nan]
RATES = [0, -1, math.nan, math.inf, "2", [1], True]
# Arguments for which 1.5 is a valid value.
FRACTIONS = {"timeout", "rate", "seconds", "step_seconds", "image_bytes", "images_per_core"}
TEXTS = [b"x", 3, None, ["a"], "\ud800"]

CASES: dict[str, dict[str, list[Any]]] = {
    "Dataset": {
        "path": SOURCES,
        **CONTAINERS,
        "layout": ["NWHC", b"NHWC", 3],
        "backend": ["carrier pigeon", None, 3],
        "index_dir": [value for value in PATHS if value is not None],
        "verify_crc": FLAGS,
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
        "fetch_ahead": [0, -1, 2.5, "much", True],
        "cache": [value for value in PATHS if value is not None],
        "cache_size": [0, -1, 2.5, "much", True],
        "limits": [
            3,
            "many",
            [1],
            {"max_pixels": "9"},
            {"max_pixels": -1},
            {"max_pixels": 0},
            {"max_scans": True},
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
    "Dataset.from_locations": {
        "files": ["a.jpg", 3, None, [3], [""], ["a\0b"]],
        "table": [3, "x", None, [1], {1: [0]}, {"file": [0]}, {"file": 0}],
        "classes": ["ab", 3, [1, 2], [b"a"], [None]],
        "backend": ["tape", None],
        "limits": [3, {"max_scans": 1.5}],
    },
    "Dataset.from_pairs": {
        "first": PATHS,
        "second": PATHS,
        "kind": ["boxes", None, 3],
        "suffixes": ["ab", 3, None, [], ["a"], ["a", 3], ["a\0", ""], ["a", "b", "c"]],
        "unpaired": ["warn", None, True],
        "backend": ["tape", None],
        "limits": [3, {"max_scans": 1.5}],
    },
    "Dataset.concat": {
        "datasets": [[], "ab", 3, None, [3], [""], [["a"]], {"a": 1}],
        "classes": ["ab", 3, [1, 2], [None]],
    },
    "pack": {
        "source": SOURCES,
        **CONTAINERS,
        "destination": PATHS,
        "shard_size": [0, -1, 1.5, "big", None, "0MB", "9999999999999999GB", 2**70, "²MB"],
        "resize": [0, -1, "256", 1.5, 2**70],
        "quality": [0, 101, "90", 1.5],
        "baseline": FLAGS,
        "raw": FLAGS,
        "lossless": ["gif", b"png", 3, True, "png"],
        "seek": FLAGS,
        "overwrite": FLAGS,
        "through_pillow": FLAGS,
        "on_fault": ["ignore", None, 3, True],
        "allow_empty": FLAGS,
        "path_column": [value for value in TEXTS if value is not None],
        "label_column": [value for value in TEXTS if value is not None],
        "num_threads": COUNTS,
        "num_workers": [-1, 1025, 2**70, "2", 1.0, [1], None, True, 1],
        "limits": [3, {"max_scans": 1.5}, {"max_block_bytes": 2**28 + 1}],
        "on_progress": [3, "print"],
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
    },
    "index": {
        "source": SOURCES,
        **CONTAINERS,
        "out": [value for value in PATHS if value is not None],
        "index_dir": [value for value in PATHS if value is not None],
        "seek": FLAGS,
        "on_fault": ["ignore", None, 3],
        "allow_empty": FLAGS,
        "num_threads": COUNTS,
        "limits": [3, {"max_scans": 1.5}, {"max_block_bytes": 2**28 + 1}],
        "on_progress": [3],
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
    },
    "verify": {
        "source": PATHS,
        "index_dir": [value for value in PATHS if value is not None],
        "root": [value for value in PATHS if value is not None],
        "decode": FLAGS,
        "num_threads": COUNTS,
        "limits": [3, {"max_scans": 1.5}, {"max_block_bytes": 2**28 + 1}],
        "on_progress": [3],
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
    },
    "Writer": {
        "destination": PATHS,
        "shard_size": [0, "big", None],
        "classes": ["abc", 3, [1], [None]],
        "fields": ["abc", 3, [1], ["n"], [{1: 2}], [{"name": object()}], [{"name": "n"}]],
        "seek": FLAGS,
        "overwrite": FLAGS,
        "on_fault": ["ignore", None],
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
    },
    "Loader": {
        "dataset": [*PATHS[:-1], [], [3], [""], [None], [["a"]]],
        "batch_size": [*COUNTS, True],
        **{name: values for name, values in CONTAINERS.items() if name != "fields"},
        "shuffle": ["yes", 1, None, 0.0, []],
        "seed": [-1, 2**64, "0", 1.0, None, True],
        "drop_last": FLAGS,
        "pad": FLAGS,
        "transform": [
            3,
            0,
            "",
            False,
            "CenterCrop",
            hr.transforms.CenterCrop(8),
            {"name": "CenterCrop", "size": 8},
            [hr.transforms.CenterCrop],
            [None],
            [{1: 2}],
        ],
        "dtype": ["double", None, np.float32, ["float32"]],
        "layout": ["CHW", None, 3],
        "scale": ["mult", None, 255],
        "mode": ["quick", None, 3],
        "output": ["jax", None, 3],
        "num_threads": [-1, 1025, 2.5, "2", True, 2**70],
        "prefetch": [value for value in COUNTS if value is not None] + [True, 1025],
        "read_ahead": [-1, 4097, 2.5, "2", True],
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "fetch_ahead": [0, -1, 2.5, "much", True, "1KB", 2**50],
        "cache": [value for value in PATHS if value is not None],
        "cache_size": [0, -1, 2.5, "much", True],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
        "pin_memory": FLAGS,
        "device": ["teapot", "cuda:x", 2**70],
        "batch_fn": [3, "double", [abs], object()],
        "sampler": [3, 1.5, iter([1]), object(), hr.samplers.Subset([1.5])],
        "fields": ["key", 3, [3], ["no such field"], True],
        "labels": [
            3,
            "boxes",
            ["boxes"],
            True,
            {"boxes": 3},
            {3: hr.transforms.Boxes()},
            {"no such field": hr.transforms.Boxes()},
        ],
        "window": [0, -1, 1.5, "2", True, 9],
        "resolution": [224, "224", [224], {}, {0: 0}, {0: -8}, {-1: 8}, {1: 8}, {"0": 8}, {0: 1.5}],
        "rank": [-1, 0.0, "0", True, 0],
        "world_size": [0, -1, 1.0, "1", True, 1],
        "on_error": ["ignore", None, 3],
    },
    "DataLoader": {
        "strict": FLAGS,
        "eager_open": FLAGS,
        "ahead": [-1, 1.5, True, "2", None, 2**64],
        "seed": [-1, 2**64, "0", 1.0, True],
        "transform": [3, "CenterCrop", hr.transforms.CenterCrop(8), [3], [hr.transforms.Resize]],
        "mode": ["quick", None, 3],
        "on_error": ["ignore", None, 3],
        "limits": [3, {"max_scans": 1.5}],
        "snapshot_every_n_steps": [0, -1, 1.0, "1", True],
    },
    "Loader.trace": {"path": [value for value in PATHS if value is not None]},
    "doctor": {
        "source": [3, "", "a\0b", None],
        **CONTAINERS,
        "step": [3, "step", [abs]],
        "rate": RATES,
        "transform": [3, "quick", [3], [hr.transforms.Resize]],
        "batch_size": [value for value in COUNTS if value is not None],
        "size": [value for value in COUNTS if value is not None],
        "seconds": RATES,
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
        "cache": [value for value in PATHS if value is not None],
        "cache_size": [0, -1, 2.5, "much", True],
    },
    "plan": {
        "source": ["", "a\0b", 3],
        **CONTAINERS,
        "gpus": COUNTS,
        "rate": RATES,
        "step_seconds": RATES,
        "batch_size": COUNTS,
        "images": COUNTS,
        "image_bytes": RATES,
        "epochs": COUNTS,
        "size": COUNTS,
        "images_per_core": RATES,
        "storage": [3, "endpoint", [1], {1: "a"}, {"region": 3}],
        "timeout": [0, -1, "a", math.nan, math.inf, True, [1]],
    },
}


def good(call: str, folder: Path, tmp_path: Path) -> tuple[Callable[..., Any], dict[str, Any]]:
    """A public callable, and valid arguments for it."""
    files = [str(path) for path in sorted(folder.rglob("*.jpg"))[:2]]
    return {
        "Dataset": (hr.Dataset, {"path": folder}),
        "Dataset.from_files": (hr.Dataset.from_files, {"paths": files, "labels": [0, 1]}),
        "Dataset.from_locations": (
            hr.Dataset.from_locations,
            {"files": files, "table": {"file": [0], "offset": [0], "length": [9]}},
        ),
        "Dataset.from_pairs": (hr.Dataset.from_pairs, {"first": folder, "second": folder}),
        "Dataset.concat": (hr.Dataset.concat, {"datasets": [folder]}),
        "pack": (hr.pack, {"source": folder, "destination": tmp_path / "out"}),
        "index": (hr.index, {"source": folder, "index_dir": tmp_path / "out"}),
        "verify": (hr.verify, {"source": folder}),
        "Writer": (hr.Writer, {"destination": tmp_path / "out"}),
        "Loader": (hr.Loader, {"dataset": folder, "transform": [hr.transforms.CenterCrop(8)]}),
        "DataLoader": (hr.DataLoader, {"dataset": hr.Dataset(folder)}),
        "doctor": (hr.doctor, {"source": folder}),
        "plan": (hr.plan, {"rate": 100.0, "images": 9, "image_bytes": 9.0}),
        "Loader.trace": (traced, {"path": tmp_path / "run.json"}),
    }[call]


def traced(path: Any) -> None:
    """``Loader.trace`` of a loader over arrays in memory."""
    images = hr.Dataset.from_arrays(np.zeros((2, 8, 8, 3), np.uint8), [0, 1])
    with images, hr.Loader(images, output="numpy") as loader:
        loader.trace(path)


def own_parameters(function: Callable[..., Any]) -> set[str]:
    """All parameters but those that torch's own class checks."""
    found = inspect.signature(function).parameters.values()
    if function is hr.DataLoader:
        found = [parameter for parameter in found if parameter.kind is parameter.KEYWORD_ONLY]
    return {parameter.name for parameter in found}


def refused(function: Callable[..., Any], arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(errors.ArgumentError) as caught:
        function(**arguments)
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert len(str(caught.value)) < 400


def test_this_file_has_wrong_values_for_every_argument_of_the_public_functions(
    folder: Path, tmp_path: Path
) -> None:
    for call, cases in CASES.items():
        function, _ = good(call, folder, tmp_path)
        assert set(cases) == own_parameters(function), call


@pytest.mark.parametrize(
    ("call", "name"), [(call, name) for call, cases in CASES.items() for name in cases]
)
@pytest.mark.every(3)
def test_a_wrong_value_is_refused_with_the_arguments_name(
    packed: Path, folder: Path, tmp_path: Path, call: str, name: str
) -> None:
    function, arguments = good(call, folder, tmp_path)
    if call == "verify":
        arguments = {"source": packed}
    for value in [*CASES[call][name], *NOTHING_TAKES]:
        if name in ("on_progress", "batch_fn", "sampler", "step", "transform") and callable(value):
            continue
        if (call, name) in TAKE_ANY_ITERABLE and isinstance(value, set | dict):
            continue  # any iterable with the right parts is accepted
        if name in FRACTIONS and value == 1.5:
            continue
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
    """One writer for all examples: a refused sample leaves it unchanged."""
    folder = tmp_path_factory.mktemp("fuzz")
    made = hr.Writer(folder / "out", classes=["a", "b"])
    made.add(jpeg(8, 8), 0, key="first", n=1)
    # Its files are opened in the background, and must be there before a test begins.
    assert eventually(lambda: [*folder.glob(".out*/headrace-seek-*")])
    return made


@pytest.mark.slow
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(image=ANYTHING, label=ANYTHING, key=ANYTHING, n=ANYTHING)
def test_a_writer_takes_any_value_of_a_sample_or_refuses_it_by_name(
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
def test_any_value_as_an_index_gives_a_sample_or_is_refused(packed: Path, value: Any) -> None:
    with hr.Dataset(packed) as dataset:
        for ask in (dataset.__getitem__, dataset.facts, dataset.read):
            try:
                assert ask(value)
            except errors.NoSampleError:
                assert isinstance(value, int)
            except errors.ArgumentTypeError as failure:
                said = str(failure)
                assert "index=" in said


WRONG_STATES: dict[str, list[Any]] = {
    "state": [5, None, "x", [1], [("seed", 0)], {1: 2}],
    "seed": [-1, 2**64, "0", None, 1.0, True],
    "epoch": [-1, 2**63, "0", None, 1.0, True],
    "position": [-1, 2**63, "0", None, 1.0, True, 10**6],
    "version": [None, "1", 99],
    "fingerprint": [None, 3, "0" * 32],
}


@pytest.mark.parametrize("kind", ["Loader", "IterableDataset", "DataLoader"])
def test_a_wrong_state_is_refused_and_leaves_the_loaders_position_unchanged(
    folder: Path, kind: str
) -> None:
    crop = [hr.transforms.CenterCrop(8)]
    if kind == "DataLoader":
        loader: Any = hr.DataLoader(hr.Dataset(folder), 2, transform=crop)
    else:
        loader = getattr(hr, kind)(folder, 2, transform=crop)
    state = loader.state_dict()
    for name, values in WRONG_STATES.items():
        if (name != "state" and name not in state) or (name, kind) == ("seed", "DataLoader"):
            continue
        for value in values:
            if (name, kind, value) == ("epoch", "DataLoader", 2**63):
                continue  # in range: torch's seeds have 64 bits
            wrong = value if name == "state" else {**state, name: value}
            refused(loader.load_state_dict, {"state": wrong}, name)
            assert loader.state_dict() == state


@pytest.mark.parametrize("kind", ["Loader", "IterableDataset"])
def test_an_epoch_that_is_not_a_whole_number_from_0_is_refused(folder: Path, kind: str) -> None:
    loader = getattr(hr, kind)(folder, 2, transform=[hr.transforms.CenterCrop(8)])
    for value in [-1, "x", 1.5, None, True, 2**63, [1]]:
        refused(loader.set_epoch, {"epoch": value}, "epoch")


@pytest.mark.parametrize("name", CASES["Loader"])
def test_an_iterable_dataset_refuses_arguments_as_a_loader_does_at_first_use(
    folder: Path, name: str
) -> None:
    arguments = {"dataset": folder, "transform": [hr.transforms.CenterCrop(8)]}
    for value in CASES["Loader"][name]:
        dataset = hr.IterableDataset(**{**arguments, name: value})
        refused(dataset.__len__, {}, name)


IMAGE = np.arange(16 * 16 * 3, dtype=np.uint8).reshape(16, 16, 3)
CORNERS = [(0, 0), (15, 0), (15, 15), (0, 15)]
# Every function on single images, with valid values of its arguments after the first.
FUNCTIONS: dict[str, dict[str, Any]] = {
    "adjust_brightness": {"brightness_factor": 1.5, "tensor": False},
    "adjust_contrast": {"contrast_factor": 1.5, "tensor": False},
    "adjust_gamma": {"gamma": 1.5, "gain": 1},
    "adjust_hue": {"hue_factor": 0.1},
    "adjust_saturation": {"saturation_factor": 1.5, "tensor": False},
    "adjust_sharpness": {"sharpness_factor": 1.5, "tensor": False},
    "affine": {
        "angle": 10,
        "translate": (1, 2),
        "scale": 1.1,
        "shear": 3,
        "interpolation": "nearest",
        "fill": None,
        "center": None,
        "version": 1,
    },
    "affine_map": {
        "coefficients": [1, 0, 0, 0, 1, 0],
        "interpolation": "nearest",
        "fill": 0,
        "size": [9, 9],
    },
    "autocontrast": {"tensor": False},
    "center_crop": {"output_size": 8},
    "crop": {"top": 1, "left": 1, "height": 4, "width": 4},
    "decode": {"limits": None, "mode": "exact"},
    "elastic": {
        "displacement": np.zeros((1, *IMAGE.shape[:2], 2)),
        "interpolation": "bilinear",
        "fill": None,
        "version": 2,
    },
    "elastic_displacement": {"alpha": 9.0, "sigma": 1.0, "key": [1, 2, 3, 4]},
    "equalize": {},
    "erase": {"i": 1, "j": 2, "h": 4, "w": 5, "v": [1, 2, 3], "inplace": False},
    "five_crop": {"size": 8},
    "gaussian_blur": {"kernel_size": 3, "sigma": None},
    "gaussian_noise": {"mean": 0.1, "sigma": 0.2, "clip": False, "key": [1, 2, 3, 4]},
    "hflip": {},
    "invert": {},
    "jpeg": {"quality": 60},
    "mix_chains": {
        "chains": [[{"function": "invert", "arguments": {}}]],
        "weights": [0.5],
        "original": 0.5,
        "blend": 0.5,
    },
    "move": {
        "values": [[1, 2, 3, 4]],
        "size": (9, 9),
        "transform": [],
        "seed": 0,
        "epoch": 0,
        "sample": 0,
        "draw": 0,
    },
    "pad": {"padding": 1, "fill": 0, "padding_mode": "constant"},
    "permute_channels": {"permutation": [2, 1, 0]},
    "perspective": {
        "startpoints": CORNERS,
        "endpoints": CORNERS,
        "interpolation": "bilinear",
        "fill": None,
    },
    "perspective_map": {
        "coefficients": [1, 0, 0, 0, 1, 0, 0, 0],
        "interpolation": "bilinear",
        "fill": None,
    },
    "pillow_blur": {"radius": 2},
    "posterize": {"bits": 4},
    "replay": {"transform": [], "seed": 0, "epoch": 0, "sample": 0, "draw": 0},
    "resize": {"size": 8, "interpolation": "bilinear", "max_size": None, "antialias": True},
    "resized_crop": {
        "top": 0,
        "left": 0,
        "height": 8,
        "width": 8,
        "size": 4,
        "interpolation": "bilinear",
        "hflip": False,
        "mode": "exact",
    },
    "reduce": {"factor": 3},
    "resize_box": {"size": 8, "box": [0.5, 1, 9, 8.25], "interpolation": "bilinear"},
    "rgb_to_grayscale": {"num_output_channels": 3},
    "rotate": {
        "angle": 10,
        "interpolation": "nearest",
        "expand": False,
        "center": None,
        "fill": None,
    },
    "solarize": {"threshold": 128},
    "solarize_add": {"add": 20, "thresh": 128},
    "tensor_affine": {
        "coefficients": [1, 0, 0, 0, 1, 0],
        "interpolation": "nearest",
        "fill": None,
    },
    "ten_crop": {"size": 8, "vertical_flip": False},
    "to_grayscale": {"num_output_channels": 1},
    "vflip": {},
}
# Values that no argument of any function accepts; below, values that one argument refuses.
WRONG = [
    object(),
    {1, 2},
    1j,
    lambda: None,
    "x",
    b"x",
    math.nan,
    [math.nan],
    [[1], [1, 2]],
    {"a": math.nan},
    hr.transforms.CenterCrop,
    -(2**70),
]
ALSO_WRONG: dict[str, list[Any]] = {
    "img": [
        IMAGE.astype(np.float32),
        IMAGE.astype(np.int8),
        IMAGE[..., 0],
        IMAGE[..., :2],
        IMAGE[:0],
        [[1, 2], [3]],
        None,
    ],
    "data": [None, 3, IMAGE[:, ::2, 0], [1, 2]],
    "hue_factor": [2, -0.6, None, "0.1"],
    "brightness_factor": [-1, None, math.inf],
    "angle": [None, math.inf, [1]],
    "bits": [-1, 9, 2.5, None],
    "chains": [None, 5, ["invert"], [["invert"]], [[{"function": "invert"}]], [[]] * 2],
    "weights": [None, 0.5, ["x"], [0.5, 0.5], [math.inf]],
    "original": [None, math.inf, [1]],
    "radius": [-1, 1001, None],
    "mean": [-11, None, [1]],
    "clip": [2, None, [True]],
    "displacement": [None, 1, np.zeros((1, 2, 2, 2))],
    "alpha": [None, 1e7, [1, 2, 3]],
    "key": [7, [1, 2, 3], [1, 2, 3, 2**32], [1, 2, 3, 4.5]],
    "add": [-1, 256, 1.5, None],
    "thresh": [-1, 257, 1.5, None],
    "i": [-1, 1.5, None],
    "h": [-1, 1.5, None],
    "v": [None, [1, 2], math.inf],
    "quality": [0, 101, 1.5, None],
    "size": [0, (8, 8, 8), [], 2.5, 2**70],
    "output_size": [None, 0, (8, 8, 8), 2.5],
    "kernel_size": [None, 0, 4, -3, (3, 3, 3)],
    "permutation": [None, [0, 1], [0, 1, 3]],
    "startpoints": [None, CORNERS[:3], [1, 2, 3, 4], [(0, 0)] * 3 + [(0,)]],
    "endpoints": [None, CORNERS * 2, [(0, 0)] * 4],
    "hflip": FLAGS,
    "expand": FLAGS,
    "inplace": [*FLAGS, True],
    "mode": [None, 3, "quick"],
    "limits": [5, [1], {"max_pxels": 1}, {"max_pixels": 0}, {"max_scans": True}],
    "transform": [5, None, [5], hr.transforms.CenterCrop(8), {"name": "CenterCrop", "size": 8}],
    "seed": [-1, 1.5, None, 2**64, True],
}


def call(function: str, **changed: Any) -> Any:
    asked = getattr(hr.functional, function)
    first = next(iter(inspect.signature(asked).parameters))
    value = {"img": IMAGE, "data": jpeg(16, 16), "label": hr.transforms.Boxes()}
    value = (value | {"size": (20, 30)})[first]
    return asked(**{first: value, **FUNCTIONS[function], **changed})


def parameters(function: str) -> list[str]:
    return list(inspect.signature(getattr(hr.functional, function)).parameters)


def test_this_file_calls_every_function_on_an_image_with_all_its_arguments() -> None:
    assert set(FUNCTIONS) == set(hr.functional.__all__)
    for function, good in FUNCTIONS.items():
        assert parameters(function)[1:] == list(good)
        assert call(function) is not None


@pytest.mark.parametrize(
    ("function", "name"), [(each, name) for each in FUNCTIONS for name in parameters(each)]
)
@pytest.mark.every(3)
def test_a_wrong_argument_of_a_function_is_refused_with_its_name(function: str, name: str) -> None:
    for value in [*WRONG, *ALSO_WRONG.get(name, [])]:
        if name == "data" and isinstance(value, bytes):
            continue  # of the right type; tests/faults tests its content
        if function == "resize" and name == "size" and isinstance(value, tuple):
            continue
        refused(call, {"function": function, name: value}, name)


# A number in between would be a valid size that takes gigabytes.
SMALL_OR_ABSURD = st.one_of(st.integers(-(2**70), 64), st.integers(2**16, 2**70))
WHATEVER = st.one_of(
    st.none(),
    st.booleans(),
    SMALL_OR_ABSURD,
    st.floats(max_value=64) | st.floats(min_value=2**16),
    st.text(max_size=8),
    st.binary(max_size=8),
    st.lists(st.one_of(st.none(), SMALL_OR_ABSURD, st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just(np.zeros((2, 2))),
    st.just(np.float16(1)),
    st.builds(object),
)


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), value=WHATEVER)
def test_a_function_takes_any_value_of_an_argument_or_refuses_it_by_name(
    data: st.DataObject, value: Any
) -> None:
    function = data.draw(st.sampled_from(sorted(FUNCTIONS)))
    name = data.draw(st.sampled_from(parameters(function)))
    try:
        call(function, **{name: value})
    except errors.ArgumentError as failure:
        said = str(failure)
        assert name in said
    except (errors.BadImageError, errors.TruncatedError, errors.UnsupportedError):
        assert name == "data"
    except errors.LimitError:
        assert name == "limits"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(set(CASES["Loader"]) - {"dataset"})), value=WHATEVER)
def test_a_loader_takes_any_value_of_an_argument_or_refuses_it_by_name(
    packed: Path, name: str, value: Any
) -> None:
    arguments = {"transform": [hr.transforms.CenterCrop(8)], "output": "numpy", "num_threads": 1}
    try:
        hr.Loader(packed, **{**arguments, name: value}).close()
    except errors.ArgumentError as failure:
        said = str(failure)
        assert name in said
    except (errors.UnsupportedError, errors.MemoryShortError):
        assert name in ("device", "batch_size")


def test_an_error_message_has_the_whole_name_also_if_it_contains_a_nul(folder: Path) -> None:
    for wrong in ({"name": "\0Crop"}, {"name": "CenterCrop", "size": 8, "\0size": 8}):
        with pytest.raises(errors.ArgumentError, match=r"\\x00|\\u0000") as caught:
            hr.Loader(folder, transform=[wrong])
        assert "expected" in str(caught.value)


@pytest.mark.parametrize("transform", ["CenterCrop", {"op": "CenterCrop"}, 224])
def test_what_is_no_list_of_transforms_is_refused_by_an_error_that_shows_such_a_list(
    packed: Path, transform: Any
) -> None:
    with pytest.raises(errors.ArgumentTypeError) as caught:
        hr.Loader(packed, 2, transform=transform)
    assert "a list, as [headrace.transforms.CenterCrop(224)], was expected" in str(caught.value)


def test_a_transform_of_torchvision_is_refused_by_an_error_with_its_translation(
    packed: Path,
) -> None:
    for transform in (v1.CenterCrop(8), v1.Compose([v1.CenterCrop(8)]), [v1.CenterCrop(8)]):
        with pytest.raises(errors.ArgumentTypeError) as caught:
            hr.Loader(packed, 2, transform=transform)
        cure = r"\*\*headrace\.from_torchvision\(transform\)\.keywords translates torchvision's"
        assert re.search(cure, str(caught.value))
    with hr.Loader(packed, 2, **hr.from_torchvision(v1.CenterCrop(8)).keywords) as loader:
        assert next(iter(loader))[0].shape == (2, 3, 8, 8)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("headrace.Dataloader", "Did you mean: 'DataLoader'?"),
        ("headrace.transforms.RandomCorp(8)", "Did you mean: 'RandomCrop'?"),
        ("headrace.transforms.ToTensor()", "from_torchvision translates torchvision's transforms"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_one_that_may_be_meant(code: str, words: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import headrace\nheadrace.transforms\n{code}"],
        capture_output=True,
        text=True,
    )
    assert "AttributeError: module 'headrace" in run.stderr
    assert words in run.stderr
