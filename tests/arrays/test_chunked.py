"""HDF5 and Zarr are read in place if their chunks hold whole images unchanged."""

from __future__ import annotations

import multiprocessing
import warnings
import zlib

import numpy as np
import pytest
import torch

import headrace as hr
from headrace import errors
from headrace.transforms import CenterCrop
from loaded import WhatIsLoaded

h5py = pytest.importorskip("h5py")
pytestmark = pytest.mark.usefixtures("zarr_started")

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
@pytest.mark.parametrize("userblock", [0, 512, 8192])
@pytest.mark.parametrize("chunks", [None, 1, 10])
def test_hdf5_without_compression_is_read_in_place(tmp_path, chunks, userblock, libver):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w", libver=libver, userblock_size=userblock) as file:
        form = {"chunks": None if chunks is None else (chunks, 6, 7, 3)}
        file.create_dataset("images", data=IMAGES, **form)
        file.create_dataset("labels", data=LABELS, compression="gzip")
    check(path)
    check(path, image="images", label="labels")
    if userblock:
        # A file that begins with the program's own bytes is recognised by its name, or by a given
        # format.
        other = path.rename(tmp_path / "set.bin")
        check(other, format="hdf5")
        with pytest.raises(errors.UnsupportedError):
            hr.Dataset(other)


def test_hdf5_with_groups_and_other_orders_of_axes_is_read(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file["train/x"] = IMAGES.transpose(0, 3, 1, 2)
        file["train/y"] = LABELS
        file["test/x"] = IMAGES[:5].transpose(0, 3, 1, 2)
    check(path, image="train/x", label="train/y")


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"chunks": (5, 6, 7, 3), "compression": "lzf"}, "lzf"),
        ({"chunks": (5, 6, 7, 3), "scaleoffset": 0}, "scaleoffset"),
    ],
)
def test_the_error_for_hdf5_that_cannot_be_read_in_place_says_why(tmp_path, form, says):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=IMAGES, **form)
    with pytest.raises(errors.UnsupportedError, match=says) as raised:
        hr.Dataset(path)
    assert "headrace.pack takes a map-style dataset that reads it through h5py" in str(raised.value)


@pytest.mark.parametrize("of_files", [False, True])
def test_hdf5_that_claims_countless_chunks_is_refused_at_once(tmp_path, of_files):
    path, rows = tmp_path / "set.h5", 2**40
    form = ((rows,), h5py.vlen_dtype(np.uint8), (1,))
    shape, dtype, chunks = form if of_files else ((rows, 2, 2, 3), np.uint8, (1, 2, 2, 3))
    with h5py.File(path, "w") as file:
        file.create_dataset("images", shape, dtype, chunks=chunks)
    assert path.stat().st_size < 10_000
    with pytest.raises(errors.UnsupportedError, match=f"{rows} chunks were never written"):
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


@pytest.mark.parametrize("form", [{}, {"compression": "gzip"}])
def test_eight_threads_read_hdf5_with_the_right_labels_without_a_handle_of_hdf5(tmp_path, form):
    rows = 3000
    images = np.zeros((rows, 4, 4), np.uint8)
    images[:, 0, 0], images[:, 0, 1] = np.arange(rows) % 256, np.arange(rows) // 256
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, chunks=(100, 4, 4), **form)
        file["labels"] = np.arange(rows)
    dataset = hr.Dataset(path)
    with hr.Loader(dataset, batch_size=64, shuffle=True, num_threads=8, dtype="uint8") as loader:
        for _ in range(2):
            seen = []
            for batch, labels in loader:
                assert ((batch[:, 0, 0, 0].int() + 256 * batch[:, 0, 0, 1].int()) == labels).all()
                seen += labels.tolist()
            assert sorted(seen) == list(range(rows))


