"""Arrays of pixels in files, read in place: every value and label, and an error for any damage."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import torchvision

import headrace as hr
from headrace import errors, writing
from headrace._arrays.opening import kind_of
from headrace._command import summary
from headrace.transforms import CenterCrop

IMAGES = np.random.default_rng(1).integers(0, 256, (30, 8, 11, 3), np.uint8)
GREYS = IMAGES[..., 0].copy()
LABELS = np.random.default_rng(2).integers(0, 10, 30)


def in_order(dataset: hr.Dataset, transform=()) -> tuple[np.ndarray, list[int]]:
    images, labels = [], []
    options = {"batch_size": 7, "dtype": "uint8", "num_threads": 2}
    with hr.Loader(dataset, transform=transform, **options) as loader:
        for batch, numbers in loader:
            images.append(batch.permute(0, 2, 3, 1).numpy().copy())
            labels += numbers.tolist()
    return np.concatenate(images), labels


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def safetensors(**tensors: np.ndarray) -> bytes:
    """A file written by hand as the format says: a header and the tensors that it describes."""
    header, data = {"__metadata__": {"made": "here"}}, b""
    for name, array in tensors.items():
        kind = {"uint8": "U8", "int64": "I64", "float32": "F32"}[str(array.dtype)]
        ends = [len(data), len(data) + array.nbytes]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": ends}
        data += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def written(folder: Path, kind: str) -> Path:
    """The same images and labels in a file of a kind."""
    path = folder / f"set.{kind}"
    if kind == "npy":
        np.save(path, IMAGES)
    elif kind == "npz":
        np.savez(path, images=IMAGES, labels=LABELS)
    elif kind == "safetensors":
        path.write_bytes(safetensors(labels=LABELS, images=IMAGES))
    elif kind == "pt":
        torch.save({"images": torch.from_numpy(IMAGES), "labels": torch.from_numpy(LABELS)}, path)
    elif kind == "tuple.pt":
        torch.save((torch.from_numpy(IMAGES), torch.from_numpy(LABELS)), path)
    return path


@pytest.mark.parametrize("kind", ["npz", "safetensors", "pt", "tuple.pt"])
def test_images_and_labels_of_a_file_are_found_and_read_in_place(tmp_path, kind):
    dataset = hr.Dataset(written(tmp_path, kind))
    images, labels = in_order(dataset)
    assert np.array_equal(images, IMAGES)
    assert labels == LABELS.tolist()
    assert (dataset.kind, dataset.info["shards"]) == ("arrays", 1)
    assert np.array_equal(dataset[4].image, IMAGES[4])
    again = pickle.loads(pickle.dumps(dataset))
    assert again.fingerprint == dataset.fingerprint
    assert np.array_equal(again[9].image, IMAGES[9])


def test_labels_of_an_npy_come_from_another_file_or_an_array_or_are_missing(tmp_path):
    path = written(tmp_path, "npy")
    np.save(tmp_path / "labels.npy", LABELS)
    for label, expected in (
        (tmp_path / "labels.npy", LABELS.tolist()),
        (str(tmp_path / "labels.npy"), LABELS.tolist()),
        (torch.from_numpy(LABELS), LABELS.tolist()),
        (None, [-1] * 30),
    ):
        images, labels = in_order(hr.Dataset(path, label=label))
        assert np.array_equal(images, IMAGES)
        assert labels == expected


def test_image_and_label_choose_between_several_arrays(tmp_path):
    path = tmp_path / "several.npz"
    np.savez(path, first=IMAGES, second=IMAGES[::-1], a=LABELS, b=LABELS[::-1])
    with pytest.raises(errors.ArgumentError, match="image= is needed"):
        hr.Dataset(path)
    with pytest.warns(UserWarning, match="every label is -1: .*may be given as label="):
        assert hr.Dataset(path, image="first")[3].label == -1
    images, labels = in_order(hr.Dataset(path, image="second", label="b"))
    assert np.array_equal(images, IMAGES[::-1])
    assert labels == LABELS[::-1].tolist()
    other = hr.Dataset(path, image="first", label="b").fingerprint
    assert other != hr.Dataset(path, image="second", label="b").fingerprint
    with pytest.raises(errors.ArgumentError, match="image='third': one of"):
        hr.Dataset(path, image="third")


def test_a_tfrecord_whose_checksum_begins_with_a_brace_is_not_taken_for_safetensors(tmp_path):
    record = struct.pack("<Q", 24) + b"{\x90\x07\x31" + bytes(40)
    path = tmp_path / "x.tfrecord"
    path.write_bytes(record)
    assert kind_of(str(path)) is None


def mnist(folder: Path, images: np.ndarray = GREYS) -> Path:
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for split in ("train", "t10k"):
        (raw / f"{split}-images-idx3-ubyte").write_bytes(idx(images))
        (raw / f"{split}-labels-idx1-ubyte").write_bytes(idx(LABELS.astype(np.uint8)))
    return raw / "train-images-idx3-ubyte"


def test_mnists_files_have_the_images_and_labels_that_torchvision_reads(tmp_path):
    path = mnist(tmp_path)
    theirs = torchvision.datasets.MNIST(tmp_path)
    images, labels = in_order(hr.Dataset(path))
    assert np.array_equal(images[..., 0], theirs.data.numpy())
    assert labels == theirs.targets.tolist()


def test_mnists_folder_is_read_by_split(tmp_path):
    mnist(tmp_path)
    with pytest.raises(errors.ArgumentError, match="several splits"):
        hr.Dataset(tmp_path)
    for folder in (tmp_path, tmp_path / "MNIST" / "raw"):
        images, labels = in_order(hr.Dataset(folder, split="test"))
        assert np.array_equal(images[..., 0], GREYS)
        assert labels == LABELS.tolist()
    (tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte").unlink()
    with pytest.raises(errors.MissingFileError, match="split='train'"):
        hr.Dataset(tmp_path, split="train")


def test_several_files_of_arrays_are_one_dataset_by_list_wildcard_or_braces(tmp_path):
    for number, (begin, end) in enumerate([(0, 7), (7, 8), (8, 30)]):
        np.save(tmp_path / f"x-{number}.npy", IMAGES[begin:end])
        np.save(tmp_path / f"y-{number}.npy", LABELS[begin:end])
        named = {"images": IMAGES[begin:end], "labels": LABELS[begin:end]}
        np.savez(tmp_path / f"z-{number}.npz", **named)
    np.save(tmp_path / "all.npy", LABELS)
    paths = [tmp_path / f"x-{number}.npy" for number in range(3)]
    beside = [tmp_path / f"y-{number}.npy" for number in range(3)]
    for path, label in (
        (paths, beside),
        (str(tmp_path / "x-*.npy"), str(tmp_path / "y-*.npy")),
        (str(tmp_path / "x-{0..2}.npy"), tmp_path / "all.npy"),
        (str(tmp_path / "x-{0,1,2}.npy"), LABELS),
        (str(tmp_path / "z-?.npz"), None),
        (str(tmp_path / "z-?.npz"), "labels"),
    ):
        images, labels = in_order(hr.Dataset(path, label=label))
        assert np.array_equal(images, IMAGES)
        assert labels == LABELS.tolist()
    assert in_order(hr.Dataset(paths))[1] == [-1] * 30
    with pytest.raises(errors.ArgumentError, match=r"2 files .expected 3"):
        hr.Dataset(paths, label=beside[:2])
    np.save(paths[1], IMAGES[7:8, :5])
    with pytest.raises(errors.ArgumentError, match=r"height 5 .expected 8"):
        hr.Dataset(paths)
    paths[1].write_bytes(b"no array")
    with pytest.raises(errors.BadFileError, match=r"x-1\.npy: bad"):
        hr.Dataset(paths)


def test_an_idx_file_without_its_labels_has_none_and_a_compressed_sibling_is_named(tmp_path):
    path = mnist(tmp_path)
    sibling = path.with_name("train-labels-idx1-ubyte")
    data = sibling.read_bytes()
    sibling.unlink()
    assert in_order(hr.Dataset(path))[1] == [-1] * 30
    sibling.with_name(sibling.name + ".gz").write_bytes(gzip.compress(data))
    with pytest.raises(errors.UnsupportedError, match="gunzip it first"):
        hr.Dataset(path)


def test_compressed_idx_is_unsupported_with_advice(tmp_path):
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(idx(GREYS)))
    with pytest.raises(errors.UnsupportedError, match="decompress it first"):
        hr.Dataset(path)


def cifar(folder: Path, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """CIFAR's binary files: five of images, one of them shorter, and one of the test split."""
    generator = np.random.default_rng(3)
    images = generator.integers(0, 256, (57, 3, 32, 32), np.uint8)
    fine = generator.integers(0, 10, 57).astype(np.uint8)
    coarse = generator.integers(0, 20, 57).astype(np.uint8)
    labels = [fine] if kind == "cifar10" else [coarse, fine]
    records = np.concatenate([*(part[:, None] for part in labels), images.reshape(57, -1)], 1)
    names = ["train.bin"]
    if kind == "cifar10":
        names = [f"data_batch_{number}.bin" for number in range(1, 6)]
    for name, part in zip(names, np.array_split(records, len(names)), strict=True):
        (folder / name).write_bytes(part.tobytes())
    test = "test_batch.bin" if kind == "cifar10" else "test.bin"
    (folder / test).write_bytes(records[:3].tobytes())
    return images.transpose(0, 2, 3, 1), fine, coarse


