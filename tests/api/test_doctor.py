"""``headrace.doctor``: verdicts and arithmetic. No test checks what a machine measures."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import tarfile
import time
from collections import UserDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from torch.utils import data

import headrace as hr
from headrace import errors
from headrace._command import cli
from headrace._doctor import choosing, images, machine, remedies, verdict
from images import jpeg, png, write_tree

CROP = [hr.transforms.RandomResizedCrop(32)]
NOT_MEASURED = {"copy": None, "training": None}


def test_the_limit_is_the_slowest_stage() -> None:
    stages = {"storage": 4000.0, "decoding": 3250.0, "delivery": 90000.0, **NOT_MEASURED}
    assert verdict.limit(stages, None) == ("decoding", 3250)
    assert verdict.limit(stages, 5885) == ("decoding", 3250)
    assert verdict.limit({**stages, "storage": 100.0}, 5885) == ("storage", 100)
    assert verdict.limit({**stages, "training": 99.0}, 5885) == ("training", 99)


def test_there_is_no_limit_if_the_slowest_stage_reaches_the_requested_rate() -> None:
    stages = {"storage": 4000.0, "decoding": 3250.0, **NOT_MEASURED}
    assert verdict.limit(stages, 3250) == ("none", 3250)


def test_of_equally_slow_stages_the_one_nearest_to_the_training_is_the_limit() -> None:
    assert verdict.limit({"storage": 5.0, "decoding": 5.0}, None)[0] == "decoding"


def test_a_remedy_gains_no_more_than_the_next_slowest_stage_allows() -> None:
    stages = {"storage": 2000.06, "decoding": 1000.0, **NOT_MEASURED}
    told = verdict.remedy("more cores", stages, {"decoding": 9000.0}, False)
    assert told is not None
    assert (told["gain"], told["images_per_second"]) == (2000.06 / 1000, 2000.06)
    assert verdict.remedy("a faster disk", stages, {"storage": 9000.0}, False) is None


def test_storage_half_in_memory_has_the_harmonic_mean_of_both_rates() -> None:
    assert verdict.from_storage(0.5, 100, 300) == pytest.approx(150)
    assert verdict.from_storage(0.0, 100, 300) == 100
    assert verdict.from_storage(1.0, 100, 300) == 300
    assert verdict.from_storage(None, 100, 300) == 100  # the cached share is unknown
    assert verdict.from_storage(0.5, None, 300) == 300


def test_smaller_reads_still_wait_as_long_for_their_first_byte() -> None:
    assert verdict.smaller_reads(100, 1000, 1.0) == pytest.approx(100)
    assert verdict.smaller_reads(100, 1000, 0.0) == pytest.approx(1000)
    assert verdict.smaller_reads(100, 1000, 0.5) == pytest.approx(1 / (0.001 + 0.0045))
    assert verdict.smaller_reads(100, None, 0.5) == 100


def test_files_of_a_tenth_of_the_bytes_are_read_ten_times_as_fast_from_memory() -> None:
    warm, cold = {"images_per_second": 100.0}, {"images_per_second": 10.0}
    cold["head_images_per_second"] = 10.0  # a read is nothing but waiting
    facts = {"storage": {"cached_share": 1.0, "cold": cold, "warm": warm}}
    assert remedies._read(facts, 0.1) == pytest.approx(1000)
    facts["storage"]["cached_share"] = 0.0
    assert remedies._read(facts, 0.1) == pytest.approx(10)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (jpeg(64, 48), ("jpeg", "baseline", 64, 48)),
        (jpeg(64, 48, flags=("progressive",)), ("jpeg", "progressive", 64, 48)),
        (png(20, 30, 2), ("png", "unknown", 20, 30)),
        (b"\xff\xd8\xff\xe0\x00\x00" * 3, ("jpeg", "unknown", 0, 0)),
        (b"\xff\xd8" + b"\xff" * 99, ("jpeg", "unknown", 0, 0)),
        (b"", ("unknown", "unknown", 0, 0)),
    ],
)
def test_the_kind_of_an_image_is_read_from_its_first_bytes(data: bytes, said: Any) -> None:
    assert images.header(data) == said


def test_the_shares_of_costly_images_are_those_of_the_folder(tmp_path: Path) -> None:
    files = {f"a/{n}.jpg": jpeg(64, 48, flags=("progressive",) * (n < 3)) for n in range(6)}
    files |= {f"a/{n}.png": png(64, 48, 2) for n in range(6, 8)}
    with hr.Dataset(write_tree(tmp_path / "photos", files)) as dataset:
        found = images.look(dataset, choosing.places(dataset, list(range(8))))
    assert (found["progressive"], found["png"], found["shorter_side"]) == (3 / 8, 2 / 8, 48)


def test_samples_are_chosen_from_the_whole_dataset() -> None:
    assert choosing.numbers(3, 8) == [0, 1, 2]
    chosen = choosing.numbers(1_000_000, 100)
    assert chosen == choosing.numbers(1_000_000, 100)
    assert [number // 10_000 for number in chosen] == list(range(100))


def test_a_folders_diagnosis_comes_as_text_json_and_attributes(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["doctor", str(folder), "--seconds", "1", "--size", "32", "--rate"]
    cli.app([*asked, "0.001", "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert told["limit"] == "none"
    assert told["remedies"] == []
    assert {"limit", "measured", "asked", "remedies"} <= set(told)
    assert told["asked"]["rate"] == 0.001
    cli.app([*asked, "1e12"], standalone_mode=False)
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(("storage: ", "decoding: ", "delivery: "))
    assert "1,000,000,000,000 asked for" in first


@pytest.fixture(scope="module")
def two_columns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A WebDataset tar whose samples have two images, and labels with an unusual name."""
    path = tmp_path_factory.mktemp("columns") / "train.tar"
    with tarfile.open(path, "w") as tar:
        for number in range(12):
            parts = {"left.jpg": jpeg(64, 48), "right.jpg": jpeg(40, 30), "kind": b"%d" % number}
            for name, data in parts.items():
                member = tarfile.TarInfo(f"{number:03d}.{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return path


WORDS = ["--format", "webdataset", "--image", "right.jpg", "--label", "kind"]


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("doctor", ["--seconds", "1", "--size", "16", "--json"]),
        ("plan", ["--rate", "100", "--json"]),
        ("bench", ["--seconds", "0.1", "--size", "16", "--json"]),
        ("view", ["{tmp}/sheet.png", "--size", "16"]),
    ],
)
def test_every_command_opens_a_container_with_the_arguments_that_it_needs(
    two_columns: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    options: list[str],
) -> None:
    asked = [command, str(two_columns), *(text.format(tmp=tmp_path) for text in options)]
    with pytest.raises(errors.UnsupportedError, match="image= names it"):
        cli.app(asked, standalone_mode=False)
    cli.app([*asked, *WORDS], standalone_mode=False)
    told = capsys.readouterr().out
    if command == "doctor":
        assert json.loads(told)["measured"]["images"]["shorter_side"] == 30
    if command == "plan":
        assert json.loads(told)["asked"]["images"] == 12


