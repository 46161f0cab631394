"""Making datasets: by pack and index, verified, and sample by sample."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import errors
from headrace.writing import parse_size
from images import jpeg, plain_tree

CROP = [{"name": "CenterCrop", "size": 16}]


def test_packing_says_what_it_wrote_and_reports_progress(folder: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, ...]] = []
    made = hr.pack(folder, tmp_path / "p", on_progress=lambda *now: seen.append(now))
    size = sum(path.stat().st_size for path in folder.rglob("*.jpg"))
    assert (made["rows"], made["bytes"], made["classes"]) == (24, size, 3)
    assert made["faults"] == {"total": 0, "listed": []}
    assert seen[-1] == (24, 24, size, 0)


def test_shards_have_the_requested_size(folder: Path, tmp_path: Path) -> None:
    assert hr.pack(folder, tmp_path / "one")["shards"] == 1
    assert hr.pack(folder, tmp_path / "few", shard_size="64KiB")["shards"] > 1
    with hr.Dataset(tmp_path / "one") as one, hr.Dataset(tmp_path / "few") as few:
        assert one.fingerprint == few.fingerprint


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_file_in_the_place_of_what_is_written_is_named_and_left(
    folder: Path, tmp_path: Path, below: str
) -> None:
    file = tmp_path / "notes.hr"
    file.write_text("mine")
    place = file / below
    hr.pack(folder, tmp_path / "packed.hr")
    shard = (tmp_path / "packed.hr" / "shard-00000.tar").rename(tmp_path / "a.tar")
    words = rf"the index is a directory, and the file {file} is in its place"
    with pytest.raises(errors.ArgumentError, match=words):
        hr.index(shard, out=place)
    with pytest.raises(errors.ArgumentError, match=words):
        hr.index(folder, index_dir=place)
    if below:
        with pytest.raises(
            errors.ArgumentError, match=f"above the destination is the file {file};"
        ):
            hr.pack(folder, place)
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "size"),
    [("256MB", 256_000_000), ("1 GiB", 2**30), ("1.5k", 1500), (77, 77), ("64", 64)],
)
def test_sizes_are_read_as_people_write_them(text: int | str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MB", "-1", "5 parsecs", 0, "0MB"])
def test_a_text_that_is_no_size_is_refused(text: int | str) -> None:
    with pytest.raises(errors.ArgumentError, match="size"):
        parse_size(text)


def test_packing_overwrites_an_existing_dataset_only_on_request(
    folder: Path, tmp_path: Path
) -> None:
    hr.pack(folder, tmp_path / "p")
    with pytest.raises(hr.HeadraceError, match=str(tmp_path / "p")):
        hr.pack(folder, tmp_path / "p")
    assert hr.pack(folder, tmp_path / "p", overwrite=True)["rows"] == 24


def test_an_interrupted_packing_leaves_nothing(tmp_path: Path) -> None:
    source = plain_tree(tmp_path / "source", 1, 1)
    [image] = source.rglob("*.jpg")
    for number in range(20000):  # seconds of work: more than a busy machine takes to say a word
        os.link(image, image.with_name(f"{number}.jpg"))

    def interrupt(*_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hr.pack(source, tmp_path / "p", on_progress=interrupt, num_threads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_an_index_makes_a_folder_a_verified_dataset_in_place(tmp_path: Path) -> None:
    source = plain_tree(tmp_path / "source", 6, 2)
    assert hr.index(source)["rows"] == 6
    with hr.Dataset(source) as dataset:
        assert dataset.kind == "indexed"
        assert dataset.facts(0)["verdict"] == "good"
    assert hr.verify(source)["ok"]
    [first, *_] = sorted(source.rglob("*.jpg"))
    first.write_bytes(first.read_bytes()[:-1] + b"\0")
    found = hr.verify(source)
    assert not found["ok"]
    assert {fault["file"] for fault in found["faults"]["listed"]} == {str(first)}


def test_manifests_of_files_are_packed_with_their_other_columns(
    folder: Path, tmp_path: Path
) -> None:
    rows = ["path,label,score,note"]
    files = sorted(folder.rglob("*.jpg"))[:3]
    rows += [f"{path},{number % 2},{number}.5,n{number}" for number, path in enumerate(files)]
    (tmp_path / "list.csv").write_text("\n".join(rows) + "\n")
    hr.pack(tmp_path / "list.csv", tmp_path / "p")
    with hr.Dataset(tmp_path / "p") as dataset:
        assert [sample.label for sample in dataset] == [0, 1, 0]
        assert dataset[2].fields["note"] == "n2"
        assert dataset[2].fields["score"] == 2.5


VALUES: dict[str, Any] = {
    "count": -5,
    "score": 0.25,
    "caption": 'ein "Kätzchen"\n\\',
    "mask": b"\0\1\xff",
    "box": np.array([[1.5, 2], [3, 4]], np.float32),
}


def equal(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b)) and type(a) is type(b)


def test_fields_come_back_as_they_were_given(tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "p", classes=["cat", "dog"]) as writer:
        writer.add(jpeg(20, 20), 1, **VALUES)
        writer.add(jpeg(20, 20, seed=1), "cat", key="own/key", **VALUES)
    with hr.Dataset(tmp_path / "p") as dataset:
        assert dataset.classes == ["cat", "dog"]
        assert [sample.label for sample in dataset] == [1, 0]
        assert dataset[1].key == "own/key"
        for sample in dataset:
            assert sample.fields.keys() == VALUES.keys()
            for name, value in VALUES.items():
                assert equal(sample.fields[name], value), name
        assert sample.fields["box"].dtype == np.float32


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
def test_floats_that_json_lacks_come_back_too(tmp_path: Path, value: float) -> None:
    with hr.Writer(tmp_path / "p") as writer:
        writer.add(jpeg(20, 20), 0, score=value)
    with hr.Dataset(tmp_path / "p") as dataset:
        found = dataset[0].fields["score"]
    assert np.array_equal(found, value, equal_nan=True)
    assert math.copysign(1, found) == math.copysign(1, value)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (2, 0, 3), (1, 1, 1, 1, 1)])
def test_arrays_keep_their_shapes_also_without_dimensions_or_elements(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    array = np.full(shape, 5, np.int16)
    with hr.Writer(tmp_path / "p") as writer:
        for _ in range(2):
            writer.add(jpeg(20, 20), 0, a=array)
    with hr.Dataset(tmp_path / "p") as dataset:
        found = dataset[1].fields["a"]
    assert (found.shape, found.dtype, found.tolist()) == (shape, array.dtype, array.tolist())
    with hr.Loader(tmp_path / "p", 2, transform=CROP, fields=["a"]) as loader:
        _, _, more = next(iter(loader))
    assert tuple(more["a"].shape) == (2, *shape)


def test_a_whole_float_stays_a_float(tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "p") as writer:
        writer.add(image=jpeg(8, 8), label=0, score=1.0)
    value = hr.Dataset(tmp_path / "p")[0].fields["score"]
    assert type(value) is float
    assert value == 1.0


def test_a_damaged_packed_sample_is_named_with_its_place_in_the_shard(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="record 0"), hr.Writer(tmp_path / "p") as writer:
        writer.add(image=b"junk", label=0, key="odd")
    with pytest.raises(hr.HeadraceError, match="record 0 \\(odd\\) at byte 512") as caught:
        hr.Dataset(tmp_path / "p")[0]
    assert (caught.value.record, caught.value.offset) == (0, 512)


def test_a_batch_carries_the_fields_asked_for(tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "p") as writer:
        for number in range(5):
            array = np.full((2, 3), number, np.int16)
            writer.add(jpeg(20, 20, seed=number), number, n=number, a=array, s=str(number))
    names = ["index", "key", "n", "a", "s"]
    with hr.Loader(tmp_path / "p", 3, transform=CROP, fields=names) as loader:
        _, labels, more = list(loader)[1]
    assert list(more) == names
    assert labels.tolist() == more["index"].tolist() == more["n"].tolist() == [3, 4]
    assert more["key"] == ["000000003", "000000004"]
    assert more["s"] == ["3", "4"]
    assert isinstance(more["a"], torch.Tensor)
    assert (tuple(more["a"].shape), more["a"].dtype) == ((2, 2, 3), torch.int16)
    with hr.Loader(
        tmp_path / "p", 3, transform=CROP, fields=names, output="numpy", dtype="uint8"
    ) as loader:
        assert isinstance(next(iter(loader))[2]["n"], np.ndarray)


def test_a_sample_that_does_not_fit_is_refused_and_the_writer_goes_on(tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "p", classes=["a"]) as writer:
        writer.add(jpeg(20, 20), 0, key="k", n=1)
        with pytest.raises(errors.DuplicateKeyError, match="k"):
            writer.add(jpeg(20, 20), 0, key="k", n=1)
        for wrong in ({"n": "text"}, {}, {"n": 1, "m": 2}, {"n": object()}):
            with pytest.raises(errors.ArgumentError):
                writer.add(jpeg(20, 20), 0, **wrong)
        for label in (1, -2, "b"):
            with pytest.raises(errors.ArgumentError, match="label"):
                writer.add(jpeg(20, 20), label, n=1)
    with hr.Dataset(tmp_path / "p") as dataset:
        assert len(dataset) == 1


def test_a_wrong_image_label_key_or_field_is_named(tmp_path: Path) -> None:
    image, pixels = jpeg(20, 20), np.zeros((8, 8, 3), np.uint8)
    with hr.Writer(tmp_path / "p") as writer:
        for wrong, words in [
            ({"image": "cat.jpg"}, r"image='cat.jpg' is of type str.*read_bytes"),
            ({"image": tmp_path}, "read_bytes"),
            ({"image": 5}, "image=5 is of type int"),
            ({"image": pixels}, "not its pixels"),
            ({"label": -5}, "label=-5: an int of at least 0"),
            ({"label": 1.0}, "label=1.0 is of type float"),
            ({"key": ""}, "key='': a name that is not empty"),
            ({"key": "a\0b"}, "no NUL"),
            ({"key": b"k"}, "key=b'k' is of type bytes"),
            ({"key": "\ud800"}, "UTF-8"),
            ({"n": 2**70}, f"n={2**70}: an int of 64 bits"),
            ({"n": np.uint64(2**63)}, f"n={2**63}: an int of 64 bits"),
            ({"n": None}, "field 'n' is None, and every sample"),
            ({"n": [[1], [1, 2]]}, "field 'n' is a list"),
            ({"n": torch.ones(2, requires_grad=True)}, "field 'n' is a Tensor"),
        ]:
            with pytest.raises(errors.ArgumentError, match=words):
                writer.add(**{"image": image, "label": 0, **wrong})
        for n in (-(2**63), 2**63 - 1):
            writer.add(image, 0, n=n)
        writer.add(np.frombuffer(image, np.uint8), 0, n=np.int8(-1))
    with hr.Dataset(tmp_path / "p") as dataset:
        assert [sample.fields["n"] for sample in dataset] == [-(2**63), 2**63 - 1, -1]


@pytest.mark.parametrize("name", ["image", "label", "key", "index", "path"])
def test_no_field_may_have_the_name_of_a_samples_own_attribute(tmp_path: Path, name: str) -> None:
    with pytest.raises(errors.ArgumentError, match=f'"{name}" is no name for a field'):
        hr.Writer(tmp_path / "declared", fields=[{"name": name, "type": "int"}])
    if name in ("index", "path"):  # the others are arguments
        with hr.Writer(tmp_path / "added") as writer:
            with pytest.raises(errors.ArgumentError, match=f'"{name}" is no name for a field'):
                writer.add(jpeg(20, 20), 0, **{name: 5})
            writer.add(jpeg(20, 20), 0, number=5)
        with hr.Dataset(tmp_path / "added") as dataset:
            assert dataset[0].fields == {"number": 5}


def test_a_writer_reports_what_it_wrote_as_pack_does(folder: Path, tmp_path: Path) -> None:
    made = hr.pack(folder, tmp_path / "packed")
    with hr.Dataset(folder) as dataset, hr.Writer(tmp_path / "p", classes=["a"] * 3) as writer:
        for index in range(len(dataset)):
            writer.add(dataset.read(index), 0)
        assert writer.result is None
    assert writer.result is not None
    assert writer.result.keys() == made.keys()
    for same in ("rows", "bytes", "counts", "faults"):
        assert writer.result[same] == made[same]
    other = hr.Writer(tmp_path / "q")
    other.add(jpeg(20, 20))
    assert other.finish() is other.result


def test_data_that_is_no_image_is_listed_and_warned_of_at_the_end(tmp_path: Path) -> None:
    writer = hr.Writer(tmp_path / "p")
    for data in (jpeg(20, 20), b"no image", jpeg(20, 20)[:200], b"\0\0\0\x1cftypavif" + bytes(40)):
        writer.add(data, 0)
    with pytest.warns(
        UserWarning, match="3 of 4 samples are damaged or unsupported.*record 1: neither"
    ):
        result = writer.finish()
    assert result["faults"]["total"] == 3
    verdicts = [(fault["record"], fault["verdict"]) for fault in result["faults"]["listed"]]
    assert verdicts == [(1, "bad"), (2, "truncated"), (3, "unsupported")]

    def strictly() -> None:
        with hr.Writer(tmp_path / "q", on_fault="raise") as writer:
            writer.add(b"no image", 0)

    with pytest.raises(
        errors.BadImageError, match="neither JPEG, PNG, WebP, GIF, BMP, TIFF nor PPM"
    ):
        strictly()
    assert not (tmp_path / "q").exists()


def test_a_writer_that_fails_or_is_dropped_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with hr.Writer(tmp_path / "p") as writer:
            writer.add(jpeg(20, 20))
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail()
    dropped = hr.Writer(tmp_path / "q")
    dropped.add(jpeg(20, 20))
    del dropped
    assert list(tmp_path.iterdir()) == []


def test_a_writer_without_a_sample_makes_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(errors.EmptyDatasetError), hr.Writer(tmp_path / "p"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_finished_writer_takes_no_more_samples(tmp_path: Path) -> None:
    writer = hr.Writer(tmp_path / "p")
    writer.add(jpeg(20, 20))
    writer.finish()
    with pytest.raises(errors.ClosedError):
        writer.add(jpeg(20, 20))
    with pytest.raises(errors.ClosedError):
        writer.finish()


def test_threads_may_add_samples_at_the_same_time(tmp_path: Path) -> None:
    with hr.Writer(tmp_path / "p") as writer:

        def add(part: int) -> None:
            for number in range(10):
                writer.add(jpeg(16, 16), part, key=f"{part}/{number}")

        threads = [threading.Thread(target=add, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with hr.Dataset(tmp_path / "p") as dataset:
        assert len(dataset) == 40
        for index in range(40):
            facts = dataset.facts(index)
            assert facts["key"].startswith(f"{facts['label']}/")
