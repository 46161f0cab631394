"""Ranks: equal steps, each sample once, padding, and agreement before an epoch begins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch.utils.data

import forking
import headrace as hr
import images

COUNT = 29


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranks")
    hr.pack(images.plain_tree(root / "photos", COUNT), root / "photos.hr")
    return root / "photos.hr"


def parts(packed: Path, world_size: int, batch_size: int, **options: Any) -> list[list[list[int]]]:
    """The sample numbers of each rank's batches."""
    found = []
    for rank in range(world_size):
        with hr.Loader(
            packed,
            batch_size,
            transform=[hr.transforms.Resize((8, 8))],
            fields=["index"],
            rank=rank,
            world_size=world_size,
            num_threads=1,
            **options,
        ) as loader:
            batches = [fields["index"].tolist() for _, _, fields in loader]
            assert len(batches) == len(loader)
            found.append(batches)
    return found


@pytest.mark.parametrize("world_size", [1, 2, 3, 8, 16])
@pytest.mark.parametrize("batch_size", [1, 3, 10])
def test_an_evaluation_has_every_sample_once_in_equally_many_steps(
    packed: Path, world_size: int, batch_size: int
) -> None:
    ranks = parts(packed, world_size, batch_size)
    step_samples = world_size * batch_size
    assert {len(batches) for batches in ranks} == {-(-COUNT // step_samples)}
    for step in range(len(ranks[0])):
        together = [index for batches in ranks for index in batches[step]]
        begin = step * step_samples
        assert together == list(range(begin, min(begin + step_samples, COUNT)))
        sizes = [len(batches[step]) for batches in ranks]
        assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("world_size", [2, 3, 4, 8, 16])
def test_padding_repeats_samples_as_often_as_distributed_sampler_does(
    packed: Path, world_size: int
) -> None:
    ranks = parts(packed, world_size, 3, pad=True)
    counts = [sum(map(len, batches)) for batches in ranks]
    samplers = [
        torch.utils.data.DistributedSampler(range(COUNT), world_size, rank, shuffle=False)
        for rank in range(world_size)
    ]
    assert counts == [len(sampler) for sampler in samplers]
    ours = sorted(i for batches in ranks for batch in batches for i in batch)
    assert ours == sorted(i for sampler in samplers for i in sampler)
    assert all(len({len(batches[s]) for batches in ranks}) == 1 for s in range(len(ranks[0])))


@pytest.mark.parametrize("count", [0, 1, 2, 7, COUNT])
@pytest.mark.parametrize("world_size", [2, 3, 4, 8, 16])
def test_padding_of_a_users_sampler_repeats_its_beginning_as_distributed_sampler_does(
    packed: Path, world_size: int, count: int
) -> None:
    chosen = [i * 5 % COUNT for i in range(count)]
    ranks = parts(packed, world_size, 3, pad=True, sampler=chosen)
    total = -(-count // world_size) * world_size
    found = [i for step in zip(*ranks, strict=True) for part in step for i in part]
    assert found == [chosen[i % count] for i in range(total)]
    shares = [
        list(torch.utils.data.DistributedSampler(chosen, world_size, rank, shuffle=False))
        for rank in range(world_size if count else 0)
    ]
    assert sorted(found) == sorted(chosen[i] for share in shares for i in share)
    assert all(len({len(batches[s]) for batches in ranks}) == 1 for s in range(len(ranks[0])))
    # Headrace's own Subset, in order, is padded in the same way.
    if count > 1:
        own = parts(packed, world_size, 3, pad=True, sampler=hr.samplers.Subset(chosen))
        assert own == ranks


def test_padding_of_a_users_sampler_is_the_same_after_a_resume_with_new_draws(
    packed: Path,
) -> None:
    def one(rank: int) -> hr.Loader:
        return hr.Loader(
            packed,
            2,
            transform=[hr.transforms.RandomResizedCrop(8)],
            fields=["index"],
            sampler=[3, 1, 4, 15, 9],
            pad=True,
            rank=rank,
            world_size=4,
            num_threads=1,
        )

    def last(rank: int, state: dict[str, Any] | None) -> Any:
        with one(rank) as loader:
            if state is not None:
                loader.load_state_dict(state)
            [(images_found, _, fields)] = loader
            return fields["index"].tolist(), images_found

    with one(0) as loader:
        state = {**loader.state_dict(), "position": 4}  # after the samples that other ranks took
    whole = [last(rank, None) for rank in range(4)]
    assert [indices for indices, _ in whole] == [[3, 1], [4, 15], [9, 3], [1, 4]]
    rest = [last(rank, state) for rank in range(4)]
    assert [indices for indices, _ in rest] == [[9], [3], [1], [4]]
    assert rest[0][1][0].equal(whole[2][1][0])
    assert rest[1][1][0].equal(whole[2][1][1])
    assert not whole[0][1][0].equal(whole[2][1][1])  # sample 3, the second time


RANK = """
    import json, os, sys
    import headrace as hr
    import torch.distributed as dist

    path, store, world_size, rank, options = sys.argv[1:]
    loader = hr.Loader(path, 4, transform=[hr.transforms.Resize((8, 8))], fields=["index"],
                       num_threads=1, **eval(options))
    dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank),
                            world_size=int(world_size))
    found = []
    try:
        for epoch in range(2):
            found += [i for _, _, fields in loader for i in fields["index"].tolist()]
        print(json.dumps(found))
    except hr.HeadraceError as error:
        print(json.dumps(str(error)))
    loader.close()
    dist.destroy_process_group()
"""


def together(forked: forking.Parent, packed: Path, store: Path, *options: str) -> list[Any]:
    """The output of each of several processes in one group, by its own options."""
    running = [
        forked.start(RANK, packed, store, len(options), rank, each)
        for rank, each in enumerate(options)
    ]
    answers = [process.communicate(timeout=120) for process in running]
    assert all(process.returncode == 0 for process in running), answers
    return [json.loads(out) for out, _ in answers]


def test_ranks_of_a_process_group_share_an_epoch(
    forked: forking.Parent, packed: Path, tmp_path: Path
) -> None:
    ranks = together(forked, packed, tmp_path / "store", *["{'shuffle': True, 'seed': 4}"] * 2)
    assert sorted(ranks[0] + ranks[1]) == sorted(2 * list(range(COUNT)))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            ["{'shuffle': True, 'seed': 4}", "{'shuffle': True, 'seed': 5}"],
            "seed is 4 on rank 0 and 5 on rank 1",
        ),
        (["{'shuffle': True}", "{}"], "shuffle is True on rank 0 and False on rank 1"),
        (["{'sampler': [1, 2, 3]}", "{'sampler': [3, 2, 1]}"], "[1, 2, 3] on rank 0 and [3, 2, 1]"),
    ],
)
def test_ranks_that_disagree_get_an_error_with_both_values(
    forked: forking.Parent, packed: Path, tmp_path: Path, options: list[str], words: str
) -> None:
    for answer in together(forked, packed, tmp_path / "store", *options):
        assert words in answer


