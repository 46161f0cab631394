"""The stream of batches: independent of how it is made, with every sample exactly once."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import headrace as hr
import images
import processes

COUNT = 117


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("order"), COUNT)


@pytest.fixture(scope="module")
def packed(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("order-packed") / "d.hr"
    hr.pack(folder, destination, shard_size="64KiB")
    assert len(list(destination.glob("shard-*.tar"))) > 2
    return destination


def augmented() -> list:
    return [
        hr.transforms.RandomResizedCrop(48),
        hr.transforms.RandomHorizontalFlip(),
        hr.transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4)),
    ]


def stream_hash(dataset, *, epochs: int = 2, **options: object) -> str:
    """SHA-256 over all bytes of images and labels in order."""
    settings = {"batch_size": 8, "shuffle": True, "seed": 5, "transform": augmented()}
    digest = hashlib.sha256()
    with hr.Loader(dataset, output="numpy", **{**settings, **options}) as loader:
        for _ in range(epochs):
            for batch, labels in loader:
                digest.update(batch.tobytes())
                digest.update(labels.tobytes())
    return digest.hexdigest()


def keys(dataset, *, epoch: int = 0, **options: object) -> list[str]:
    """The key of each sample in order."""
    settings = {"batch_size": 8, "transform": [hr.transforms.Resize((8, 8))], "fields": ["key"]}
    with hr.Loader(dataset, output="numpy", **{**settings, **options}) as loader:
        loader.set_epoch(epoch)
        return [str(key) for _, _, fields in loader for key in fields["key"]]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_the_stream_is_the_same_for_any_number_of_threads(packed: Path, threads: int) -> None:
    assert stream_hash(packed, num_threads=threads) == stream_hash(packed, num_threads=1)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_stream_is_the_same_for_mmap_and_pread(packed: Path, threads: int) -> None:
    mapped = hr.Dataset(packed, backend="mmap")
    read = hr.Dataset(packed, backend="pread")
    assert stream_hash(mapped, num_threads=threads) == stream_hash(read, num_threads=threads)


@pytest.mark.parametrize("prefetch", [1, 5])
def test_the_stream_is_the_same_for_any_prefetch_and_read_ahead(
    packed: Path, prefetch: int
) -> None:
    base = stream_hash(packed)
    assert stream_hash(packed, prefetch=prefetch) == base
    assert stream_hash(packed, prefetch=prefetch, read_ahead=40) == base


def test_a_folder_in_place_and_packed_gives_the_same_stream(folder: Path, packed: Path) -> None:
    assert stream_hash(folder) == stream_hash(packed)


def test_the_stream_depends_on_the_seed(packed: Path) -> None:
    assert stream_hash(packed, seed=5) != stream_hash(packed, seed=6)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("batch_size", [1, 8, 117, 200])
def test_every_sample_comes_exactly_once_an_epoch(
    packed: Path, batch_size: int, shuffle: bool
) -> None:
    dataset = hr.Dataset(packed)
    every = sorted(dataset.facts(i)["key"] for i in range(len(dataset)))
    found = keys(dataset, batch_size=batch_size, shuffle=shuffle)
    assert len(found) == COUNT
    assert sorted(found) == every


def test_without_shuffle_samples_come_in_the_datasets_order(packed: Path) -> None:
    dataset = hr.Dataset(packed)
    assert keys(dataset) == [dataset.facts(i)["key"] for i in range(len(dataset))]


def test_epochs_have_different_orders_of_the_same_samples(packed: Path) -> None:
    first, second = keys(packed, shuffle=True), keys(packed, shuffle=True, epoch=1)
    assert first != second
    assert sorted(first) == sorted(second)
    # Samples keep their position no more often than by chance: one is expected.
    assert sum(a == b for a, b in zip(first, second, strict=True)) < 10


def test_drop_last_leaves_out_the_incomplete_batch_and_nothing_else(packed: Path) -> None:
    whole = keys(packed, shuffle=True)
    assert keys(packed, shuffle=True, drop_last=True) == whole[: COUNT // 8 * 8]


@pytest.mark.parametrize("world_size", [2, 3, 8])
def test_ranks_together_have_every_sample_exactly_once(packed: Path, world_size: int) -> None:
    parts = [
        keys(packed, shuffle=True, batch_size=4, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    together = [key for part in parts for key in part]
    assert sorted(together) == sorted(keys(packed))


def test_with_shuffle_each_image_still_comes_with_its_own_label_and_key(packed: Path) -> None:
    options = {"transform": [hr.transforms.Resize((16, 16))], "fields": ["key"], "output": "numpy"}

    def samples(shuffle: bool) -> dict[str, tuple[bytes, int]]:
        with hr.Loader(packed, batch_size=16, shuffle=shuffle, **options) as loader:
            return {
                str(key): (image.tobytes(), int(label))
                for images_, labels, fields in loader
                for image, label, key in zip(images_, labels, fields["key"], strict=True)
            }

    in_order = samples(shuffle=False)
    assert len({image for image, _ in in_order.values()}) == COUNT  # all of them differ
    assert samples(shuffle=True) == in_order


@pytest.mark.parametrize("stop", [0, 1, 7, 14])
def test_after_a_break_the_next_epoch_is_whole(packed: Path, stop: int) -> None:
    options = {"batch_size": 8, "shuffle": True, "transform": [hr.transforms.Resize((8, 8))]}
    with hr.Loader(packed, fields=["key"], output="numpy", **options) as loader:
        for step, _ in enumerate(loader):
            if step == stop:
                break
        second = [str(key) for _, _, fields in loader for key in fields["key"]]
    assert second == keys(packed, shuffle=True, epoch=1)


EVERY_WAY = """
    import sys
    from pathlib import Path
    import headrace as hr
    sys.path.insert(0, sys.argv[2])
    from test_stream import stream_hash

    for backend in ("mmap", "pread"):
        with hr.Dataset(sys.argv[1], backend=backend) as dataset:
            for threads in (1, 2, 3, 7, 16):
                for prefetch in (1, 2, 8):
                    options = {"num_threads": threads, "prefetch": prefetch, "epochs": 1}
                    print(stream_hash(dataset, **options))
"""


def test_the_stream_has_one_hash_for_any_threads_prefetch_backend_and_instruction_set(
    packed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashes = []
    for kernels in ("scalar", ""):  # "" means the best that this CPU has
        monkeypatch.setenv("HEADRACE_SIMD", kernels)
        out = processes.run(EVERY_WAY, packed, Path(__file__).parent, timeout=300)
        hashes += out.split()
    assert len(hashes) == 2 * 2 * 5 * 3
    assert len(set(hashes)) == 1
