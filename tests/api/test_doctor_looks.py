"""Costly things that ``headrace.doctor`` looks at, each reported in a note."""

from __future__ import annotations

import os
import time
from collections import UserDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import headrace as hr
from headrace import errors
from headrace._doctor import ages, choosing, cures, images, machine, phases, sentences, stages
from images import jpeg, plain_tree, png, write_tree

GIB = 1 << 30
MACHINE: dict[str, Any] = {
    "cores_allowed": 8,
    "cores_of_machine": 8,
    "cores_usable": 8,
    "physical_cores_allowed": 8,
    "physical_cores": 8,
    "cpu_quota": None,
    "ranks_unsaid": None,
    "memory_available": 64 * GIB,
    "swap_used": 0,
    "huge_pages": "madvise",
    "shared_memory": 8 * GIB,
    "cores_others": 0.0,
    "cores_stolen": 0.0,
}
IMAGES: dict[str, Any] = {
    "looked_at": 200,
    "kind": "packed",
    "progressive": 0.0,
    "png": 0.0,
    "seek_points": 1.0,
    "shorter_side": 256,
}


@dataclass
class Sample:
    """A batch that is no tuple, list or mapping."""

    images: Any
    labels: Any


def test_a_machine_and_images_without_costly_facts_have_no_note() -> None:
    assert sentences.of_machine(MACHINE, 8) == []
    assert sentences._of_images(IMAGES, "ext4", 224) == []


@pytest.mark.parametrize(
    ("found", "threads", "words"),
    [
        ({"cpu_quota": 2.0, "cores_usable": 2.0}, 8, "8 threads decode, and 2 cores"),
        ({"cpu_quota": 2.0, "cores_usable": 2.0}, 2, "a CPU quota grants 2 cores"),
        ({"cores_allowed": 4}, 4, "this process may use 4 of 8 cores"),
        ({"physical_cores_allowed": 4}, 8, "8 cores are hyper-threads of 4"),
        ({"ranks_unsaid": "LOCAL_RANK=3"}, 8, "LOCAL_RANK=3 tells of several ranks"),
        ({"huge_pages": "never"}, 8, "transparent huge pages are off"),
        ({"swap_used": 3 << 20}, 8, "3.1 MB are swapped out"),
        ({"memory_available": GIB}, 8, "only 1.1 GB of memory are left"),
        ({"cores_others": 3.0}, 8, "other programs kept 3.0 of 8 cores busy"),
        ({"cores_stolen": 2.0}, 8, "the hypervisor took 2.0 cores away"),
        ({"cores_others": None}, 8, "the time was too short"),
    ],
)
def test_each_costly_fact_of_the_machine_has_a_note(
    found: dict[str, Any], threads: int, words: str
) -> None:
    notes = sentences.of_machine(MACHINE | found, threads)
    assert [words in note for note in notes].count(True) == 1
    assert len(notes) == 1 + (threads > 2 and "cpu_quota" in found)


@pytest.mark.parametrize(
    ("found", "file_system", "words"),
    [
        ({"progressive": 0.25}, "ext4", "25 % of 200 images are progressive"),
        ({"png": 1.0}, "ext4", "100 % of 200 images are PNG"),
        ({"seek_points": 0.0}, "ext4", "most JPEGs have no seek points"),
        ({"shorter_side": 2880}, "ext4", "the shorter side is 2,880 pixels, and 224 are taken"),
        ({}, "nfs4", "the images are on nfs4, behind a network"),
    ],
)
def test_each_costly_fact_of_the_images_has_a_note(
    found: dict[str, Any], file_system: str, words: str
) -> None:
    notes = sentences._of_images(IMAGES | found, file_system, 224)
    assert len(notes) == 1
    assert words in notes[0]


def test_image_sizes_are_compared_with_the_output_size_of_the_users_transform(
    tmp_path: Path,
) -> None:
    root = write_tree(tmp_path / "photos", {f"a/{n}.jpg": jpeg(400, 300) for n in range(4)})
    large = "shorter side is 300 pixels"
    for side, told in ((64, True), (280, False)):
        crop = [hr.transforms.RandomResizedCrop(side)]
        found = hr.doctor(root, transform=crop, rate=0.001, seconds=1)
        assert found.measured["side"] == side
        assert any(large in note for note in found.notes) == told


