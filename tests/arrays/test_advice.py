"""The advice in the error for a refused array works: each test follows the advice that it gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import errors

pytestmark = pytest.mark.usefixtures("zarr_started")
ROWS = 11
IMAGES = np.random.default_rng(21).integers(0, 256, (ROWS, 9, 12, 3), np.uint8)
LABELS = np.random.default_rng(22).integers(0, 10, ROWS)
FLOATS = IMAGES.astype(np.float32) / 255


class Own:
    """A map-style dataset of a program's own."""

    def __init__(self, image: Callable[[int], Any]) -> None:
        self.image = image

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.image(index), int(LABELS[index])


def check(dataset: hr.Dataset) -> None:
    with dataset:
        assert np.array_equal([sample.image for sample in dataset], IMAGES)
        assert [sample.label for sample in dataset] == LABELS.tolist()


def refused(path: Any, advice: str) -> None:
    with pytest.raises(errors.UnsupportedError) as raised:
        hr.Dataset(path)
    assert advice in str(raised.value)


def packed(folder: Path, image: Callable[[int], Any]) -> hr.Dataset:
    summary = hr.pack(Own(image), folder / "packed")
    assert summary["rows"] == ROWS
    return hr.Dataset(folder / "packed")


ANY = "headrace.pack takes any map-style dataset that gives its images as uint8 arrays"


def as_uint8(image: Any) -> Any:
    return (image * 255).round().astype(np.uint8)


def test_images_of_float32_are_packed_or_converted(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, FLOATS)
    refused(path, f"convert it, or {ANY}")
    floats = np.load(path, mmap_mode="r")
    check(packed(tmp_path, lambda index: as_uint8(floats[index])))
    np.save(path, as_uint8(floats))
    check(hr.Dataset(path, label=LABELS))
    with pytest.raises(errors.UnsupportedError, match=r"convert it, or headrace\.pack"):
        hr.Dataset.from_arrays(torch.from_numpy(FLOATS), LABELS)
    check(hr.Dataset.from_arrays((torch.from_numpy(FLOATS) * 255).round().byte(), LABELS))


@pytest.mark.parametrize("form", [{"compression": "lzf"}, {"scaleoffset": 0}])
def test_hdf5_with_a_codec_that_headrace_lacks_is_packed_as_h5py_reads_it(
    tmp_path: Path, form: dict[str, Any]
) -> None:
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=IMAGES, chunks=(4, 9, 12, 3), **form)
    refused(path, "headrace.pack takes a map-style dataset that reads it through h5py")
    with h5py.File(path) as file:
        check(packed(tmp_path, lambda index: file["images"][index]))


def test_zarr_with_a_codec_that_headrace_lacks_is_packed_as_zarr_reads_it(
    tmp_path: Path,
) -> None:
    zarr = pytest.importorskip("zarr")
    path = tmp_path / "x.zarr"
    form = {"compressors": zarr.codecs.BloscCodec(cname="blosclz"), "chunks": (4, 9, 12, 3)}
    # Blosc would store noise uncompressed, because it cannot make it smaller.
    smooth = IMAGES // 255
    zarr.create_array(path, shape=IMAGES.shape, dtype="uint8", **form)[:] = smooth
    refused(path, "headrace.pack takes a map-style dataset that reads it through zarr")
    array = zarr.open(path, mode="r")
    with packed(tmp_path, lambda index: array[index]) as dataset:
        assert np.array_equal([sample.image for sample in dataset], smooth)


class Beside:
    """A program's own object."""


def test_a_pt_with_other_objects_is_packed(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save({"images": torch.from_numpy(IMAGES), "about": Beside()}, path)
    refused(path, ANY)
    saved = torch.load(path, weights_only=False)
    check(packed(tmp_path, lambda index: saved["images"][index]))
    # A file with only the tensors is read in place.
    torch.save((saved["images"], torch.from_numpy(LABELS)), path)
    check(hr.Dataset(path))


def test_an_npy_of_objects_is_packed(tmp_path: Path) -> None:
    objects = np.empty(ROWS, object)
    objects[:] = list(IMAGES)
    np.save(tmp_path / "x.npy", objects)
    refused(tmp_path / "x.npy", ANY)
    loaded = np.load(tmp_path / "x.npy", allow_pickle=True)
    check(packed(tmp_path, lambda index: loaded[index]))


def test_a_compressed_npz_is_read_from_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez_compressed(path, images=IMAGES, labels=LABELS)
    refused(path, "headrace.Dataset.from_arrays(numpy.load(path)['images']) reads it from memory")
    check(hr.Dataset.from_arrays(np.load(path)["images"], LABELS))


def test_a_sparse_tensor_is_read_once_it_is_dense() -> None:
    sparse = torch.from_numpy(IMAGES).to_sparse()
    with pytest.raises(errors.UnsupportedError, match=r"as images\.to_dense\(\)\.cpu\(\) is"):
        hr.Dataset.from_arrays(sparse, LABELS)
    check(hr.Dataset.from_arrays(sparse.to_dense().cpu(), LABELS))
    dense = torch.from_numpy(IMAGES)
    assert dense.to_dense().data_ptr() == dense.data_ptr()


def test_labels_of_another_dtype_are_given_as_a_list_or_an_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=IMAGES, labels=LABELS.astype(np.float32))
    with pytest.raises(errors.UnsupportedError, match="label= takes a list or an array of them"):
        hr.Dataset(tmp_path / "x.npz")
    check(hr.Dataset(tmp_path / "x.npz", label=LABELS.tolist()))
    (tmp_path / "y.txt").write_text("0\n")
    with pytest.raises(errors.UnsupportedError, match="label= takes a list or an array of them"):
        hr.Dataset(tmp_path / "x.npz", label=str(tmp_path / "y.txt"))