def test_doctor_and_plan_take_an_open_dataset_and_leave_it_open(
    two_columns: Path,
) -> None:
    words: dict[str, Any] = {"image": "right.jpg", "label": "kind"}
    with hr.Dataset(two_columns, **words) as dataset:
        found = hr.doctor(dataset, rate=0.001, seconds=1, size=16)
        plan = hr.plan(dataset, rate=100)
        assert len(dataset[0].image) == 30
        for function in (hr.doctor, hr.plan):
            with pytest.raises(errors.ArgumentError, match=r"split='train' is for a path"):
                function(dataset, rate=1, split="train")
    assert (found.limit, found.measured["images"]["shorter_side"]) == ("none", 30)
    assert plan.asked["source"].startswith("Dataset(")
    assert dict(plan) == dict(hr.plan([two_columns], rate=100, **words)) | {"asked": plan.asked}


def test_arguments_for_a_dataset_are_refused_beside_a_loader() -> None:
    with pytest.raises(
        errors.ArgumentError, match=r"image='jpg' .* a loader, whose dataset is open"
    ):
        hr.doctor([np.zeros((4, 8))], lambda batch: None, image="jpg")
    with pytest.raises(errors.ArgumentError, match=r"root='/' is for a plan with a source"):
        hr.plan(rate=1, images=1, image_bytes=1, root="/")


def test_ending_other_programs_is_not_advised_if_a_cpu_quota_is_the_limit() -> None:
    found: dict[str, Any] = {"cores_allowed": 2, "cores_of_machine": 2, "cores_others": 1.0}
    found |= {"physical_cores_allowed": 2, "physical_cores": 2, "core_share": 0.5}
    stages: dict[str, float | None] = {"decoding": 1000.0, **NOT_MEASURED}

    def told(**changed: Any) -> list[str]:
        facts = {"machine": found | changed, "decoding": {"all": {"threads": 2}}}
        return [one["text"] for one in remedies._of_cores(facts, stages) if one is not None]

    quota = {"cpu_quota": 1.0, "cores_usable": 1.0}
    assert told(**quota, cores_own=1.0, cores_idle=0.0) == []
    assert told(**quota, cores_own=1.0, cores_idle=0.9) == [
        "allow this process 2 cores, 1.9 of which nobody else uses; it may use 1"
    ]
    assert told(cpu_quota=None, cores_usable=2, cores_own=1.0, cores_idle=0.0) == [
        "end the other programs, which keep 1.0 of 2 cores busy"
    ]


