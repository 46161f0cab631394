"""Datasets by URL in the worker processes of torch's DataLoader, and as an IterableDataset."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import headrace as hr
import images
from processes import run
from remote.stores import Answering, Store
from timing import PATIENCE_S, within

COUNT = 50
CROP = [hr.transforms.CenterCrop(8)]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("workers")
    photos = images.plain_tree(root / "photos", COUNT)
    hr.pack(photos, root / "train.hr", shard_size="64KiB")
    hr.index(photos)
    return root


# A process of its own, which has not used the library when its workers are forked.
LOADING = """
    import hashlib, sys
    import torch
    import headrace as hr

    if __name__ == "__main__":
        kind, source, workers, context = sys.argv[1:]
        if kind == "iterable":
            dataset = hr.IterableDataset(source, 4, shuffle=True, seed=3, num_threads=1,
                                         transform=[hr.transforms.RandomResizedCrop(8)])
        else:
            dataset = hr.Dataset(source)
        words = {"multiprocessing_context": context} if int(workers) else {}
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=int(workers),
                                             **words)
        for _ in range(2):
            digest, count = hashlib.sha256(), 0
            for images, labels in loader:
                digest.update(images.numpy().tobytes() + repr(labels).encode())
                count += 1
            print(digest.hexdigest(), count)
"""


@pytest.mark.parametrize("name", ["train.hr", pytest.param("photos", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "context"),
    [
        ("iterable", "fork"),
        *(pytest.param(kind, "spawn", marks=pytest.mark.slow) for kind in ("iterable", "samples")),
    ],
)
def test_worker_processes_give_the_batches_of_the_dataset_on_disk(
    root: Path, store: Store, name: str, kind: str, context: str
) -> None:
    local = run(LOADING, kind, root / name, 0, "").split()
    assert local[1::2] == [str(-(-COUNT // 4) if kind == "iterable" else COUNT)] * 2
    assert run(LOADING, kind, store.url(name), 0, "").split() == local
    assert run(LOADING, kind, store.url(name), 2, context).split() == local


def test_closing_a_loader_over_images_of_a_store_ends_reads_under_way(store: Store) -> None:
    """Each single object is a read of its own, which is not shared and can be ended."""
    over, asked = threading.Event(), threading.Semaphore(0)

    def silent(answering: Answering, *_: object) -> bool:
        if not answering.path.endswith(".jpg"):
            return False
        asked.release()
        over.wait(30)
        answering.reset()
        return True

    store.fault = silent
    try:

        def attempt() -> float:
            made = hr.Loader(store.url("photos"), 8, output="numpy", transform=CROP, timeout=20)
            for _ in range(8):  # many are under way
                assert asked.acquire(timeout=PATIENCE_S)
            began = time.monotonic()
            made.close()
            return time.monotonic() - began

        within(1.0, attempt)
    finally:
        over.set()
