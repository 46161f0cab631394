"""Saved states of paired datasets: the second image resumes with the first, in every form."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import headrace as hr
import processes
from headrace import transforms as t

COUNT, SCALE = 29, 2
WORLDS = (1, 2, 3, 4, 8)
TURNS = t.RandomChoice([t.RandomRotation((angle, angle)) for angle in (0, 90, 180, 270)])
PATCHES = [t.RandomCrop(8), t.RandomHorizontalFlip(), TURNS]
ORDERS: dict[str, dict[str, Any]] = {
    "in order": {},
    "shuffled": {"shuffle": True},
    "user": {"sampler": [i * 5 % COUNT for i in range(COUNT)]},
}
# The field that holds the second image.
FORMS = {"folders": "target", "packed": "target", "columns": "hr", "masks": "mask"}
IMAGES = ("folders", "packed", "columns")


def png(pixels: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same pairs as two folders, as a packed dataset and as two columns of Parquet; and
    masks."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    found = tmp_path_factory.mktemp("pairs")
    noise = np.random.default_rng(7)
    columns: dict[str, list[bytes]] = {"lr": [], "hr": []}
    for number in range(COUNT):
        height, width = 12 + number % 5, 20 - number % 7
        for name, scale in (("lr", 1), ("hr", SCALE)):
            shape = (scale * height, scale * width, 3)
            data = png(noise.integers(0, 256, shape, dtype=np.uint8))
            (found / name).mkdir(exist_ok=True)
            (found / name / f"{number:03}.png").write_bytes(data)
            columns[name].append(data)
        classes = noise.integers(0, 21, (height, width), dtype=np.uint8)
        mask = Image.fromarray(classes, "P")
        mask.putpalette(bytes(range(63)))
        (found / "masks").mkdir(exist_ok=True)
        mask.save(found / "masks" / f"{number:03}.png")
    hr.pack(hr.Dataset.from_pairs(found / "lr", found / "hr"), found / "packed", shard_size="64KiB")
    parquet.write_table(arrow.table(columns), found / "pairs.parquet", compression="snappy")
    return found


def opened(root: Path, form: str) -> hr.Dataset:
    if form == "folders":
        return hr.Dataset.from_pairs(root / "lr", root / "hr")
    if form == "masks":
        return hr.Dataset.from_pairs(root / "lr", root / "masks", kind="mask")
    if form == "packed":
        return hr.Dataset(root / "packed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no column is a label
        return hr.Dataset(root / "pairs.parquet", image="lr")


def loader(root: Path, form: str, **options: Any) -> hr.Loader:
    labels = {FORMS[form]: t.Mask() if form == "masks" else t.Image(scale=SCALE)}
    settings = {"batch_size": 8, "seed": 3, "transform": PATCHES, "dtype": "uint8"}
    settings |= {"labels": labels, "num_threads": 1, "output": "numpy"}
    return hr.Loader(opened(root, form), **{**settings, **options})


def pairs(batches: Any) -> list[str]:
    """Each sample's two images, as one hash."""
    found = []
    for first, _, moved in batches:
        ((name, second),) = moved.items()
        scale = 1 if name == "mask" else SCALE
        assert second.shape[-2:] == tuple(scale * side for side in first.shape[-2:])
        found += [
            hashlib.sha256(one.tobytes() + other.tobytes()).hexdigest()
            for one, other in zip(first, second, strict=True)
        ]
    return found