def test_ending_other_programs_gains_the_time_that_threads_waited_for_a_core() -> None:
    found: dict[str, Any] = {"cores_allowed": 2, "cores_of_machine": 2, "cores_others": 1.0}
    found |= {"physical_cores_allowed": 2, "physical_cores": 2, "cores_idle": 0.0}
    found |= {"cpu_quota": None, "cores_usable": 2, "cores_own": 0.5, "core_share": 0.8}
    facts = {"machine": found, "decoding": {"all": {"threads": 2}}}
    stages: dict[str, float | None] = {"decoding": 1000.0, **NOT_MEASURED}
    [remedy] = remedies._of_cores(facts, stages)
    assert remedy is not None
    assert remedy["images_per_second"] == 1250  # and not four times as many


def test_a_report_is_a_mapping_with_attributes_and_can_be_pickled(folder: Path) -> None:
    found = hr.doctor(folder, rate=0.001, seconds=1, size=32, transform="eval")
    assert found.limit == found["limit"] == dict(found)["limit"]
    assert str(pickle.loads(pickle.dumps(found))) == str(found)
    assert found._repr_html_().startswith("<pre>none: ")
    with pytest.raises(AttributeError, match="limits"):
        found.limits  # noqa: B018


def test_a_step_that_sleeps_is_the_limit_and_the_loaders_position_is_restored(
    packed: Path,
) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        next(iter(loader))
        stood = loader.state_dict()
        found = hr.doctor(loader, lambda batch: time.sleep(0.2), seconds=2)
        assert loader.state_dict() == stood
    assert found.limit == "training"
    assert found.measured["training"] <= 8 / 0.2
    assert found.measured["waiting_share"] < 0.05


def test_a_loaders_position_is_restored_also_if_the_step_fails(packed: Path) -> None:
    def step(batch: Any) -> None:
        raise RuntimeError("the step's own")

    with hr.Loader(packed, 4, transform=CROP, output="numpy") as loader:
        next(iter(loader))
        stood = loader.state_dict()
        with pytest.raises(RuntimeError, match="the step's own"):
            hr.doctor(loader, step, seconds=1)
        assert loader.state_dict() == stood


@pytest.mark.slow
def test_a_loader_whose_batch_fn_sleeps_is_the_limit_and_the_rate_without_it_is_told(
    packed: Path,
) -> None:
    def late(batch: Any) -> Any:
        time.sleep(0.1)
        return batch

    with hr.Loader(packed, 8, transform=CROP, output="numpy", batch_fn=late) as loader:
        found = hr.doctor(loader, lambda batch: None, seconds=2)
    assert found.limit == "delivery"
    assert found.measured["loader"] <= 8 / 0.1
    [remedy] = [one for one in found.remedies if "batch_fn" in one["text"]]
    assert remedy["images_per_second"] > 2 * found.measured["loader"]


@pytest.mark.slow
def test_a_loader_whose_images_python_makes_is_reported_and_counts_as_decoding() -> None:
    class Late(data.Dataset[Any]):
        def __len__(self) -> int:
            return 64

        def __getitem__(self, index: int) -> Any:
            time.sleep(0.01)
            return np.asarray(Image.open(io.BytesIO(jpeg(16, 16))))

    with contextlib.closing(hr.DataLoader(Late(), 8)) as loader:
        found = hr.doctor(loader, lambda batch: None, seconds=2)
    assert found.limit == "decoding"
    assert "does not say what it waits for" in str(found)
    assert any("loader.explain() says what it costs" in note for note in found.notes)


@pytest.mark.slow
def test_the_share_of_time_spent_waiting_for_data_is_divided_by_cause(packed: Path) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        found = hr.doctor(loader, lambda batch: None, seconds=2)
    shares = found.measured["waiting_for"]
    assert set(shares) <= {"storage", "decoding", "delivery"}
    assert sum(shares.values()) == pytest.approx(found.measured["waiting_share"], abs=0.02)
    assert f"{found.measured['waiting_share'] * 100:.0f} % of the training's time" in str(found)


@pytest.mark.slow
def test_with_a_step_remedies_promise_no_more_than_the_steps_rate(
    tmp_path: Path,
) -> None:
    files = {f"a/{n}.jpg": jpeg(400, 300, flags=("progressive",)) for n in range(32)}
    root = write_tree(tmp_path / "photos", files)
    with hr.Loader(root, 8, transform=CROP, output="numpy") as loader:
        found = hr.doctor(loader, lambda batch: time.sleep(0.001), seconds=4)
    assert found.limit == "decoding"
    told = {one["text"]: one for one in found.remedies}
    assert "headrace pack --baseline" in told
    for one in told.values():
        assert one["images_per_second"] <= found.measured["training"]
        came = found.measured["images_per_second"]
        assert one["gain"] == pytest.approx(one["images_per_second"] / came, abs=0.01)


