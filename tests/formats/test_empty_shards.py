"""Containers without samples: writers leave them among others, and they are no error."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace as hr
import images
import recordio
import tfrecords
from headrace import errors

SCHEMA = pa.schema([("image", pa.binary()), ("label", pa.int64())])


def tar(path: Path, pictures: list[bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for number, picture in enumerate(pictures):
            for name, data in ((f"{number}.jpg", picture), (f"{number}.cls", b"%d" % number)):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))


def zipped(path: Path, pictures: list[bytes]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for number, picture in enumerate(pictures):
            archive.writestr(f"class {number}/a.jpg", picture)


def rows(pictures: list[bytes]) -> pa.Table:
    return pa.table({"image": pictures, "label": range(len(pictures))}, schema=SCHEMA)


def parquet(path: Path, pictures: list[bytes]) -> None:
    pq.write_table(rows(pictures), path)


def arrow(path: Path, pictures: list[bytes]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as stream:
        stream.write_table(rows(pictures))


def records(path: Path, pictures: list[bytes]) -> None:
    tfrecords.write(path, [{"image": p, "label": n} for n, p in enumerate(pictures)])


def mxnets(path: Path, pictures: list[bytes]) -> None:
    recordio.write(path, [(picture, number) for number, picture in enumerate(pictures)])


Write = Callable[[Path, list[bytes]], None]
WRITERS: dict[str, Write] = {
    ".tar": tar,
    ".zip": zipped,
    ".parquet": parquet,
    ".arrow": arrow,
    ".tfrecord": records,
    ".rec": mxnets,
}
PICTURES = [images.jpeg(8, 8), images.jpeg(16, 8), images.jpeg(24, 8)]


@pytest.mark.parametrize("empty", [0, 1, 2])
@pytest.mark.parametrize("ending", WRITERS)
def test_a_container_without_samples_among_others_adds_no_samples(
    tmp_path: Path, ending: str, empty: int
) -> None:
    shards = [PICTURES[:1], PICTURES[1:]]
    shards.insert(empty, [])
    for number, pictures in enumerate(shards):
        WRITERS[ending](tmp_path / f"{number}{ending}", pictures)
    for source in (tmp_path, f"{tmp_path}/*{ending}"):
        with hr.Dataset(source) as dataset:
            found = [dataset[number] for number in range(len(dataset))]
        assert [sample.image.shape[1] for sample in found] == [8, 16, 24]
        assert [sample.label for sample in found] == [0, 0, 1]


@pytest.mark.parametrize("ending", WRITERS)
def test_only_containers_without_samples_are_an_empty_dataset(tmp_path: Path, ending: str) -> None:
    WRITERS[ending](tmp_path / f"0{ending}", [])
    with pytest.raises(errors.EmptyDatasetError, match=r"the containers hold no (sample|image)"):
        hr.Dataset(tmp_path / f"0{ending}")


def test_an_empty_file_with_the_name_of_a_container_is_an_error(tmp_path: Path) -> None:
    tar(tmp_path / "0.tar", PICTURES)
    (tmp_path / "_SUCCESS").touch()  # a file that Spark leaves beside its output
    with hr.Dataset(tmp_path) as dataset:
        assert len(dataset) == len(PICTURES)
    (tmp_path / "1.tar").touch()
    for source in (tmp_path, f"{tmp_path}/*.tar", tmp_path / "1.tar"):
        with pytest.raises(
            errors.TruncatedError, match=r"1\.tar: at byte 0: bad: the file has no bytes"
        ):
            hr.Dataset(source)


@pytest.mark.parametrize("empty", [0, 1, 2])
@pytest.mark.parametrize("write", [records, mxnets])
def test_a_file_without_bytes_beside_others_of_records_adds_no_samples_whatever_its_name(
    tmp_path: Path, write: Write, empty: int
) -> None:
    shards = [PICTURES[:1], PICTURES[1:]]
    shards.insert(empty, [])
    paths = [tmp_path / f"train-{number:05}-of-00003" for number in range(3)]  # as TF-Slim's
    for path, pictures in zip(paths, shards, strict=True):
        write(path, pictures)
    assert paths[empty].stat().st_size == 0
    braces = f"{tmp_path}/train-{{00000..00002}}-of-00003"
    for source in (f"{tmp_path}/train-*-of-00003", braces, paths, tmp_path):
        with hr.Dataset(source) as dataset:
            found = [dataset[number] for number in range(len(dataset))]
        assert [sample.image.shape[1] for sample in found] == [8, 16, 24]


def test_files_without_bytes_alone_are_an_empty_dataset_if_format_says_that_they_hold_records(
    tmp_path: Path,
) -> None:
    paths = [tmp_path / f"train-0000{number}-of-00002" for number in range(2)]
    for path in paths:
        path.touch()
    for source in (paths[0], paths, f"{tmp_path}/train-*"):
        for words in ("tfrecord", "recordio"):
            with pytest.raises(errors.EmptyDatasetError, match="the containers hold no sample"):
                hr.Dataset(source, format=words)
        for other in (None, "webdataset", "parquet"):
            with pytest.raises(errors.TruncatedError, match=r"00000-of-00002: .*no bytes"):
                hr.Dataset(source, format=other)