@pytest.mark.parametrize("form", IMAGES)
def test_every_form_of_pairs_gives_the_same_pairs_in_the_same_order(root: Path, form: str) -> None:
    with loader(root, form, shuffle=True) as one, loader(root, "folders", shuffle=True) as other:
        found = pairs(one) + pairs(one)
        assert found == pairs(other) + pairs(other)
    assert len(set(found)) == 2 * COUNT  # each pair drawn anew in the second epoch


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("order", ORDERS)
def test_every_batch_boundary_of_pairs_can_be_resumed_with_anything_changed(
    root: Path, form: str, order: str
) -> None:
    options = ORDERS[order]
    with loader(root, form, **options) as whole:
        expected, following = pairs(whole), pairs(whole)
    changes = itertools.cycle(itertools.product((1, 3), (1, 4), (8, 5, 1)))
    with loader(root, form, batch_size=3, **options) as first:
        iterator = iter(first)
        found: list[str] = []
        while len(found) < len(expected):
            state = json.loads(json.dumps(first.state_dict()))
            assert state["position"] == len(found)
            threads, prefetch, batch_size = next(changes)
            changed = {"num_threads": threads, "prefetch": prefetch, "batch_size": batch_size}
            with loader(root, form, **changed, **options) as other:
                other.load_state_dict(state)
                assert found + pairs(other) == expected
            found += pairs([next(iterator)])
        with loader(root, form, **options) as other:
            other.load_state_dict(first.state_dict())
            assert pairs(other) == following


@pytest.mark.parametrize("form", FORMS)
def test_world_sizes_may_change_and_every_pair_comes_exactly_once(root: Path, form: str) -> None:
    with loader(root, form, shuffle=True) as whole:
        expected = pairs(whole)
    choose = random.Random(form)
    for _ in range(3):
        state: Any = None
        found: list[str] = []
        for change in range(5):
            world, batch_size = choose.choice(WORLDS), choose.randint(1, 3)
            steps, states = (1 if change < 4 else None), []
            for rank in range(world):
                part = {"rank": rank, "world_size": world, "batch_size": batch_size}
                with loader(root, form, shuffle=True, **part) as one:
                    if state is not None:
                        one.load_state_dict(state)
                        if state["epoch"]:  # the chain ended early
                            break
                    found += pairs(itertools.islice(one, steps))
                    states.append(one.state_dict())
            assert all(each == states[0] for each in states)
            state = states[0] if states else state
        assert sorted(found) == sorted(expected)


REST = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_pair_resume as test
with test.loader(Path(sys.argv[2]), sys.argv[3], shuffle=True, batch_size=7) as made:
    made.load_state_dict(json.loads(sys.argv[4]))
    print(json.dumps(test.pairs(made)))
"""


@pytest.mark.parametrize("form", FORMS)
def test_another_process_goes_on_with_the_same_pairs(root: Path, form: str) -> None:
    with loader(root, form, shuffle=True) as made:
        expected = pairs(made)
    with loader(root, form, shuffle=True) as made:
        found = pairs(itertools.islice(made, 2))
        state = json.dumps(made.state_dict())
    here = Path(__file__).parent
    assert found + json.loads(processes.run(REST, here, root, form, state)) == expected


def test_replaced_pairs_are_the_same_after_a_resume_at_every_batch(
    root: Path, tmp_path: Path
) -> None:
    """A substitute brings its own second image, with other threads and wherever a run begins."""
    for name in ("lr", "hr"):
        (tmp_path / name).mkdir()
        for file in (root / name).iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
    bad = {"lr": (4, 17), "hr": (5, 11, 23)}
    for name, numbers in bad.items():
        for number in numbers:
            file = tmp_path / name / f"{number:03}.png"
            file.write_bytes(file.read_bytes()[:60])
    options = {"shuffle": True, "on_error": "replace"}
    with (
        loader(tmp_path, "folders", **options) as whole,
        loader(root, "folders", shuffle=True) as good,
    ):
        expected = pairs(whole)
        assert len(expected) == COUNT
        reported = {(each["index"], each["substitute"]) for each in whole.report()}
        sound = pairs(good)
    faulty = {number for numbers in bad.values() for number in numbers}
    assert {index for index, _ in reported} == faulty
    assert not faulty & {substitute for _, substitute in reported}
    assert sum(one != other for one, other in zip(expected, sound, strict=True)) == len(faulty)
    with loader(tmp_path, "folders", batch_size=3, **options) as first:
        iterator = iter(first)
        found: list[str] = []
        while len(found) < COUNT:
            state = json.loads(json.dumps(first.state_dict()))
            with loader(tmp_path, "folders", batch_size=5, num_threads=3, **options) as other:
                other.load_state_dict(state)
                assert found + pairs(other) == expected
                again = {(each["index"], each["substitute"]) for each in other.report()}
                assert again <= reported
            found += pairs([next(iterator)])