def test_given_labels_replace_those_in_cifars_files(tmp_path):
    cifar(tmp_path, "cifar10")
    np.save(tmp_path / "y.npy", np.arange(57))
    for label in (tmp_path / "y.npy", str(tmp_path / "y.npy"), np.arange(57)):
        assert in_order(hr.Dataset(tmp_path, split="train", label=label))[1] == [*range(57)]
    with pytest.raises(errors.ArgumentError, match="a file that is there was expected"):
        hr.Dataset(tmp_path, split="train", label="neither")


@pytest.mark.parametrize("kind", ["cifar10", "cifar100"])
def test_cifars_binary_files_are_read_by_split_with_their_labels(tmp_path, kind):
    images, fine, coarse = cifar(tmp_path, kind)
    with pytest.raises(errors.ArgumentError, match="several splits"):
        hr.Dataset(tmp_path)
    found, labels = in_order(hr.Dataset(tmp_path, split="train"))
    assert np.array_equal(found, images)
    assert labels == fine.tolist()
    found, labels = in_order(hr.Dataset(tmp_path, format=kind, split="test"))
    assert np.array_equal(found, images[:3])
    if kind == "cifar100":
        by_coarse = hr.Dataset(tmp_path / "train.bin", label="coarse")
        assert in_order(by_coarse)[1] == coarse.tolist()


