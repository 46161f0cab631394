"""HDF5 and Zarr with the chunks that their libraries choose, which hold parts of images."""

from __future__ import annotations

import numpy as np
import pytest

import headrace as hr
from headrace import errors

h5py = pytest.importorskip("h5py")
ROWS = 43
LABELS = np.random.default_rng(7).integers(0, 10, ROWS)
# Noise of few values, which can be compressed.
IMAGES = np.random.default_rng(6).integers(1, 9, (ROWS, 12, 10, 3), np.uint8)


pytestmark = pytest.mark.usefixtures("zarr_started")


def hdf5(path, images, written=None, **form) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("images", images.shape, np.uint8, **form)
        for where in [slice(None)] if written is None else written:
            made[where] = images[where]
        file["labels"] = LABELS


def zarr_group(path, images, written=None, version=3, **form) -> None:
    group = pytest.importorskip("zarr").open_group(path, mode="w", zarr_format=version)
    made = group.create_array("images", shape=images.shape, dtype="uint8", **form)
    for where in [slice(None)] if written is None else written:
        made[where] = images[where]
    group.create_array("labels", shape=LABELS.shape, dtype="int64")[:] = LABELS


def read(path, shuffle=False, threads=3, **options) -> tuple[np.ndarray, list[int]]:
    """All images and labels, in the dataset's order."""
    with (
        hr.Dataset(path, **options) as dataset,
        hr.Loader(
            dataset, 7, shuffle=shuffle, fields=["index"], dtype="uint8", num_threads=threads
        ) as loader,
    ):
        found: dict[int, tuple[np.ndarray, int]] = {}
        for images, labels, fields in loader:
            for image, label, index in zip(images, labels, fields["index"], strict=True):
                found[int(index)] = image.permute(1, 2, 0).numpy().copy(), int(label)
    assert len(found) == ROWS
    return np.stack([found[index][0] for index in range(ROWS)]), [
        found[index][1] for index in range(ROWS)
    ]


def check(path, images=IMAGES, **options) -> None:
    for shuffle in (False, True, "window"):
        found, labels = read(path, shuffle, **options)
        expected = images if images.ndim == 4 else np.repeat(images[..., None], 3, axis=3)
        assert np.array_equal(found, expected)
        assert labels == LABELS.tolist()


# One axis or all are divided, evenly or not; along the first one there are several chunks, or one.
CHUNKS = [(10, 5, 4, 1), (7, 12, 10, 1), (43, 5, 10, 3), (20, 12, 3, 3), (1, 5, 4, 2)]


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("form", [{}, {"compression": "gzip", "shuffle": True, "fletcher32": True}])
def test_images_divided_among_several_chunks_of_hdf5_are_assembled(tmp_path, chunks, form):
    hdf5(tmp_path / "set.h5", IMAGES, chunks=chunks, **form)
    check(tmp_path / "set.h5")


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("compressors", ["auto", None])
@pytest.mark.every(2)
def test_images_divided_among_several_chunks_of_zarr_are_assembled(
    tmp_path, chunks, version, compressors
):
    zarr_group(tmp_path / "z", IMAGES, version=version, chunks=chunks, compressors=compressors)
    check(tmp_path / "z")


def test_images_divided_among_several_shards_of_zarr_are_assembled(tmp_path):
    zarr_group(tmp_path / "z", IMAGES, chunks=(5, 3, 5, 1), shards=(10, 6, 10, 3))
    check(tmp_path / "z")


@pytest.mark.parametrize("axes", [(0, 3, 1, 2), (0, 1, 2, 3)])
def test_images_divided_among_chunks_keep_the_arrays_order_of_axes(tmp_path, axes):
    images = IMAGES.transpose(axes)
    hdf5(tmp_path / "set.h5", images, chunks=(10, 2, 5, 3), compression="gzip")
    check(tmp_path / "set.h5")
    grey = IMAGES[..., 0]
    hdf5(tmp_path / "grey.h5", grey, chunks=(10, 5, 4), compression="gzip")
    check(tmp_path / "grey.h5", grey)


