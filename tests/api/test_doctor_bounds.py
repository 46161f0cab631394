"""``headrace.doctor`` over datasets that are tiny, damaged or slow, and over what is no dataset."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace import errors
from headrace._doctor import bounded, choosing, loading, storage
from images import jpeg, write_tree

QUICK: dict[str, Any] = {"seconds": 0.2, "size": 16}


def test_work_that_waits_ends_with_its_time_and_gives_what_was_come_to() -> None:
    done: list[int] = []

    def wait(number: int) -> int:
        time.sleep(0.05)
        done.append(number)
        return -number

    began = time.perf_counter()
    found = bounded.each(range(10_000), wait, 0.2, 4)
    assert time.perf_counter() - began < 250  # all of them would take 125 s in four threads
    assert 0 < len(found) < 10_000
    assert sorted(item for item, _ in found) == sorted(done)
    assert all(answer == -item for item, answer in found)


def test_work_without_any_time_is_done_once() -> None:
    assert bounded.each([7, 8, 9], lambda item: item + 1, 0.0) == [(7, 8)]
    assert bounded.each([], abs, 1.0) == []


def test_work_is_done_by_several_at_once() -> None:
    both = threading.Barrier(2)
    found = bounded.each([1, 2], lambda item: both.wait(60) >= 0, 60.0)
    assert found == [(1, True), (2, True)]


@pytest.mark.parametrize("count", [1, 3])
def test_a_dataset_of_fewer_samples_than_a_batch_is_diagnosed(tmp_path: Path, count: int) -> None:
    files = {f"a/{n}.jpg": jpeg(40, 30) for n in range(count)}
    found = hr.doctor(write_tree(tmp_path / "few", files), batch_size=100_000, **QUICK)
    assert found.limit in ("storage", "decoding", "delivery")
    assert found.measured["images"]["looked_at"] == count


def test_of_samples_that_are_no_good_images_the_share_is_told(tmp_path: Path) -> None:
    files = {f"a/{n}.jpg": jpeg(40, 30)[: 200 if n % 2 else None] for n in range(16)}
    found = hr.doctor(write_tree(tmp_path / "half", files), **QUICK)
    assert any("% of the samples are no good images" in note for note in found.notes)


@pytest.mark.parametrize(
    ("files", "kind", "words"),
    [
        ({}, errors.HeadraceError, "couldn't find any class folder"),
        ({"a/notes.txt": b"nothing"}, errors.EmptyDatasetError, "no valid file"),
        ({f"a/{n}.jpg": b"" for n in range(40)}, errors.HeadraceError, "it is empty"),
    ],
)
def test_what_has_no_good_image_is_an_error_of_one_sentence(
    tmp_path: Path, files: dict[str, bytes], kind: type[Exception], words: str
) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    write_tree(folder, files)
    with pytest.raises(kind, match=words):
        hr.doctor(folder, **QUICK)
    with pytest.raises(errors.MissingFileError, match="no such file"):
        hr.doctor(tmp_path / "nowhere", **QUICK)


def test_a_store_that_keeps_nothing_in_memory_is_decoded_from_copies(packed: Path) -> None:
    slow = {"images_per_second": 10.0}
    facts = {"storage": {"warm": slow, "at_once": 4}, "images": {"seek_points": 1.0}}
    with hr.Dataset(packed) as dataset:
        places = choosing.places(dataset, list(range(24)))
        with loading.at_hand(dataset, list(range(24)), places, facts, 60.0) as (near, numbers):
            assert near is not dataset
            assert len(numbers) == len(near) == 24
            copied = {bytes(near.read(number)) for number in numbers}
            folder = Path(near.facts(0)["path"])
        assert copied == {bytes(dataset.read(number)) for number in range(24)}
        assert not folder.exists()
        slow["images_per_second"] = 1000.0
        with loading.at_hand(dataset, list(range(24)), places, facts, 60.0) as (near, numbers):
            assert near is dataset
            assert numbers == list(range(24))


def test_a_slow_disk_is_not_asked_for_more_at_once_where_that_brings_nothing() -> None:
    def parts(*rates: float) -> dict[int, dict[str, Any]]:
        return {
            depth: {"images_per_second": rate} for depth, rate in zip((1, 8), rates, strict=False)
        }

    assert storage._gains_nothing(parts(9.0, 10.0))
    assert not storage._gains_nothing(parts(9.0, 70.0))
    assert not storage._gains_nothing(parts(5000.0, 5000.0))
    assert not storage._gains_nothing(parts(9.0))
