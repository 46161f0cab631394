"""The cache of a store: every batch is that of the local dataset, and little is fetched again."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace import errors
from processes import in_mount_namespace, run, start
from remote.stores import Store
from remote.test_urls import COUNT, ORDERS, epochs, loader, samples


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cached")
    photos = images.plain_tree(root / "photos", COUNT)
    hr.pack(photos, root / "train.hr", shard_size="64KiB")
    return root


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    made = Store(root)
    yield made
    made.end()


def fetched(store: Store) -> int:
    return sum(length for _, path, _, length in store.requests if path.endswith(".tar"))


@pytest.mark.parametrize("order", ORDERS)
def test_every_batch_is_that_of_the_dataset_on_disk(
    root: Path, store: Store, tmp_path: Path, order: str
) -> None:
    options: dict[str, Any] = ORDERS[order]
    kept = {"cache": tmp_path / "cache", "cache_size": "8MB"}
    assert epochs(store.url("train.hr"), **options, **kept) == epochs(root / "train.hr", **options)


def test_a_second_epoch_and_a_second_loader_fetch_no_record(store: Store, tmp_path: Path) -> None:
    kept = {"cache": tmp_path / "cache", "cache_size": "8MB", "shuffle": True}
    with loader(store.url("train.hr"), **kept) as made:
        first = samples(made)
        after = made.stats()["remote_bytes"]
        samples(made)
        stats = made.stats()
    assert stats["remote_bytes"] == after
    assert stats["cache_hits"] >= COUNT
    with loader(store.url("train.hr"), **kept) as made:
        assert samples(made) == first
        assert made.stats()["remote_bytes"] == 0


def test_a_cache_below_what_is_under_way_is_refused_with_both_numbers(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(errors.ArgumentError, match=r"cache_size is 1048576 bytes \(expected at"):
        loader(
            store.url("train.hr"), cache=tmp_path, cache_size=2**20, batch_size=COUNT, prefetch=900
        )


# What a rank trains on: its checksum of each epoch, and what it fetched.
RANK = """
    import hashlib, sys
    import headrace as hr
    url, place, size, rank, ranks, epochs = sys.argv[1:]
    steps = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()]
    # Agreement between ranks wants torch.distributed; their parts are what the numbers say.
    kept = {"cache": place, "cache_size": int(size)} if place else {}
    with hr.Loader(url, 8, shuffle=True, seed=3, transform=steps, dtype="uint8", num_threads=1,
                   rank=int(rank), world_size=int(ranks), output="numpy", **kept) as loader:
        for _ in range(int(epochs)):
            sums = hashlib.sha256()
            for pixels, labels in loader:
                sums.update(pixels.tobytes() + labels.tobytes())
            print(sums.hexdigest(), flush=True)
        print(loader.stats()["remote_bytes"], flush=True)
