"""What a diagnosis prints, what it gives to programs, and what it leaves unchanged."""

from __future__ import annotations

import io
import json
import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import Compose, RandomResizedCrop, ToTensor

import headrace as hr
from headrace import errors
from headrace._command import cli
from headrace._doctor import bounded, cures, phases, report, sentences, verdict
from images import jpeg, write_tree

PAGE = Path(__file__).parents[2] / "docs/doctor.md"
CROP = [hr.transforms.RandomResizedCrop(32)]
FIELD = re.compile(r"^\| `(\w+)` \| (dataset|step|both) \| .+ \|$", re.MULTILINE)


def documented(*kinds: str) -> set[str]:
    return {name for name, kind in FIELD.findall(PAGE.read_text()) if kind in kinds}


class Sorted(Dataset[Any]):
    """Images whose pixels are needed by the program's own code."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return torch.from_numpy(np.sort(np.asarray(Image.open(io.BytesIO(jpeg(16, 16)))), 0))


def no_number(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def test_the_json_of_a_diagnosis_is_as_documented(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["doctor", str(folder), "--seconds", "1", "--size", "32", "--rate", "1e12", "--json"]
    cli.app(asked, standalone_mode=False)
    told = json.loads(capsys.readouterr().out, parse_constant=no_number)
    assert set(told) == {"limit", "measured", "asked", "remedies", "notes"}
    assert told["limit"] in verdict.STAGES
    assert set(told["measured"]) == documented("both", "dataset")
    for remedy in told["remedies"]:
        assert set(remedy) == {"text", "gain", "images_per_second", "measured"}
        assert remedy["gain"] > 1


def test_a_diagnosis_with_a_step_has_the_documented_measurements(packed: Path) -> None:
    with hr.Loader(packed, 8, transform=CROP, output="numpy") as loader:
        found = hr.doctor(loader, lambda batch: time.sleep(0.05), seconds=1)
    assert set(found.measured) == documented("both", "step")
    json.loads(found.to_json(), parse_constant=no_number)


def test_the_report_says_what_more_simultaneous_reads_give() -> None:
    rates = {"1": 356.4, "8": 2411.0, "64": 9495.0}
    cold: dict[str, Any] = {"images_per_second": 9495.0, "megabytes_per_second": 1063.0}
    cold |= {"latency_p50_s": 0.0028, "how": "fadvise"}
    cold["depths"] = {depth: {"images_per_second": rate} for depth, rate in rates.items()}
    measured: dict[str, Any] = {"storage": 28000.0, "storage_cold": cold}
    measured |= {"storage_warm": {"images_per_second": 28809.0}, "cached_share": 0.99}
    lines = dict(sentences._figures(measured))
    assert lines["reads"] == "cold 356 images/s with 1 at once, 2,411 with 8, 9,495 with 64"
    cold["depths"] = {"1": {"images_per_second": 20.0}}
    assert "reads" not in dict(sentences._figures(measured))


def test_small_rates_and_short_times_are_not_rounded_to_nothing() -> None:
    rates = (5885.4, 10, 9.94, 3.42, 0.025, 0)
    assert [report.a_second(rate) for rate in rates] == ["5,885", "10", "9.9", "3.4", "0.025", "0"]
    assert [report.duration(seconds) for seconds in (0.03, 45, 218)] == [
        "30.0 ms",
        "45.0 s",
        "3.6 min",
    ]
    assert "0.025 a second for 1 GPU" in str(hr.plan(rate=0.025, images=1, image_bytes=1))


def test_a_diagnosis_that_could_measure_nothing_says_so() -> None:
    answer: dict[str, Any] = {"limit": "none", "asked": {"rate": None}, "remedies": [], "notes": []}
    answer["measured"] = {"images_per_second": 0.0}
    assert sentences.lines(answer)[0] == "none: no stage could be measured in this time"


@pytest.mark.slow
def test_a_diagnosis_writes_no_trace_but_a_diagnosed_loader_writes_its_own(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_TRACE", str(tmp_path / "run.json"))
    hr.doctor(folder, transform=CROP, seconds=1)
    assert list(tmp_path.iterdir()) == []
    with hr.Loader(folder, 8, transform=CROP, output="numpy") as loader:
        hr.doctor(loader, lambda batch: None, seconds=1)
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_a_recipe_is_read_from_a_file_and_a_wrong_file_is_named(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "recipe.json"
    steps = [{"name": "Resize", "size": 40}, {"name": "CenterCrop", "size": 24}]
    recipe.write_text(json.dumps(steps))
    asked = ["doctor", str(folder), "--seconds", "1.5", "--rate", "0.001", "--json"]
    asked += ["--transform", str(recipe)]
    cli.app(asked, standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    assert told["measured"]["side"] == 24
    assert told["asked"]["transform"] == str(recipe)
    assert told["asked"]["size"] is None  # that of a named recipe
    assert told["asked"]["seconds"] == 1.5  # also if starting the program took some of it
    for wrong, words in (
        ('[{"name": "Centre"}]', "Centre"),
        ("[", r"recipe\.json' is no JSON: Expecting value: line 1 column 2"),
        ('{"name": "Resize"}', r"the JSON of .*recipe\.json.* is of type dict: a list"),
        ("[" * 100_000, r"recipe\.json' is no JSON"),
    ):
        recipe.write_text(wrong)
        with pytest.raises(errors.ArgumentError, match=words):
            cli.app(asked, standalone_mode=False)
    recipe.unlink()
    with pytest.raises(errors.ArgumentError, match=r"recipe\.json.*no such file or directory"):
        cli.app(asked, standalone_mode=False)


@pytest.mark.slow
def test_a_warning_of_headraces_loader_when_tried_for_torchs_becomes_a_note() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hr.doctor(DataLoader(Sorted(), 8), lambda batch: None, seconds=1)
    assert any(note.startswith("headrace.DataLoader: ") for note in found.notes)


@pytest.mark.slow
def test_the_report_on_torchs_loader_says_what_changing_the_import_gains(tmp_path: Path) -> None:
    files = {f"a/{n}.jpg": jpeg(500, 375) for n in range(64)}
    compose = Compose([RandomResizedCrop(224), ToTensor()])
    photos = ImageFolder(str(write_tree(tmp_path / "photos", files)), compose)
    loader = DataLoader(photos, 16)
    now = phases.alone(loader, phases.Batches(loader), 1.0).rate
    # As in a report from an otherwise idle machine, on whose cores these two do not compete.
    bound = cures.Bound(cores=1e9, step_s=0.0, loader_s=0.0)
    training = cures.Training(loader, "decoding", now, now, 1e9, now, 0, bound)
    told, why = cures.find(training, 4.0, bounded.Clock(20.0), {"cores_usable": 2})
    assert why == []
    (remedy,) = told
    assert remedy["text"] == "from headrace import DataLoader, in the place of torch's"
    assert remedy["measured"]
    assert remedy["images_per_second"] == pytest.approx(remedy["gain"] * now)
