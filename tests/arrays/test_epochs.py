"""Epochs of arrays of each kind do not depend on threads, ranks and resumes."""

from __future__ import annotations

import io
import itertools
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import headrace as hr
from headrace.transforms import RandomCrop, RandomHorizontalFlip

ROWS = 57
IMAGES = np.random.default_rng(12).integers(0, 256, (ROWS, 32, 32, 3), np.uint8)
LABELS = np.random.default_rng(13).integers(0, 10, ROWS)
ORDERS: dict[str, Any] = {"in order": False, "shuffled": True, "windowed": "window"}


pytestmark = pytest.mark.usefixtures("zarr_started")


def mapped(folder: Path) -> hr.Dataset:
    np.save(folder / "x.npy", IMAGES)
    return hr.Dataset.from_arrays(np.load(folder / "x.npy", mmap_mode="r"), LABELS)


def npy(folder: Path) -> hr.Dataset:
    np.save(folder / "x.npy", IMAGES)
    return hr.Dataset(folder / "x.npy", label=LABELS)


def several(folder: Path) -> hr.Dataset:
    for number, (begin, end) in enumerate([(0, 20), (20, 21), (21, ROWS)]):
        np.save(folder / f"x-{number}.npy", IMAGES[begin:end])
        np.save(folder / f"y-{number}.npy", LABELS[begin:end])
    return hr.Dataset(str(folder / "x-*.npy"), label=str(folder / "y-*.npy"))


def npz(folder: Path) -> hr.Dataset:
    np.savez(folder / "x.npz", images=IMAGES, labels=LABELS)
    return hr.Dataset(folder / "x.npz")


