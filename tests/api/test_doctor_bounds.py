"""``headrace.doctor`` over datasets that are tiny, damaged or slow, and over other sources."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import errors
from headrace._doctor import bounded, choosing, loading, remedies, storage
from images import jpeg, write_tree
from processes import run
from timing import within

QUICK: dict[str, Any] = {"seconds": 1, "size": 16}


def test_bounded_work_ends_in_time_and_returns_what_was_done() -> None:
    done: list[int] = []

    def wait(number: int) -> int:
        time.sleep(0.05)
        done.append(number)
        return -number

    began = time.perf_counter()
    found = bounded.each(range(10_000), wait, 0.2, 4)
    assert time.perf_counter() - began < 250  # all items would take 125 s in four threads
    assert 0 < len(found) < 10_000
    assert sorted(item for item, _ in found) == sorted(done)
    assert all(answer == -item for item, answer in found)


def test_bounded_work_with_no_time_does_one_item() -> None:
    assert bounded.each([7, 8, 9], lambda item: item + 1, 0.0) == [(7, 8)]
    assert bounded.each([], abs, 1.0) == []


def test_bounded_work_runs_in_several_threads_at_once() -> None:
    both = threading.Barrier(2)
    found = bounded.each([1, 2], lambda item: both.wait(60) >= 0, 60.0)
    assert found == [(1, True), (2, True)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_dataset_of_fewer_samples_than_a_batch_is_diagnosed(tmp_path: Path, count: int) -> None:
    files = {f"a/{n}.jpg": jpeg(40, 30) for n in range(count)}
    found = hr.doctor(write_tree(tmp_path / "few", files), batch_size=100_000, **QUICK)
    assert found.limit in ("storage", "decoding", "delivery")
    assert found.measured["images"]["looked_at"] == count
    assert found.asked["batch_size"] == 100_000
    images = f"{count} image{'s' * (count > 1)}"
    assert f"the dataset has {images}: batches of 100,000 have no more" in found.notes


@pytest.mark.parametrize(("count", "batch_size"), [(1, 16), (3, 3), (600, 1000)])
def test_a_larger_batch_is_tried_only_if_it_really_is_larger(count: int, batch_size: int) -> None:
    crop = [{"name": "CenterCrop", "size": 8}]
    stages: dict[str, float | None] = {"delivery": 1.0}  # any measured rate would be a gain
    clocks = bounded.Clock(60.0), bounded.Clock(60.0)
    with hr.Dataset.from_arrays(np.zeros((count, 8, 8, 3), np.uint8)) as dataset:
        chosen = list(range(count))
        trials = remedies.Trials(dataset, chosen, batch_size, crop, clocks, {})
        for size in {batch_size, count}:
            asked = {"batch_size": size}
            assert remedies._of_delivery(trials, dataset, chosen, stages, asked) is None
        larger = remedies._of_delivery(trials, dataset, chosen, stages, {"batch_size": 1})
        assert (larger is None) == (count == 1)


def test_the_report_has_the_share_of_damaged_or_unsupported_images(tmp_path: Path) -> None:
    files = {f"a/{n}.jpg": jpeg(40, 30)[: 200 if n % 2 else None] for n in range(16)}
    found = hr.doctor(write_tree(tmp_path / "half", files), **QUICK)
    assert any("% of the samples are damaged or unsupported images" in note for note in found.notes)


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        ({}, errors.HeadraceError, "couldn't find any class folder"),
        ({"a/notes.txt": b"nothing"}, errors.EmptyDatasetError, "no valid file"),
        ({f"a/{n}.jpg": b"" for n in range(40)}, errors.HeadraceError, "it is empty"),
    ],
)
def test_a_dataset_without_a_good_image_is_an_error_of_one_sentence(
    tmp_path: Path, files: dict[str, bytes], kind: type[Exception], words: str
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    write_tree(folder, files)
    with pytest.raises(kind, match=words):
        hr.doctor(folder, **QUICK)
    with pytest.raises(errors.MissingFileError, match="no such file"):
        hr.doctor(tmp_path / "nowhere", **QUICK)


SLEEPS_S = 1.0
FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int32] * 2, ctypes.c_size_t,
    ctypes.c_void_p, ctypes.c_uint64,
)  # fmt: skip


@FUNCTION
def sleeping(*_: Any) -> int:
    time.sleep(SLEEPS_S)
    return 0


def slowly() -> list[Any]:
    """A transform that uses no CPU and takes so long for each image that batches come late."""
    return [hr.transforms.Resize((9, 7)), hr.transforms.Native(sleeping)]


@pytest.mark.slow
def test_a_diagnosis_ends_within_twice_its_time_although_a_batch_takes_longer(packed: Path) -> None:
    def attempt() -> float:
        began = time.perf_counter()
        found = hr.doctor(packed, transform=slowly(), batch_size=64, seconds=5.0)
        took = time.perf_counter() - began
        # The rate of sleeping threads is known although no batch of 64 came.
        threads = found.measured["threads"]
        assert found.limit == "decoding"
        assert 0.3 * threads / SLEEPS_S < found.measured["decoding"] < 1.1 * threads / SLEEPS_S
        assert any("no time to try" in note for note in found.notes)
        assert found.measured["side"] is None
        assert not any("are taken" in note for note in found.notes)
        return took

    within(10.0, attempt, tries=2)


@pytest.mark.slow
def test_a_diagnosis_with_a_step_ends_within_twice_its_time_although_a_batch_takes_long(
    packed: Path,
) -> None:
    def attempt() -> float:
        with hr.Loader(
            packed, 1, transform=slowly(), output="numpy", num_threads=2, prefetch=1
        ) as loader:
            began = time.perf_counter()
            found = hr.doctor(loader, lambda batch: None, seconds=5.0)
            assert found.limit == "decoding"
            return time.perf_counter() - began

    within(10.0, attempt, tries=2)


def full(folder: Path, number: int) -> Callable[..., int]:
    """Path.write_bytes, which fails for files of copies."""
    write = Path.write_bytes

    def fail(path: Path, data: bytes) -> int:
        if folder in path.parents:
            write(path, data[:10])
            raise OSError(number, os.strerror(number), str(path))
        return write(path, data)

    return fail


def test_a_full_temporary_folder_leaves_out_the_trials_on_copies_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "files", {f"a/{n}.jpg": jpeg(40, 30) for n in range(8)})
    (tmp_path / "full").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "full"))
    monkeypatch.setattr(Path, "write_bytes", full(tmp_path / "full", errno.ENOSPC))
    said = (
        f"{tmp_path / 'full'}: no copy of an image can be kept for a while (no space left on "
        "device); TMPDIR names another folder"
    )
    with hr.Dataset(tmp_path / "files") as dataset:
        clocks = bounded.Clock(60), bounded.Clock(60)
        trials = remedies.Trials(dataset, list(range(8)), 4, [], clocks, {})
        assert trials.forms({"pack": {}}) == {}
        assert trials.failed == [f"headrace pack was not tried: {said}"]
        facts: dict[str, Any] = {"storage": {"warm": {"images_per_second": 1.0}, "at_once": 2}}
        chosen = list(range(8))
        with loading.at_hand(dataset, chosen, [], facts, 1.0, bounded.Clock(9)) as (near, _):
            assert near is dataset
        with pytest.raises(errors.SystemFailure) as caught:
            hr.plan(dataset, rate=1)
        assert str(caught.value) == said
        assert caught.value.errno == errno.ENOSPC
    assert list((tmp_path / "full").iterdir()) == []


def test_a_trial_pack_that_takes_too_long_is_ended_and_leaves_nothing(tmp_path: Path) -> None:
    write_tree(tmp_path / "files", {f"a/{n}.jpg": jpeg(40, 30) for n in range(8)})
    with pytest.raises(bounded.Over):
        choosing.packed(tmp_path, "late", bounded.Clock(0.0))
    assert [path.name for path in tmp_path.iterdir()] == ["files"]
    made = choosing.packed(tmp_path, "same", bounded.Clock(600.0))
    assert len(hr.Dataset(made)) == 8


def test_the_start_time_of_a_program_is_the_age_of_its_process() -> None:
    code = (
        "import time; time.sleep(0.3); from headrace._doctor import machine; print(machine.age())"
    )
    began = time.monotonic()
    age = float(run(code))
    assert 0.3 <= age <= time.monotonic() - began + 0.02  # a tick of the clock that measures it


def test_images_of_a_slow_store_are_decoded_from_local_copies(packed: Path) -> None:
    slow = {"images_per_second": 10.0}
    facts = {"storage": {"warm": slow, "at_once": 4}, "images": {"seek_points": 1.0}}
    most = 60.0, bounded.Clock(600.0)
    with hr.Dataset(packed) as dataset:
        places = choosing.places(dataset, list(range(24)))
        with loading.at_hand(dataset, list(range(24)), places, facts, *most) as (
            near,
            numbers,
        ):
            assert near is not dataset
            assert len(numbers) == len(near) == 24
            copied = {bytes(near.read(number)) for number in numbers}
            folder = Path(near.facts(0)["path"])
        assert copied == {bytes(dataset.read(number)) for number in range(24)}
        assert not folder.exists()
        slow["images_per_second"] = 1000.0
        with loading.at_hand(dataset, list(range(24)), places, facts, *most) as (
            near,
            numbers,
        ):
            assert near is dataset
            assert numbers == list(range(24))


def test_more_simultaneous_reads_are_not_tried_if_they_bring_nothing() -> None:
    def parts(*rates: float) -> dict[int, dict[str, Any]]:
        return {
            depth: {"images_per_second": rate} for depth, rate in zip((1, 8), rates, strict=False)
        }

    assert storage._gains_nothing(parts(9.0, 10.0))
    assert not storage._gains_nothing(parts(9.0, 70.0))
    assert not storage._gains_nothing(parts(5000.0, 5000.0))
    assert not storage._gains_nothing(parts(9.0))