def test_only_jpegs_packed_without_seek_points_have_a_note(
    tmp_path: Path,
) -> None:
    root = plain_tree(tmp_path / "photos")
    for seek in (True, False):
        made = tmp_path / f"packed-{seek}"
        hr.pack(root, made, seek=seek)
        with hr.Dataset(made) as dataset:
            found = images.look(dataset, choosing.places(dataset, list(range(24))))
        said = sentences._of_images(found, "ext4", 224)
        assert (found["seek_points"] == 1.0) == seek
        assert any("no seek points" in note for note in said) != seek


def test_pngs_and_progressive_files_of_a_folder_are_counted_in_the_report(tmp_path: Path) -> None:
    files = {f"a/{n}.jpg": jpeg(40, 30, flags=("progressive",)) for n in range(2)}
    files |= {f"a/{n}.png": png(40, 30, 2) for n in range(2, 8)}
    found = hr.doctor(write_tree(tmp_path / "photos", files), rate=0.001, seconds=4, size=16)
    assert "25 % of 8 images are progressive" in found.notes
    assert "75 % of 8 images are PNG" in found.notes


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, None),
        ({"LOCAL_RANK": "0"}, None),
        ({"LOCAL_RANK": "1"}, "LOCAL_RANK=1"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}, None),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "two"}, "LOCAL_RANK=1"),
        ({"SLURM_NTASKS_PER_NODE": "4"}, "SLURM_NTASKS_PER_NODE=4"),
        ({"SLURM_NTASKS_PER_NODE": "1"}, None),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "OMPI_COMM_WORLD_LOCAL_SIZE=2"),
        ({"SLURM_LOCALID": "x"}, None),
    ],
)
def test_ranks_are_detected_without_local_world_size(
    environment: dict[str, str], said: str | None
) -> None:
    assert machine.ranks_unsaid(environment) == said