@pytest.mark.parametrize("shape", [(6000, 28, 28), (1500, 32, 32, 3)])
def test_the_chunks_that_h5py_and_zarr_choose_are_read(tmp_path, shape):
    images = np.random.default_rng(1).integers(0, 5, shape, np.uint8)
    with h5py.File(tmp_path / "set.h5", "w") as file:
        made = file.create_dataset("images", data=images, compression="gzip")
        assert made.chunks[1:] != shape[1:], "these hold parts of images"
        file.create_dataset("unlimited", data=images, maxshape=(None, *shape[1:]))
    zarr = pytest.importorskip("zarr")
    made = zarr.create_array(tmp_path / "z", shape=shape, dtype="uint8")
    assert made.chunks[1:] != shape[1:]
    made[:] = images
    files = [(tmp_path / "set.h5", name) for name in ("images", "unlimited")]
    for path, name in [*files, (tmp_path / "z", None)]:
        with (
            hr.Dataset(path, image=name) as dataset,
            hr.Loader(dataset, 500, dtype="uint8", drop_last=False) as loader,
        ):
            found = np.concatenate([batch.permute(0, 2, 3, 1).numpy() for batch, _ in loader])
        expected = images if len(shape) == 4 else np.repeat(images[..., None], 3, axis=3)
        assert np.array_equal(found, expected)


