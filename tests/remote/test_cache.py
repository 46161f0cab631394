"""The cache of a store: every batch equals the local dataset's, and little is fetched twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tarfile
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
from headrace import errors
from processes import in_mount_namespace, run, start
from remote.stores import Store
from remote.test_urls import COUNT, ORDERS, epochs, failing, loader, samples


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cached")
    photos = images.plain_tree(root / "photos", COUNT)
    hr.pack(photos, root / "train.hr", shard_size="64KiB")
    return root


@pytest.mark.parametrize("order", ORDERS)
def test_every_batch_equals_that_of_the_dataset_on_disk(
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


def test_cached_records_are_read_by_the_threads_that_decode_them(
    store: Store, tmp_path: Path
) -> None:
    def read_by_them(made: hr.Loader, path: Path) -> int:
        made.trace(path)
        samples(made)
        made.trace(None)
        events = json.loads(path.read_text())
        return sum(e["name"] == "read" and e["ph"] == "X" for e in events)

    kept = {"cache": tmp_path / "cache", "cache_size": "8MB", "shuffle": True}
    with loader(store.url("train.hr"), **kept) as made:
        samples(made)
    with loader(store.url("train.hr"), **kept) as made:
        samples(made)  # until a shard is opened its version is unknown
        assert read_by_them(made, tmp_path / "kept.json") > 0
        assert made.stats()["remote_bytes"] == 0
    with loader(store.url("train.hr"), shuffle=True) as made:
        assert read_by_them(made, tmp_path / "fetched.json") == 0


@pytest.mark.parametrize("how", ["503", "cut", "reset"])
def test_an_epoch_through_a_small_cache_survives_failures_of_a_tenth_of_all_requests(
    root: Path, store: Store, tmp_path: Path, how: str
) -> None:
    store.fault = failing(0.1, how)
    kept = {"cache": tmp_path / "cache", "cache_size": "1MiB", "shuffle": True}
    assert epochs(store.url("train.hr"), **kept) == epochs(root / "train.hr", shuffle=True)


def test_a_cache_smaller_than_the_batches_under_way_is_refused_with_both_numbers(
    store: Store, tmp_path: Path
) -> None:
    with pytest.raises(errors.ArgumentError, match=r"cache_size is 1048576 bytes \(expected at"):
        loader(
            store.url("train.hr"), cache=tmp_path, cache_size=2**20, batch_size=COUNT, prefetch=900
        )


@pytest.mark.slow
def test_a_samplers_order_is_planned_as_far_as_it_is_submitted(tmp_path: Path) -> None:
    photos = images.plain_tree(tmp_path / "photos", 60, side=240)
    hr.pack(photos, tmp_path / "train.hr")
    draw, size = random.Random(9), 1 << 20
    order = [draw.randrange(60) for _ in range(900)]
    with hr.Dataset(tmp_path / "train.hr") as dataset:
        lengths = [int(dataset.facts(number)["length"]) for number in range(60)]
    assert sum(lengths) > 1.5 * size
    farthest, recent = by_rule(order, lengths, size, True), by_rule(order, lengths, size, False)
    store = Store(tmp_path)
    try:
        kept: dict[str, Any] = {"cache": tmp_path / "cache", "cache_size": size, "batch_size": 4}
        kept |= {"sampler": order, "prefetch": 1}
        with loader(store.url("train.hr"), **kept) as made:
            batches = iter(made)
            next(batches)
            stats = made.stats()
            assert (stats["cache_planned"], stats["cache_planned_ahead"]) == (0, 896)
            found = [next(batches)[2]["index"] for _ in range(3)]
            assert [int(index) for one in found for index in one] == order[4:16]
            samples(batches)
            stats = made.stats()
            assert stats["cache_planned_ahead"] == 0
        # The rule fetches a record when it is used; the loader fetches it earlier, and the disk
        # stores it in whole blocks. Its bytes were 0.86 to 1.08 of the rule's in 12 runs, idle and
        # busy.
        assert stats["remote_bytes"] <= 1.2 * farthest
        assert 1.2 * farthest < 0.8 * recent
    finally:
        store.end()


def by_rule(order: list[int], lengths: list[int], room: int, farthest: bool) -> int:
    """Bytes fetched if the cache drops what is used last in the future, or was used longest ago."""
    held: dict[int, int] = {}
    total = 0
    for position, sample in enumerate(order):
        total += 0 if sample in held else lengths[sample]
        later = order[position + 1 :]
        held[sample] = -position
        if farthest:
            held[sample] = later.index(sample) + position if sample in later else len(order)
        while sum(lengths[one] for one in held) > room:
            del held[max(held, key=lambda one: held[one])]
    return total


# What a rank reports: its checksum of each epoch, and what it fetched.
RANK = """
    import hashlib, os, sys, time
    import headrace as hr
    url, place, size, rank, ranks, epochs, *end = sys.argv[1:]
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
        # As ranks that train in step: one that ends drops what it was fetching.
        while end and not os.path.exists(end[0]):
            time.sleep(0.01)
