"""headrace.DataLoader over DistributedSamplers whose number of ranks changes within an epoch."""

from __future__ import annotations

import collections
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import forking
import headrace as hr
import images

COUNT, SEED, EPOCH = 117, 5, 3
WORLD_SIZES = (1, 2, 3, 4, 8, 16)


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> datasets.ImageFolder:
    """A folder whose labels are the sample numbers, so that labels show the order."""
    root = images.plain_tree(tmp_path_factory.mktemp("torch-ranks"), COUNT, 1, side=16)
    steps = [tv.RandomResizedCrop(8), tv.PILToTensor()]
    folder = datasets.ImageFolder(str(root), tv.Compose(steps))
    folder.samples = [(path, number) for number, (path, _) in enumerate(folder.samples)]
    return folder


class Ranks:
    """The loaders of all ranks, which take their steps together."""

    def __init__(self, numbered: Any, world_size: int, state: Any = None, **options: Any) -> None:
        sampling = {"seed": SEED} | options.pop("sampling", {})
        kind = options.pop("kind", data.DistributedSampler)
        self.loaders = []
        for rank in range(world_size):
            sampler = kind(numbered, world_size, rank, **sampling)
            loader = hr.DataLoader(numbered, sampler=sampler, seed=1, num_workers=1, **options)
            if state is not None:
                loader.load_state_dict(state)
            sampler.set_epoch(EPOCH)
            self.loaders.append(loader)

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        for loader in self.loaders:
            loader.close()

    def steps(self) -> Iterator[list[Any]]:
        yield from zip(*self.loaders, strict=True)

    def labels(self, count: int | None = None) -> list[list[list[int]]]:
        """The labels of ``count`` steps; each step has the batches of all ranks."""
        steps = itertools.islice(self.steps(), count)
        return [[labels.tolist() for _, labels in step] for step in steps]


def whole_order(shuffle: bool = True) -> list[int]:
    """The order of the epoch as torch documents DistributedSampler, computed without its code or
    ours."""
    if not shuffle:
        return list(range(COUNT))
    return torch.randperm(COUNT, generator=torch.Generator().manual_seed(SEED + EPOCH)).tolist()