def test_no_process_that_trains_on_hdf5_holds_a_handle_of_hdf5(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=IMAGES, chunks=(10, 6, 7, 3), compression="gzip")
        file["labels"] = LABELS
    before = h5py.h5f.get_obj_count()
    with hr.Dataset(path) as dataset:
        assert h5py.h5f.get_obj_count() == before
        options = {"batch_size": 5, "num_workers": 2, "multiprocessing_context": "spawn"}
        model = torch.nn.Linear(IMAGES[0].size, 10)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        seen = []
        for images, labels, loaded in torch.utils.data.DataLoader(
            WhatIsLoaded(dataset, "h5py"), shuffle=True, **options
        ):
            assert not loaded.any()
            for image, label in zip(images, labels, strict=True):
                places = np.flatnonzero((image.numpy() == IMAGES).all(axis=(1, 2, 3)))
                assert LABELS[places].tolist() == [int(label)]
                seen += places.tolist()
            loss = torch.nn.functional.cross_entropy(model(images.flatten(1) / 255.0), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert sorted(seen) == list(range(ROWS))
    assert h5py.h5f.get_obj_count() == before


def _in_a_process(path, queue) -> None:
    images, labels = in_order(hr.Dataset(path))
    queue.put((images.tobytes(), labels))


@pytest.mark.slow
def test_a_spawned_process_reads_the_same_images(tmp_path):
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


COMPRESSED = {
    "gzip": {"compression": "gzip"},
    "gzip, shuffle and sum": {"compression": "gzip", "shuffle": True, "fletcher32": True},
    "sum": {"fletcher32": True},
}
CODECS = {"gzip": "zlib", "gzip, shuffle and sum": "zlib and fletcher32"}
CODECS["sum"] = "plain and fletcher32"


@pytest.mark.parametrize("libver", ["earliest", "latest"])
@pytest.mark.parametrize("form", list(COMPRESSED))
def test_hdf5s_compressed_chunks_are_decoded_to_every_value(tmp_path, form, libver):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file.create_dataset("images", data=IMAGES, chunks=(10, 6, 7, 3), **COMPRESSED[form])
        file["labels"] = LABELS
    check(path)
    with hr.Dataset(path) as dataset:
        source = dataset.info["source"]
        assert source["chunks"] == [10, 6, 7, 3]
        assert source["codecs"] == [CODECS[form]]


# Filters by HDF5's registered numbers, and numcodecs' names of the same codecs.
@pytest.mark.parametrize(("number", "codec"), [(32015, "Zstd"), (32001, "Blosc")])
def test_hdf5_filters_that_are_plugins_are_decoded_without_the_plugins(tmp_path, number, codec):
    numcodecs = pytest.importorskip("numcodecs")
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((10, 6, 7, 3))
        plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple(IMAGES.shape)
        made = h5py.h5d.create(file.id, b"images", h5py.h5t.STD_U8LE, space, plist)
        for begin in range(0, ROWS, 10):
            chunk = np.zeros((10, 6, 7, 3), np.uint8)
            chunk[: len(IMAGES[begin : begin + 10])] = IMAGES[begin : begin + 10]
            place = (begin, 0, 0, 0)
            if begin == 20:  # a chunk that skipped the filter is stored unfiltered
                made.write_direct_chunk(place, chunk.tobytes(), 1)
            else:
                made.write_direct_chunk(place, getattr(numcodecs, codec)().encode(chunk))
        file["labels"] = LABELS
    check(path)


def zarrs_codecs(version: int) -> dict:
    """The codecs that chunks may go through, as classes of zarr-python or numcodecs."""
    numcodecs = pytest.importorskip("numcodecs")
    if version == 2:
        of = {name: getattr(numcodecs, name)() for name in ("Zstd", "GZip", "Zlib", "LZ4", "Blosc")}
        return of | {"bits": numcodecs.Blosc("zstd", shuffle=numcodecs.Blosc.BITSHUFFLE)}
    codecs = pytest.importorskip("zarr").codecs
    return {
        "zstd": codecs.ZstdCodec(),
        "gzip": codecs.GzipCodec(),
        "blosc": codecs.BloscCodec(cname="lz4"),
        "sum": codecs.Crc32cCodec(),
        "zstd and sum": [codecs.ZstdCodec(), codecs.Crc32cCodec()],
    }


@pytest.mark.parametrize("version", [2, 3])
def test_zarrs_compressed_chunks_are_decoded_to_every_value(tmp_path, version):
    zarr = pytest.importorskip("zarr")
    even = IMAGES // 16  # noise would not become smaller
    for name, codec in zarrs_codecs(version).items():
        for shards in (None, (20, 6, 7, 3)) if version == 3 else (None,):
            form = {"chunks": (10, 6, 7, 3), "compressors": codec, "zarr_format": version}
            if shards is not None:
                form["shards"] = shards
            path = tmp_path / f"{name} {shards is None}"
            made = zarr.create_array(path, shape=IMAGES.shape, dtype="uint8", **form)
            made[:] = even
            with hr.Dataset(path, label=LABELS) as dataset:
                images, labels = in_order(dataset)
            assert np.array_equal(images, even), name
            assert labels == LABELS.tolist()


def test_arrays_in_compressed_chunks_are_packed_with_every_value(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        form = {"chunks": (10, 6, 7, 3), "compression": "gzip"}
        file.create_dataset("images", data=IMAGES, **form)
        file["labels"] = LABELS
    hr.pack(path, tmp_path / "packed")
    with hr.Dataset(tmp_path / "packed") as packed:
        assert np.array_equal([sample.image for sample in packed], IMAGES)
        assert [sample.label for sample in packed] == LABELS.tolist()


def test_a_damaged_chunk_or_a_decompression_bomb_is_an_error_of_its_images(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        form = {"chunks": (10, 6, 7, 3), "compression": "gzip"}
        data = file.create_dataset("images", data=IMAGES, **form)
        info = data.id.get_chunk_info(1)
    whole = bytearray(path.read_bytes())
    bomb = zlib.compress(bytes(100 << 20))[: info.size]  # 100 MB where 1,260 bytes are expected
    for damage in (bomb, bytes(info.size)):
        path.write_bytes(whole)
        with open(path, "r+b") as file:
            file.seek(info.byte_offset)
            file.write(damage)
        dataset = hr.Dataset(path)
        assert np.array_equal(dataset[3].image, IMAGES[3])
        with pytest.raises(errors.BadFileError, match=r"record 13.*the block cannot be decoded"):
            dataset[13]
        with pytest.raises(errors.BadFileError, match=r"record 1[0-9].*the block"):
            in_order(dataset)


def test_huge_hdf5_labels_that_were_never_written_are_refused_without_reading(tmp_path):
    with h5py.File(tmp_path / "set.h5", "w") as file:
        file["images"] = IMAGES
        space = h5py.h5s.create_simple((ROWS,))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((1,))
        text = h5py.h5t.C_S1.copy()
        text.set_size(1 << 30)
        h5py.h5d.create(file.id, b"labels", text, space, plist)
    assert (tmp_path / "set.h5").stat().st_size < 20_000
    for label in (None, "labels"):
        with pytest.raises(errors.UnsupportedError, match=r"dtype \|S1073741824"):
            hr.Dataset(tmp_path / "set.h5", label=label)


def test_a_bomb_in_a_chunk_of_zarr_or_in_its_labels_is_an_error(tmp_path):
    zarr = pytest.importorskip("zarr")
    numcodecs = pytest.importorskip("numcodecs")
    group = zarr.open_group(tmp_path / "z", mode="w", zarr_format=2)
    form = {"chunks": (10, 6, 7, 3), "compressors": numcodecs.Zlib()}
    group.create_array("images", shape=IMAGES.shape, dtype="uint8", **form)[:] = IMAGES
    group.create_array("labels", shape=LABELS.shape, dtype="int64")[:] = LABELS
    (tmp_path / "z" / "images" / "1.0.0.0").write_bytes(zlib.compress(bytes(100 << 20)))
    with hr.Dataset(tmp_path / "z") as dataset:
        assert np.array_equal(dataset[3].image, IMAGES[3])
        with pytest.raises(errors.BadFileError, match=r"record 13.*more than 1260 bytes"):
            dataset[13]
    (tmp_path / "z" / "labels" / "0").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(errors.BadFileError, match="labels"):
        hr.Dataset(tmp_path / "z")


def test_a_full_shuffle_over_large_chunks_warns_once_of_its_cost(tmp_path, monkeypatch):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        form = {"chunks": (10, 1000, 1000), "compression": "gzip"}
        data = file.create_dataset("images", (540, 1000, 1000), np.uint8, **form)
        chunk = zlib.compress(bytes(10_000_000))
        for begin in range(0, 540, 10):
            data.id.write_direct_chunk((begin, 0, 0), chunk)
    with hr.Dataset(path) as dataset:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hr.Loader(dataset, shuffle="window", seed=1).close()
            hr.Loader(dataset).close()
        monkeypatch.setattr("headrace._engine.scarce._warned", {"of another kind"})
        says = "54 compressed chunks of 10 images and 9765 kB .* nearly every image costs a whole"
        with pytest.warns(UserWarning, match=says):
            hr.Loader(dataset, shuffle=True, seed=1).close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            hr.Loader(dataset, shuffle=True, seed=1).close()
        monkeypatch.setattr("headrace._engine.scarce._warned", set())
        options = {"batch_size": 20, "transform": [CenterCrop(8)], "strict": True}
        torch.manual_seed(1)
        for shuffled in (False, True):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                next(iter(hr.DataLoader(dataset, shuffle=shuffled, **options)))
            texts = [str(one.message) for one in seen]
            assert len(texts) == shuffled, texts
            assert not shuffled or 'headrace.Loader with shuffle="window" decodes' in texts[0]


def test_a_chunk_over_the_limit_for_blocks_is_refused(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        form = {"chunks": (300, 1000, 1000), "compression": "gzip"}
        data = file.create_dataset("images", (300, 1000, 1000), np.uint8, **form)
        data.id.write_direct_chunk((0, 0, 0), b"never decoded")
    with pytest.raises(errors.LimitError, match="at most 268435456 bytes"):
        hr.Dataset(path)


HDF5S = {
    "hdf5": {"chunks": (10, 6, 7, 3), "compression": "gzip", "fletcher32": True},
    "hdf5 in one piece": {},
    "hdf5 unfiltered": {"chunks": (10, 6, 7, 3)},
}


def written(folder, kind: str):
    """Images and labels, most of them in compressed chunks, and the files of the dataset."""
    if kind in HDF5S:
        path = folder / "set.h5"
        with h5py.File(path, "w") as file:
            file.create_dataset("images", data=IMAGES // 16, **HDF5S[kind])
            file["labels"] = LABELS
        return path, [path]
    zarr, path = pytest.importorskip("zarr"), folder / "set.zarr"
    group = zarr.open_group(path, mode="w", zarr_format=2 if kind == "zarr 2" else 3)
    form = {"chunks": (10, 6, 7, 3)}
    if kind == "zarr as it is":
        form["compressors"] = None
    if kind == "shards":
        form["shards"] = (20, 6, 7, 3)
    group.create_array("images", shape=IMAGES.shape, dtype="uint8", **form)[:] = IMAGES // 16
    group.create_array("labels", shape=LABELS.shape, dtype="int64")[:] = LABELS
    return path, [file for file in path.rglob("*") if file.is_file()]


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", [*HDF5S, "zarr 2", "zarr 3", "zarr as it is", "shards"])
def test_a_file_with_any_changed_byte_gives_images_or_an_error(tmp_path, kind):
    path, files = written(tmp_path, kind)
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
            with hr.Dataset(path, format=None if "zarr" in path.name else "hdf5") as dataset:
                for number in {0, len(dataset) // 2, len(dataset) - 1}:
                    assert dataset[number].image.shape[2] == 3
            good += 1
        except errors.InternalError:
            raise
        except errors.HeadraceError:
            pass
        file.write_bytes(whole[file])
    assert 5 < good < 150


@pytest.mark.parametrize("kind", ["hdf5", "shards"])
def test_epochs_of_compressed_chunks_are_the_same_for_any_threads_and_after_any_resume(
    tmp_path, kind
):
    path, _ = written(tmp_path, kind)
    options = {"batch_size": 8, "seed": 3, "dtype": "uint8"}
    for shuffle in (True, "window"):

        def epochs(threads: int, step: int, shuffle=shuffle) -> list[tuple[bytes, list[int]]]:
            with hr.Dataset(path) as dataset:
                with hr.Loader(dataset, num_threads=threads, shuffle=shuffle, **options) as loader:
                    batches = iter(loader)
                    for _ in range(step):
                        next(batches)
                    state = loader.state_dict()
                with hr.Loader(dataset, num_threads=threads, shuffle=shuffle, **options) as loader:
                    loader.load_state_dict(state)
                    found = [*loader, *loader]
                    return [(images.numpy().tobytes(), of.tolist()) for images, of in found]

        expected = epochs(1, 0)
        assert sorted(label for _, of in expected[:6] for label in of) == sorted(LABELS.tolist())
        for threads, step in ((2, 3), (8, 5)):
            assert epochs(threads, step) == expected[step:]


def test_windows_of_a_shuffle_follow_the_compressed_chunks(tmp_path):
    path = tmp_path / "set.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=IMAGES, chunks=(10, *IMAGES.shape[1:]), compression=4)
    options = {"shuffle": "window", "window": 20, "seed": 1, "fields": ["index"], "dtype": "uint8"}
    with hr.Dataset(path) as dataset, hr.Loader(dataset, 5, **options) as loader:
        places = [int(index) for _, _, fields in loader for index in fields["index"]]
        decoded = loader.stats()["blocks_decoded"]
    assert sorted(places) == list(range(len(IMAGES)))
    for begin in range(0, len(IMAGES), 20):
        window = places[begin : begin + 20]
        assert len({place // 10 for place in window}) <= 3
        assert window != sorted(window)
    assert decoded == -(-len(IMAGES) // 10)


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


def test_the_error_for_zarr_that_cannot_be_read_in_place_says_why(tmp_path):
    zarr = pytest.importorskip("zarr")
    form = {"shape": IMAGES.shape, "dtype": "uint8"}
    packed = zarr.create_array(tmp_path / "z", chunks=(10, 6, 7, 3), **form)
    packed[:] = IMAGES
    check(tmp_path / "z", label=LABELS)
    bloscs = {"compressors": zarr.codecs.BloscCodec(cname="blosclz"), "chunks": (10, 6, 7, 3)}
    zarr.create_array(tmp_path / "b", **bloscs, **form)[:] = IMAGES // 255
    zarr.create_array(tmp_path / "n", chunks=(10, 6, 7, 3), compressors=None, **form)
    for name, says in (("b", "BloscLZ"), ("n", "5 chunks were never written, which are all")):
        with pytest.raises(errors.UnsupportedError, match=says):
            hr.Dataset(tmp_path / name)
    (tmp_path / "z" / "zarr.json").write_text("{")
    with pytest.raises(errors.BadFileError, match="zarr cannot open it"):
        hr.Dataset(tmp_path / "z")
