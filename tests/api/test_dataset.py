"""Datasets: samples by number, whatever their form on disk."""

from __future__ import annotations

import io
import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headrace as hr
from headrace import errors
from images import jpeg, write_tree


@pytest.fixture(params=["listed", "packed"])
def dataset(request: pytest.FixtureRequest) -> Iterator[hr.Dataset]:
    name = "folder" if request.param == "listed" else "packed"
    with hr.Dataset(request.getfixturevalue(name)) as opened:
        yield opened


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.jpg"))


def test_samples_come_in_torchvisions_order_with_its_labels(
    dataset: hr.Dataset, folder: Path
) -> None:
    assert dataset.classes == ["class0", "class1", "class2"]
    assert len(dataset) == 24
    for number, path in enumerate(files(folder)):
        image, label = dataset[number]
        pixels = np.asarray(Image.open(path).convert("RGB"))
        assert np.array_equal(image, pixels)
        assert label == int(path.parent.name[-1])


def test_a_sample_unpacks_and_has_names(dataset: hr.Dataset) -> None:
    sample = dataset[5]
    image, label = sample
    assert sample.image is image
    assert sample.label == label
    assert sample.key == "class0/image0015"
    assert Path(sample.path).exists()
    assert sample.fields == {}


def test_negative_numbers_count_from_the_end(dataset: hr.Dataset) -> None:
    assert dataset[-1].key == dataset[23].key
    assert dataset[np.int64(-24)].key == dataset[0].key


@pytest.mark.parametrize("index", [24, -25, 2**40])
def test_an_index_out_of_range_raises_an_index_error(dataset: hr.Dataset, index: int) -> None:
    with pytest.raises(IndexError, match="24") as caught:
        dataset[index]
    assert isinstance(caught.value, errors.NoSampleError)


def test_a_slice_is_a_list_of_samples(dataset: hr.Dataset) -> None:
    keys = [sample.key for sample in dataset]
    for part in (slice(1, 4), slice(-3, None), slice(None, None, -7), slice(20, 99), slice(5, 2)):
        found = dataset[part]
        assert isinstance(found, list)
        assert [sample.key for sample in found] == keys[part]
        assert all(sample.image.shape[2] == 3 for sample in found)


@pytest.mark.parametrize("index", ["class0/image0000", 1.0, None, (1, 2), slice("a", None)])
def test_an_index_that_is_not_a_whole_number_is_refused(dataset: hr.Dataset, index: object) -> None:
    for ask in (dataset.__getitem__, dataset.facts, dataset.read):
        with pytest.raises(TypeError, match="index=") as caught:
            ask(index)  # type: ignore[arg-type]
        assert isinstance(caught.value, errors.ArgumentError)


def test_iterating_over_a_dataset_ends(dataset: hr.Dataset) -> None:
    assert [label for _, label in dataset] == [0] * 8 + [1] * 8 + [2] * 8


def test_a_pickle_holds_only_the_configuration(dataset: hr.Dataset) -> None:
    text = pickle.dumps(dataset)
    assert len(text) < 1000
    again = pickle.loads(text)
    assert again[3].key == dataset[3].key
    assert again.fingerprint == dataset.fingerprint
    again.close()


def _key(dataset: hr.Dataset, index: int) -> str:
    return dataset[index].key


def test_a_spawned_worker_opens_the_dataset_anew(folder: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_key, (hr.Dataset(folder), 2)) == "class0/image0006"
        pool.close()
        pool.join()


def test_any_list_of_files_can_be_a_dataset(folder: Path) -> None:
    paths = files(folder)[::5]
    with hr.Dataset.from_files(paths, range(len(paths)), list("abcde")) as dataset:
        assert dataset.classes == list("abcde")
        assert [sample.path for sample in dataset] == [str(path) for path in paths]
        assert dataset[4].label == 4


