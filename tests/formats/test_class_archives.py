"""Tars that stand for classes: a tar of a tar for each class, as ImageNet's, and several tars."""

from __future__ import annotations

import io
import tarfile
import warnings
from pathlib import Path

import pytest
import torchvision

import headrace as hr
import images
from headrace import errors

CLASSES = ["n01440764", "n01443537", "n01530575"]
FORMATS = {"gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT, "ustar": tarfile.USTAR_FORMAT}


def archive(files: dict[str, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return made.getvalue()


def tars(format: int = tarfile.GNU_FORMAT) -> dict[str, bytes]:
    """An archive of three images for each class, as ImageNet's are."""
    return {
        f"{name}.tar": archive(
            {f"{name}_{i}.JPEG": images.jpeg(20, 20 + i, seed=number) for i in (10, 9, 100)}, format
        )
        for number, name in enumerate(CLASSES)
    }


def extracted(root: Path, archives: dict[str, bytes]) -> Path:
    for name, data in archives.items():
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            tar.extractall(root / name.removesuffix(".tar"), filter="data")
    return root


def as_torchvision_has_it(dataset: hr.Dataset, folder: Path) -> None:
    theirs = torchvision.datasets.ImageFolder(str(folder))
    assert dataset.classes == theirs.classes
    assert [dataset.facts(i)["label"] for i in range(len(dataset))] == theirs.targets
    for number, (path, _) in enumerate(theirs.samples):
        assert dataset.read(number) == Path(path).read_bytes()
        key = dataset.facts(number)["key"]
        assert key == str(Path(path).relative_to(folder).with_suffix(""))


@pytest.mark.parametrize("format", FORMATS)
def test_a_tar_of_a_tar_for_each_class_is_what_torchvision_reads_of_it_extracted(
    format: str, tmp_path: Path
) -> None:
    archives = tars(FORMATS[format])
    source = tmp_path / "train.tar"
    source.write_bytes(archive(dict(reversed(archives.items())), FORMATS[format]))
    folder = extracted(tmp_path / "train", archives)
    hr.index(source, tmp_path / "index.hr")
    hr.pack(source, tmp_path / "packed.hr")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in (source, tmp_path / "index.hr", tmp_path / "packed.hr"):
            with hr.Dataset(path) as dataset:
                as_torchvision_has_it(dataset, folder)
    assert hr.verify(tmp_path / "index.hr", decode=True)["ok"]
    with hr.Dataset(source, format="tar") as dataset:
        as_torchvision_has_it(dataset, folder)


def test_archives_of_splits_in_a_tar_are_chosen_by_split(tmp_path: Path) -> None:
    files = {f"{name}/{i}.jpg": images.jpeg(20, 20 + i) for name in ("cat", "dog") for i in (1, 2)}
    inner = {"set/train.tar": archive(files), "set/val.tar": archive(files)}
    (tmp_path / "set.tar").write_bytes(archive(inner))
    with pytest.raises(errors.ArgumentError, match=r'"train" "val"\]; split= chooses one'):
        hr.Dataset(tmp_path / "set.tar")
    with hr.Dataset(tmp_path / "set.tar", split="val") as dataset:
        assert (len(dataset), dataset.classes) == (4, ["cat", "dog"])


def test_what_an_archive_in_a_tar_must_not_be_is_refused_by_its_name(tmp_path: Path) -> None:
    webdataset = archive({"0.jpg": images.jpeg(20, 20), "0.cls": b"3"})
    for inner, says in (
        ({"a.tar": webdataset}, "other files lie beside its images"),
        ({"a.zip": b"PK"}, "of which those are read that are tars of images in a tar"),
        ({"a.tar": tars()["n01440764.tar"], "b.tar.gz": b"\x1f\x8b"}, r"archives \(\"b.tar.gz\"\)"),
        ({"a.tar": b"x" * 600}, r"a header whose checksum is not .* \(in the archive \"a.tar\""),
        ({"a.tar": tars()["n01440764.tar"][:900]}, "ends behind the archive's"),
    ):
        (tmp_path / "a.tar").write_bytes(archive(inner))
        with pytest.raises(errors.HeadraceError, match=says) as caught:
            hr.Dataset(tmp_path / "a.tar")
        assert str(tmp_path / "a.tar") in str(caught.value)


def test_several_tars_are_a_class_each_where_format_says_that_they_hold_classes(
    tmp_path: Path,
) -> None:
    archives = tars()
    (tmp_path / "tars").mkdir()
    for name, data in archives.items():
        (tmp_path / "tars" / name).write_bytes(data)
    folder = extracted(tmp_path / "train", archives)
    with pytest.warns(UserWarning, match='every label is -1 .* format="tar" says so'):
        hr.Dataset(tmp_path / "tars").close()
    with hr.Dataset(tmp_path / "tars", format="tar") as dataset:
        as_torchvision_has_it(dataset, folder)
