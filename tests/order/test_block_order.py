"""Windows over compressed blocks: a block's samples stay close together, on any number of ranks."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headrace as hr
import images
import tables
import timing
from headrace.errors import ArgumentError

COUNT, ROWS, WINDOW = 119, 7, 28


def table() -> Any:
    photos = [images.jpeg(16 + i % 9, 17, seed=i) for i in range(COUNT)]
    return tables.table(photos, [i % 4 for i in range(COUNT)], ["a", "b", "c", "d"])


def written(root: Path, rows: int) -> list[Path]:
    return tables.parquet(
        root, [table()], compression="snappy", row_group_size=rows, use_dictionary=False
    )


@pytest.fixture(scope="module")
def snappy(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return written(tmp_path_factory.mktemp("blocks"), ROWS)


def loader(source: Any, **options: Any) -> hr.Loader:
    settings = {"batch_size": 8, "transform": [hr.transforms.RandomResizedCrop(8)], "seed": 5}
    settings |= {"shuffle": "window", "window": WINDOW, "fields": ["index"], "output": "numpy"}
    return hr.Loader(source, **{**settings, **options})


def samples(batches: Any) -> list[tuple[int, bytes]]:
    return [
        (int(index), image.tobytes())
        for pixels, _, fields in batches
        for index, image in zip(fields["index"], pixels, strict=True)
    ]


def test_the_samples_of_a_window_are_in_few_blocks_which_are_decoded_once(
    snappy: list[Path],
) -> None:
    with loader(snappy) as source:
        first, second = ([index for index, _ in samples(source)] for _ in range(2))
        decoded = source.stats()["blocks_decoded"]
    assert first != second
    for epoch in (first, second):
        assert sorted(epoch) == list(range(COUNT))
        for begin in range(0, COUNT, WINDOW):
            window = epoch[begin : begin + WINDOW]
            assert len({index // ROWS for index in window}) <= WINDOW // ROWS + 1
            assert window != sorted(window)
    assert decoded == COUNT // ROWS  # all blocks stay cached between epochs


@pytest.mark.slow
def test_blocks_of_a_window_are_decoded_evenly_while_the_window_before_is_read(
    tmp_path: Path,
) -> None:
    count, rows, window, batch = 1_200, 20, 200, 10
    photos = [images.jpeg(16, 17, seed=i % 50) for i in range(count)]
    made = tables.table(photos, [0] * count, ["a"])
    options = {"compression": "snappy", "row_group_size": rows, "use_dictionary": False}
    files = tables.parquet(tmp_path, [made], **options)
    decoded: list[int] = []
    with loader(files, window=window, batch_size=batch, num_threads=1, prefetch=2) as source:
        for _ in source:
            until = time.monotonic() + timing.PATIENCE_S
            while source.stats()["batches_ready"] < 2:
                assert time.monotonic() < until
                time.sleep(0.001)
            decoded.append(source.stats()["blocks_decoded"])
    assert decoded[-1] == count // rows
    # After the first window, whose blocks could not be read ahead.
    steps = [after - before for before, after in itertools.pairwise(decoded[2:])]
    assert max(steps) <= 2, steps


def test_windows_of_blocks_are_resumed_exactly_on_other_ranks(snappy: list[Path]) -> None:
    with loader(snappy) as whole:
        expected = samples(whole)
        source = iter(whole)
        for _ in range(4):
            next(source)
        state = json.loads(json.dumps(whole.state_dict()))
    assert state["position"] == 32
    with loader(snappy) as whole:
        whole.set_epoch(1)
        expected = samples(whole)
    for world in (1, 3):
        found: list[tuple[int, bytes]] = []
        for rank in range(world):
            with loader(snappy, rank=rank, world_size=world, num_threads=1 + rank) as part:
                part.load_state_dict(state)
                found += samples(part)
        assert sorted(found) == sorted(expected[32:])


def test_a_state_of_the_same_samples_in_other_blocks_is_refused(
    snappy: list[Path], tmp_path: Path
) -> None:
    other = written(tmp_path, ROWS + 1)
    with loader(snappy) as one, loader(other) as two:
        assert one.dataset.fingerprint == two.dataset.fingerprint
        with pytest.raises(ArgumentError, match="the state has stretches="):
            two.load_state_dict(one.state_dict())


def test_a_subset_of_scattered_samples_is_read_block_by_block(snappy: list[Path]) -> None:
    chosen = np.random.default_rng(0).permutation(COUNT)[: COUNT // 2]
    with loader(snappy, sampler=hr.samplers.Subset(chosen), window=12) as source:
        found = [index for index, _ in samples(source)]
    assert sorted(found) == sorted(chosen)
    blocks = [len({index // ROWS for index in found[i : i + 12]}) for i in range(0, len(found), 12)]
    assert max(blocks) <= 7