def test_a_rate_that_the_training_reaches_has_no_limit(packed: Path) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        found = hr.doctor(loader, lambda batch: time.sleep(0.1), rate=1e-3, seconds=1)
    assert (found.limit, found.remedies) == ("none", [])


def test_batches_that_a_step_keeps_are_counted(packed: Path) -> None:
    kept: list[Any] = []
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        found = hr.doctor(loader, lambda batch: kept.append(batch[0]), seconds=1)
    assert found.measured["batches_kept"] > 4
    assert any("keeps batches" in note for note in found.notes)


def test_doctor_accepts_any_iterable_of_arrays_as_a_loader() -> None:
    batches = [{"image": np.zeros((4, 3, 8, 8)), "label": np.zeros(4)}] * 3
    found = hr.doctor(batches, lambda batch: time.sleep(0.05), seconds=1)
    assert found.limit == "training"
    assert found.measured["training"] <= 4 / 0.05


class Fresh:
    """A loader that makes each batch anew."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return (self._make() for _ in range(4))


@pytest.mark.parametrize(
    ("make", "take"),
    [
        (lambda: {"image": np.zeros((4, 3, 8, 8)), "label": np.zeros(4)}, lambda b: b.pop("image")),
        (lambda: UserDict(image=np.zeros((4, 3, 8, 8))), lambda b: b.pop("image")),
        (lambda: [np.zeros((4, 3, 8, 8)), np.zeros(4)], lambda b: b.clear()),
        (lambda: (np.zeros((4, 3, 8, 8)), {"label": np.zeros(4)}), lambda b: b[1].pop("label")),
    ],
)
def test_a_step_may_take_its_batch_apart(
    make: Callable[[], Any], take: Callable[[Any], Any]
) -> None:
    def step(batch: Any) -> None:
        take(batch)
        time.sleep(0.02)

    found = hr.doctor(Fresh(make), step, seconds=1)
    assert found.limit == "training"
    assert 0 < found.measured["training"] <= 4 / 0.02
    assert 0 < found.measured["images_per_second"] <= 4 / 0.02


def test_a_path_of_bytes_is_a_source_of_the_doctor_as_of_a_dataset(folder: Path) -> None:
    found = hr.doctor(os.fsencode(folder), seconds=1, transform=CROP, rate=0.001)
    assert found.limit == "none"


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"source": None}, "source=None is of type NoneType: a path or headrace.Dataset, or a lo"),
        ({"source": 5}, "source=5 is of type int: a path or headrace.Dataset, or a loader and its"),
        ({"rate": 0}, "rate"),
        ({"seconds": -1}, "seconds"),
        ({"batch_size": 0}, "batch_size"),
        ({"size": 0}, "size"),
        ({"transform": "trian"}, "transform"),
        ({"transform": [{"name": "Crop"}]}, "Crop"),
        ({"source": object()}, "step"),
        ({"source": iter([])}, "source is a loader .list_iterator., and its step is missing"),
        ({"source": [], "step": print}, "no batch"),
        ({"source": [3], "step": 3}, "step"),
        ({"source": [3], "step": lambda batch: None, "seconds": 1}, "no part has samples"),
    ],
)
def test_sources_that_cannot_be_diagnosed_are_refused(
    folder: Path, wrong: dict[str, Any], name: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=name):
        hr.doctor(**({"source": folder} | wrong))


def test_the_file_system_of_a_path_is_that_of_the_longest_matching_mount_point() -> None:
    assert machine.file_system("/proc/self/status") == "proc"
    assert machine.is_remote("nfs4")
    assert machine.is_remote("fuse.sshfs")
    assert not machine.is_remote("ext4")


@pytest.mark.slow
@pytest.mark.parametrize("with_a_step", [False, True])
def test_larger_batches_are_tried_if_delivery_of_tiny_images_is_the_limit(
    with_a_step: bool,
) -> None:
    crop = [hr.transforms.CenterCrop(8)]
    tiny = hr.Dataset.from_arrays(np.zeros((5_000, 8, 8, 3), np.uint8))
    if with_a_step:
        with hr.Loader(tiny, 1, transform=crop, output="numpy") as loader:
            found = hr.doctor(loader, lambda batch: None, seconds=2.0)
    else:
        found = hr.doctor(tiny, transform=crop, batch_size=1, rate=1e9, seconds=2.0)
    assert found.limit == "delivery"
    (told,) = [one for one in found.remedies if one["text"].startswith("batch_size=64: ")]
    assert told["measured"]
    assert told["gain"] > 4  # some 30; a larger batch spreads its fixed cost over 64 images
