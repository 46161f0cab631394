"""Containers of other programs, read in place: their pixels, labels, keys and fields."""

from __future__ import annotations

import io
import json
import pickle
import shutil
import subprocess
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import betons
import chunks
import headrace as hr
import headrace.transforms as T
import images
import mds
import recordio
import tables
import tfrecords
from headrace import errors

webdataset = pytest.importorskip("webdataset")

PER_SHARD = 8


def image(number: int) -> bytes:
    return images.jpeg(40 + number, 50, seed=number)


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three shards by webdataset's own writer, with a pax header before each member."""
    root = tmp_path_factory.mktemp("containers") / "wds"
    root.mkdir()
    for shard in range(3):
        with webdataset.TarWriter(str(root / f"train-{shard:06d}.tar")) as writer:
            for number in range(shard * PER_SHARD, (shard + 1) * PER_SHARD):
                sample: dict[str, Any] = {"__key__": f"k/{number:04d}", "jpg": image(number)}
                writer.write(sample | {"cls": number % 5, "txt": f"été {number}"})
    return root


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("records")
    for shard in range(2):
        examples = [
            {
                "image/encoded": image(number),
                "image/class/label": number % 5 + 1,
                "image/width": 40 + number,
                "weight": number / 4,
            }
            for number in range(shard * PER_SHARD, (shard + 1) * PER_SHARD)
        ]
        tfrecords.write(root / f"train-{shard:05d}-of-00002", examples)
    return root


def huggingface() -> list[Any]:
    """Two tables of Hugging Face."""
    halves = [range(PER_SHARD), range(PER_SHARD, 2 * PER_SHARD)]
    names = ["cat", "dog", "emu"]
    return [tables.table([image(i) for i in half], [i % 3 for i in half], names) for half in halves]


def theirs(shards: Path) -> list[dict[str, Any]]:
    paths = [str(path) for path in sorted(shards.glob("*.tar"))]
    return list(webdataset.WebDataset(paths, shardshuffle=False))


@pytest.mark.parametrize("how", ["braces", "wildcard", "folder", "list"])
def test_webdataset_shards_hold_what_webdataset_reads(shards: Path, how: str) -> None:
    source: Any = {
        "braces": f"{shards}/train-{{000000..000002}}.tar",
        "wildcard": f"{shards}/train-*.tar",
        "folder": shards,
        "list": sorted(shards.glob("*.tar")),
    }[how]
    with hr.Dataset(source) as dataset:
        assert dataset.kind == "scanned"
        expected = theirs(shards)
        assert len(dataset) == len(expected) == 3 * PER_SHARD
        for number, sample in enumerate(expected):
            assert dataset.read(number) == sample["jpg"]
            mine = dataset[number]
            assert (mine.key, mine.label) == (sample["__key__"], int(sample["cls"]))
            assert mine.fields == {"txt": sample["txt"].decode()}


def batches(dataset: hr.Dataset) -> list[list[torch.Tensor]]:
    with hr.Loader(
        dataset, batch_size=5, transform=[T.RandomResizedCrop(24)], shuffle=True, seed=7
    ) as loader:
        return [[torch.as_tensor(part).clone() for part in batch] for batch in loader]


