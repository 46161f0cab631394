"""Damaged, missing and mistaken files: each is an error that says which, where and why."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import images
from headrace import errors


def small() -> list:
    return [hr.transforms.RandomResizedCrop(32)]


def read_all(dataset, **options: object) -> list[tuple[bytes, bytes]]:
    """Every batch as bytes; the loader is closed also if a batch raises."""
    settings = {"batch_size": 8, "transform": small(), "num_threads": 2, **options}
    with hr.Loader(dataset, output="numpy", **settings) as loader:
        return [(batch.tobytes(), labels.tobytes()) for batch, labels in loader]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return images.plain_tree(tmp_path / "images", 24, side=128)


@pytest.fixture
def packed(folder: Path, tmp_path: Path) -> Path:
    hr.pack(folder, tmp_path / "d.hr", shard_size="64KiB")
    return tmp_path / "d.hr"


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def test_a_truncated_jpeg_in_a_folder_is_an_error_that_names_the_file(folder: Path) -> None:
    bad = folder / "class1" / "image0004.jpg"
    cut(bad)
    with pytest.raises(errors.TruncatedError) as caught:
        read_all(folder, transform=[hr.transforms.Resize((32, 32))])
    assert caught.value.file == str(bad)
    assert caught.value.record == hr.Dataset(folder).info["rows"] // 3 + 1
    assert "image0004.jpg" in str(caught.value)


def test_the_verdict_on_a_packed_truncated_jpeg_does_not_depend_on_the_crop(
    folder: Path, tmp_path: Path
) -> None:
    cut(folder / "class1" / "image0004.jpg")
    hr.pack(folder, tmp_path / "d.hr")
    dataset = hr.Dataset(tmp_path / "d.hr")
    [record] = [i for i in range(len(dataset)) if dataset.facts(i)["key"] == "class1/image0004"]
    assert dataset.facts(record)["verdict"] == "truncated"
    for seed in range(20):  # also if the crop ends above the cut
        with pytest.raises(errors.TruncatedError) as caught:
            read_all(dataset, seed=seed, transform=[hr.transforms.RandomCrop(4)])
        assert caught.value.record == record


def test_a_file_that_is_no_image_is_a_bad_image_that_names_the_file(folder: Path) -> None:
    bad = folder / "class2" / "note.jpg"
    bad.write_text("this is no image")
    with pytest.raises(errors.HeadraceError) as caught:
        read_all(folder)
    assert isinstance(caught.value, errors.BadImageError | errors.UnsupportedError)
    assert caught.value.file == str(bad)


@pytest.mark.parametrize(
    ("name", "magic"),
    [
        ("AVIF", b"\0\0\0\x18ftypavif"),
        ("JPEG 2000", b"\0\0\0\x0cjP  \r\n\x87\n"),
        ("JPEG XL", b"\xff\x0a"),
        ("BigTIFF", b"II+\0\x08\0\0\0"),
    ],
)
def test_an_unsupported_type_is_named(folder: Path, name: str, magic: bytes) -> None:
    (folder / "class0" / "other.jpg").write_bytes(magic + bytes(64))
    with pytest.raises(errors.UnsupportedError, match=f"(?i){name}") as caught:
        read_all(folder)
    assert caught.value.file.endswith("other.jpg")


def test_a_file_that_vanished_is_a_missing_file_error_that_names_it(folder: Path) -> None:
    dataset = hr.Dataset(folder)
    (folder / "class0" / "image0003.jpg").unlink()
    with pytest.raises(errors.MissingFileError, match="image0003") as caught:
        read_all(dataset)
    assert isinstance(caught.value, FileNotFoundError)


def test_missing_directories_empty_directories_and_empty_classes_are_different_errors(
    tmp_path: Path,
) -> None:
    with pytest.raises(errors.MissingFileError, match="nowhere"):
        hr.Dataset(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(errors.EmptyDatasetError, match="empty"):
        hr.Dataset(tmp_path / "empty")
    (tmp_path / "classes" / "cats").mkdir(parents=True)
    with pytest.raises(errors.EmptyDatasetError, match="cats"):
        hr.Dataset(tmp_path / "classes")


def test_two_files_with_the_same_key_are_refused_when_packing_and_indexing(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copy(folder / "class0" / "image0000.jpg", folder / "class0" / "image0000.png")
    with pytest.raises(errors.DuplicateKeyError, match="class0/image0000"):
        hr.pack(folder, tmp_path / "d.hr")
    assert not (tmp_path / "d.hr").exists()
    with pytest.raises(errors.DuplicateKeyError, match="class0/image0000"):
        hr.index(folder, index_dir=tmp_path / "index")


def test_a_writer_refuses_a_second_sample_with_the_same_key(tmp_path: Path) -> None:
    def write() -> None:
        with hr.Writer(tmp_path / "d.hr") as writer:
            writer.add(images.jpeg(20, 20), 0, key="twice")
            writer.add(images.jpeg(20, 20), 1, key="twice")

    with pytest.raises(errors.DuplicateKeyError, match="twice"):
        write()
    assert not (tmp_path / "d.hr").exists()


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_truncated_shard_is_an_error_that_names_the_shard(packed: Path, backend: str) -> None:
    shard = sorted(packed.glob("shard-*.tar"))[1]
    cut(shard)
    with pytest.raises(errors.HeadraceError) as caught:
        read_all(hr.Dataset(packed, backend=backend))
    assert isinstance(caught.value, errors.TruncatedError | errors.BadFileError)
    assert shard.name in str(caught.value)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_shard_cut_while_the_loader_is_open_is_an_error_and_no_signal(
    packed: Path, backend: str
) -> None:
    dataset = hr.Dataset(packed, backend=backend)
    with hr.Loader(dataset, 1, transform=small(), num_threads=1, prefetch=1) as loader:
        iterator = iter(loader)
        next(iterator)
        for shard in sorted(packed.glob("shard-*.tar"))[1:]:
            shard.write_bytes(b"")
        with pytest.raises(errors.HeadraceError) as caught:
            list(iterator)
    assert "shard-" in str(caught.value)


def test_swapped_shards_are_noticed(packed: Path) -> None:
    one, two, *_ = sorted(packed.glob("shard-*.tar"))
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)
    with pytest.raises(errors.HeadraceError, match="shard-0000"):
        read_all(packed)
    assert not hr.verify(packed)["ok"]


def test_a_flipped_bit_in_a_record_is_a_checksum_error_with_shard_and_offset(packed: Path) -> None:
    dataset = hr.Dataset(packed)
    facts = dataset.facts(5)
    shard = Path(facts["path"])
    data = bytearray(shard.read_bytes())
    at = data.index(bytes(dataset.read(5))) + 300
    data[at] ^= 1
    shard.write_bytes(data)
    with pytest.raises(errors.ChecksumError) as caught:
        read_all(packed)
    assert caught.value.record == 5
    assert caught.value.file == str(shard)
    assert caught.value.offset is not None
    [fault] = hr.verify(packed)["faults"]["listed"]
    assert fault["file"] == str(shard)
    assert (fault["record"], fault["key"]) == (5, facts["key"])
    assert fault["offset"] == caught.value.offset


def index_files(packed: Path) -> list[Path]:
    found = [
        packed / "headrace.json",
        *packed.glob("headrace-index-*"),
        *packed.glob("headrace-seek-*"),
    ]
    assert len(found) == 3
    return found


def test_any_altered_byte_of_index_or_manifest_is_noticed_or_changes_nothing(packed: Path) -> None:
    expected = read_all(packed)
    order = random.Random(1)
    unnoticed = []
    for path in index_files(packed):
        original = path.read_bytes()
        for at in order.sample(range(len(original)), 150):
            damaged = bytearray(original)
            damaged[at] ^= 1 << order.randrange(8)
            path.write_bytes(damaged)
            try:
                if read_all(packed) != expected:
                    unnoticed.append((path.name, at))
            except errors.InternalError:
                raise
            except errors.HeadraceError:
                pass
        path.write_bytes(original)
    assert unnoticed == []
    assert read_all(packed) == expected


def test_an_index_or_manifest_truncated_to_any_length_is_refused(packed: Path) -> None:
    for path in index_files(packed):
        original = path.read_bytes()
        for length in [0, 1, len(original) // 2, len(original) - 1]:
            path.write_bytes(original[:length])
            with pytest.raises(errors.HeadraceError) as caught:
                read_all(packed)
            assert not isinstance(caught.value, errors.InternalError)
        path.write_bytes(original)


def test_replace_keeps_the_epochs_length_and_reports_every_substitute(folder: Path) -> None:
    bad = [folder / "class1" / "image0004.jpg", folder / "class2" / "image0011.jpg"]
    for path in bad:
        cut(path)

    def epoch(threads: int) -> tuple[list[bytes], list[dict]]:
        options = {"shuffle": True, "seed": 4, "num_threads": threads, "output": "numpy"}
        steps = [hr.transforms.Resize((32, 32))]
        with hr.Loader(folder, 8, on_error="replace", transform=steps, **options) as loader:
            batches = [batch.tobytes() for batch, _ in loader]
            return batches, sorted(loader.report(), key=lambda entry: entry["index"])

    batches, report = epoch(2)
    assert len(batches) == 3
    assert [entry["key"] for entry in report if entry["epoch"] == 0] == [
        "class1/image0004",
        "class2/image0011",
    ]
    for entry in report:
        assert entry["substitute"] != entry["index"]
        assert entry["error"]
    assert epoch(1)[0] == batches  # the substitute is deterministic


def test_replace_ends_with_an_error_if_no_sample_is_good(tmp_path: Path) -> None:
    images.write_tree(tmp_path, {f"a/{i}.jpg": b"\xff\xd8 broken" for i in range(9)})
    with pytest.raises(errors.HeadraceError):
        read_all(tmp_path, on_error="replace")


def test_an_error_comes_at_its_batch_after_the_batches_before_it(folder: Path) -> None:
    cut(folder / "class2" / "image0002.jpg")  # the first of the last class: number 16
    with hr.Loader(folder, 4, transform=[hr.transforms.Resize((8, 8))], output="numpy") as loader:
        iterator, delivered = iter(loader), []
        with pytest.raises(errors.TruncatedError):
            delivered.extend(labels for _, labels in iterator)
    assert np.concatenate(delivered).tolist() == [0] * 8 + [1] * 8


@pytest.mark.parametrize("sampled", [False, True], ids=["own order", "sampler"])
def test_a_batch_with_a_bad_file_is_skipped_after_its_error_as_in_torch(
    folder: Path, sampled: bool
) -> None:
    cut(folder / "class2" / "image0002.jpg")  # number 16, which is in the third batch
    order: dict[str, Any] = {"sampler": list(range(24))} if sampled else {}
    steps = [hr.transforms.Resize((8, 8))]
    with hr.Loader(folder, 6, transform=steps, fields=["index"], **order) as loader:
        for _ in range(2):
            iterator, seen = iter(loader), []
            for _ in range(4):
                try:
                    seen.append(next(iterator)[2]["index"].tolist())
                except errors.TruncatedError:
                    seen.append([])
                    assert loader.state_dict()["position"] == 18
            assert seen == [[*range(6)], [*range(6, 12)], [], [*range(18, 24)]]
            with pytest.raises(StopIteration):
                next(iterator)


@pytest.mark.parametrize(
    ("limits", "data", "word"),
    [
        ({"max_pixels": 1000}, images.png(40, 30, 2), "pixels"),
        ({"max_scans": 3}, lambda: images.jpeg(40, 30, flags=("progressive",)), "scans"),
        ({"max_record_bytes": 100}, images.png(40, 30, 2), "bytes"),
        ({"max_decoder_bytes": 1000}, lambda: images.jpeg(640, 480), "bytes"),
    ],
    ids=["pixels", "scans", "record", "memory"],
)
def test_an_exceeded_limit_is_named_with_both_numbers(limits, data, word) -> None:
    data = data() if callable(data) else data
    with pytest.raises(errors.LimitError, match=word) as caught:
        hr.functional.decode(data, limits=limits)
    assert str(next(iter(limits.values()))) in str(caught.value).replace(",", "")


def jpeg_that_says(width: int, height: int) -> bytes:
    header = bytearray(images.jpeg(16, 16, "4:4:4"))
    at = header.index(b"\xff\xc0") + 5
    header[at : at + 4] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(header)


def test_an_image_of_pillows_bomb_size_is_refused_by_default() -> None:
    with pytest.raises(errors.LimitError, match=r"(?s)89,?478,?485"):
        hr.functional.decode(jpeg_that_says(20000, 20000))


@pytest.mark.slow
def test_an_image_with_a_side_beyond_the_formats_limit_is_refused_with_both_numbers() -> None:
    with pytest.raises(errors.LimitError, match=r"65501 x 16 pixels, a JPEG may have 65500 a side"):
        hr.functional.decode(jpeg_that_says(65501, 16))
    png = images.png((1 << 24) + 1, 1, 0, 1)
    with pytest.raises(errors.LimitError, match=r"16777217x1 pixels; a side is at most 16777216"):
        hr.functional.resized_crop(png, 0, 0, 1, 1, 1)


def test_a_jpeg_cut_at_any_byte_never_gives_pixels_silently() -> None:
    whole = images.jpeg(40, 30, "4:2:0")
    expected = hr.functional.decode(whole)
    for length in range(len(whole) - 2):  # a missing EOI alone is no error
        try:
            found = hr.functional.decode(whole[:length])
        except errors.InternalError:
            raise
        except errors.HeadraceError:
            continue
        # Only padding bits of the last byte may be missing.
        assert np.array_equal(found, expected), length
        assert length >= len(whole) - 3


def spans(dataset: hr.Dataset) -> list[tuple[str, int, int]]:
    """Shard, first byte and end of every record."""
    facts = [dataset.facts(i) for i in range(len(dataset))]
    return [(f["path"], f["offset"], f["offset"] + f["length"]) for f in facts]


def epoch_with_losses(packed: Path, backend: str) -> tuple[list[int], list[dict]]:
    """The numbers in the keys of the samples that came, and the report."""
    with hr.Dataset(packed, backend=backend) as dataset:
        options = {"shuffle": True, "seed": 5, "num_threads": 2, "output": "numpy"}
        with hr.Loader(
            dataset, 8, transform=small(), on_error="replace", fields=["index"], **options
        ) as loader:
            came = [int(i) for *_, fields in loader for i in fields["index"]]
            return came, sorted(loader.report(), key=lambda entry: entry["index"])


@pytest.mark.parametrize("backend", ["mmap", "pread"])
@pytest.mark.parametrize(
    "place", ["empty", "header", "inside", "between", "behind the last", "one shard left of many"]
)
def test_replace_delivers_what_a_truncated_shard_still_holds_and_reports_the_rest(
    packed: Path, backend: str, place: str
) -> None:
    with hr.Dataset(packed) as dataset:
        records = spans(dataset)
    shards = sorted(packed.glob("shard-*.tar"))
    assert len(shards) > 2
    whole = shards[1].read_bytes()
    first = next(record for record in records if record[0] == str(shards[1]))
    cut_at = {
        "empty": 0,
        "header": first[2] + 100,
        "inside": (first[1] + first[2]) // 2,
        "between": first[2],
        "behind the last": len(whole) - 1,
        "one shard left of many": first[2],
    }[place]
    damaged = {str(shards[1]): cut_at}
    if place == "one shard left of many":
        damaged |= {str(path): 0 for path in shards[2:]}
    for path, length in damaged.items():
        Path(path).write_bytes(Path(path).read_bytes()[:length])

    lost = {i for i, (path, _, end) in enumerate(records) if end > damaged.get(path, end)}
    came, report = epoch_with_losses(packed, backend)
    assert len(came) == len(records)
    assert set(came) == set(range(len(records))) - lost
    assert [entry["index"] for entry in report] == sorted(lost)
    for entry in report:
        path = records[entry["index"]][0]
        assert entry["error"].startswith(f"{path}: record {entry['index']} ({entry['key']})")
        assert f"at byte {damaged[path]}: bad: the shard is truncated" in entry["error"]
    assert not hr.verify(packed)["ok"]


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_replace_reports_every_record_of_a_missing_shard(packed: Path, backend: str) -> None:
    with hr.Dataset(packed) as dataset:
        records = spans(dataset)
    gone = sorted(packed.glob("shard-*.tar"))[0]
    gone.unlink()
    lost = [i for i, (path, *_) in enumerate(records) if path == str(gone)]
    came, report = epoch_with_losses(packed, backend)
    assert set(came) == set(range(len(records))) - set(lost)
    assert [entry["index"] for entry in report] == lost
    assert all("no such file" in entry["error"] for entry in report)


@pytest.mark.parametrize("backend", ["mmap", "pread"])
def test_a_truncated_shards_error_has_the_offset_where_the_file_ends(
    packed: Path, backend: str
) -> None:
    shard = sorted(packed.glob("shard-*.tar"))[1]
    cut(shard)
    with pytest.raises(errors.TruncatedError) as caught, hr.Dataset(packed, backend=backend) as d:
        read_all(d)
    assert caught.value.file == str(shard)
    assert caught.value.offset == shard.stat().st_size


def test_verify_lists_images_that_were_faulty_when_packed_separately(
    folder: Path, tmp_path: Path
) -> None:
    cut(folder / "class1" / "image0004.jpg")
    made = hr.pack(folder, tmp_path / "d.hr")
    found = hr.verify(tmp_path / "d.hr")
    assert found["ok"]
    assert found["faults"] == {"total": 0, "listed": []}
    assert found["known_faults"] == made["faults"]["total"] == 1
    [known] = found["known"]
    with hr.Dataset(tmp_path / "d.hr") as dataset:
        facts = dataset.facts(known["record"])
    assert (known["file"], known["key"]) == (facts["path"], "class1/image0004")
    assert known["found"] == "truncated"
    assert facts["offset"] <= known["offset"] <= facts["offset"] + facts["length"]
    assert known["text"] == made["faults"]["listed"][0]["reason"]


def test_a_manifest_without_a_label_column_gives_unlabelled_samples_and_a_warning(
    folder: Path, tmp_path: Path
) -> None:
    rows = ("\ufeffpath,breed", "class0/image0000.jpg,cat", "class1/image0001.jpg,dog")
    (folder / "list.csv").write_text("\n".join(rows) + "\n")
    said = r'list\.csv: there is no column "label", so every label is -1 \(found "path", "breed"\)'
    with pytest.warns(UserWarning, match=said):
        hr.pack(folder / "list.csv", tmp_path / "d.hr")
    hr.pack(folder / "list.csv", tmp_path / "named.hr", label_column="breed")
    with hr.Dataset(tmp_path / "d.hr") as dataset:
        assert [dataset.facts(i)["label"] for i in range(2)] == [-1, -1]