def safetensors(folder: Path) -> hr.Dataset:
    about, data = {}, b""
    for name, kind, array in (("images", "U8", IMAGES), ("labels", "I64", LABELS)):
        ends = [len(data), len(data) + array.nbytes]
        about[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": ends}
        data += array.tobytes()
    text = json.dumps(about).encode()
    (folder / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return hr.Dataset(folder / "x.safetensors")


def pt(folder: Path) -> hr.Dataset:
    torch.save((torch.from_numpy(IMAGES), torch.from_numpy(LABELS)), folder / "x.pt")
    return hr.Dataset(folder / "x.pt")


def permuted_pt(folder: Path) -> hr.Dataset:
    tensors = torch.from_numpy(IMAGES).permute(0, 3, 1, 2), torch.from_numpy(LABELS)
    torch.save(tensors, folder / "x.pt")
    return hr.Dataset(folder / "x.pt")


def hdf5(folder: Path, **form: Any) -> hr.Dataset:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        file.create_dataset("images", data=IMAGES, **form)
        file["labels"] = LABELS
    return hr.Dataset(folder / "x.h5")


def chunked_hdf5(folder: Path) -> hr.Dataset:
    return hdf5(folder, chunks=(8, 32, 32, 3))


def gzip_hdf5(folder: Path) -> hr.Dataset:
    return hdf5(folder, chunks=(8, 32, 32, 3), compression="gzip")


def hdf5_in_pieces(folder: Path) -> hr.Dataset:
    return hdf5(folder, chunks=(8, 16, 20, 2), compression="gzip")


def encoded_hdf5(folder: Path) -> hr.Dataset:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "x.h5", "w") as file:
        form = {"chunks": (8,), "compression": "gzip"}
        images = file.create_dataset("images", ROWS, h5py.vlen_dtype(np.uint8), **form)
        for number, pixels in enumerate(IMAGES):
            Image.fromarray(pixels).save(png := io.BytesIO(), "PNG")
            images[number] = np.frombuffer(png.getvalue(), np.uint8)
        file["labels"] = LABELS
    return hr.Dataset(folder / "x.h5")


def zarr(folder: Path, **form: Any) -> hr.Dataset:
    group = pytest.importorskip("zarr").open_group(folder / "x.zarr", mode="w")
    of_images = {"chunks": (8, 32, 32, 3), **form}
    group.create_array("images", shape=IMAGES.shape, dtype="uint8", **of_images)[:] = IMAGES
    group.create_array("labels", shape=LABELS.shape, dtype="int64")[:] = LABELS
    return hr.Dataset(folder / "x.zarr")


def plain_zarr(folder: Path) -> hr.Dataset:
    return zarr(folder, compressors=None)


def sharded_zarr(folder: Path) -> hr.Dataset:
    return zarr(folder, shards=(16, 32, 32, 3))


def idx(folder: Path) -> hr.Dataset:
    for name, array in (("images", IMAGES), ("labels", LABELS.astype(np.uint8))):
        head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        path = folder / f"{name}-idx{4 if name == 'images' else 1}-ubyte"
        path.write_bytes(head + array.tobytes())
    return hr.Dataset(folder / "images-idx4-ubyte")


def cifar10(folder: Path) -> hr.Dataset:
    pixels = IMAGES.transpose(0, 3, 1, 2).reshape(ROWS, -1)
    records = np.concatenate([LABELS[:, None].astype(np.uint8), pixels], 1)
    for number, part in enumerate(np.array_split(records, 5), 1):
        (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())
    return hr.Dataset(folder)


def cifar100(folder: Path) -> hr.Dataset:
    pixels = IMAGES.transpose(0, 3, 1, 2).reshape(ROWS, -1)
    labels = np.stack([LABELS // 2, LABELS], 1).astype(np.uint8)
    (folder / "train.bin").write_bytes(np.concatenate([labels, pixels], 1).tobytes())
    return hr.Dataset(folder)


KINDS: dict[str, Callable[[Path], hr.Dataset]] = {
    "array": lambda _: hr.Dataset.from_arrays(IMAGES, LABELS),
    "tensor": lambda _: hr.Dataset.from_arrays(torch.from_numpy(IMAGES), LABELS),
    "memory map": mapped,
    "npy": npy,
    "several npy": several,
    "npz": npz,
    "safetensors": safetensors,
    "pt": pt,
    "permuted pt": permuted_pt,
    "HDF5 in one piece": hdf5,
    "HDF5 in chunks": chunked_hdf5,
    "HDF5 in gzip chunks": gzip_hdf5,
    "HDF5 in pieces of images": hdf5_in_pieces,
    "HDF5 of encoded images": encoded_hdf5,
    "Zarr": zarr,
    "Zarr uncompressed": plain_zarr,
    "Zarr in shards": sharded_zarr,
    "IDX": idx,
    "CIFAR-10": cifar10,
    "CIFAR-100": cifar100,
}


@pytest.fixture(params=KINDS)
def dataset(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    with KINDS[request.param](tmp_path) as opened:
        yield opened


def loader(dataset: hr.Dataset, order: str, **options: Any) -> hr.Loader:
    settings = {
        "batch_size": 8,
        "shuffle": ORDERS[order],
        "seed": 5,
        "dtype": "uint8",
        "transform": [RandomCrop(28, padding=3), RandomHorizontalFlip()],
        "fields": ["index"],
        "num_threads": 2,
    }
    if order == "windowed":
        settings["window"] = 20
    return hr.Loader(dataset, output="numpy", **{**settings, **options})


Sample = tuple[int, int, bytes]


def batches(source: Any) -> list[list[Sample]]:
    """The number, label and pixels of each sample, by batch."""
    found = []
    for images, labels, fields in source:
        columns = zip(fields["index"].tolist(), labels.tolist(), images, strict=True)
        found.append([(index, label, image.tobytes()) for index, label, image in columns])
    return found


def flat(parts: list[list[Sample]]) -> list[Sample]:
    return [sample for batch in parts for sample in batch]


def two_epochs(dataset: hr.Dataset, order: str, **options: Any) -> list[list[Sample]]:
    with loader(dataset, order, **options) as source:
        return batches(source) + batches(source)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.every(3)
def test_batches_are_the_same_for_one_thread_and_several(dataset, order):
    expected = two_epochs(dataset, order, num_threads=1)
    for options in ({"num_threads": 3}, {"num_threads": 8, "prefetch": 1}):
        assert two_epochs(dataset, order, **options) == expected
    for epoch in (flat(expected)[:ROWS], flat(expected)[ROWS:]):
        assert sorted(index for index, *_ in epoch) == list(range(ROWS))
        assert all(label == LABELS[index] for index, label, _ in epoch)
    if order != "in order":
        assert flat(expected)[:ROWS] != flat(expected)[ROWS:]


def test_batches_equal_those_of_the_same_images_in_memory(dataset):
    with hr.Dataset.from_arrays(IMAGES, LABELS) as held:
        expected = two_epochs(held, "shuffled")
    assert two_epochs(dataset, "shuffled") == expected


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("world_size", [2, 3])
@pytest.mark.every(3)
def test_ranks_have_equally_many_steps_with_together_the_samples_of_one_process(
    dataset, order, world_size
):
    # A step of all ranks has the same number of samples for any number of ranks.
    with loader(dataset, order, batch_size=12) as whole:
        expected = batches(whole)
    parts = []
    for rank in range(world_size):
        part = {"rank": rank, "world_size": world_size, "batch_size": 12 // world_size}
        with loader(dataset, order, **part) as source:
            parts.append(batches(source))
    steps = [flat(list(step)) for step in zip(*parts, strict=True)]
    assert [sorted(step) for step in steps] == [sorted(step) for step in expected]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.every(3)
def test_a_mid_epoch_state_resumes_with_the_same_batches(dataset, order):
    expected = two_epochs(dataset, order)
    for step, threads in ((1, 1), (3, 5), (7, 2)):
        with loader(dataset, order) as source:
            assert batches(itertools.islice(source, step)) == expected[:step]
            state = json.loads(json.dumps(source.state_dict()))
        with loader(dataset, order, num_threads=threads) as source:
            source.load_state_dict(state)
            assert batches(source) + batches(source) == expected[step:]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("worlds", [(2, 2, 2), (1, 3, 2), (3, 1, 4)])
@pytest.mark.every(3)
def test_a_mid_epoch_state_resumes_with_the_remaining_samples_on_any_number_of_ranks(
    dataset, order, worlds
):
    with loader(dataset, order) as whole:
        expected = flat(batches(whole))
    state: dict[str, Any] | None = None
    found: list[Sample] = []
    for number, world_size in enumerate(worlds):
        last = number == len(worlds) - 1
        states = []
        for rank in range(world_size):
            with loader(dataset, order, rank=rank, world_size=world_size, batch_size=4) as source:
                if state is not None:
                    source.load_state_dict(state)
                found += flat(batches(itertools.islice(source, None if last else 2)))
                states.append(json.loads(json.dumps(source.state_dict())))
        assert all(one == states[0] for one in states)
        state = states[0]
    assert sorted(found) == sorted(expected)
    assert state is not None
    assert (state["epoch"], state["position"]) == (1, 0)