@pytest.fixture(
    params=[
        "webdataset",
        "tfrecord",
        "recordio",
        "beton",
        "zip",
        "deflated",
        "mds",
        "arrow",
        "parquet",
        "snappy",
        "litdata",
    ]
)
def source(
    request: pytest.FixtureRequest, shards: Path, records: Path, tmp_path_factory: Any
) -> str | list[Path]:
    if request.param == "arrow":
        return str(tables.save(tmp_path_factory.mktemp("arrow") / "saved", huggingface()))
    if request.param == "litdata":
        items = [chunks.item(image(i), i % 3, f"été {i}") for i in range(PER_SHARD)]
        both = [chunks.classic(items), chunks.framed(items[::-1], 3)]
        return str(chunks.write(tmp_path_factory.mktemp("litdata") / "train", both, PER_SHARD))
    if request.param == "webdataset":
        return f"{shards}/*.tar"
    if request.param == "tfrecord":
        return sorted(records.glob("train-*"))
    if request.param == "recordio":
        path = tmp_path_factory.mktemp("recordio") / "train.rec"
        recordio.write(path, [(image(number), number % 5) for number in range(PER_SHARD)])
        return str(path)
    if request.param == "mds":
        halves = [range(PER_SHARD), range(PER_SHARD, 2 * PER_SHARD)]
        samples = [[(image(i), i % 5, f"été {i}") for i in half] for half in halves]
        return str(mds.write(tmp_path_factory.mktemp("mds"), samples))
    if request.param == "beton":
        path = tmp_path_factory.mktemp("beton") / "train.beton"
        return str(betons.write(path, [(image(i), i % 5) for i in range(PER_SHARD)]))
    if request.param == "parquet":
        return tables.parquet(tmp_path_factory.mktemp("parquet"), huggingface())
    if request.param == "snappy":
        options: dict[str, Any] = {"compression": "snappy", "use_dictionary": True}
        return tables.parquet(tmp_path_factory.mktemp("snappy"), huggingface(), **options)
    path = tmp_path_factory.mktemp("zip") / "photos.zip"
    method = zipfile.ZIP_DEFLATED if request.param == "deflated" else zipfile.ZIP_STORED
    with zipfile.ZipFile(path, "w", method) as archive:
        for number in range(PER_SHARD):
            archive.writestr(f"top/class {number % 3}/{number}.jpg", image(number))
    return str(path)


Source = str | list[Path]


def test_scanned_indexed_and_packed_give_the_same_batches(source: Source, tmp_path: Path) -> None:
    hr.index(source, tmp_path / "index.hr")
    hr.pack(source, tmp_path / "packed.hr")
    hr.pack(tmp_path / "index.hr", tmp_path / "again.hr")
    with hr.Dataset(source) as scanned:
        want = batches(scanned)
        fields = [scanned[i].fields for i in range(len(scanned))]
    for name, kind in (("index.hr", "contained"), ("packed.hr", "packed"), ("again.hr", "packed")):
        with hr.Dataset(tmp_path / name) as dataset:
            assert dataset.kind == kind
            assert [dataset[i].fields for i in range(len(dataset))] == fields
            found = batches(dataset)
        assert all(
            torch.equal(a, b)
            for one, other in zip(want, found, strict=True)
            for a, b in zip(one, other, strict=True)
        )
        assert hr.verify(tmp_path / name, decode=True)["ok"]


def test_an_index_notes_verdicts_sizes_and_seek_points(source: Source, tmp_path: Path) -> None:
    made = hr.index(source, tmp_path / "index.hr")
    assert (made["kind"], made["counts"]["verdict"]) == ("contained", {"good": made["rows"]})
    with hr.Dataset(tmp_path / "index.hr") as dataset:
        found = dataset.facts(3)
        assert dataset[3].image.shape == (found["height"], found["width"], 3)
        assert (found["height"], found["verdict"], found["seek_length"] > 0) == (50, "good", True)


def test_vectors_of_labels_stay_arrays_in_an_index_and_in_shards(tmp_path: Path) -> None:
    fixtures = Path(__file__).parents[2] / "internal" / "scan" / "testdata"
    source = shutil.copy(fixtures / "vectors.rec", tmp_path)
    hr.index(source, tmp_path / "index.hr")
    hr.pack(tmp_path / "index.hr", tmp_path / "packed.hr")
    for path in (source, tmp_path / "index.hr", tmp_path / "packed.hr"):
        with hr.Dataset(path) as dataset:
            assert dataset[3].fields["label"].tolist() == [3.0, 1.5, -3.0]
            with hr.Loader(
                dataset, batch_size=4, transform=[T.Resize((8, 8))], fields=["label"]
            ) as part:
                _, labels, fields = next(iter(part))
        assert labels.tolist() == [-1] * 4
        assert fields["label"].tolist() == [[i, i / 2, -i] for i in range(4)]