def test_names_of_cifars_classes_are_read_beside_its_files(tmp_path):
    cifar(tmp_path, "cifar10")
    (tmp_path / "batches.meta.txt").write_text("".join(f"class{n}\n" for n in range(10)) + "\n")
    assert hr.Dataset(tmp_path, split="test").classes == [f"class{n}" for n in range(10)]


def test_a_label_that_is_no_class_of_cifar_10_is_an_error_of_its_record(tmp_path):
    cifar(tmp_path, "cifar10")
    path = tmp_path / "test_batch.bin"
    data = bytearray(path.read_bytes())
    data[2 * 3073] = 10
    path.write_bytes(data)
    with pytest.raises(errors.BadFileError, match="record 2: bad: the label is 10") as raised:
        hr.Dataset(path)
    assert raised.value.record == 2
    (tmp_path / "data_batch_5.bin").write_bytes(data)
    with pytest.raises(errors.BadFileError) as raised:
        hr.Dataset(tmp_path, split="train")
    # The other records have labels 12, 12, 11 and 11.
    assert raised.value.record == 12 + 12 + 11 + 11 + 2
    assert raised.value.file == str(tmp_path / "data_batch_5.bin")


@pytest.mark.parametrize(("label", "place", "most"), [("fine", 1, 99), ("coarse", 0, 19)])
def test_a_label_that_is_no_class_of_cifar_100_is_an_error_of_its_record(
    tmp_path, label, place, most
):
    cifar(tmp_path, "cifar100")
    path = tmp_path / "test.bin"
    data = bytearray(path.read_bytes())
    data[2 * 3074 + place] = most
    path.write_bytes(data)
    assert hr.Dataset(path, label=label)[2].label == most
    data[2 * 3074 + place] = most + 1
    path.write_bytes(data)
    text = rf"record 2: bad: the label is {most + 1} .expected 0 to {most}."
    with pytest.raises(errors.BadFileError, match=text):
        hr.Dataset(path, label=label)


@pytest.mark.parametrize("kind", ["npy", "npz", "safetensors", "pt"])
def test_packing_an_array_keeps_every_value(tmp_path, kind):
    summary = hr.pack(written(tmp_path, kind), tmp_path / "packed", label=LABELS)
    images, labels = in_order(hr.Dataset(tmp_path / "packed"), [CenterCrop((8, 11))])
    assert np.array_equal(images, IMAGES)
    assert labels == LABELS.tolist()
    assert summary["raw"]["images"] == 30


def test_an_index_of_an_array_is_refused(tmp_path):
    with pytest.raises(errors.ArgumentError, match="needs no index"):
        writing.index(written(tmp_path, "npz"), tmp_path / "index")


# ---- what is refused ------------------------------------------------------------------------


class _Evil:
    def __reduce__(self):
        return (print, ("unpickled",))


