"""``headrace.doctor`` where little was measured: it says so, and makes no verdict of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headrace as hr
from headrace._doctor import bounded, decoding, little, machine, sentences, storage, verdict
from images import jpeg, write_tree


def reads(rate: float, count: int) -> dict[str, Any]:
    return {"images_per_second": rate, "reads": count, "seconds": count / rate}


def facts(**changed: Any) -> dict[str, Any]:
    """What was measured with enough of everything, but for what is said."""
    every = {"decoded": 500, "seconds": 0.4} | changed.pop("every", {})
    read = {"cold": reads(5000, 500), "warm": reads(9000, 500), "cached_share": 0.0}
    how = {"all": every, "rounds": 12, "of": 300}
    return {
        "storage": {name: changed.pop(name, value) for name, value in read.items()},
        "decoding": how | changed,
    }


def test_a_rate_is_worth_something_of_many_images_or_of_a_time() -> None:
    assert little.enough(32, 0.0)
    assert little.enough(1, 0.05)
    assert not little.enough(31, 0.04)
    assert not little.enough(0, 60.0)


def test_what_was_measured_with_too_little_is_found_and_nothing_else_is() -> None:
    assert little.stages(facts(), None, 300) == {}
    assert little.stages(facts(cold=None, warm=None), None, 300) == {}
    assert little.stages(facts(rounds=2), None, 300) == {"delivery": "2 batches"}
    assert little.stages(facts(of=5), None, 300) == {"delivery": "5 images of 300"}
    assert little.stages(facts(of=5), None, 5) == {}  # which are all that there are
    few = little.stages(facts(every={"decoded": 1, "seconds": 0.002}), None, 300)
    assert few == {"decoding": "1 image in 2.0 ms", "delivery": "1 image in 2.0 ms"}
    store = {"decoded": 0, "seconds": 1.0}
    assert little.stages(facts(), store, 300) == {"storage": "no image in 1,000.0 ms"}


def test_of_storage_those_reads_decide_that_take_most_of_its_time() -> None:
    few = reads(9000, 9)
    assert little.stages(facts(warm=few), None, 300) == {}
    assert little.stages(facts(warm=few, cached_share=1.0), None, 300) == {
        "storage": "9 images in 1.0 ms"
    }
    assert little.stages(facts(cold=few, warm=few, cached_share=1.0), None, 300) != {}
    assert little.stages(facts(cold=reads(10, 9), warm=few, cached_share=0.5), None, 300) == {}


def test_a_stage_that_was_measured_with_too_little_is_no_verdict() -> None:
    stages: dict[str, float | None] = {"storage": 212.0, "decoding": 3930.0, "copy": None}
    counted = verdict.counting(stages, {"storage"})
    assert verdict.limit(counted, None) == ("decoding", 3930)
    # Unless there is nothing else to go by.
    assert verdict.counting(stages, {"storage", "decoding"}) == stages


def test_the_notes_say_what_each_stage_was_measured_with() -> None:
    found = {"storage": "1 image in 4.7 ms", "delivery": "no batch"}
    assert little.notes(found, {"storage": 212.0, "delivery": None}) == [
        "storage was measured with 1 image in 4.7 ms: too little for a verdict",
        "delivery was not measured: there was time for no batch",
    ]


def test_of_depths_one_that_a_few_reads_measured_is_not_the_best() -> None:
    assert max([reads(90_000, 2), reads(5000, 160)], key=storage._worth)["reads"] == 160


def test_the_one_read_of_a_folder_of_one_image_is_no_verdict(tmp_path: Path) -> None:
    found = hr.doctor(write_tree(tmp_path / "one", {"a/0.jpg": jpeg(40, 30)}), seconds=1, size=16)
    told = [note for note in found.notes if note.startswith("storage was measured with 1 image in")]
    # On a machine that is very busy it may last.
    quick = found.measured["storage_warm"]["seconds"] < 0.05
    if told:
        assert found.limit != "storage"
    assert told or not quick or found.measured["storage_cold"]["seconds"] >= 0.05


def test_in_no_time_nothing_is_decoded_and_no_rate_is_made_up(packed: Path) -> None:
    crop = [{"name": "CenterCrop", "size": 16}]
    with hr.Dataset(packed) as dataset:
        for _ in range(8):
            found = decoding.measure(dataset, [0, 1], 2, crop, 1e-9, bounded.Clock(60.0))
            assert (found["decoding"] is None) == (found["decoded"] == 0)
            assert found["decoding"] is None or found["decoding"] < 1e7


def test_a_time_too_short_for_the_kernels_clock_is_not_taken_for_a_missing_file() -> None:
    none = {"huge_pages": "always", "swap_used": 0, "cores_stolen": None, "ranks_unsaid": None}
    for _ in range(50):  # a tick of 10 ms may come in between
        found = machine.Others().end()
        if found["cores_others"] is None:
            break
    else:
        raise AssertionError("50 times a tick came")
    said = sentences.of_machine(machine.look() | none | found, 1)
    assert "what other programs take was not measured: the time was too short" in said