"""
SIZE = 8 << 20


def asked_for(store: Store, dataset: Path) -> list[int]:
    """How many requests had at least one byte of each record."""
    found = []
    for shard in sorted(dataset.glob("*.tar")):
        ranges = [
            (first, first + length)
            for method, path, first, length in store.requests
            if method == "GET" and path.endswith(f"/{shard.name}") and length > 1
        ]
        with tarfile.open(shard) as members:
            for member in members:
                if member.name.endswith((".jpg", ".png")):
                    begin, end = member.offset_data, member.offset_data + member.size
                    found.append(sum(first < end and last > begin for first, last in ranges))
    return found


@pytest.mark.parametrize("tiny", [True, False])
def test_four_ranks_of_a_machine_fetch_each_record_once(tmp_path: Path, tiny: bool) -> None:
    photos = tmp_path / "photos"
    if tiny:
        # Two records of one rank with another rank's between them are as near as records that are
        # fetched together.
        files = [images.png(6 + number % 3, 6, 2, seed=number) for number in range(COUNT)]
        images.write_tree(photos, {f"class/{i:04d}.png": file for i, file in enumerate(files)})
    else:
        images.plain_tree(photos, COUNT)
    hr.pack(photos, tmp_path / "train.hr", shard_size="64KiB")
    local = [run(RANK, tmp_path / "train.hr", "", 0, rank, 4, 2).split()[:2] for rank in range(4)]
    store, end = Store(tmp_path), tmp_path / "end"
    try:
        cached = (store.url("train.hr"), tmp_path / "cache", SIZE)
        # In the second epoch the ranks have other parts.
        running = [start(RANK, *cached, rank, 4, 2, end) for rank in range(4)]
        for rank, process in enumerate(running):
            assert process.stdout is not None
            assert [process.stdout.readline().strip() for _ in range(3)][:2] == local[rank]
        end.touch()
        for process in running:
            assert process.communicate(timeout=60) == ("", "")
        assert asked_for(store, tmp_path / "train.hr") == [1] * COUNT
    finally:
        end.touch()
        store.end()


@pytest.mark.slow
def test_the_smaller_size_limit_of_two_jobs_holds_while_both_run(
    root: Path, store: Store, tmp_path: Path
) -> None:
    photos = images.plain_tree(tmp_path / "photos", 60, side=240)
    hr.pack(photos, tmp_path / "large.hr")
    local = epochs(tmp_path / "large.hr", shuffle=True)
    small = run(RANK, root / "train.hr", "", 0, 0, 1, 2).split()[:2]
    large, cache, end, least = Store(tmp_path), tmp_path / "cache", tmp_path / "end", 1 << 20

    def held() -> int:
        return sum(file.stat().st_blocks * 512 for file in cache.iterdir())

    try:
        kept = {"cache": cache, "cache_size": SIZE, "shuffle": True}
        with loader(large.url("large.hr"), **kept) as made:
            found = samples(made)
            assert held() > 1.05 * least
            other = start(RANK, store.url("train.hr"), cache, least, 0, 1, 2, end)
            assert other.stdout is not None
            assert [other.stdout.readline().strip() for _ in range(3)][:2] == small
            assert found + samples(made) == local
            assert held() <= 1.05 * least
            end.touch()
            assert other.communicate(timeout=60) == ("", "")
            for _ in range(2):  # some of the first job's samples were fetched, and dropped, before
                samples(made)
            assert held() > 1.05 * least
    finally:
        end.touch()
        large.end()


def test_a_cache_grown_by_a_larger_job_is_used_by_a_dataset_that_has_it_open(
    root: Path, store: Store, tmp_path: Path
) -> None:
    photos = images.plain_tree(tmp_path / "photos", 60, side=240)
    hr.pack(photos, tmp_path / "large.hr")
    cache, least, whole = tmp_path / "cache", 1 << 20, Store(tmp_path)

    def held() -> int:
        return sum(file.stat().st_blocks * 512 for file in cache.iterdir())

    small = {"cache": cache, "cache_size": least}
    try:
        with hr.Dataset(store.url("train.hr"), **small) as dataset, warnings.catch_warnings():
            warnings.simplefilter("error")
            # A dataset that has the cache open without using it imposes no size limit.
            assert run(RANK, whole.url("large.hr"), cache, SIZE, 0, 1, 1)
            assert held() > 1.05 * least
            with loader(dataset, shuffle=True) as made:
                assert samples(made) + samples(made) == epochs(root / "train.hr", shuffle=True)
                assert made.stats()["cache_hits"] > 0
            assert held() <= 1.05 * least
            # Nor does it limit a larger use by its own process.
            assert len(epochs(whole.url("large.hr"), cache=cache, cache_size=SIZE)) == 2 * 60
            assert held() > 1.05 * least
    finally:
        whole.end()


@pytest.mark.slow
def test_a_rank_that_is_killed_at_any_moment_leaves_a_cache_that_works(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = run(RANK, root / "train.hr", "", 0, 0, 1, 2).split()[:2]
    url, draw = store.url("train.hr"), random.Random(0)
    for _ in range(int(os.environ.get("HEADRACE_REPETITIONS", "6"))):
        cache = tmp_path / "cache"
        process = start(RANK, url, cache, SIZE, 0, 1, 10_000)
        deadline = time.monotonic() + 60
        while not (cache / "headrace-cache.data").exists() and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(draw.random() / 10)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert run(RANK, url, cache, SIZE, 0, 1, 2).split()[:2] == local
        if draw.random() < 0.5:
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


def test_a_small_cache_stays_within_its_size_limit(
    root: Path, store: Store, tmp_path: Path
) -> None:
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


def test_a_loader_goes_on_without_a_cache_that_is_removed_during_use(
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


# With faulthandler installed after the engine's own handler, as in some programs.
CUT = """
    import faulthandler, hashlib, os, sys, warnings
    import headrace as hr
    warnings.simplefilter("ignore")
    url, place, size, name = sys.argv[1:]
    steps = [hr.transforms.RandomResizedCrop(8), hr.transforms.RandomHorizontalFlip()]
    with hr.Loader(url, 8, shuffle=True, seed=3, transform=steps, dtype="uint8", num_threads=1,
                   output="numpy", cache=place, cache_size=int(size)) as loader:
        faulthandler.enable()
        for epoch in range(2):
            sums = hashlib.sha256()
            for number, (pixels, labels) in enumerate(loader):
                if (epoch, number) == (0, 2):
                    os.truncate(os.path.join(place, "headrace-cache." + name), 0)
                sums.update(pixels.tobytes() + labels.tobytes())
            print(sums.hexdigest(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["head", "buckets", "entries", "blocks", "data"])
def test_a_cache_file_that_is_truncated_during_use_costs_only_the_cache(
    root: Path, store: Store, tmp_path: Path, name: str
) -> None:
    local = run(RANK, root / "train.hr", "", 0, 0, 1, 2).split()[:2]
    for _ in range(3):
        found = run(CUT, store.url("train.hr"), tmp_path / "cache", SIZE, name).split()
        assert found == local
    assert run(RANK, store.url("train.hr"), tmp_path / "cache", SIZE, 0, 1, 2).split()[:2] == local


def test_other_files_in_a_cache_directory_are_left_unchanged(
    root: Path, store: Store, tmp_path: Path
) -> None:
    mine = {name: tmp_path / name for name in ("data", "head", "entries")}
    for file in mine.values():
        file.write_bytes(b"mine")
    tmp_path.chmod(0o755)
    with pytest.raises(errors.ArgumentError, match=r"a directory for the cache alone, or one of"):
        epochs(store.url("train.hr"), cache=tmp_path, cache_size=SIZE)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o700)
    found = epochs(store.url("train.hr"), cache=tmp_path, cache_size=SIZE)
    assert found == epochs(root / "train.hr")
    assert [file.read_bytes() for file in mine.values()] == [b"mine"] * 3


