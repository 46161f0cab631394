"""``headrace.plan``: what a training needs, checked with published arithmetic."""

from __future__ import annotations

import json
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
from headrace import errors
from headrace._command import cli
from headrace._doctor import caching
from images import plain_tree

IMAGENET = {"images": 1_281_167, "image_bytes": 113_044}


def test_four_gpus_of_1471_images_a_second_need_the_same_as_a_training_at_5885() -> None:
    plan = hr.plan(gpus=4, rate=1471.25, epochs=90, images_per_core=1647, **IMAGENET)
    assert plan.images_per_second == 5885
    assert plan.megabytes_per_second == pytest.approx(5885 * 0.113044)
    assert plan.iops == {"files": 5885, "shards": 5885, "shards_window": pytest.approx(367.8, 0.01)}
    assert plan.cores == 4  # 3.57
    assert plan.epoch_seconds == pytest.approx(217.7, 0.001)
    assert plan.total_seconds == pytest.approx(90 * 217.7, 0.001)
    assert plan.storage["files"] == 1_281_167 * 113_044
    assert plan.memory["batches"] == 4 * 4 * 256 * (3 * 224 * 224 * 4 + 16)


def test_the_planned_storage_rate_is_what_dell_computed_and_measured_for_four_v100() -> None:
    # Dell EMC Ready Solutions for AI, Deep Learning with NVIDIA, v1.0, page 25: ResNet-50 at 2,940
    # images/s on one node of four V100, images of 0.113 MB: 2,658 Mb/s computed, 2,680 measured.
    plan = hr.plan(gpus=4, rate=735, images=12_811_670, image_bytes=1_448_283_629_516 / 12_811_670)
    assert plan.images_per_second == 2940
    assert plan.megabytes_per_second * 8 == pytest.approx(2658, rel=0.001)
    assert plan.megabytes_per_second * 8 == pytest.approx(2680, rel=0.01)


def test_the_rate_may_be_given_as_seconds_of_a_step() -> None:
    by_step = hr.plan(gpus=2, step_seconds=0.128, batch_size=128, **IMAGENET)
    assert by_step.images_per_second == 2000
    assert dict(by_step) == dict(hr.plan(gpus=2, rate=1000, batch_size=128, **IMAGENET))


def test_a_plan_of_files_without_bytes_says_that_they_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(3):
        (tmp_path / "a" / f"{number}.jpg").touch()
    with pytest.raises(errors.ArgumentError, match=r"no sample of .* can be read"):
        hr.plan(tmp_path, rate=100)


def test_the_storage_of_each_form_is_computed_from_the_sources_own_images(packed: Path) -> None:
    plan = hr.plan(packed, rate=100)
    with hr.Dataset(packed) as dataset:
        lengths = [dataset.facts(index)["length"] for index in range(len(dataset))]
    assert plan.asked["images"] == 24
    assert plan.asked["image_bytes"] == pytest.approx(sum(lengths) / 24)
    assert plan.storage["files"] == sum(lengths)
    files = sum(file.stat().st_size for file in packed.iterdir())
    assert plan.storage["packed"] == pytest.approx(files, rel=0.02)
    assert plan.storage["raw"] > plan.storage["packed"]


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_an_lru_cache_answers_the_share_that_the_plan_says(
    share: float,
) -> None:
    count, draws = 2000, random.Random(1)
    cache: OrderedDict[int, None] = OrderedDict()
    found = 0
    for epoch in range(5):
        order = list(range(count))
        draws.shuffle(order)
        for sample in order:
            found += epoch > 0 and sample in cache
            cache[sample] = None
            cache.move_to_end(sample)
            if len(cache) > share * count:
                cache.popitem(last=False)
    assert found / (4 * count) == pytest.approx(caching.hits(share), abs=0.02)
    assert caching.share_for(caching.hits(share)) == pytest.approx(share)


