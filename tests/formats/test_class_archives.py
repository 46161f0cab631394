"""Tars that stand for classes: several tars, or a tar with a tar for each class as ImageNet's."""

from __future__ import annotations

import gzip
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


def archive(
    files: dict[str, bytes] | list[tuple[str, bytes]],
    format: int = tarfile.GNU_FORMAT,
    links: dict[str, str] | None = None,
) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=format) as tar:
        for name, data in files.items() if isinstance(files, dict) else files:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
        for name, target in (links or {}).items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.LNKTYPE, target
            tar.addfile(info)
    return made.getvalue()


def tars(format: int = tarfile.GNU_FORMAT) -> dict[str, bytes]:
    """An archive of three images for each class, as in ImageNet."""
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
def test_a_tar_of_class_tars_equals_the_extracted_folder_as_torchvision_reads_it(
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


def test_an_inner_archive_that_cannot_be_a_class_is_refused_by_its_name(tmp_path: Path) -> None:
    webdataset = archive({"0.jpg": images.jpeg(20, 20), "0.cls": b"3"})
    deep = archive({"b.tar": tars()["n01440764.tar"]})
    for inner, says in (
        ({"a.tar": webdataset}, "other files lie beside its images"),
        ({"a.zip": b"PK"}, "which are read only as class folders: uncompressed tars of images"),
        ({"a.tar": tars()["n01440764.tar"], "b.tar.gz": b"\x1f\x8b"}, r"archives \(\"b.tar.gz\"\)"),
        ({"a.tar": b"x" * 600}, r"a header whose checksum is not .* \(in the archive \"a.tar\""),
        ({"a.tar": tars()["n01440764.tar"][:900]}, "ends behind the archive's 900 "),
        ({"a.tar": b""}, 'the archive "a.tar" in it has no bytes'),
        ({"a.tar": deep}, r'it holds archives, as "b.tar", .* \(in the archive "a.tar" in it\)'),
        ({"a.tar": tars()["n01440764.tar"], "c.tar": deep}, 'it holds archives, as "b.tar"'),
        ({"a.tar": gzip.compress(deep)}, '"a.tar" in it is gzip or zlib and no tar; the file'),
        ({"a.tar": deep, "a.TAR": deep}, 'a.tar" and "a.TAR" in it would both be the folder "a/'),
    ):
        (tmp_path / "a.tar").write_bytes(archive(inner))
        with pytest.raises(errors.HeadraceError, match=says) as caught:
            hr.Dataset(tmp_path / "a.tar")
        assert str(tmp_path / "a.tar") in str(caught.value)


def test_with_format_tar_each_of_several_tars_is_a_class(
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


def test_archives_beside_other_members_of_a_sample_are_not_taken_for_classes(
    tmp_path: Path,
) -> None:
    first, second, _ = tars().values()
    for members, columns in (
        ({"s1.tar": first, "s1.cls": b"7", "s2.tar": second, "s2.cls": b"3"}, '"tar", "cls"'),
        ({"0001.zip": b"PK", "0001.mp4": b"x", "0001.json": b"{}"}, '"zip", "mp4", "json"'),
    ):
        (tmp_path / "a.tar").write_bytes(archive(members))
        with pytest.raises(errors.UnsupportedError, match=f"the image .found {columns}"):
            hr.Dataset(tmp_path / "a.tar")


def test_with_format_tar_a_text_file_beside_the_inner_archives_is_ignored(
    tmp_path: Path,
) -> None:
    archives = tars()
    (tmp_path / "a.tar").write_bytes(archive({"README.txt": b"x", **archives}))
    hint = 'found "txt", "tar".; image= names it; if each tar in it is a class, format="tar" reads'
    with pytest.raises(errors.UnsupportedError, match=hint):
        hr.Dataset(tmp_path / "a.tar")
    with hr.Dataset(tmp_path / "a.tar", format="tar") as dataset:
        as_torchvision_has_it(dataset, extracted(tmp_path / "train", archives))


def test_a_file_that_is_in_no_sample_of_webdataset_lies_beside_the_archives_of_a_tar(
    tmp_path: Path,
) -> None:
    archives = tars()
    beside = {"LICENSE": b"x", "__about__/set.json": b"{}", ".gitattributes": b"x"}
    (tmp_path / "a.tar").write_bytes(archive({**beside, **archives, "README": b"x"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hr.Dataset(tmp_path / "a.tar") as dataset:
            as_torchvision_has_it(dataset, extracted(tmp_path / "train", archives))


def test_the_extension_of_an_inner_archive_may_be_in_capitals(tmp_path: Path) -> None:
    archives = tars()
    capitals = {name.replace(".tar", ".TAR"): data for name, data in archives.items()}
    (tmp_path / "a.tar").write_bytes(archive(capitals))
    with hr.Dataset(tmp_path / "a.tar") as dataset:
        as_torchvision_has_it(dataset, extracted(tmp_path / "train", archives))


def test_archives_with_the_same_name_in_two_folders_are_refused_as_classes(tmp_path: Path) -> None:
    for folder in ("cat", "dog"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.tar").write_bytes(archive({"1.jpg": images.jpeg(20, 20)}))
    with pytest.raises(
        errors.UnsupportedError, match=r'"cat/0.tar" and "dog/0.tar" would both be the class "0"'
    ):
        hr.Dataset([tmp_path / "cat" / "0.tar", tmp_path / "dog" / "0.tar"], format="tar")


def test_a_tar_of_tars_among_tars_of_class_folders_loses_no_image(tmp_path: Path) -> None:
    archives = tars()
    (tmp_path / "tars").mkdir()
    (tmp_path / "tars" / "1.tar").write_bytes(archive(archives))
    files = {f"{name}/{i}.jpg": images.jpeg(20, 20 + i) for name in ("cat", "dog") for i in (1, 2)}
    (tmp_path / "tars" / "2.tar").write_bytes(archive(files))
    folder = extracted(tmp_path / "train", archives)
    for name, data in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    with hr.Dataset(tmp_path / "tars", format="tar") as dataset:
        as_torchvision_has_it(dataset, folder)
    (tmp_path / "tars" / "1.tar").write_bytes(archive({"a.zip": b"PK"}))
    with pytest.raises(errors.UnsupportedError, match=r"1.tar: .*archives \(.a.zip"):
        hr.Dataset(tmp_path / "tars", format="tar")


def test_of_inner_archives_with_the_same_name_the_last_is_read_as_after_extraction(
    tmp_path: Path,
) -> None:
    archives = tars()
    older = archive({"old.jpg": images.jpeg(20, 20), f"{CLASSES[2]}_9.JPEG": images.jpeg(20, 20)})
    folder = extracted(tmp_path / "train", archives)
    first, second, third = archives.items()
    # Directly before the last one, and apart from it.
    for members in (
        [first, second, (third[0], older), third],
        [("./" + third[0], older), first, second, third],
    ):
        (tmp_path / "a.tar").write_bytes(archive(members))
        with pytest.warns(UserWarning, match=f"1 archives .* of their name .*{CLASSES[2]}.tar"):
            dataset = hr.Dataset(tmp_path / "a.tar")
        with dataset:
            as_torchvision_has_it(dataset, folder)


def test_members_of_a_tar_of_tars_that_are_ignored_are_named_in_a_warning(tmp_path: Path) -> None:
    archives = tars()
    folder = extracted(tmp_path / "train", archives)
    name = f"{CLASSES[1]}.tar"
    two = {**archives, name: archives[name] + archives["n01440764.tar"]}
    for data, says in (
        (archive(archives, links={"c.tar": "n01440764.tar"}), 'links and passed over, as "c.tar"'),
        (archive(two), f'1 archives in the archive have something behind .*"{name}"'),
    ):
        (tmp_path / "a.tar").write_bytes(data)
        with pytest.warns(UserWarning, match=says):
            dataset = hr.Dataset(tmp_path / "a.tar")
        with dataset:
            as_torchvision_has_it(dataset, folder)