def test_a_directory_that_cannot_be_a_cache_gives_a_warning_and_loading_works_without(
    root: Path, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"")
    place = tmp_path / "file" / "cache"
    with pytest.warns(UserWarning, match=r"there is no cache in .*file/cache.*asked for every"):
        found = epochs(store.url("train.hr"), cache=place, cache_size=SIZE)
    assert found == epochs(root / "train.hr")


@pytest.mark.slow
def test_a_full_disk_or_a_read_only_cache_costs_only_the_cache(
    root: Path, store: Store, tmp_path: Path
) -> None:
    local = run(RANK, root / "train.hr", "", 0, 0, 1, 2).split()[:2]
    url, cache = store.url("train.hr"), tmp_path / "cache"
    cache.mkdir(mode=0o700)
    for options in ("size=64k", "size=100k", "size=200k", "size=400k", "ro"):
        prefix = in_mount_namespace(f"mount -t tmpfs -o {options},mode=700 none {cache}")
        out = run(RANK, url, cache, SIZE, 0, 1, 2, prefix=prefix)
        assert out.split()[:2] == local, options


@pytest.mark.parametrize(
    ("words", "name"), [({"cache": "x"}, "cache"), ({"cache_size": 1}, "cach")]
)
def test_a_cache_needs_both_cache_and_cache_size(
    store: Store, words: dict[str, Any], name: str
) -> None:
    with pytest.raises(errors.ArgumentError, match=name):
        hr.Dataset(store.url("train.hr"), **words)


@pytest.mark.slow
def test_a_nearly_full_disk_gives_a_warning(root: Path, store: Store, tmp_path: Path) -> None:
    code = """
        import sys, warnings
        import headrace as hr
        url, place = sys.argv[1:]
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            with hr.Loader(url, 8, transform=[hr.transforms.Resize((8, 8))], output="numpy",
                           cache=place, cache_size=8 << 20) as loader:
                for _ in range(3):
                    print(sum(len(images) for images, _ in loader))
        texts = " ".join(str(one.message) for one in found)
        print("takes nothing more" in texts or "there is no cache" in texts)
    """
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    for size in range(16, 400, 32):
        prefix = in_mount_namespace(f"mount -t tmpfs -o size={size}k,mode=700 none {cache}")
        printed = run(code, store.url("train.hr"), cache, prefix=prefix).split()
        assert printed == [str(COUNT)] * 3 + ["True"], size