def test_labels_are_numbers_or_names_of_the_classes(folder: Path) -> None:
    paths = files(folder)[:3]
    with hr.Dataset.from_files(paths, ["b", 0, np.int64(1)], ["a", "b"]) as dataset:
        assert [label for _, label in dataset] == [1, 0, 1]
    for labels, classes, words in [
        (["b", "a", "c"], ["a", "b"], r"labels\[2\]='c': one of the classes"),
        (["0", "1", "2"], None, r"labels\[0\]='0': a class number"),
        ([0, 1.5, 2], None, r"labels\[1\]=1.5 is of type float"),
        ([0, -1, 2], None, r"labels\[1\]=-1"),
        ("abc", list("abc"), "labels='abc' is of type str"),
    ]:
        with pytest.raises(errors.ArgumentError, match=words):
            hr.Dataset.from_files(paths, labels, classes)


def test_each_source_that_is_no_dataset_is_refused_with_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere") as missing:
        hr.Dataset(tmp_path / "nowhere")
    assert isinstance(missing.value, errors.MissingFileError)
    assert missing.value.file is not None
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.EmptyDatasetError):
        hr.Dataset(tmp_path / "empty")
    with pytest.raises(errors.ArgumentError, match="2 paths and 1 labels"):
        hr.Dataset.from_files(["a", "b"], [0])
    with pytest.raises(errors.ArgumentError, match="backend"):
        hr.Dataset(tmp_path, backend="carrier pigeon")


def test_an_error_of_a_bad_sample_names_its_file_and_record(tmp_path: Path) -> None:
    good = jpeg(40, 30)
    bad = {"a/0.jpg": good, "a/1.jpg": good[:200], "a/2.jpg": b"no image at all, this"}
    dataset = hr.Dataset(write_tree(tmp_path, bad))
    assert dataset[0].image.shape == (30, 40, 3)
    for number in (1, 2):
        with pytest.raises(hr.HeadraceError, match=rf"{number}\.jpg") as failure:
            dataset[number]
        assert failure.value.record == number
        assert failure.value.file == str(tmp_path / f"a/{number}.jpg")
        assert str(failure.value).count("at byte") == 1
    (tmp_path / "a/0.jpg").unlink()
    with pytest.raises(errors.MissingFileError, match=r"0\.jpg"):
        dataset[0]


def test_a_changed_byte_in_a_shard_is_a_checksum_error(folder: Path, tmp_path: Path) -> None:
    hr.pack(folder, tmp_path / "p.hr")
    shard = next((tmp_path / "p.hr").glob("*.tar"))
    data = bytearray(shard.read_bytes())
    at = data.index(files(folder)[0].read_bytes()[300:340])
    data[at] ^= 1
    shard.write_bytes(data)
    with hr.Dataset(tmp_path / "p.hr") as dataset:
        with pytest.raises(errors.ChecksumError, match="CRC-32C") as failure:
            dataset[0]
        assert failure.value.record == 0
        assert failure.value.offset is not None
        assert dataset[1].key == "class0/image0003"


def test_use_of_a_closed_dataset_is_an_error_that_says_so(folder: Path) -> None:
    dataset = hr.Dataset(folder)
    dataset.close()
    dataset.close()
    with pytest.raises(errors.ClosedError):
        dataset[0]


def test_errors_keep_all_their_attributes_when_pickled() -> None:
    failure = errors.TruncatedError("a.tar: cut", file="a.tar", record=3, offset=99)
    again = pickle.loads(pickle.dumps(failure))
    assert type(again) is errors.TruncatedError
    assert (str(again), again.file, again.record, again.offset) == ("a.tar: cut", "a.tar", 3, 99)


def test_read_gives_the_files_bytes_and_the_image_has_pillows_size(folder: Path) -> None:
    data = files(folder)[0].read_bytes()
    with hr.Dataset(folder) as dataset:
        assert bytes(dataset.read(0)) == data
        assert dataset[0].image.shape[:2] == Image.open(io.BytesIO(data)).size[::-1]
