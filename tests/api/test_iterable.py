"""``hr.IterableDataset`` under torch's DataLoader, with and without worker processes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

import forking
import headrace as hr
from headrace._torch.share import Epochs, Share

# One process for all cases, which never uses Headrace itself: `run` forks a child for each. A case
# is [batch_size, workers, epochs, options of the loader and of the DataLoader].
CASES = """
    import gc, json, multiprocessing, os, sys
    import torch
    import headrace as hr
    import headrace.torch
    multiprocessing.set_forkserver_preload(["headrace.torch"])
    torch.set_num_threads(1)
    source, cases = sys.argv[1], json.loads(sys.argv[2])

    def epochs(batch_size, workers, count, options):
        options = dict({"shuffle": True, "dtype": "uint8", "fields": ["index"], "num_threads": 1,
                        "transform": [hr.transforms.RandomResizedCrop(8)]}, **options)
        through = {"multiprocessing_context": options.pop("method", "fork")} if workers else {}
        through["persistent_workers"] = options.pop("persistent", False)
        state, first = options.pop("state", None), options.pop("first", None)
        if "sampler" in options:
            kind, *given = options["sampler"]
            options["sampler"] = getattr(hr.samplers, kind)(*given)
        if options.pop("used", False):
            len(hr.Dataset(source))
        batches = hr.IterableDataset(source, batch_size, **options)
        if state:
            batches.load_state_dict(state)
        if first is not None:
            batches.set_epoch(first)
        through["num_workers"] = workers
        loader = torch.utils.data.DataLoader(batches, batch_size=None, **through)
        return [[[more["index"].tolist(), int(images.long().sum())] for images, _, more in loader]
                for _ in range(count)]

    def run(case):
        mine, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            try:
                answer = epochs(*case)
            except Exception as error:
                answer = repr(error)
                # torch's error holds itself and torch's iterator. A collection of both first takes
                # the queue that tells the workers to end, and then waits five seconds for each.
                error.__traceback__ = None
            gc.collect()  # of a DataLoader that failed, so that its workers end
            with os.fdopen(theirs, "w") as out:
                json.dump(answer, out)
            sys.stderr.flush()
            os._exit(0)
        os.close(theirs)
        with os.fdopen(mine) as answer:
            found = answer.read()
        assert os.waitpid(child, 0)[1] == 0
        return json.loads(found)

    if __name__ == "__main__":
        print(json.dumps([run(case) for case in cases]))
"""


def run(
    forked: forking.Parent, source: Path, *cases: tuple[int, int, int, dict[str, Any]]
) -> list[Any]:
    return list(json.loads(forked.run(CASES, source, json.dumps(cases), timeout=240)))


def samples(epoch: list[Any]) -> list[int]:
    return [index for indices, _ in epoch for index in indices]


@pytest.mark.slow
def test_workers_change_neither_the_batches_nor_their_order(
    packed: Path, forked: forking.Parent
) -> None:
    kinds = [(5, 2), (4, 3), (7, 4), (24, 2)]
    for drop_last in (False, True):
        options = {"drop_last": drop_last}
        found = run(
            forked,
            packed,
            *[(batch_size, 0, 3, options) for batch_size, _ in kinds],
            *[(batch_size, workers, 3, options) for batch_size, workers in kinds],
        )
        assert found[:4] == found[4:]
        for epochs in found:
            assert len(epochs) == 3
            assert epochs[0] != epochs[1] != epochs[2]
            for epoch in epochs:
                assert sorted(samples(epoch)) == list(range(24)) or drop_last


@pytest.mark.slow
def test_workers_split_the_samples_that_headraces_own_samplers_draw(
    packed: Path, forked: forking.Parent
) -> None:
    kinds: list[dict[str, Any]] = [
        {"sampler": ["Subset", [3, 20, 7, 11, 2, 9, 10]]},
        {"sampler": ["Weighted", [1 + i % 3 for i in range(24)], 41]},
        {"sampler": ["ClassBalanced"]},
        {"sampler": ["Mix", [[0, 1, 2], [7, 8]], [3, 1], 33]},
    ]
    found = run(forked, packed, *[(4, workers, 2, one) for workers in (0, 2) for one in kinds])
    assert found[:4] == found[4:]
    assert [len(samples(epoch)) for epochs in found[4:] for epoch in epochs] == [
        *(7, 7, 41, 41, 24, 24, 33, 33)
    ]
    for refused in ({"sampler": ["Repeated"]}, {"pad": True}):
        [answer] = run(forked, packed, (4, 2, 1, refused))
        assert "num_workers=0" in answer


def test_persistent_workers_go_on_with_the_next_epoch(packed: Path, forked: forking.Parent) -> None:
    alone, persistent = run(forked, packed, (5, 0, 3, {}), (5, 2, 3, {"persistent": True}))
    assert persistent == alone


def test_workers_of_ranks_have_each_sample_once(packed: Path, forked: forking.Parent) -> None:
    parts = [{"rank": rank, "world_size": 3} for rank in range(3)]
    found = run(forked, packed, *[(3, workers, 1, part) for workers in (2, 0) for part in parts])
    assert found[:3] == found[3:]
    assert sorted(index for part in found[:3] for index in samples(part[0])) == list(range(24))


def test_set_epoch_and_loaded_states_reach_the_workers(
    packed: Path, forked: forking.Parent
) -> None:
    crop = [hr.transforms.RandomResizedCrop(8)]
    with hr.Loader(packed, 4, shuffle=True, transform=crop) as plain:
        state = {**plain.state_dict(), "epoch": 1, "position": 16}
    cases = [(4, 2, 2, {"first": 3}), (4, 2, 2, {"state": state})]
    alone, moved, resumed = run(forked, packed, (4, 0, 5, {}), *cases)
    assert moved == alone[3:5]
    assert resumed == [alone[1][4:], alone[2]]


@pytest.mark.slow
def test_forked_workers_of_a_process_that_used_headrace_are_refused_and_forkserver_ones_work(
    packed: Path, forked: forking.Parent
) -> None:
    refused, served = run(
        forked, packed, (5, 2, 1, {"used": True}), (5, 2, 1, {"method": "forkserver"})
    )
    assert "ForkedError" in refused
    assert sorted(samples(served[0])) == list(range(24))


def test_an_impossible_argument_is_refused_at_first_use(packed: Path) -> None:
    with pytest.raises(TypeError, match="bach_size"):
        hr.IterableDataset(packed, bach_size=3)
    batches = hr.IterableDataset(packed, 5, transform=[{"name": "Sharpen"}])
    with pytest.raises(hr.errors.ArgumentError, match="Sharpen"):
        next(iter(torch.utils.data.DataLoader(batches, batch_size=None)))


def test_more_than_1024_workers_are_refused_with_both_numbers(packed: Path) -> None:
    with pytest.raises(hr.errors.UnsupportedError, match=r"num_workers=1025.*at most 1024"):
        Share(0, 1025, {"dataset": packed})


def test_without_memfd_workers_count_their_epochs_in_an_unlinked_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "not in this sandbox")

    monkeypatch.setattr(os, "memfd_create", refuse)
    epochs = Epochs()
    child = os.fork()
    if child == 0:
        epochs[3] = 7
        os._exit(0)
    assert os.waitpid(child, 0) == (child, 0)
    assert (epochs[3], epochs[4]) == (7, 0)
