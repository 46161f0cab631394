"""Encoded images stored as variable-length bytes in HDF5 are read in place."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import headrace as hr
from headrace import errors
from headrace.transforms import Resize

h5py = pytest.importorskip("h5py")
NOISE = np.random.default_rng(8)


def encoded(number: int) -> bytes:
    side = 20 + 3 * number
    image, file = NOISE.integers(0, 256, (side, 30, 3), np.uint8), io.BytesIO()
    Image.fromarray(image).save(file, ("JPEG", "PNG")[number % 2])
    return file.getvalue()


FILES = [encoded(number) for number in range(23)]
LABELS = [number % 5 for number in range(23)]


def write(path, files=FILES, userblock: int = 0, libver: str = "earliest", **form) -> None:
    with h5py.File(path, "w", userblock_size=userblock, libver=libver) as file:
        data = file.create_dataset("images", len(files), h5py.vlen_dtype(np.uint8), **form)
        for number, one in enumerate(files):
            data[number] = np.frombuffer(one, np.uint8)
        file["labels"] = LABELS[: len(files)]


@pytest.mark.parametrize(("userblock", "libver"), [(0, "earliest"), (512, "latest")])
@pytest.mark.parametrize(
    "form",
    [
        {},
        {"chunks": (5,)},
        {"chunks": (5,), "compression": "gzip"},
        {"chunks": (10,), "compression": "gzip", "shuffle": True},
    ],
)
def test_every_byte_of_every_image_is_read_also_if_the_dataset_is_gzip_compressed(
    tmp_path, form, userblock, libver
):
    path = tmp_path / "set.h5"
    write(path, userblock=userblock, libver=libver, **form)
    with hr.Dataset(path, format="hdf5") as dataset:
        assert [bytes(dataset.read(number)) for number in range(23)] == FILES
        assert [dataset.facts(number)["label"] for number in range(23)] == LABELS


def test_a_loader_and_pack_read_the_images_and_any_labels(tmp_path):
    path = tmp_path / "set.h5"
    write(path, compression="gzip", chunks=(4,))
    names = ["a", "b", "c", "d", "e"]
    with hr.Dataset(path, label=[names[label] for label in LABELS], classes=names) as dataset:
        with hr.Loader(dataset, 8, transform=[Resize((24, 24))], dtype="uint8") as loader:
            found = [(images.clone(), labels.tolist()) for images, labels in loader]
        assert [label for _, labels in found for label in labels] == LABELS
        image = dataset[3].image
        assert np.array_equal(image, np.asarray(Image.open(io.BytesIO(FILES[3]))))
    hr.pack(path, tmp_path / "packed")
    with hr.Dataset(tmp_path / "packed") as packed:
        assert [bytes(packed.read(number)) for number in range(23)] == FILES
        assert [sample.label for sample in packed] == LABELS


def test_an_unreadable_file_gives_an_error_that_says_why(tmp_path):
    path = tmp_path / "set.h5"
    write(path, chunks=(5,), compression="lzf")
    with pytest.raises(errors.UnsupportedError, match="references to its images went through lzf"):
        hr.Dataset(path)
    write(path)
    with pytest.raises(errors.ArgumentError, match="holds encoded images"):
        hr.Dataset(path, layout="NHWC")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("images", 23, h5py.vlen_dtype(np.uint8), chunks=(5,))
        data[0] = np.frombuffer(FILES[0], np.uint8)
    with pytest.raises(errors.UnsupportedError, match="4 chunks were never written"):
        hr.Dataset(path)


def test_a_file_with_any_changed_byte_gives_the_right_images_or_an_error(tmp_path):
    path = tmp_path / "set.h5"
    small = [b"\xff\xd8" + bytes(range(number)) for number in range(6)]
    write(path, small, chunks=(4,))
    whole = path.read_bytes()
    heap = whole.index(b"GCOL")
    random = np.random.default_rng(9)
    good = 0
    for turn in range(400):
        data = bytearray(whole)
        for _ in range(1 + turn % 3):
            # Half of the changed bytes are among references and headers of heaps.
            at = int(random.integers(0, len(data)))
            if turn % 2:
                at = min(heap + int(random.integers(0, 160)), len(data) - 1)
            data[at] = int(random.choice([0, 1, 127, 128, 255, random.integers(0, 256)]))
        if turn % 7 == 0:
            del data[int(random.integers(8, len(data))) :]
        path.write_bytes(data)
        try:
            with hr.Dataset(path, format="hdf5") as dataset:
                found = [bytes(dataset.read(number)) for number in range(len(dataset))]
            assert sum(map(len, found)) <= 64 * len(data)
            good += found == small
        except errors.HeadraceError:
            pass
    assert good > 20, "else nothing was shown"
