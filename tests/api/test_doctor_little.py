"""``headrace.doctor`` after too little measuring: it says so, and bases no verdict on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headrace as hr
from headrace._doctor import bounded, decoding, little, machine, sentences, storage, verdict
from images import jpeg, write_tree


def reads(rate: float, count: int) -> dict[str, Any]:
    return {"images_per_second": rate, "reads": count, "seconds": count / rate}


def facts(**changed: Any) -> dict[str, Any]:
    """Facts with enough measured of everything, apart from the given changes."""
    every = {"decoded": 500, "seconds": 0.4} | changed.pop("every", {})
    read = {"cold": reads(5000, 500), "warm": reads(9000, 500), "cached_share": 0.0}
    how = {"all": every, "rounds": 12, "of": 300}
    return {
        "storage": {name: changed.pop(name, value) for name, value in read.items()},
        "decoding": how | changed,
    }


def test_a_rate_is_trusted_if_many_images_or_enough_time_were_measured() -> None:
    assert little.enough(32, 0.0)
    assert little.enough(1, 0.05)
    assert not little.enough(31, 0.04)
    assert not little.enough(0, 60.0)


def test_exactly_the_stages_with_too_little_measuring_are_found() -> None:
    assert little.stages(facts(), None, 300) == {}
    assert little.stages(facts(cold=None, warm=None), None, 300) == {}
    assert little.stages(facts(rounds=2), None, 300) == {"delivery": "2 batches"}
    assert little.stages(facts(of=5), None, 300) == {"delivery": "5 images of 300"}
    assert little.stages(facts(of=5), None, 5) == {}  # all images that there are
    few = little.stages(facts(every={"decoded": 1, "seconds": 0.002}), None, 300)
    assert few == {"decoding": "1 image in 2.0 ms", "delivery": "1 image in 2.0 ms"}
    store = {"decoded": 0, "seconds": 1.0}
    assert little.stages(facts(), store, 300) == {"storage": "no image in 1,000.0 ms"}


def test_storage_is_judged_by_the_reads_that_take_most_of_its_time() -> None:
    few = reads(9000, 9)
    assert little.stages(facts(warm=few), None, 300) == {}
    assert little.stages(facts(warm=few, cached_share=1.0), None, 300) == {
        "storage": "9 images in 1.0 ms"
    }
    assert little.stages(facts(cold=few, warm=few, cached_share=1.0), None, 300) != {}
    assert little.stages(facts(cold=reads(10, 9), warm=few, cached_share=0.5), None, 300) == {}


def test_a_stage_with_too_little_measuring_is_not_called_the_limit() -> None:
    stages: dict[str, float | None] = {"storage": 212.0, "decoding": 3930.0, "copy": None}
    counted = verdict.counting(stages, {"storage"})
    assert verdict.limit(counted, None) == ("decoding", 3930)
    # Unless there is nothing else to go by.
    assert verdict.counting(stages, {"storage", "decoding"}) == stages


def test_the_notes_say_how_much_each_stage_was_measured_with() -> None:
    found = {"storage": "1 image in 4.7 ms", "delivery": "no batch"}
    assert little.notes(found, {"storage": 212.0, "delivery": None}) == [
        "storage was measured with 1 image in 4.7 ms: too little for a verdict",
        "delivery was not measured: there was time for no batch",
    ]


def test_a_read_depth_measured_with_few_reads_is_not_called_the_best() -> None:
    assert max([reads(90_000, 2), reads(5000, 160)], key=storage._worth)["reads"] == 160


def test_the_only_read_of_a_one_image_folder_decides_no_verdict(tmp_path: Path) -> None:
    found = hr.doctor(write_tree(tmp_path / "one", {"a/0.jpg": jpeg(40, 30)}), seconds=1, size=16)
    told = [note for note in found.notes if note.startswith("storage was measured with 1 image in")]
    # On a very busy machine the read may take long enough.
    quick = found.measured["storage_warm"]["seconds"] < 0.05
    if told:
        assert found.limit != "storage"
    assert told or not quick or found.measured["storage_cold"]["seconds"] >= 0.05


def test_without_time_to_decode_no_rate_is_invented(packed: Path) -> None:
    crop = [{"name": "CenterCrop", "size": 16}]
    with hr.Dataset(packed) as dataset:
        for _ in range(8):
            found = decoding.measure(dataset, [0, 1], 2, crop, 1e-9, bounded.Clock(60.0))
            assert (found["decoding"] is None) == (found["decoded"] == 0)
            assert found["decoding"] is None or found["decoding"] < 1e7


def test_a_time_too_short_for_the_kernels_clock_is_reported_as_such() -> None:
    none = {"huge_pages": "always", "swap_used": 0, "cores_stolen": None, "ranks_unsaid": None}
    for _ in range(50):  # a tick of 10 ms may fall in between
        found = machine.Others().end()
        if found["cores_others"] is None:
            break
    else:
        raise AssertionError("50 times a tick came")
    said = sentences.of_machine(machine.look() | none | found, 1)
    assert "what other programs take was not measured: the time was too short" in said


def test_reads_from_memory_slower_than_those_from_storage_are_called_disturbed() -> None:
    def notes(cold: float, warm: float) -> list[str]:
        return sentences.of_reads({"cold": reads(cold, 500), "warm": reads(warm, 500), "why": ""})

    assert notes(5000, 9000) == notes(5000, 4900) == []  # fast disks are about as fast
    (note,) = notes(9000, 5000)
    assert "other programs disturbed them" in note
    assert sentences.of_reads({"cold": None, "warm": reads(9000, 500), "why": "a reason"}) == [
        "a reason"
    ]
