"""Packed shards are plain tar files that other programs read."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

import headrace as hr
import images


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = images.plain_tree(tmp_path_factory.mktemp("tar"), 30, side=128)
    # Stems with dots, spaces and letters beyond ASCII.
    names = ["class1/with.two.dots.jpg", "class1/a space.jpeg", "class2/\u00e9t\u00e9.JPG"]
    return images.write_tree(root, {n: images.jpeg(30, 20, seed=i) for i, n in enumerate(names)})


@pytest.fixture(scope="module")
def packed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("tar-packed") / "d.hr"
    hr.pack(folder, destination, shard_size="64KiB")
    return destination


def shards(packed: Path) -> list[Path]:
    found = sorted(packed.glob("shard-*.tar"))
    assert len(found) > 1
    return found


def test_tar_reads_every_original_byte_and_label(folder: Path, packed: Path) -> None:
    contents = {path.read_bytes(): path.parent.name for path in folder.glob("*/*")}
    classes = hr.Dataset(packed).classes
    found = {}
    for shard in shards(packed):
        with tarfile.open(shard) as archive:
            members = archive.getmembers()
            labels = {m.name[:-4]: m for m in members if m.name.endswith(".cls")}
            for member in members:
                if not member.name.endswith(".cls"):
                    label = archive.extractfile(labels[member.name.rsplit(".", 1)[0]]).read()
                    data = archive.extractfile(member).read()
                    found[data] = classes[int(label)]
    assert found == contents


def test_gnu_tar_lists_and_extracts_without_complaint(packed: Path, tmp_path: Path) -> None:
    for shard in shards(packed):
        command = ["tar", "--extract", "--file", str(shard), "--directory", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    assert len([p for p in tmp_path.rglob("*") if p.is_file()]) == 2 * 33


def test_members_are_ustar_with_a_fixed_time_and_owner(packed: Path) -> None:
    for shard in shards(packed):
        assert shard.read_bytes()[257:265] == b"ustar\x0000"
        with tarfile.open(shard) as archive:
            facts = {(m.mtime, m.uid, m.gid, m.uname, m.gname) for m in archive.getmembers()}
        assert len(facts) == 1


def test_the_webdataset_package_yields_image_and_label(folder: Path, packed: Path) -> None:
    webdataset = pytest.importorskip("webdataset")
    urls = [str(shard) for shard in shards(packed)]
    samples = list(webdataset.WebDataset(urls, shardshuffle=False))
    dataset = hr.Dataset(packed)
    assert len(samples) == len(dataset)
    for number, sample in enumerate(samples):
        extension = next(k for k in sample if k in ("jpg", "jpeg"))
        assert bytes(dataset.read(number)) == sample[extension]
        assert int(sample["cls"]) == dataset.facts(number)["label"]


def test_packing_twice_gives_equal_bytes(folder: Path, tmp_path: Path) -> None:
    for name, threads in (("one", 1), ("two", 2)):
        hr.pack(folder, tmp_path / name, shard_size="64KiB", num_threads=threads)
    one, two = tmp_path / "one", tmp_path / "two"
    assert {p.name: p.read_bytes() for p in one.iterdir()} == {
        p.name: p.read_bytes() for p in two.iterdir()
    }


def test_the_index_opens_with_pyarrow_and_points_at_the_images(packed: Path) -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    files = shards(packed)
    rows = [
        row
        for part in sorted(packed.glob("headrace-index-*.arrow"))
        for row in ipc.open_file(str(part)).read_all().to_pylist()
    ]
    dataset = hr.Dataset(packed)
    assert len(rows) == len(dataset)
    for number, row in enumerate(rows):
        record = files[row["shard"]].read_bytes()[row["offset"] :][: row["length"]]
        assert record == bytes(dataset.read(number))
        assert row["key"] == dataset.facts(number)["key"]


def test_a_packed_image_decodes_to_the_same_pixels_as_its_file(folder: Path, packed: Path) -> None:
    dataset = hr.Dataset(packed)
    for number in range(len(dataset)):
        sample = dataset[number]
        assert (sample.image == hr.functional.decode(bytes(dataset.read(number)))).all()
    assert io.BytesIO(dataset.read(0)).read(2) == b"\xff\xd8"