def test_ranks_with_different_datasets_get_an_error(
    forked: forking.Parent, packed: Path, folder: Path, tmp_path: Path
) -> None:
    running = [
        forked.start(RANK, path, tmp_path / "store", 2, rank, "{}")
        for rank, path in enumerate((packed, folder))
    ]
    answers = [process.communicate(timeout=120)[0] for process in running]
    assert all("fingerprint" in json.loads(answer) for answer in answers), answers


ALONE = """
    import pathlib, sys, time
    import headrace as hr
    import torch.distributed as dist
    from headrace._epoch import ranks

    path, store, rank = sys.argv[1:]
    ranks.AGREE_TIMEOUT_S = 2
    dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank), world_size=2)
    ranks.agree({"seed": 1})  # makes the group, which takes both
    if rank == "0":
        with hr.Loader(path, 4, transform=[hr.transforms.Resize((8, 8))]) as loader:
            begun = time.monotonic()
            try:
                next(iter(loader))
            except hr.errors.WaitTimeoutError as error:
                print(time.monotonic() - begun < 10, error)
        pathlib.Path(store + ".given up").touch()
    else:
        while not pathlib.Path(store + ".given up").exists(): time.sleep(0.02)
"""


@pytest.mark.slow
def test_a_missing_rank_is_an_error_and_no_hang(
    forked: forking.Parent, packed: Path, tmp_path: Path
) -> None:
    running = [forked.start(ALONE, packed, tmp_path / "store", rank) for rank in range(2)]
    answers = [process.communicate(timeout=120) for process in running]
    assert answers[0][0].startswith("True the ranks did not all begin an epoch within 2 s"), answers


INTERRUPTED = """
    import json, pathlib, signal, sys, time
    import headrace as hr
    import torch.distributed as dist
    from headrace._epoch import ranks

    store, rank = sys.argv[1:]
    interrupted, told = pathlib.Path(store + ".interrupted"), pathlib.Path(store + ".told")

    class Stop(Exception): pass
    def stop(*_): raise Stop
    def until(path):
        while not path.exists(): time.sleep(0.02)

    dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank), world_size=2)
    ranks.agree({"seed": 1})  # makes the group, which takes both
    if rank == "1":
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            ranks.agree({"seed": 2})
        except Stop:
            interrupted.touch()  # though the other has not come
        until(told)
    else:
        until(interrupted)
        try:
            ranks.agree({"seed": 2})
        except hr.errors.WaitTimeoutError as error:
            print(error)
        told.touch()
    while True:
        try:
            ranks.agree({"seed": 2})
            break
        except hr.errors.WaitTimeoutError:
            pass  # the note is there until the other has come again
    ranks.agree({"seed": 3})
    dist.destroy_process_group()
"""


def test_ranks_learn_that_another_was_interrupted_during_the_agreement_and_it_may_try_again(
    forked: forking.Parent, tmp_path: Path
) -> None:
    running = [forked.start(INTERRUPTED, tmp_path / "store", rank) for rank in range(2)]
    answers = [process.communicate(timeout=60) for process in running]
    assert all(process.returncode == 0 for process in running), answers
    assert "rank 1 was interrupted: Stop()" in answers[0][0]