def test_lmdb_values_in_lz4_frames_are_read_as_images(tmp_path: Path) -> None:
    fixture = Path(__file__).parents[2] / "internal" / "scan" / "testdata" / "lz4.lmdb"
    source = shutil.copy(fixture, tmp_path / "train.lmdb")
    hr.index(source, tmp_path / "index.hr")
    hr.pack(source, tmp_path / "packed.hr")
    with hr.Dataset(source) as scanned:
        want = batches(scanned)
        assert len(scanned) == 7
    for name in ("index.hr", "packed.hr"):
        with hr.Dataset(tmp_path / name) as dataset:
            found = batches(dataset)
        assert all(torch.equal(a[0], b[0]) for a, b in zip(want, found, strict=True))
        assert hr.verify(tmp_path / name, decode=True)["ok"]


def test_a_data_loader_over_containers_gives_each_sample_once(source: Source) -> None:
    with hr.Dataset(source) as dataset:
        labels = sorted(dataset.facts(i)["label"] for i in range(len(dataset)))
        loader = hr.DataLoader(dataset, batch_size=5, shuffle=True, transform=[T.Resize((16, 16))])
        assert sorted(label for _, part in loader for label in part.tolist()) == labels


def test_tfrecords_keep_their_labels_and_have_fields_of_their_types(records: Path) -> None:
    with hr.Dataset(f"{records}/train-*") as dataset:
        sample = dataset[9]
        assert (sample.label, sample.key) == (9 % 5 + 1, "train-00001-of-00002/1")
        assert sample.fields == {"image/width": 49, "weight": 9 / 4}
        assert dataset.read(9) == image(9)


def test_an_index_is_opened_where_its_containers_are_moved_to(shards: Path, tmp_path: Path) -> None:
    together = tmp_path / "together"
    shutil.copytree(shards, together / "wds")
    made = hr.index(f"{together}/wds/train-*.tar")
    assert made["destination"] == str(together / "wds" / "train.hr")
    hr.index(f"{together}/wds/train-*.tar", tmp_path / "far.hr")
    moved = tmp_path / "moved"
    together.rename(moved)
    with hr.Dataset(moved / "wds" / "train.hr") as dataset:
        assert dataset[0].label == 0
    with hr.Dataset(tmp_path / "far.hr") as dataset:
        for read in (dataset.read, dataset.__getitem__):
            with pytest.raises(FileNotFoundError, match=r"train-.*tar: .* \(root= takes the fol"):
                read(0)
    with hr.Dataset(tmp_path / "far.hr", root=moved / "wds") as dataset:
        assert dataset[0].label == 0
    assert hr.verify(tmp_path / "far.hr", root=moved / "wds")["ok"]