def dealt(order: list[int], done: int, world_size: int, drop_last: bool) -> list[list[int]]:
    """The samples left after ``done``, dealt to the ranks one by one."""
    rest = order[done:]
    if drop_last:
        rest = rest[: len(rest) // world_size * world_size]
    else:
        rest += (order * world_size)[: -len(rest) % world_size]
    return [rest[rank::world_size] for rank in range(world_size)]


def batched(samples: list[int], size: int, drop_last: bool) -> list[list[int]]:
    batches = [samples[at : at + size] for at in range(0, len(samples), size)]
    return [batch for batch in batches if len(batch) == size or not drop_last]


@pytest.mark.parametrize("number", range(6))
def test_chains_of_world_size_changes_within_an_epoch_give_every_sample_exactly_once(
    numbered: datasets.ImageFolder, number: int
) -> None:
    """Five changes, with other batch sizes, both rules for the tail, and states of any rank."""
    place = random.Random(number)
    shuffle, cut, drop_last = number % 4 != 3, number % 3 == 2, number % 2 == 1
    sampling = {"shuffle": shuffle, "drop_last": cut}
    order = whole_order(shuffle)
    state: Any = None
    done, batches, seen = 0, 0, []
    world_sizes = place.choices(WORLD_SIZES, k=6)
    for turn, world_size in enumerate(world_sizes):
        size = place.choice((1, 2, 5))
        given = {"batch_size": size, "drop_last": drop_last, "sampling": sampling}
        with Ranks(numbered, world_size, state, **given) as ranks:
            shares = dealt(order, done, world_size, cut)
            expected = [batched(share, size, drop_last) for share in shares]
            steps = len(expected[0])
            assert [len(loader) for loader in ranks.loaders] == [batches + steps] * world_size
            last = turn == len(world_sizes) - 1
            most = steps if last else min(max(0, steps - 1), place.choice((1, 2, 3)))
            found = ranks.labels(None if last else most)
            assert found == [[share[step] for share in expected] for step in range(most)]
            for loader in ranks.loaders:
                assert len(loader) == (len(loader.batch_sampler) if last else batches + steps)
            states = [loader.state_dict() for loader in ranks.loaders]
            text = json.dumps(place.choice(states))
        assert len(text) <= 1024
        state = json.loads(text)
        batches += most
        done += sum(len(batch) for step in found for batch in step)
        seen += [sample for step in found for batch in step for sample in batch]
    # Repeated samples are the padding of the last turn, and missing ones were cut from the end.
    counts, most_padding = collections.Counter(seen), collections.Counter(order[: world_size - 1])
    assert counts - collections.Counter(order) <= most_padding
    missing = len(set(order) - set(seen))
    assert missing < (world_size * size if drop_last else world_size if cut else 1)
    assert (state["epoch"], state["begin"], state["samples"]) == (1, 0, 0)


@pytest.mark.parametrize("before", [1, 4, 16])
def test_any_number_of_ranks_resumes_another_numbers_epoch_and_the_next_epoch_is_torchs(
    numbered: datasets.ImageFolder, before: int
) -> None:
    order = whole_order()
    with Ranks(numbered, before, batch_size=3) as ranks:
        found = ranks.labels(2)
        state = ranks.loaders[-1].state_dict()
    taken = [sample for step in found for batch in step for sample in batch]
    assert sorted(taken) == sorted(order[: 6 * before])
    for after in WORLD_SIZES if before == 4 else (2, 3):
        with Ranks(numbered, after, state, batch_size=4) as ranks:
            rest = ranks.labels()
            assert {len(step) for step in rest} == {after}
            assert len({len(batch) for batch in rest[0]}) == 1
            left = [sample for step in rest for batch in step for sample in batch]
            repeated = order[: -(COUNT - len(taken)) % after]
            assert sorted(left + taken) == sorted(order + repeated)
            for loader in ranks.loaders:
                loader.sampler.set_epoch(EPOCH + 1)
                whole = data.DataLoader(range(COUNT), 4, sampler=loader.sampler)
                assert len(loader) == len(whole)
                assert [labels.tolist() for _, labels in loader] == [b.tolist() for b in whole]


def test_augmentations_do_not_depend_on_the_number_of_ranks(
    numbered: datasets.ImageFolder,
) -> None:
    def pixels(steps: Any) -> dict[int, bytes]:
        pairs = [zip(*batch, strict=True) for step in steps for batch in step]
        return {int(n): image.numpy().tobytes() for pair in pairs for image, n in pair}

    with Ranks(numbered, 1, batch_size=8) as alone:
        whole = pixels(alone.steps())
    with Ranks(numbered, 4, batch_size=3) as ranks:
        found = pixels(itertools.islice(ranks.steps(), 3))
        state = ranks.loaders[2].state_dict()
    with Ranks(numbered, 3, state, batch_size=8) as ranks:
        found |= pixels(ranks.steps())
    assert found == whole


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_of_another_size_start_exactly_at_the_states_position(
    numbered: datasets.ImageFolder, drop_last: bool
) -> None:
    with Ranks(numbered, 2, batch_size=8) as ranks:
        ranks.labels(1)
        state = ranks.loaders[0].state_dict()
    for size in (3, 5, 16, 51, 52):
        with Ranks(numbered, 2, state, batch_size=size, drop_last=drop_last) as ranks:
            expected = batched(dealt(whole_order(), 0, 2, False)[1][8:], size, drop_last)
            assert [len(loader) for loader in ranks.loaders] == [1 + len(expected)] * 2
            assert [batches for _, batches in ranks.labels()] == expected
            assert ranks.loaders[1].state_dict()["epoch"] == 1


def test_an_epoch_of_single_samples_resumes_with_other_ranks_too(
    numbered: datasets.ImageFolder,
) -> None:
    order = whole_order()
    with Ranks(numbered, 3, batch_size=None) as ranks:
        seen = [label for step in itertools.islice(ranks.steps(), 7) for _, label in step]
        state = ranks.loaders[1].state_dict()
    assert seen == order[:21]
    with Ranks(numbered, 4, state, batch_size=None) as ranks:
        assert [len(loader) for loader in ranks.loaders] == [7 + 24] * 4
        assert [label for step in ranks.steps() for _, label in step] == order[21:]


def test_if_too_few_samples_are_left_for_all_ranks_the_next_epoch_follows(
    numbered: datasets.ImageFolder,
) -> None:
    with Ranks(numbered, 1, batch_size=114) as ranks:
        ranks.labels(1)
        state = ranks.loaders[0].state_dict()
    with Ranks(numbered, 16, state, batch_size=2, sampling={"drop_last": True}) as ranks:
        assert [len(loader) for loader in ranks.loaders] == [1] * 16
        assert ranks.labels() == []
        assert {loader.state_dict()["epoch"] for loader in ranks.loaders} == {1}
        for loader in ranks.loaders:
            loader.sampler.set_epoch(EPOCH + 1)
        assert len(ranks.labels()) == 4


class OwnOrder(data.DistributedSampler):
    def __iter__(self) -> Iterator[int]:
        return iter([*super().__iter__()])


class NoSubclass(data.Sampler):
    """Like timm's samplers for several ranks."""

    def __init__(self, dataset: Any, num_replicas: int, rank: int, seed: int) -> None:
        self.places = range(rank, len(dataset), num_replicas)
        self.num_replicas, self.rank = num_replicas, rank

    def __iter__(self) -> Iterator[int]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def set_epoch(self, epoch: int) -> None: ...


@pytest.mark.parametrize("kind", [OwnOrder, NoSubclass])
def test_a_change_of_ranks_with_a_sampler_of_unknown_order_is_refused_with_the_reason(
    numbered: datasets.ImageFolder, kind: type
) -> None:
    with Ranks(numbered, 3, kind=kind, batch_size=1) as ranks:
        ranks.labels(1)
        state = ranks.loaders[0].state_dict()
        expected = ranks.loaders[0].state_dict()
    words = rf"3 ranks began, and this is rank 0 of 2 with a {kind.__name__}.*DistributedSampler"
    with pytest.raises(hr.HeadraceError, match=words):
        Ranks(numbered, 2, state, kind=kind, batch_size=1)
    with Ranks(numbered, 3, state, kind=kind, batch_size=1) as ranks:
        assert ranks.loaders[0].state_dict() == expected
        assert len(ranks.labels()) == 38


def test_a_state_that_does_not_fit_the_samplers_order_is_refused(
    numbered: datasets.ImageFolder,
) -> None:
    with Ranks(numbered, 4, batch_size=3) as ranks:
        ranks.labels(2)
        state = ranks.loaders[1].state_dict()
    other = Ranks(numbered, 2, state, batch_size=3, sampling={"seed": 6})
    with other, pytest.raises(hr.HeadraceError, match="6 samples again that it gave"):
        other.labels()
    beyond = Ranks(numbered, 2, state | {"begin": COUNT}, batch_size=3)
    with beyond, pytest.raises(hr.HeadraceError, match="saved 141 samples into an epoch"):
        beyond.labels()
    for broken in ({"begin": None}, {"begin": -1}, {"drawn": [1, 4, 4]}, {"drawn": [1, -1, 4]}):
        with pytest.raises(hr.HeadraceError, match=next(iter(broken))):
            Ranks(numbered, 2, state | broken, batch_size=3)
    with pytest.raises(hr.HeadraceError, match="version=2, the loader 3"):
        Ranks(numbered, 2, state | {"version": 2}, batch_size=3)
    # A process without ranks resumes with a sampler for one rank, and with no other order.
    alone = hr.DataLoader(numbered, 3, shuffle=True, seed=1)
    with pytest.raises(hr.HeadraceError, match=r"epoch 3 of a sampler .* has a RandomSampler"):
        alone.load_state_dict(state)
    alone.load_state_dict(state | {"sampler_epoch": None})
    with pytest.raises(hr.HeadraceError, match=r"4 ranks.*DistributedSampler"):
        next(iter(alone))
    alone.close()


JOB = """
    import itertools, json, os, pathlib, sys
    import torch, torch.distributed as dist
    from torch.utils import data
    import headrace as hr
    folder, store, rank, world_size, steps, saved = sys.argv[1:]
    dist.init_process_group("gloo", init_method="file://" + store, rank=int(rank),
                            world_size=int(world_size))
    paths = sorted(pathlib.Path(folder).glob("*/*"))
    photos = hr.Dataset.from_files(paths, range(len(paths)))
    sampler = data.DistributedSampler(photos)
    sampler.set_epoch(1)
    crop = [hr.transforms.CenterCrop(8)]
    loader = hr.DataLoader(photos, 4, sampler=sampler, transform=crop, strict=True)
    if os.path.exists(saved):
        loader.load_state_dict(json.load(open(saved)))
    seen = []
    for _, labels in itertools.islice(loader, int(steps)):
        seen += labels.tolist()
        dist.all_reduce(torch.ones(1))  # every rank takes as many steps, or nobody goes on
    dist.barrier()
    if rank == "0":
        json.dump(loader.state_dict(), open(saved, "w"))
    print(json.dumps(seen))
    dist.destroy_process_group()
"""


def test_three_processes_resume_the_epoch_that_two_began(
    forked: forking.Parent, numbered: datasets.ImageFolder, tmp_path: Path
) -> None:
    def job(world_size: int, steps: int) -> list[int]:
        given = (numbered.root, tmp_path / f"store{world_size}")
        running = [
            forked.start(JOB, *given, rank, world_size, steps, tmp_path / "state.json")
            for rank in range(world_size)
        ]
        answers = [process.communicate(timeout=200) for process in running]
        assert [process.returncode for process in running] == [0] * world_size, answers
        return [sample for out, _ in answers for sample in json.loads(out)]

    begun = job(2, 5)
    assert len(begun) == 40
    rest = job(3, 1000)
    assert len(rest) == 78  # 77 are left; each of three ranks gets 26
    assert set(begun + rest) == set(range(COUNT))
    assert json.loads((tmp_path / "state.json").read_text())["epoch"] == 1