def test_nothing_is_ever_unpickled(tmp_path, capsys):
    objects = np.array([_Evil()], dtype=object)
    np.save(tmp_path / "o.npy", objects)
    np.savez(tmp_path / "o.npz", images=objects)
    torch.save({"images": _Evil()}, tmp_path / "o.pt")
    torch.save({"images": _Evil()}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("o.npy", "o.npz", "o.pt"):
        with pytest.raises(errors.UnsupportedError, match=r"pickle|more than tensors") as raised:
            hr.Dataset(tmp_path / name)
        assert str(raised.value).isprintable(), "torch's sentences have parts in bold"
    with pytest.raises(errors.UnsupportedError):
        hr.Dataset(tmp_path / "old.pt")
    assert "unpickled" not in capsys.readouterr().out


def test_a_file_that_cannot_be_read_in_place_gives_an_error_that_says_what_to_do(tmp_path):
    np.savez_compressed(tmp_path / "c.npz", images=IMAGES, labels=LABELS)
    np.save(tmp_path / "float.npy", IMAGES.astype(np.float32))
    for name, says in (
        ("c.npz", "it is compressed"),
        ("float.npy", "dtype float32, only uint8"),
    ):
        with pytest.raises(errors.UnsupportedError, match=says):
            hr.Dataset(tmp_path / name)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NHW"])
def test_an_npy_in_fortran_order_is_read_with_a_warning(tmp_path, layout):
    array = {"NHWC": IMAGES, "NCHW": IMAGES.transpose(0, 3, 1, 2), "NHW": GREYS}[layout]
    np.save(tmp_path / "f.npy", np.asfortranarray(array))
    np.save(tmp_path / "y.npy", np.asfortranarray(LABELS[:, None]))
    with pytest.warns(UserWarning, match="in Fortran's order, where every image lies all over"):
        dataset = hr.Dataset(tmp_path / "f.npy", label=tmp_path / "y.npy")
    images, labels = in_order(dataset)
    assert np.array_equal(images, IMAGES if layout != "NHW" else GREYS[..., None].repeat(3, 3))
    assert labels == LABELS.tolist()
    dataset.close()


def test_nested_tensors_are_named_by_group_and_name(tmp_path):
    images, labels = torch.from_numpy(IMAGES), torch.from_numpy(LABELS)
    halves = {"train": {"x": images, "y": labels}, "test": [images[:5].clone(), labels[:5].clone()]}
    torch.save(halves, tmp_path / "n.pt")
    with pytest.raises(errors.ArgumentError, match=r"image= is needed.*train/x.*test/0"):
        hr.Dataset(tmp_path / "n.pt")
    found, numbers = in_order(hr.Dataset(tmp_path / "n.pt", image="train/x", label="train/y"))
    assert np.array_equal(found, IMAGES)
    assert numbers == LABELS.tolist()


def test_info_names_the_image_and_label_arrays_and_their_layout(tmp_path):
    np.savez(tmp_path / "x.npz", images=IMAGES, labels=LABELS, other=LABELS)
    with hr.Dataset(tmp_path / "x.npz") as dataset:
        assert dataset.info["source"] == {
            "format": "npz",
            "image": "images",
            "label": "labels",
            "layout": "NHWC",
            "shape": [30, 8, 11, 3],
            "dtype": "uint8",
            "arrays": ["other int64 (30,)"],
        }
        assert summary.lines(dataset.info)[-7:] == [
            "format        npz",
            "image         images",
            "label         labels",
            "layout        NHWC",
            "dtype         uint8",
            "shape         30 x 8 x 11 x 3",
            "other arrays  other int64 (30,)",
        ]


def test_compressed_labels_are_read(tmp_path):
    path = tmp_path / "mixed.npz"
    np.savez_compressed(path, labels=LABELS)
    with zipfile.ZipFile(path, "a") as archive:
        np.save(tmp_path / "images.npy", IMAGES)
        archive.write(tmp_path / "images.npy", "images.npy")
    images, labels = in_order(hr.Dataset(path))
    assert np.array_equal(images, IMAGES)
    assert labels == LABELS.tolist()


# ---- damage ----------------------------------------------------------------------------------


def contents(folder: Path, kind: str) -> tuple[Path, bytes]:
    if kind == "idx":
        path = mnist(folder)
    elif kind in ("cifar10", "cifar100"):
        cifar(folder, kind)
        path = folder / {"cifar10": "test_batch.bin", "cifar100": "test.bin"}[kind]
    else:
        path = written(folder, kind)
    return path, path.read_bytes()


def outcome(path: Path) -> str:
    """The result of opening and reading a whole file: an error of Headrace's, or samples."""
    try:
        with hr.Dataset(path) as dataset:
            for number in {0, len(dataset) // 2, len(dataset) - 1}:
                assert dataset[number].image.shape[2] == 3
    except errors.InternalError:
        raise
    except errors.HeadraceError as failure:
        return type(failure).__name__
    return "good"


KINDS = ["npy", "npz", "safetensors", "pt", "idx", "cifar10", "cifar100"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_truncated_file_is_an_error(tmp_path, kind):
    path, data = contents(tmp_path, kind)
    step = max(1, len(data) // 60)
    for length in [*range(0, 160, 9), *range(160, len(data), step), len(data) - 1]:
        path.write_bytes(data[:length])
        record = {"cifar10": 3073, "cifar100": 3074}.get(kind)
        if record and length and length % record == 0:
            continue  # a file with fewer images
        assert outcome(path) != "good", f"{length} of {len(data)} bytes"


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_header_gives_an_error_or_other_samples_and_never_a_crash(tmp_path, kind):
    path, data = contents(tmp_path, kind)
    generator = np.random.default_rng(4)
    ends = [*range(min(len(data), 200)), *range(max(0, len(data) - 300), len(data))]
    for _ in range(150):
        changed = bytearray(data)
        for at in generator.choice(ends, generator.integers(1, 4)):
            changed[at] = generator.choice([0, 1, 0x7F, 0x80, 0xFF, generator.integers(256)])
        path.write_bytes(changed)
        outcome(path)


HUGE = [2**31, 2**32, 2**62, 2**63, 2**64, 2**70, -1]


@pytest.mark.parametrize("side", HUGE)
def test_a_shape_beyond_the_file_is_an_error(tmp_path, side):
    for shape in ((side, 8, 11, 3), (30, side, 11, 3), (30, 8, side, 3), (side, side, 3)):
        header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode()
        header += b" " * (-(len(header) + 11) % 64) + b"\n"
        path = tmp_path / "huge.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + bytes(5000))
        assert outcome(path) != "good"
        said = {"dtype": "U8", "shape": list(shape), "data_offsets": [0, 5000]}
        text = json.dumps({"images": said}).encode()
        path = tmp_path / "huge.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(5000))
        assert outcome(path) != "good"


def test_a_file_that_was_replaced_after_opening_is_an_error(tmp_path):
    path = written(tmp_path, "npy")
    with hr.Dataset(path) as dataset:
        np.save(path, IMAGES[:20])
        with pytest.raises(errors.HeadraceError, match="expected"):
            in_order(dataset)


def test_hostile_json_is_an_error(tmp_path):
    for text in (
        b"[" * 100_000,
        b'{"a":' * 50_000,
        b'{"images": {"dtype": [], "shape": 3}}',
        b"{}",
    ):
        path = tmp_path / "hostile.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(10))
        assert outcome(path) != "good"


def test_permuted_or_sliced_tensors_are_read_by_their_strides(tmp_path):
    images, labels = torch.from_numpy(IMAGES), torch.from_numpy(LABELS)
    other = torch.zeros(4, 5).T  # neither image nor label, and no reason to refuse the file
    channels_last = images.permute(0, 3, 1, 2)
    twice = torch.stack([labels, labels + 1], 1).flatten()[::2]
    for saved in (channels_last, images.flip(0).flip(0)[:], torch.cat([images, images], 1)[:, :6]):
        torch.save({"images": saved, "labels": twice, "other": other}, tmp_path / "x.pt")
        layout = "NCHW" if saved is channels_last else "NHWC"
        expected = saved.numpy() if layout == "NHWC" else saved.permute(0, 2, 3, 1).numpy()
        with hr.Dataset(
            tmp_path / "x.pt", image="images", label="labels", layout=layout
        ) as dataset:
            found, numbers = in_order(dataset)
        assert np.array_equal(found, expected)
        assert numbers == LABELS.tolist()


@pytest.mark.parametrize("said", [None, "labels"])
@pytest.mark.parametrize("dtype", ["<U100000000", "<U40000000"])
def test_labels_that_claim_more_than_their_file_can_hold_are_refused_without_reading(
    tmp_path, dtype, said
):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (30,), }}\n".encode()
    path = tmp_path / "set.npz"
    with zipfile.ZipFile(path, "w") as archive:
        stored = io.BytesIO()
        np.save(stored, IMAGES)
        archive.writestr("images.npy", stored.getvalue())
        data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(1 << 20)
        archive.writestr("labels.npy", data, zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    try:
        with pytest.raises(errors.LimitError, match=r"bytes of labels, (4|1.)00000+ for each"):
            hr.Dataset(path, label=said)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
