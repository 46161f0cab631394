"""Trials of ``headrace.doctor`` respect the given transforms and labels, or are not reported."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import errors
from headrace import transforms as t
from headrace._doctor import bounded, cures, remedies, stages
from images import jpeg, write_tree

NORMALISED = [t.RandomResizedCrop(64), t.Normalize((0.5,) * 3, (0.5,) * 3)]
OF_FLOATS = [t.RandomErasing(p=1.0, value="random"), t.MixUp(num_classes=2)]
PACKED = {"kind": "packed", "progressive": 0.0, "png": 0.0, "seek_points": 1.0}


@pytest.fixture(scope="module")
def boxed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("boxed") / "set"
    fields = [{"name": "boxes", "type": "array", "dtype": "float32", "shape": [1, 4]}]
    with hr.Writer(made, fields=fields) as writer:
        for n in range(40):
            box = np.array([[10, 10, 90, 70]], np.float32)
            writer.add(jpeg(120, 90), label=0, key=f"{n}", boxes=box)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("last", OF_FLOATS, ids=lambda step: type(step).__name__)
def test_uint8_output_is_no_remedy_for_transforms_that_take_only_floats(last: Any) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (8, 90, 90, 3), np.uint8)
    clocks = bounded.Clock(60.0), bounded.Clock(60.0)
    machine = {"cores_allowed": 2, "cores_usable": 2, "cores_of_machine": 2}
    facts: dict[str, Any] = {"images": PACKED, "side": None, "decoding": {"all": {"threads": 2}}}
    facts["machine"] = machine | {"cores_others": 0.0, "cores_own": 2.0}
    stages: dict[str, float | None] = {"decoding": 1.0, "delivery": 1e9}
    with hr.Dataset.from_arrays(pixels, labels=np.zeros(8, np.int64)) as dataset:

        def told(transform: list[Any]) -> list[str]:
            steps = [step.to_dict() for step in transform]
            trials = remedies.Trials(dataset, list(range(8)), 4, steps, clocks, {})
            found = remedies._of_decoding(trials, facts, stages, steps, {"mode": "fast"})
            assert trials.failed == []
            return [one["text"] for one in found if one is not None]

        assert told([*NORMALISED, last]) == []
        assert set(told(NORMALISED)) <= {'dtype="uint8", and normalising on the GPU'}


@pytest.mark.parametrize("last", [None, *OF_FLOATS], ids=lambda step: type(step).__name__)
def test_uint8_output_is_a_remedy_for_the_copy_if_the_transforms_take_bytes(last: Any) -> None:
    steps = [step.to_dict() for step in [*NORMALISED, last] if step is not None]
    clocks = bounded.Clock(60.0), bounded.Clock(60.0)
    with hr.Dataset.from_arrays(np.zeros((4, 90, 90, 3), np.uint8)) as dataset:
        trials = remedies.Trials(dataset, [0, 1, 2, 3], 4, steps, clocks, {})
        told = remedies._of_copy(trials, {"copy": 100.0, "decoding": 1e9}, steps, {})
    assert (told and told["images_per_second"]) == (400 if last is None else None)


def test_a_larger_batch_that_does_not_fit_in_memory_is_no_remedy() -> None:
    clocks = bounded.Clock(60.0), bounded.Clock(60.0)
    with hr.Dataset.from_arrays(np.zeros((4, 8, 8, 3), np.uint8)) as dataset:
        trials = remedies.Trials(dataset, [0, 1, 2, 3], 1, [], clocks, {})

        def too_large() -> None:
            hr.Loader(dataset, 10**11, transform=[t.CenterCrop(224)], output="numpy")

        assert trials.tried("a batch", too_large) is None
    assert trials.failed == []


def test_a_trial_that_fails_because_of_its_images_fails_the_diagnosis(tmp_path: Path) -> None:
    clocks = bounded.Clock(60.0), bounded.Clock(60.0)
    with hr.Dataset.from_arrays(np.zeros((4, 8, 8, 3), np.uint8)) as dataset:
        trials = remedies.Trials(dataset, [0, 1, 2, 3], 1, [], clocks, {})

        def missing() -> None:
            (tmp_path / "no").mkdir()
            hr.Dataset(tmp_path / "no")

        with pytest.raises(errors.EmptyDatasetError):
            trials.tried("a folder", missing)


def test_a_loaders_dataset_is_measured_with_its_labels(boxed: Path) -> None:
    transform = [t.RandomIoUCrop(), t.Resize((32, 32)), t.Normalize((0.5,) * 3, (0.5,) * 3)]
    words: dict[str, Any] = {"labels": {"boxes": t.Boxes()}, "output": "numpy"}
    with hr.Loader(boxed, 8, transform=transform, **words) as loader:
        known = cures._recipe(loader)
        assert known is not None
        dataset, steps, options, batch_size = known
        asked = {"rate": 1e12, "batch_size": batch_size, "size": 0}
        answer = stages.of_dataset(dataset, asked, steps, 1.0, options)
    assert answer["measured"]["decoding"]
    assert answer["measured"]["side"] == 32


def test_forms_of_packing_are_not_tried_with_labels_because_copies_have_none(boxed: Path) -> None:
    clocks = bounded.Clock(60.0), bounded.Clock(60.0)
    with hr.Dataset(boxed) as dataset:
        options = {"labels": {"boxes": t.Boxes()}}
        trials = remedies.Trials(dataset, [0, 1], 1, [], clocks, options)
        assert trials.forms({"pack": {}}) == {}
    assert trials.failed == [
        "headrace pack was not tried: it is tried on copies of images, which have no labels that "
        "move with them"
    ]


def test_packing_is_not_advised_for_packed_images_that_are_no_jpegs() -> None:
    for points, forms in ((1.0, {}), (None, {}), (0.0, {"pack": {}})):
        known = PACKED | {"seek_points": points, "shorter_side": 64}
        assert remedies._forms({"images": known, "side": 64}) == forms


@pytest.mark.slow
def test_a_trial_warns_of_nothing_in_the_copies_that_it_packs(tmp_path: Path) -> None:
    files = {f"a/{n}.jpg": jpeg(64, 48) if n % 4 else b"no image" for n in range(40)}
    root = write_tree(tmp_path / "photos", files)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hr.doctor(root, transform=NORMALISED[:1], seconds=4)
        hr.plan(root, rate=100)
    assert any("damaged or unsupported images" in note for note in found.notes)


def test_packing_is_advised_for_arrays_in_files_but_not_for_arrays_in_memory() -> None:
    facts: dict[str, Any] = {"side": None}
    for kind, forms in (("memory", []), ("arrays", ["pack"]), ("listed", ["pack"])):
        facts["images"] = PACKED | {"kind": kind, "seek_points": None}
        assert list(remedies._forms(facts)) == forms
