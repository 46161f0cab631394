"""A folder of containers in a store gives the same dataset as the same folder on disk."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import headrace as hr
import images
import mds
import tables
from headrace import errors

COUNT = 8
FIXTURES = Path(__file__).parents[2] / "internal" / "scan" / "testdata"

Storage = dict[str, str | bool]


def samples(first: int = 0) -> list[tuple[bytes, int, str]]:
    return [(images.jpeg(32, 24, seed=at), at % 3, "x") for at in range(first, first + COUNT)]


def table(first: int = 0) -> object:
    encoded = [image for image, _, _ in samples(first)]
    return tables.table(encoded, [at % 3 for at in range(COUNT)], ["a", "b", "c"])


def shards_kept_beside_what_they_became(folder: Path) -> None:
    mds.write(folder, [samples()])
    (folder / "shard.00000.mds").write_bytes(mds.shard(samples()))


def data_with_the_caches_of_map(folder: Path) -> None:
    tables.save(folder, [table()])
    for path in list(folder.glob("data-*.arrow")):
        shutil.copy(path, folder / "cache-0123456789abcdef.arrow")
    (folder / "state.json").unlink()


def saved_data_beside_other_tables(folder: Path) -> None:
    tables.save(folder, [table()])
    for path in list(folder.glob("data-*.arrow")):
        shutil.copy(path, folder / "before.arrow")


def saved_in_another_order(folder: Path) -> None:
    tables.save(folder, [table(), table(COUNT)])
    state = json.loads((folder / "state.json").read_text())
    state["_data_files"].reverse()
    (folder / "state.json").write_text(json.dumps(state))


def a_saved_selection(folder: Path) -> None:
    tables.save(folder, [table()])
    rows = pa.table({"indices": pa.array([5, 1, 5], pa.uint64())})
    with pa.ipc.new_stream(str(folder / "indices.arrow"), rows.schema) as writer:
        writer.write_table(rows)
    state = json.loads((folder / "state.json").read_text())
    state["_indices_data_files"] = [{"filename": "indices.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))


def a_folder_of_each_split(folder: Path) -> None:
    mds.write(folder / "train", [samples()])
    mds.write(folder / "val", [samples(COUNT)[:4]])
    (folder / "README.md").write_text("Shards of photographs.")
    (folder / "notes").mkdir()
    (folder / "notes" / "about.md").write_text("No container.")


def a_repository(folder: Path) -> None:
    tables.parquet(folder / "data", [table()])
    tables.parquet(folder / "data", [table(COUNT), table(2 * COUNT)], "test")
    (folder / "README.md").write_text("A repository of Hugging Face.")


def pixels_in_a_shard_that_is_compressed(folder: Path) -> None:
    noise = np.random.default_rng(1).integers(0, 256, (COUNT, 9, 7, 4), dtype=np.uint8)
    values = [mds.pil(Image.fromarray(pixels)) for pixels in noise]
    folder.mkdir()
    mds.one(folder / "shard.00000.mds.zstd", "pil", values, "zstd")


def a_tar_of_class_folders_with_links(folder: Path) -> None:
    tree = images.plain_tree(folder.parent / "photos", COUNT - 1)
    first = min(tree.rglob("*.*"))
    (first.parent / "0.jpg").symlink_to(first.name)
    folder.mkdir()
    with tarfile.open(folder / "photos.tar", "w") as archive:
        archive.add(tree, "photos")


def a_tar_of_tars_with_one_name_twice(folder: Path) -> None:
    folder.mkdir()
    with tarfile.open(folder / "classes.tar", "w") as outer:
        for at, name in enumerate("abbc"):  # the second b replaces the first
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as file:
                member, data = tarfile.TarInfo(f"{at}.jpg"), images.jpeg(32, 24, seed=at)
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))
            member = tarfile.TarInfo(f"{name}.tar")
            member.size = len(inner.getvalue())
            outer.addfile(member, io.BytesIO(inner.getvalue()))


def a_database(name: str) -> Callable[[Path], None]:
    def folder_of(folder: Path) -> None:
        folder.mkdir()
        shutil.copy(FIXTURES / f"{name}.lmdb", folder / "data.mdb")
        (folder / "lock.mdb").write_bytes(bytes(8192))

    return folder_of


def a_folder_of_chunks(name: str) -> Callable[[Path], None]:
    def folder_of(folder: Path) -> None:
        shutil.copytree(FIXTURES / "litdata" / name, folder)
        (folder / "chunk-9-0.bin").write_bytes(b"no chunk of the index")

    return folder_of


def chunks_in_another_order(folder: Path) -> None:
    a_folder_of_chunks("classic")(folder)
    index = json.loads((folder / "index.json").read_text())
    index["chunks"].reverse()
    (folder / "index.json").write_text(json.dumps(index))


def keys_and_pixels(index: Path, storage: Storage | None) -> list[tuple[str, bytes, int]]:
    with hr.Dataset(index, storage=storage) as dataset:
        samples = [dataset[at] for at in range(len(dataset))]
        return [(sample.key, bytes(sample.image), sample.label) for sample in samples]


@pytest.mark.parametrize(
    ("write", "count"),
    [
        (shards_kept_beside_what_they_became, COUNT),
        (pixels_in_a_shard_that_is_compressed, COUNT),
        (a_tar_of_class_folders_with_links, COUNT),
        (a_tar_of_tars_with_one_name_twice, 3),
        (data_with_the_caches_of_map, COUNT),
        (saved_data_beside_other_tables, COUNT),
        (saved_in_another_order, 2 * COUNT),
        (a_saved_selection, 3),
        *((a_database(name), None) for name in ("plain", "lz4", "datum", "pixels")),
        *((a_folder_of_chunks(path.name), None) for path in (FIXTURES / "litdata").iterdir()),
        (chunks_in_another_order, None),
    ],
)
def test_a_folder_of_containers_in_a_store_has_the_same_samples_as_on_disk(
    bucket: Path,
    storage: Storage,
    tmp_path: Path,
    write: Callable[[Path], None],
    count: int | None,
) -> None:
    write(bucket / "set")
    here = hr.index(bucket / "set", tmp_path / "here.hr")
    there = hr.index("s3://photos/set", tmp_path / "there.hr", storage=storage)
    assert there["rows"] == here["rows"] == (count or here["rows"]) > 0
    assert there["fingerprint"] == here["fingerprint"]
    found = keys_and_pixels(tmp_path / "there.hr", storage)
    assert found == keys_and_pixels(tmp_path / "here.hr", None)
    packed = hr.pack("s3://photos/set", tmp_path / "packed.hr", storage=storage)
    assert packed["rows"] == here["rows"]


def test_a_saved_dataset_with_a_missing_or_invalid_table_file_is_an_error(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    tables.save(bucket / "set", [table(), table(COUNT)])
    last = max((bucket / "set").glob("data-*.arrow"))
    last.write_bytes(b"no table at all")
    with pytest.raises(errors.HeadraceError, match=last.name):
        hr.index("s3://photos/set", tmp_path / "train.hr", storage=storage)
    last.unlink()
    with pytest.raises(errors.MissingFileError, match=last.name):
        hr.index("s3://photos/set", tmp_path / "train.hr", storage=storage)


def test_one_of_several_databases_in_a_store_is_chosen_by_split(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    a_database("several")(bucket / "set")
    with pytest.raises(errors.ArgumentError, match="split= chooses one") as several:
        hr.index("s3://photos/set", tmp_path / "there.hr", storage=storage)
    name = str(several.value).split('["')[1].split('"')[0]
    here = hr.index(bucket / "set", tmp_path / "here.hr", split=name)
    there = hr.index("s3://photos/set", tmp_path / "there.hr", split=name, storage=storage)
    assert there["fingerprint"] == here["fingerprint"]


def archive_of_splits(path: Path, kind: str) -> None:
    names = {
        f"top/{split}/{name}/{at}.jpg": at
        for split in ("train", "val")
        for at, name in enumerate("ab")
    }
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            for name, seed in names.items():
                file.writestr(name, images.jpeg(32, 24, seed=seed))
        return
    with tarfile.open(path, "w") as file:
        for name, seed in names.items():
            member = tarfile.TarInfo(name)
            data = images.jpeg(32, 24, seed=seed)
            member.size = len(data)
            file.addfile(member, io.BytesIO(data))


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_split_in_an_archive_of_a_store_is_chosen_as_on_disk(
    kind: str, bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    path = bucket / f"set.{kind}"
    archive_of_splits(path, kind)
    address = f"s3://photos/set.{kind}"
    with pytest.raises(errors.ArgumentError, match="several splits"):
        hr.index(address, tmp_path / "there.hr", storage=storage)
    with pytest.raises(errors.ArgumentError, match="train"):
        hr.index(address, tmp_path / "there.hr", split="test", storage=storage)
    here = hr.index(path, tmp_path / "here.hr", split="val")
    there = hr.index(address, tmp_path / "there.hr", split="val", storage=storage)
    assert there["fingerprint"] == here["fingerprint"]
    assert there["rows"] == 2


def test_chunks_in_a_store_without_their_folders_index_are_not_taken_for_containers(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    a_folder_of_chunks("whole")(bucket / "set")
    (bucket / "set" / "index.json").unlink()
    with pytest.raises(errors.HeadraceError) as here:
        hr.index(bucket / "set", tmp_path / "here.hr")
    with pytest.raises(type(here.value)):
        hr.index("s3://photos/set", tmp_path / "there.hr", storage=storage)


def test_a_saved_selection_is_refused_as_one_of_several_sources(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    a_saved_selection(bucket / "first")
    tables.save(bucket / "second", [table()])
    sources = ["s3://photos/first", "s3://photos/second"]
    with pytest.raises(errors.UnsupportedError, match="a selection of rows was saved"):
        hr.index(sources, tmp_path / "train.hr", storage=storage)


@pytest.mark.parametrize(
    ("write", "split", "count"),
    [
        (a_folder_of_each_split, "train", COUNT),
        (a_folder_of_each_split, "val", 4),
        (a_repository, "train", COUNT),
        (a_repository, "test", 2 * COUNT),
    ],
)
def test_a_split_in_folders_of_a_store_is_the_same_as_on_disk(
    bucket: Path,
    storage: Storage,
    tmp_path: Path,
    write: Callable[[Path], None],
    split: str,
    count: int,
) -> None:
    write(bucket / "set")
    here = hr.index(bucket / "set", tmp_path / "here.hr", split=split)
    there = hr.index("s3://photos/set", tmp_path / "there.hr", split=split, storage=storage)
    assert there["rows"] == here["rows"] == count
    assert there["fingerprint"] == here["fingerprint"]
    found = keys_and_pixels(tmp_path / "there.hr", storage)
    assert found == keys_and_pixels(tmp_path / "here.hr", None)


@pytest.mark.parametrize(
    ("write", "splits"), [(a_folder_of_each_split, "train val"), (a_repository, "test train")]
)
def test_one_of_several_splits_in_folders_of_a_store_must_be_chosen(
    bucket: Path,
    storage: Storage,
    tmp_path: Path,
    write: Callable[[Path], None],
    splits: str,
) -> None:
    write(bucket / "set")
    first, second = splits.split()
    several = rf'there are several splits: \["{first}" "{second}"\]; split= chooses one'
    another = rf"split is .*other.* \(expected one of \[.?{first}.? .?{second}"
    for source, how in ((str(bucket / "set"), None), ("s3://photos/set", storage)):
        with pytest.raises(errors.ArgumentError, match=several):
            hr.index(source, tmp_path / "train.hr", storage=how)
        with pytest.raises(errors.ArgumentError, match=another):
            hr.index(source, tmp_path / "train.hr", split="other", storage=how)


def test_folders_of_a_store_without_a_container_are_an_empty_dataset(
    bucket: Path, storage: Storage, tmp_path: Path
) -> None:
    (bucket / "set" / "notes").mkdir(parents=True)
    (bucket / "set" / "notes" / "about.md").write_text("No container.")
    with pytest.raises(errors.EmptyDatasetError, match="there is no container that is known"):
        hr.index("s3://photos/set", tmp_path / "train.hr", storage=storage)
    mds.write(bucket / "set" / "data", [samples()])
    assert hr.index("s3://photos/set", tmp_path / "train.hr", storage=storage)["rows"] == COUNT
