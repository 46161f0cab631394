"""HDF5 and Zarr are read in place where their chunks hold whole images as they are."""

from __future__ import annotations

import multiprocessing
from importlib.util import find_spec

import numpy as np
import pytest

import headrace as hr
from headrace import errors

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module", autouse=True)
def _threads_of_zarr_started(tmp_path_factory):
    """zarr's own threads stay once it has read anything."""
    if find_spec("zarr") is not None:
        zarr = pytest.importorskip("zarr")
        folder = tmp_path_factory.mktemp("first") / "z"
        array = zarr.create_array(folder, shape=(64, 4), dtype="uint8", chunks=(1, 4))
        for _ in range(3):
            array[:] = array[:] + 1


ROWS = 43
IMAGES = np.random.default_rng(6).integers(0, 256, (ROWS, 6, 7, 3), np.uint8)
LABELS = np.random.default_rng(7).integers(0, 10, ROWS)


def in_order(dataset: hr.Dataset, threads: int = 2) -> tuple[np.ndarray, list[int]]:
    images, labels = [], []
    with hr.Loader(dataset, batch_size=7, dtype="uint8", num_threads=threads) as loader:
        for batch, numbers in loader:
            images.append(batch.permute(0, 2, 3, 1).numpy().copy())
            labels += numbers.tolist()
    return np.concatenate(images), labels


def check(path, **options) -> None:
    with hr.Dataset(path, **options) as dataset:
        images, labels = in_order(dataset)
        assert np.array_equal(images, IMAGES)
        assert labels == LABELS.tolist()
        assert dataset.kind == "arrays"


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("userblock", [0, 512])
@pytest.mark.parametrize("chunks", [None, 1, 10])
def test_hdf5_without_compression_is_read_in_place(tmp_path, chunks, userblock, libver):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        form = {"chunks": None if chunks is None else (chunks, 6, 7, 3)}
        file.create_dataset("images", data=IMAGES, **form)
        file.create_dataset("labels", data=LABELS, compression="gzip")
    if userblock:
        # The first bytes are then the program's own, so the format has to be said.
        check(path, format="hdf5")
    else:
        check(path)
        check(path, image="images", label="labels")


def test_hdf5_of_groups_and_other_axes(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file["train/x"] = IMAGES.transpose(0, 3, 1, 2)
        file["train/y"] = LABELS
        file["test/x"] = IMAGES[:5].transpose(0, 3, 1, 2)
    check(path, image="train/x", label="train/y")


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"compression": "gzip"}, "gzip"),
        ({"compression": "lzf"}, "lzf"),
        ({"shuffle": True, "chunks": True}, "filter"),
        ({"fletcher32": True}, "filter"),
        ({"chunks": (5, 3, 7, 3)}, "parts of images"),
    ],
)
def test_hdf5_that_is_not_read_in_place_says_why(tmp_path, form, says):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=IMAGES, **form)
    with pytest.raises(errors.UnsupportedError, match=says) as raised:
        hr.Dataset(path)
    assert "headrace.Writer packs" in str(raised.value)


def test_hdf5_with_chunks_that_were_never_written_is_refused(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("images", IMAGES.shape, np.uint8, chunks=(10, 6, 7, 3))
        data[:20] = IMAGES[:20]
    with pytest.raises(errors.UnsupportedError, match="3 chunks were never written"):
        hr.Dataset(path)


def test_truncated_hdf5_is_an_error(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file["images"] = IMAGES
    data = path.read_bytes()
    for length in range(8, len(data) - 1, len(data) // 37):
        path.write_bytes(data[:length])
        with pytest.raises(errors.HeadraceError):
            hr.Dataset(path)


def test_eight_threads_and_no_handle_of_hdf5_give_every_label(tmp_path):
    rows = 3000
    images = np.zeros((rows, 4, 4), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = np.arange(rows) % 256, np.arange(rows) // 256
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, chunks=(100, 4, 4))
        file["labels"] = np.arange(rows)
    dataset = hr.Dataset(path)
    with hr.Loader(dataset, batch_size=64, shuffle=True, num_threads=8, dtype="uint8") as loader:
        for _ in range(2):
            seen = []
            for batch, labels in loader:
                assert ((batch[:, 0, 0, 0].int() + 256 * batch[:, 0, 0, 1].int()) == labels).all()
                seen += labels.tolist()
            assert sorted(seen) == list(range(rows))


def _in_a_process(path, queue) -> None:
    images, labels = in_order(hr.Dataset(path))
    queue.put((images.tobytes(), labels))


def test_a_spawned_process_reads_the_same(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file["images"], file["labels"] = IMAGES, LABELS
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_in_a_process, args=(path, queue))
    process.start()
    images, labels = queue.get(timeout=60)
    process.join()
    queue.close()
    queue.join_thread()
    assert images == IMAGES.tobytes()
    assert labels == LABELS.tolist()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("chunks", [1, 10, ROWS])
@pytest.mark.parametrize("shards", [None, 20])
def test_zarr_without_compression_is_read_in_place(tmp_path, version, chunks, shards):
    zarr = pytest.importorskip("zarr")
    if shards is not None and (version == 2 or shards % chunks):
        return
    group = zarr.open_group(tmp_path / "set.zarr", mode="w", zarr_format=version)
    form = {"compressors": None, "chunks": (chunks, 6, 7, 3)}
    if shards is not None:
        form["shards"] = (shards, 6, 7, 3)
    group.create_array("images", shape=IMAGES.shape, dtype="uint8", **form)[:] = IMAGES
    group.create_array("labels", shape=LABELS.shape, dtype="int64")[:] = LABELS
    check(tmp_path / "set.zarr")
    check(tmp_path / "set.zarr" / "images", label=LABELS)


def test_zarr_that_is_not_read_in_place_says_why(tmp_path):
    zarr = pytest.importorskip("zarr")
    form = {"shape": IMAGES.shape, "dtype": "uint8"}
    packed = zarr.create_array(tmp_path / "z", chunks=(10, 6, 7, 3), **form)
    packed[:] = IMAGES
    parts = zarr.create_array(tmp_path / "p", chunks=(10, 3, 7, 3), compressors=None, **form)
    parts[:] = IMAGES
    part = zarr.create_array(tmp_path / "n", chunks=(10, 6, 7, 3), compressors=None, **form)
    part[:10] = IMAGES[:10]
    for name, says in (("z", "ZstdCodec"), ("p", "parts of images"), ("n", "never written")):
        with pytest.raises(errors.UnsupportedError, match=says):
            hr.Dataset(tmp_path / name)
    (tmp_path / "z" / "zarr.json").write_text("{")
    with pytest.raises(errors.BadFileError, match="zarr cannot open it"):
        hr.Dataset(tmp_path / "z")