def test_a_plan_comes_as_text_json_and_attributes(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["plan", "--gpus", "4", "--rate", "1471.25", "--images", "1281167"]
    asked += ["--image-bytes", "113044"]
    cli.app([*asked, "--json"], standalone_mode=False)
    told = json.loads(capsys.readouterr().out)
    plan = hr.plan(gpus=4, rate=1471.25, **IMAGENET)
    assert told == dict(plan)
    cli.app(asked, standalone_mode=False)
    assert capsys.readouterr().out == f"{plan}\n"
    assert "5,885" in str(plan)
    assert len(plan.assumed) == 2  # for each form and for a core


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({}, "rate"),
        ({"rate": 1, "step_seconds": 1}, "rate"),
        ({"rate": 0}, "rate"),
        ({"rate": "1"}, "rate"),
        ({"step_seconds": -1}, "step_seconds"),
        ({"rate": 1, "gpus": 0}, "gpus"),
        ({"rate": 1, "epochs": 1.5}, "epochs"),
        ({"rate": 1, "batch_size": 0}, "batch_size"),
        ({"rate": 1, "size": 0}, "size"),
        ({"rate": 1, "images": 0}, "images"),
        ({"rate": 1, "images": None}, "images"),
        ({"rate": 1, "image_bytes": -1}, "image_bytes"),
        ({"rate": 1, "images_per_core": 0}, "images_per_core"),
        ({"rate": 1e-320}, "rate=1e-320: at least 1e-09 images a second was expected"),
        ({"step_seconds": 1e300}, "a step that takes at least 1e-09 images a second"),
        ({"rate": 1e12, "image_bytes": 1e308}, "image_bytes=1e[+]308: a number from 0 to 1e[+]12"),
        ({"rate": 1, "images_per_core": 1e-320}, "images_per_core=1e-320: a number from 1e-09"),
        ({"rate": 1, "images": 10**20}, "images=10+: an int of 64 bits"),
    ],
)
def test_impossible_arguments_of_a_plan_are_refused_by_name(
    wrong: dict[str, Any], name: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=name):
        hr.plan(**(IMAGENET | wrong))


def test_the_largest_numbers_that_a_plan_takes_have_results_that_json_can_express() -> None:
    most = {"gpus": 2**63 - 1, "epochs": 2**63 - 1, "images": 2**63 - 1, "image_bytes": 1e12}
    for rate in (1e-9, 1e12):
        plan = hr.plan(rate=rate, images_per_core=1e-9, **most)
        json.loads(plan.to_json(), parse_constant=pytest.fail)


def test_a_plan_says_how_many_of_the_packed_images_do_not_decode(tmp_path: Path) -> None:
    folder = plain_tree(tmp_path / "images", 6, 1)
    assert "do not decode" not in str(hr.plan(folder, rate=1))
    for number in (1, 4):
        file = folder / "class0" / f"image000{number}.jpg"
        file.write_bytes(file.read_bytes()[:300])
    assert (
        "2 of these do not decode, and keep their size in every form"
        in hr.plan(folder, rate=1).assumed
    )


def test_a_plan_takes_either_a_source_or_the_number_and_bytes_of_images(packed: Path) -> None:
    with pytest.raises(errors.ArgumentError, match="images"):
        hr.plan(packed, rate=1, images=3)
    with pytest.raises(errors.ArgumentError, match=r"image_bytes=9\.0 is for a source whose"):
        hr.plan(packed, rate=1, image_bytes=9)


def test_a_plan_for_a_folder_whose_files_are_gone_names_the_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for number in range(3):
        (tmp_path / "a" / f"{number}.jpg").symlink_to(tmp_path / "nowhere.jpg")
    with pytest.raises(errors.MissingFileError, match=r"0\.jpg: .* no such file"):
        hr.plan(tmp_path, rate=1)


def test_a_source_without_files_is_planned_with_the_given_bytes_per_image() -> None:
    pixels = np.zeros((40, 8, 8, 3), np.uint8)
    with hr.Dataset.from_arrays(pixels) as dataset:
        with pytest.raises(errors.ArgumentError, match="give image_bytes="):
            hr.plan(dataset, rate=100)
        plan = hr.plan(dataset, rate=100, image_bytes=192)
    assert plan.storage["files"] == 40 * 192
    assert plan.megabytes_per_second == pytest.approx(100 * 192 / 1e6)
    assert any("300 photographs of ImageNet" in said for said in plan.assumed)