def test_chunks_of_the_same_images_are_decoded_once_in_a_window_of_a_shuffle(tmp_path):
    hdf5(tmp_path / "set.h5", IMAGES, chunks=(10, 5, 4, 1), compression="gzip")
    options = {"shuffle": "window", "window": 20, "seed": 1, "fields": ["index"], "dtype": "uint8"}
    with hr.Dataset(tmp_path / "set.h5") as dataset, hr.Loader(dataset, 5, **options) as loader:
        places = [int(index) for _, _, fields in loader for index in fields["index"]]
        decoded = loader.stats()["blocks_decoded"]
    assert sorted(places) == list(range(ROWS))
    for begin in range(0, ROWS, 20):
        assert len({place // 10 for place in places[begin : begin + 20]}) <= 3
    assert decoded == -(-ROWS // 10)


def test_an_epoch_over_divided_images_resumes_from_its_state(tmp_path):
    hdf5(tmp_path / "set.h5", IMAGES, chunks=(10, 5, 4, 1), compression="gzip")
    options = {"batch_size": 8, "seed": 3, "dtype": "uint8", "shuffle": "window"}

    def batches(threads: int, step: int) -> list[tuple[bytes, list[int]]]:
        with hr.Dataset(tmp_path / "set.h5") as dataset:
            with hr.Loader(dataset, num_threads=threads, **options) as loader:
                taken = iter(loader)
                for _ in range(step):
                    next(taken)
                state = loader.state_dict()
            with hr.Loader(dataset, num_threads=threads, **options) as loader:
                loader.load_state_dict(state)
                return [(images.numpy().tobytes(), of.tolist()) for images, of in loader]

    expected = batches(1, 0)
    for threads, step in ((2, 3), (8, 5)):
        assert batches(threads, step) == expected[step:]


def test_divided_images_are_packed_and_concatenated_with_every_value(tmp_path):
    hdf5(tmp_path / "set.h5", IMAGES, chunks=(10, 5, 4, 1), compression="gzip")
    zarr_group(tmp_path / "z", IMAGES, chunks=(10, 5, 4, 1))
    for name in ("set.h5", "z"):
        hr.pack(tmp_path / name, tmp_path / f"{name} packed")
        with hr.Dataset(tmp_path / f"{name} packed") as packed:
            assert np.array_equal([sample.image for sample in packed], IMAGES)
            assert [sample.label for sample in packed] == LABELS.tolist()
    hdf5(tmp_path / "set 2.h5", IMAGES[::-1].copy(), chunks=(7, 5, 4, 3), compression="gzip")
    twice = np.concatenate([IMAGES, IMAGES[::-1]])
    with hr.Dataset([tmp_path / "set.h5", tmp_path / "set 2.h5"]) as several:
        assert np.array_equal([sample.image for sample in several], twice)
    parts = [hr.Dataset(tmp_path / name) for name in ("z", "set 2.h5")]
    with hr.Dataset.concat(parts) as joined:
        assert np.array_equal([sample.image for sample in joined], twice)


def test_images_whose_chunks_exceed_the_limit_of_a_block_are_refused(tmp_path):
    with h5py.File(tmp_path / "set.h5", "w") as file:
        made = file.create_dataset("images", (70_000, 64, 64), np.uint8, chunks=(70_000, 4, 8))
        made.id.write_direct_chunk((0, 0, 0), bytes(70_000 * 32))
    says = r"those of 70000 images have 286720000 bytes \(at most 268435456"
    with pytest.raises(errors.UnsupportedError, match=says):
        hr.Dataset(tmp_path / "set.h5")


# Chunks of whole images and of pieces, with missing chunks at the beginning, in the middle or at
# the end.
@pytest.mark.parametrize("chunks", [(10, 12, 10, 3), (10, 5, 4, 1)])
@pytest.mark.parametrize("form", [{}, {"compression": "gzip"}])
@pytest.mark.parametrize("fill", [None, 7])
@pytest.mark.parametrize("rows", [(0, 10), (10, 20), (20, 43)])
@pytest.mark.every(2)
def test_chunks_of_hdf5_that_were_never_written_hold_its_fill_value(
    tmp_path, chunks, form, fill, rows
):
    images = IMAGES.copy()
    images[slice(*rows)] = fill or 0
    written = [slice(0, rows[0]), slice(rows[1], ROWS)]
    about = {} if fill is None else {"fillvalue": fill}
    hdf5(tmp_path / "set.h5", images, written, chunks=chunks, **form, **about)
    check(tmp_path / "set.h5", images)
    hr.pack(tmp_path / "set.h5", tmp_path / "packed")
    with hr.Dataset(tmp_path / "packed") as packed:
        assert np.array_equal([sample.image for sample in packed], images)


@pytest.mark.parametrize("chunks", [(1, 12, 10, 3), (1, 5, 4, 1)])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("fill", [0, 7])
@pytest.mark.parametrize("compressors", ["auto", None])
@pytest.mark.every(2)
def test_an_image_of_zarr_that_equals_the_fill_value_is_read(
    tmp_path, chunks, version, fill, compressors
):
    images = IMAGES.copy()
    images[5], images[30, :5, :4, 0] = fill, fill
    form = {"chunks": chunks, "fill_value": fill, "compressors": compressors, "version": version}
    zarr_group(tmp_path / "z", images, **form)
    check(tmp_path / "z", images)


def test_black_images_in_a_shard_of_zarr_are_read(tmp_path):
    images = IMAGES.copy()
    images[5], images[20:30] = 0, 0
    zarr_group(tmp_path / "z", images, chunks=(1, 12, 10, 3), shards=(10, 12, 10, 3))
    check(tmp_path / "z", images)


def test_hdf5_whose_missing_chunks_have_no_fill_value_is_refused(tmp_path):
    with h5py.File(tmp_path / "set.h5", "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10, 12, 10, 3))
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        space = h5py.h5s.create_simple(IMAGES.shape)
        made = h5py.h5d.create(file.id, b"images", h5py.h5t.STD_U8LE, space, plist)
        made.write_direct_chunk((0, 0, 0, 0), bytes(3600))
    with pytest.raises(errors.UnsupportedError, match="4 chunks were never written, and it has no"):
        hr.Dataset(tmp_path / "set.h5")


@pytest.mark.parametrize("chunks", [(1, 2, 2, 3), (1, 2, 1, 3)])
def test_a_file_that_claims_countless_chunks_after_one_is_refused_at_once(tmp_path, chunks):
    rows = 2**40
    with h5py.File(tmp_path / "set.h5", "w") as file:
        made = file.create_dataset("images", (rows, 2, 2, 3), np.uint8, chunks=chunks)
        made[0] = 1
    assert (tmp_path / "set.h5").stat().st_size < 10_000
    with pytest.raises(errors.UnsupportedError, match=r"[0-9]{13} chunks were never written"):
        hr.Dataset(tmp_path / "set.h5")


@pytest.mark.parametrize("kind", ["hdf5", "zarr"])
def test_chunks_of_divided_images_with_any_changed_byte_give_images_or_an_error(tmp_path, kind):
    path = tmp_path / "set.h5"
    if kind == "hdf5":
        hdf5(path, IMAGES, chunks=(10, 5, 4, 1), compression="gzip", fletcher32=True)
        files = [path]
    else:
        path = tmp_path / "z"
        zarr_group(path, IMAGES, chunks=(20, 6, 5, 1))
        files = sorted(file for file in path.rglob("*") if file.is_file())
    whole = {file: file.read_bytes() for file in files}
    random, good = np.random.default_rng(11), 0
    for turn in range(150):
        file = files[turn % len(files)]
        data = bytearray(whole[file])
        for at in random.integers(0, len(data), 1 + turn % 3):
            data[at] = int(random.choice([0, 1, 127, 128, 255, random.integers(0, 256)]))
        if turn % 9 == 0:
            del data[int(random.integers(0, len(data))) :]
        file.write_bytes(data)
        try:
            with hr.Dataset(path, format=None if kind == "zarr" else "hdf5") as dataset:
                for number in {0, len(dataset) // 2, len(dataset) - 1}:
                    assert dataset[number].image.shape[2] == 3
            good += 1
        except errors.InternalError:
            raise
        except errors.HeadraceError:
            pass
        file.write_bytes(whole[file])
    assert 5 < good < 150