"""
SIZE = 8 << 20


def test_four_ranks_of_a_machine_fetch_what_is_in_the_dataset_once(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = [run(RANK, root / "train.hr", "", 0, rank, 4, 2).split()[:2] for rank in range(4)]
    url = store.url("train.hr")
    running = [start(RANK, url, tmp_path / "cache", SIZE, rank, 4, 2) for rank in range(4)]
    for rank, process in enumerate(running):
        out, err = process.communicate(timeout=120)
        assert (out.split()[:2], err) == (local[rank], "")
    # The ranks' parts of the second epoch are others. A set: a request may have a second one.
    asked = {one for one in store.requests if one[1].endswith(".tar") and one[3] > 1}
    with hr.Dataset(root / "train.hr") as dataset:
        records = sum(dataset.facts(index)["length"] for index in range(len(dataset)))
    gaps = len(asked) * 2048  # of tar headers between neighbours that are fetched together
    assert records <= sum(one[3] for one in asked) <= records + COUNT * 1024 + gaps


def test_a_rank_that_is_killed_at_any_moment_leaves_a_cache_that_works(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = run(RANK, root / "train.hr", "", 0, 0, 1, 2).split()[:2]
    url, draw = store.url("train.hr"), random.Random(0)
    for _ in range(int(os.environ.get("HEADRACE_REPETITIONS", "6"))):
        cache = tmp_path / "cache"
        process = start(RANK, url, cache, SIZE, 0, 1, 10_000)
        deadline = time.monotonic() + 60
        while not (cache / "data").exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(draw.random() / 10)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert run(RANK, url, cache, SIZE, 0, 1, 2).split()[:2] == local
        if draw.random() < 0.5:
            shutil.rmtree(cache)


def test_a_stopped_process_delays_another_for_some_seconds_and_no_more(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = run(RANK, root / "train.hr", "", 0, 0, 1, 1).split()[0]
    url, cache = store.url("train.hr"), tmp_path / "cache"
    for wait in (0.0, 0.03, 0.1):
        process = start(RANK, url, cache, SIZE, 0, 1, 10_000)
        try:
            deadline = time.monotonic() + 60
            while not (cache / "data").exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(wait)
            process.send_signal(signal.SIGSTOP)
            assert run(RANK, url, cache, SIZE, 0, 1, 1).split()[0] == local
        finally:
            process.kill()
            process.communicate()
        shutil.rmtree(cache)


def test_a_cache_of_any_bytes_gives_the_same_batches(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = epochs(root / "train.hr", shuffle=True)
    kept = {"cache": tmp_path / "cache", "cache_size": SIZE, "shuffle": True}
    for seed in range(6):
        assert epochs(store.url("train.hr"), **kept) == local
        draw = random.Random(seed)
        for file in sorted((tmp_path / "cache").iterdir()):
            content = bytearray(file.read_bytes())
            for _ in range(len(content) // 500):
                content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
            file.write_bytes(content[: len(content) // (1 + seed % 3)])
    assert epochs(store.url("train.hr"), **kept) == local


def test_a_small_cache_stays_within_its_bound(root: Path, store: Store, tmp_path: Path) -> None:
    cache, size = tmp_path / "cache", 1 << 20
    with hr.Dataset(root / "train.hr") as dataset:
        records = dataset.info["bytes"]
    with loader(store.url("train.hr"), cache=cache, cache_size=size, shuffle=True) as made:
        for _ in range(3):
            samples(made)
            held = sum(file.stat().st_blocks * 512 for file in cache.iterdir())
            assert held <= 1.05 * size
        assert made.stats()["cache_planned"] == 1
    assert records > 0
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_cache_that_is_removed_while_it_is_used_is_done_without(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = epochs(root / "train.hr", shuffle=True)
    cache = tmp_path / "cache"
    with loader(store.url("train.hr"), cache=cache, cache_size=SIZE, shuffle=True) as made:
        batches = iter(made)
        found = samples([next(batches)])
        shutil.rmtree(cache)
        found += samples(batches)
        found += samples(made)
    assert found == local
    assert not cache.exists()


def test_a_directory_that_can_be_no_cache_is_warned_of_and_done_without(
    root: Path, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    place = tmp_path / "file" / "cache"
    with pytest.warns(UserWarning, match=r"there is no cache in .*file/cache.*asked for every"):
        found = epochs(store.url("train.hr"), cache=place, cache_size=SIZE)
    assert found == epochs(root / "train.hr")


def test_a_full_disk_and_a_read_only_cache_cost_nothing_but_the_cache(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = run(RANK, root / "train.hr", "", 0, 0, 1, 2).split()[:2]
    url, cache = store.url("train.hr"), tmp_path / "cache"
    cache.mkdir(mode=0o700)
    for options in ("size=64k", "size=400k", "ro"):
        prefix = in_mount_namespace(f"mount -t tmpfs -o {options},mode=700 none {cache}")
        out = run(RANK, url, cache, SIZE, 0, 1, 2, prefix=prefix)
        assert out.split()[:2] == local, options


@pytest.mark.parametrize(
    ("words", "name"), [({"cache": "x"}, "cache"), ({"cache_size": 1}, "cach")]
)
def test_a_cache_wants_both_its_words(store: Store, words: dict[str, Any], name: str) -> None:
    with pytest.raises(errors.ArgumentError, match=name):
        hr.Dataset(store.url("train.hr"), **words)