def test_a_container_that_was_rewritten_is_refused_with_both_sizes(
    shards: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "train.tar"
    shutil.copy(shards / "train-000000.tar", copy)
    hr.index(copy)
    size = copy.stat().st_size
    with copy.open("ab") as file:
        file.write(bytes(512))
    with (
        hr.Dataset(tmp_path / "train.hr") as dataset,
        pytest.raises(errors.BadFileError, match=f"expected {size} bytes, found {size + 512}"),
    ):
        dataset[0]


def test_a_hugging_face_table_has_its_classes_fields_and_paths_as_keys(tmp_path: Path) -> None:
    tables.save(tmp_path / "saved", huggingface())
    with hr.Dataset(tmp_path / "saved") as dataset:
        assert (len(dataset), dataset.classes) == (2 * PER_SHARD, ["cat", "dog", "emu"])
        sample = dataset[PER_SHARD + 1]
        assert dataset.read(PER_SHARD + 1) == image(PER_SHARD + 1)
        assert (sample.label, sample.key) == ((PER_SHARD + 1) % 3, "data-00001-of-00002/0001")
        fields = {"caption": "été 1", "weight": 0.25, "image.path": "0001.jpg"}
        assert sample.fields == fields


def test_files_of_a_hugging_face_repository_are_a_dataset_with_splits(tmp_path: Path) -> None:
    tables.parquet(tmp_path / "data", huggingface())
    tables.parquet(tmp_path / "data", huggingface()[:1], "test")
    with pytest.raises(errors.ArgumentError, match=r'\["test" "train"\]; split= chooses one'):
        hr.Dataset(tmp_path)
    with hr.Dataset(tmp_path, split="test") as dataset:
        assert (len(dataset), dataset.classes) == (PER_SHARD, ["cat", "dog", "emu"])
        assert [dataset.read(i) for i in range(PER_SHARD)] == [image(i) for i in range(PER_SHARD)]
        fields = {"caption": "été 5", "weight": 1.25, "image.path": "0005.jpg"}
        assert (dataset[5].key, dataset[5].label, dataset[5].fields) == ("0005", 2, fields)


def test_a_parquet_list_of_files_is_packed_as_a_list(tmp_path: Path) -> None:
    (tmp_path / "0.jpg").write_bytes(image(0))
    table = tables.pa.table({"path": ["0.jpg"], "label": [3], "thumbnail": [b"?"]})
    tables.pq.write_table(table, tmp_path / "list.parquet")
    hr.pack(tmp_path / "list.parquet", tmp_path / "packed.hr")
    with hr.Dataset(tmp_path / "packed.hr") as dataset:
        assert (dataset.read(0), dataset[0].label) == (image(0), 3)


@pytest.mark.parametrize("words", [{"path_column": "path"}, {"label_column": "label"}])
def test_a_parquet_list_that_is_said_to_be_one_is_packed_as_one_whatever_else_it_has(
    tmp_path: Path, words: dict[str, Any]
) -> None:
    (tmp_path / "0.jpg").write_bytes(image(0))
    table = tables.pa.table({"path": ["0.jpg"], "label": [3], "image": [b"?"]})
    tables.pq.write_table(table, tmp_path / "list.parquet")
    hr.pack(tmp_path / "list.parquet", tmp_path / "packed.hr", **words)
    with hr.Dataset(tmp_path / "packed.hr") as dataset:
        assert (dataset.read(0), dataset[0].label) == (image(0), 3)


@pytest.mark.parametrize(("name", "words"), [("image", {}), ("photo", {"image": "photo"})])
def test_a_parquet_file_of_images_and_their_paths_is_packed_as_the_container_that_it_is(
    tmp_path: Path, name: str, words: dict[str, Any]
) -> None:
    columns = {name: [image(i) for i in range(3)], "label": [0, 1, 2], "path": ["a", "b", "c"]}
    tables.pq.write_table(tables.pa.table(columns), tmp_path / "train.parquet")
    for make in (hr.pack, hr.index):
        made = tmp_path / f"{make.__name__}.hr"
        make(tmp_path / "train.parquet", made, **words)
        with hr.Dataset(made) as dataset:
            assert [bytes(dataset.read(i)) for i in range(3)] == columns[name]
            assert [(s.label, s.fields) for s in dataset] == [
                (i, {"path_": path}) for i, path in enumerate("abc")
            ]


def test_a_pickled_scanned_dataset_keeps_its_arguments(shards: Path) -> None:
    with hr.Dataset(f"{shards}/*.tar", fields=[], classes=list("abcde")) as dataset:
        again = pickle.loads(pickle.dumps(dataset))
    with again:
        assert (again.classes, again[7].label, again[7].fields) == (list("abcde"), 2, {})


def test_class_folders_in_a_tar_are_an_image_folder(tmp_path: Path) -> None:
    folder = images.plain_tree(tmp_path / "photos", 12)
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        archive.add(folder, "photos")
    with hr.Dataset(folder) as listed, hr.Dataset(tmp_path / "photos.tar") as dataset:
        assert dataset.classes == listed.classes
        for number in range(len(listed)):
            one, other = listed[number], dataset[number]
            assert (one.key, one.label) == (other.key, other.label)
            assert dataset.read(number) == listed.read(number)


def write(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def test_a_missing_label_gives_a_warning_and_an_ambiguous_image_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "plain.tar", {"0.jpg": image(0), "0.note": b"x"})
    with pytest.warns(UserWarning, match="every label is -1") as said:
        hr.Loader(tmp_path / "plain.tar", 1, transform=[T.CenterCrop(8)]).close()
    assert [warning.filename for warning in said] == [__file__]
    write(tmp_path / "two.tar", {"0.jpg": image(0), "0.png": image(1), "0.cls": b"1"})
    with pytest.raises(errors.UnsupportedError, match=r"jpg and png may both be the image"):
        hr.Dataset(tmp_path / "two.tar")
    with hr.Dataset(tmp_path / "two.tar", image="png") as dataset:
        assert dataset.read(0) == image(1)
    write(tmp_path / "none.tar", {"0.txt": b"x"})
    with pytest.raises(errors.UnsupportedError, match=r'\(found "txt"\); image= names it'):
        hr.Dataset(tmp_path / "none.tar")


def test_info_lists_the_columns_of_an_ambiguous_source_and_the_arguments_that_decide(
    tmp_path: Path,
) -> None:
    members = {"0.jpg": image(0), "0.png": image(1), "0.cls": b"1"}
    members |= {f"0.x{i:02d}": b"x" for i in range(30)}
    write(tmp_path / "two.tar", members)
    command = [sys.executable, "-m", "headrace", "info", str(tmp_path / "two.tar")]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "jpg and png may both be the image; --image says which" in told.stderr
    lines = [line.split(None, 1) for line in told.stdout.splitlines()]
    said = {name: text for name, text in lines if name != "column"}
    assert (said["images"], said["kind"]) == ("1", "scanned")
    columns = [text for name, text in lines if name == "column"]
    assert columns[:3] == [
        "jpg (bytes, perhaps the image, 1)",
        "png (bytes, perhaps the image, 1)",
        "cls (bytes, label, 1)",
    ]
    assert len(columns) == 33
    found = json.loads(
        subprocess.run([*command, "--json"], capture_output=True, text=True, check=False).stdout
    )
    assert found["first_key"] == "0"
    assert found["source"]["sample"] == [name[2:] for name in members]
    assert "image= says which" in found["doubts"][0]
    clear = subprocess.run([*command, "--image", "png"], capture_output=True, text=True, check=True)
    assert "png (bytes, image, 1)" in clear.stdout


def test_several_splits_are_an_error_that_names_them(tmp_path: Path) -> None:
    for name, number in (("train-0.tar", 0), ("train-1.tar", 1), ("test-0.tar", 2)):
        write(tmp_path / name, {f"{number}.jpg": image(number), f"{number}.cls": b"1"})
    with pytest.raises(errors.ArgumentError, match=r'\["test" "train"\]; split= chooses one'):
        hr.Dataset(tmp_path)
    with hr.Dataset(tmp_path, split="train") as dataset:
        assert len(dataset) == 2
    with hr.Dataset(f"{tmp_path}/*.tar", split="test") as dataset:
        assert len(dataset) == 1


@pytest.mark.slow
def test_the_command_line_shows_columns_and_indexes_containers(
    shards: Path, tmp_path: Path
) -> None:
    def run(*arguments: Any) -> str:
        command = [sys.executable, "-m", "headrace", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = run("info", f"{shards}/train-*.tar")
    assert "columns" in said
    assert "cls (bytes, label, 24), jpg (bytes, image, 24), txt (str, field, 24)" in said
    made = json.loads(
        run("index", f"{shards}/train-*.tar", "--out", tmp_path / "train.hr", "--json")
    )
    assert (made["rows"], made["kind"]) == (24, "contained")
    assert "contained" in run("info", tmp_path / "train.hr")
    assert json.loads(run("verify", tmp_path / "train.hr", "--json"))["ok"]


@pytest.mark.slow
def test_the_command_line_takes_several_sources_fields_and_classes(
    shards: Path, tmp_path: Path
) -> None:
    paths = [str(path) for path in sorted(shards.glob("*.tar"))[:2]]
    words = ["--fields", "__key__x", *(part for n in "abcde" for part in ("--classes", n))]

    def headrace(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert '"__key__x"' in headrace("info", *paths, *words).stderr
    words[1] = "txt"
    told = json.loads(headrace("info", *paths, *words, "--json").stdout)
    assert (told["rows"], told["classes"]) == (2 * PER_SHARD, [*"abcde"])
    assert headrace("pack", *paths, str(tmp_path / "packed.hr"), *words).returncode == 0
    index = str(tmp_path / "index.hr")
    assert headrace("index", *paths, "--out", index, *words).returncode == 0
    for name in ("packed.hr", "index.hr"):
        with hr.Dataset(tmp_path / name) as dataset:
            assert (len(dataset), dataset.classes) == (2 * PER_SHARD, [*"abcde"])
            assert dataset[-1].fields == {"txt": f"été {2 * PER_SHARD - 1}"}


def test_pack_and_index_each_warn_once_of_what_a_scan_finds(tmp_path: Path) -> None:
    with webdataset.TarWriter(str(tmp_path / "unlabelled.tar")) as writer:
        writer.write({"__key__": "a", "jpg": image(0)})
    said = "no column is known as the label, so every label is -1"
    for make in (hr.pack, hr.index):
        with pytest.warns(UserWarning, match=said) as caught:
            make(tmp_path / "unlabelled.tar", tmp_path / f"{make.__name__}.hr")
        assert (len(caught), caught[0].filename) == (1, __file__)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with hr.Dataset(tmp_path / "index.hr") as dataset:
            assert dataset[0].label == -1


def test_a_single_parquet_file_of_images_is_packed_as_a_container(tmp_path: Path) -> None:
    (path,) = tables.parquet(tmp_path / "repo", huggingface()[:1])
    assert hr.pack(path, tmp_path / "packed.hr")["rows"] == PER_SHARD
    with pytest.raises(errors.UnsupportedError, match='the column "image" is nested'):
        hr.pack(path, tmp_path / "list.hr", path_column="path")


def test_a_list_with_one_image_in_mds_is_the_samples_image(tmp_path: Path) -> None:
    photographs = [image(i) for i in range(3)]
    for encoding, head in (("jpeg_array", b""), ("list[jpeg]", bytes(4))):
        values = [mds.listed([photo], head) for photo in photographs]
        source = mds.one(tmp_path / "shard.00000.mds", encoding, values)
        with hr.Dataset(source) as dataset:
            assert [dataset.read(i) for i in range(3)] == photographs
        values[2] = mds.listed(photographs[:2], head)
        mds.one(source, encoding, values)
        with pytest.raises(errors.UnsupportedError, match=r"record 2.*holds a list of 2 images"):
            hr.Dataset(source)


def test_class_names_that_tfds_keeps_beside_its_records_are_the_datasets(
    tmp_path: Path,
) -> None:
    examples = [{"image": image(i), "label": i % 2} for i in range(4)]
    tfrecords.write(tmp_path / "pets-train.tfrecord-00000-of-00001", examples)
    with hr.Dataset(tmp_path, split="train") as dataset:
        assert dataset.classes == []
    (tmp_path / "label.labels.txt").write_text("cat\ndog\n")
    with hr.Dataset(tmp_path, split="train") as dataset:
        assert (dataset.classes, [dataset[i].label for i in range(4)]) == (
            ["cat", "dog"],
            [0, 1, 0, 1],
        )