def test_ranks_without_local_world_size_are_noted_in_the_report(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("LOCAL_RANK", "3")
    found = hr.doctor(folder, rate=0.001, seconds=1, size=16)
    assert any("LOCAL_RANK=3 tells of several ranks" in note for note in found.notes)


def test_an_index_of_an_older_version_has_a_note(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hr.Dataset(packed) as dataset:
        for version in (hr.__version__, "0.0.1", "0.1"):
            assert sentences.of_index(ages.look(dataset, version)) == []
        monkeypatch.setattr(stages, "__version__", "99.0.0")
        found = hr.doctor(dataset, rate=0.001, seconds=1, size=16)
    writer = f"headrace {hr.__version__}"
    assert f"the index is of {writer}, an older version: pack it again" in found.notes


def test_a_folder_that_changed_since_it_was_indexed_has_a_note(tmp_path: Path) -> None:
    root = plain_tree(tmp_path / "photos")
    hr.index(root)
    with hr.Dataset(root) as dataset:
        assert ages.look(dataset, hr.__version__)["changed"] is None
        later = (root / "headrace.json").stat().st_mtime_ns + 10**9
        os.utime(root / "class1", ns=(later, later))
        found = ages.look(dataset, hr.__version__)
        report = hr.doctor(dataset, rate=0.001, seconds=1, size=16)
    assert found["changed"] == str(root / "class1")
    assert any("class1 has changed since the index was written" in one for one in report.notes)


def test_shared_memory_too_small_for_the_worker_processes_has_a_note() -> None:
    small = MACHINE | {"shared_memory": 64 << 20}
    assert sentences.of_workers(MACHINE, 8, 1 << 20) == []
    assert sentences.of_workers(small, 0, 0) == []
    (note,) = sentences.of_workers(small, 8, GIB)
    assert (
        "/dev/shm has 67.1 MB left, and the batches that 8 workers make ahead take 1.1 GB" in note
    )
    (note,) = sentences.of_workers(MACHINE, 64, 1 << 20)
    assert "64 worker processes share 8 cores" in note


@pytest.mark.slow
def test_a_note_on_torchs_loader_counts_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_shared_memory", lambda: 1000)
    data = TensorDataset(torch.zeros(64, 3, 8, 8), torch.zeros(64))
    found = hr.doctor(DataLoader(data, 8, num_workers=1), lambda batch: None, seconds=1)
    # Eight float32 images and labels, by one worker, two batches ahead.
    assert any(
        "/dev/shm has 1.0 kB left, and the batches that 1 workers make ahead take 12.4 kB" in note
        for note in found.notes
    )


def test_headraces_dataloader_reports_what_it_waits_for(folder: Path) -> None:
    crop = [hr.transforms.RandomResizedCrop(32)]
    loader = hr.DataLoader(hr.Dataset(folder), 8, transform=crop)
    found = hr.doctor(loader, lambda batch: None, seconds=1)
    loader.close()
    assert not any("does not say what it waits for" in note for note in found.notes)


def test_more_threads_than_cores_have_a_note_and_fewer_are_tried(packed: Path) -> None:
    crop = [hr.transforms.RandomResizedCrop(32)]
    many = 4 * len(os.sched_getaffinity(0))
    with hr.Loader(packed, 8, transform=crop, output="numpy", num_threads=many) as loader:
        found = hr.doctor(loader, lambda batch: None, seconds=1)
    assert any(f"{many} threads decode" in note for note in found.notes)
    assert set(found.measured["machine"]) >= {"cores_usable", "cores_idle", "cores_own"}


def test_batches_that_the_loader_itself_keeps_are_not_blamed_on_the_step() -> None:
    batches = [np.zeros((4, 3, 8, 8)) for _ in range(9)]
    found = hr.doctor(batches, lambda batch: None, seconds=1)
    assert found.measured["batches_kept"] == 0
    assert not any("keeps batches" in note for note in found.notes)


@pytest.mark.parametrize(
    ("batch", "count"),
    [
        ([np.zeros((3, 8, 9)), np.zeros((3, 8, 7))], 2),
        ((np.zeros((5, 3, 8, 8)), np.zeros(5)), 5),
        ({"image": [np.zeros((5, 3, 8, 8))]}, 5),
        (["a", "b"], 0),
        ([], 0),
        (UserDict(ids=["a"], pixels=np.zeros((5, 3, 8, 8))), 5),
        (Sample(np.zeros((5, 3, 8, 8)), np.zeros(5)), 5),
        (Sample, 0),
        # Samples from a loader that makes no batches:
        (np.zeros((3, 8, 9)), 1),
        ((np.zeros((3, 8, 9)), 1), 1),
        ([np.zeros((8, 9, 3)), torch.tensor(1)], 1),
        ({"image": np.zeros((3, 8, 9)), "target": {"boxes": np.zeros((3, 4))}}, 1),
        ((np.zeros((3, 8, 9)), np.zeros((1, 8, 9))), 1),
        # And batches whose images have no channels, or are sequences:
        ((np.zeros((4, 8, 9)), np.zeros(4)), 4),
        ((np.zeros((3, 8, 9)), [0, 1, 2]), 3),
        ((np.zeros((8, 9, 4)), np.zeros(8)), 8),
    ],
)
def test_samples_of_a_batch_are_counted_also_if_it_is_a_list_of_images(
    batch: Any, count: int
) -> None:
    assert phases.samples(batch) == count


class Unknown:
    """A batch whose parts cannot be told apart."""

    def __init__(self) -> None:
        self.images = np.zeros((4, 3, 8, 8))


def test_batches_that_cannot_be_counted_are_refused_before_the_step_is_called() -> None:
    called: list[Any] = []
    words = "batches of type Unknown in which no part has samples .expected tensors or arrays, or a"
    with pytest.raises(errors.ArgumentError, match=words):
        hr.doctor([Unknown()], called.append, seconds=1)
    assert called == []


def test_a_batch_that_is_a_mapping_other_than_a_dict_is_accepted() -> None:
    batches = [UserDict(pixel_values=np.zeros((4, 3, 8, 8)), labels=np.zeros(4))] * 3
    found = hr.doctor(batches, lambda batch: time.sleep(0.05), seconds=1)
    assert found.limit == "training"
    assert found.measured["training"] <= 4 / 0.05


@pytest.mark.parametrize(
    ("loader", "words"),
    [
        ((np.zeros((4, 8)) for _ in range(3)), "ended after 3 batches and does not begin again"),
        ("photos", "a loader, beside a step"),
        (3, "a loader, beside a step"),
    ],
)
def test_a_value_that_is_no_loader_is_refused_beside_a_step(loader: Any, words: str) -> None:
    with pytest.raises(errors.ArgumentError, match=words):
        hr.doctor(loader, lambda batch: None, seconds=60)


def test_step_and_loader_share_the_cores_that_other_programs_leave() -> None:
    bound = cures.Bound(cores=2.0, step_s=0.001, loader_s=0.003)
    assert bound.of(100.0) == 100.0
    assert bound.of(10_000.0) == 500.0
    assert bound.of(10_000.0, 0.0) == 2000.0
