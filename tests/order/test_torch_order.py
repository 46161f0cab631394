"""The order of headrace.DataLoader: torch's own for every sampler, and the same after a resume."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import images

COUNT = 53


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> datasets.ImageFolder:
    """A folder whose labels are the sample numbers, so that labels show the order."""
    root = images.plain_tree(tmp_path_factory.mktemp("torch-order"), COUNT, 3, side=16)
    folder = datasets.ImageFolder(str(root), tv.Compose([tv.CenterCrop(8), tv.PILToTensor()]))
    folder.samples = [(path, number) for number, (path, _) in enumerate(folder.samples)]
    return folder


def weights() -> torch.Tensor:
    return torch.arange(1, COUNT + 1, dtype=torch.double)


class Eager:
    """A batch sampler that draws when its iterator is made, and not with the first batch."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[list[int]]:
        return iter(torch.randint(COUNT, (4, 3)).tolist())


class Uneven:
    """Batches of several lengths, with indices of NumPy and torch, and with repetitions."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Any]:
        yield [0]
        yield torch.randperm(COUNT)[:20]
        yield (5, 5, torch.tensor(7), -1)
        yield range(3, 40, 2)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(11)


ORDERS: dict[str, Callable[[data.Dataset], dict[str, Any]]] = {
    "sequential": lambda _: {"batch_size": 8},
    "drop_last": lambda _: {"batch_size": 8, "drop_last": True},
    "shuffle": lambda _: {"batch_size": 8, "shuffle": True},
    "shuffle, drop_last": lambda _: {"batch_size": 8, "shuffle": True, "drop_last": True},
    "shuffle by a generator": lambda _: {
        "batch_size": 8,
        "shuffle": True,
        "generator": generator(),
    },
    "with replacement": lambda d: {
        "batch_size": 8,
        "sampler": data.RandomSampler(d, replacement=True, num_samples=70),
    },
    "replacement by a generator": lambda d: {
        "batch_size": 8,
        "sampler": data.RandomSampler(d, replacement=True, generator=generator()),
    },
    "weighted": lambda _: {
        "batch_size": 8,
        "sampler": data.WeightedRandomSampler(weights(), 61),
    },
    "weighted by a generator": lambda _: {
        "batch_size": 8,
        "sampler": data.WeightedRandomSampler(weights(), 61, generator=generator()),
    },
    "subset sampler": lambda _: {
        "batch_size": 5,
        "sampler": data.SubsetRandomSampler(range(7, 40)),
    },
    "distributed": lambda d: {
        "batch_size": 8,
        "sampler": data.DistributedSampler(d, num_replicas=4, rank=1, seed=5),
    },
    "a list": lambda _: {"batch_size": 3, "sampler": [4, 2, 2, -3, 50, 0, 1]},
    "batch sampler": lambda d: {
        "batch_sampler": data.BatchSampler(data.RandomSampler(d), 9, drop_last=True)
    },
    "eager batch sampler": lambda _: {"batch_sampler": Eager()},
    "uneven batch sampler": lambda _: {"batch_sampler": Uneven()},
    "list of batches": lambda _: {"batch_sampler": [[3, 4], [9], [1, 1, 1]]},
    "no batches": lambda _: {"batch_size": None, "sampler": [5, 3, 3]},
    "no batches, shuffled": lambda _: {"batch_size": None, "shuffle": True},
}


def labels_of(batch: Any) -> Any:
    label = batch[1]
    return label.tolist() if isinstance(label, torch.Tensor) else label


def run(
    kind: type[data.DataLoader], dataset: data.Dataset, name: str, **options: Any
) -> tuple[list[Any], list[bytes]]:
    """Three epochs of labels, and the generators' states after each."""
    settings = ORDERS[name](dataset)
    torch.manual_seed(17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if kind is data.DataLoader else "error")
        loader = kind(dataset, **settings, **options)
        order, states = [], []
        for epoch in range(3):
            if hasattr(loader.sampler, "set_epoch"):
                loader.sampler.set_epoch(epoch)
            order.append([labels_of(batch) for batch in loader])
            states.append(torch.get_rng_state().numpy().tobytes())
            for owner in (loader, loader.sampler):
                if getattr(owner, "generator", None) is not None:
                    states.append(owner.generator.get_state().numpy().tobytes())
    return order, states


@pytest.mark.parametrize("name", ORDERS)
def test_samples_come_in_torchs_order_and_leave_generators_as_torch_does(
    numbered: datasets.ImageFolder, name: str
) -> None:
    assert run(hr.DataLoader, numbered, name) == run(data.DataLoader, numbered, name)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    "name", ["shuffle", "shuffle by a generator", "weighted", "eager batch sampler"]
)
def test_the_order_with_workers_equals_torchs_with_workers(
    numbered: datasets.ImageFolder, name: str, persistent: bool
) -> None:
    options = {"num_workers": 2, "persistent_workers": persistent}
    mine = run(hr.DataLoader, numbered, name, **options)
    assert mine == run(data.DataLoader, numbered, name, **options)


def test_numbers_drawn_between_iter_and_the_first_batch_have_the_same_effect_as_in_torch(
    numbered: datasets.ImageFolder,
) -> None:
    def order(kind: type[data.DataLoader]) -> list[Any]:
        torch.manual_seed(3)
        iterator = iter(kind(numbered, 8, shuffle=True))
        torch.rand(5)
        return [labels_of(batch) for batch in iterator]

    assert order(hr.DataLoader) == order(data.DataLoader)


def test_nested_subsets_and_concatenations_are_resolved(
    numbered: datasets.ImageFolder,
) -> None:
    front = data.Subset(numbered, range(10, 30))
    both = data.ConcatDataset([front, numbered, data.Subset(front, torch.tensor([3, -1, 0]))])
    nested = data.Subset(both, [0, 72, 5, 19, 20, -1, 75, 74])
    found = [labels_of(batch) for batch in hr.DataLoader(nested, 3, strict=True)]
    assert found == [labels_of(batch) for batch in data.DataLoader(nested, 3)]
    torch.manual_seed(1)
    parts = data.random_split(numbered, [0.7, 0.3])
    for part in parts:
        mine = [labels_of(batch) for batch in hr.DataLoader(part, 4, strict=True)]
        assert mine == [labels_of(batch) for batch in data.DataLoader(part, 4)]


def test_ranks_with_distributed_samplers_share_an_epoch(numbered: datasets.ImageFolder) -> None:
    seen: list[int] = []
    for rank in range(3):
        sampler = data.DistributedSampler(numbered, num_replicas=3, rank=rank)
        sampler.set_epoch(4)
        for _, labels in hr.DataLoader(numbered, 5, sampler=sampler):
            seen += labels.tolist()
    assert len(seen) == 54  # padded to a multiple of 3, as the sampler does
    assert sorted(set(seen)) == list(range(COUNT))


# ---- augmentations -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def augmented(numbered: datasets.ImageFolder) -> datasets.ImageFolder:
    folder = datasets.ImageFolder(
        numbered.root,
        tv.Compose([tv.RandomResizedCrop(8), tv.RandomHorizontalFlip(), tv.ToTensor()]),
    )
    folder.samples = numbered.samples
    return folder


def pixels(loader: hr.DataLoader) -> torch.Tensor:
    """An epoch's images, each at the index of its number."""
    images_, labels = zip(*loader, strict=True)
    return torch.cat(images_)[torch.cat(labels).argsort(stable=True)]


def test_manual_seed_repeats_a_run_and_epochs_differ(augmented: datasets.ImageFolder) -> None:
    loader = hr.DataLoader(augmented, 8, shuffle=True)

    def run_of_two() -> list[torch.Tensor]:
        torch.manual_seed(5)
        return [pixels(loader), pixels(loader)]

    first, again = run_of_two(), run_of_two()
    assert torch.equal(first[0], again[0])
    assert torch.equal(first[1], again[1])
    assert not torch.equal(first[0], first[1])
    torch.manual_seed(6)
    assert not torch.equal(pixels(loader), first[0])


def test_a_generator_repeats_a_run_whatever_the_global_generator_does(
    augmented: datasets.ImageFolder,
) -> None:
    def epoch() -> torch.Tensor:
        torch.rand(3)
        return pixels(hr.DataLoader(augmented, 8, shuffle=True, generator=generator()))

    assert torch.equal(epoch(), epoch())


@pytest.mark.parametrize("options", [{"num_workers": 1}, {"num_workers": 3, "prefetch_factor": 5}])
def test_augmentations_do_not_depend_on_threads_and_batch_size(
    augmented: datasets.ImageFolder, options: dict[str, int]
) -> None:
    def epoch(batch_size: int, **options: int) -> torch.Tensor:
        torch.manual_seed(5)
        return pixels(hr.DataLoader(augmented, batch_size, **options))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(epoch(8), epoch(5, **options))


def test_persistent_workers_do_not_repeat_an_epochs_augmentations(
    augmented: datasets.ImageFolder,
) -> None:
    loader = hr.DataLoader(augmented, 8, num_workers=1, persistent_workers=True)
    assert not torch.equal(pixels(loader), pixels(loader))


def test_a_sample_that_comes_twice_is_augmented_differently_each_time(
    augmented: datasets.ImageFolder,
) -> None:
    [(batch, labels)] = hr.DataLoader(augmented, 6, sampler=[4, 9, 4, 4, 9, 1])
    assert labels.tolist() == [4, 9, 4, 4, 9, 1]
    fours = batch[labels == 4]
    assert not torch.equal(fours[0], fours[1])
    assert not torch.equal(fours[1], fours[2])
    assert not torch.equal(*batch[labels == 9])


def test_with_a_seed_augmentations_depend_only_on_seed_epoch_and_sample(
    augmented: datasets.ImageFolder,
) -> None:
    def epochs(seed: int, **options: Any) -> list[torch.Tensor]:
        torch.manual_seed(random.randrange(2**31))
        loader = hr.DataLoader(augmented, 8, seed=seed, **options)
        return [pixels(loader), pixels(loader)]

    first, shuffled, other = epochs(3), epochs(3, shuffle=True), epochs(4)
    assert torch.equal(first[0], shuffled[0])
    assert torch.equal(first[1], shuffled[1])
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])


# ---- resume ------------------------------------------------------------------------------------

RESUMED = ["sequential", "drop_last", "shuffle", "with replacement", "distributed", "a list"]
RESUMED += ["shuffle by a generator", "replacement by a generator", "weighted by a generator"]
RESUMED += [
    "weighted",
    "subset sampler",
    "batch sampler",
    "list of batches",
    "no batches, shuffled",
]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", RESUMED)
def test_a_loader_resumes_from_a_saved_state_at_every_batch(
    augmented: datasets.ImageFolder, name: str, workers: int
) -> None:
    """Every second time with a different number of workers."""

    def loader(workers: int = workers) -> hr.DataLoader:
        return hr.DataLoader(augmented, num_workers=workers, **ORDERS[name](augmented))

    def stream(batches: Iterator[Any]) -> list[tuple[Any, bytes]]:
        return [(labels_of(batch), batch[0].numpy().tobytes()) for batch in batches]

    torch.manual_seed(8)
    whole = loader()
    list(whole)  # the state belongs to the second epoch
    if hasattr(whole.sampler, "set_epoch"):
        whole.sampler.set_epoch(1)
    states, found = [whole.state_dict()], []
    for batch in whole:
        found += stream(iter([batch]))
        states.append(whole.state_dict())
    third = [labels_of(batch) for batch in whole]
    for done, state in enumerate(states):
        text = json.dumps(state)
        assert len(text) <= 1024
        assert (state["epoch"], state["batches"]) == ((1, done) if done < len(found) else (2, 0))
        torch.manual_seed(1000 + done)
        resumed = loader(workers if done % 2 else 2 - workers)
        resumed.load_state_dict(json.loads(text))
        assert resumed.state_dict() == state
        if 0 < done < len(found):
            iter(resumed)  # used and dropped, as trainers do
            assert stream(iter(resumed)) == found[done:]
            assert resumed.state_dict()["epoch"] == 2
        if name.endswith("by a generator") and done == 2:
            # Later augmentations depend on the global generator, which belongs to the script.
            assert [labels_of(batch) for batch in resumed] == third


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_after_a_resumed_one_are_the_same_if_the_script_restores_its_generators(
    augmented: datasets.ImageFolder, workers: int
) -> None:
    def loader() -> hr.DataLoader:
        return hr.DataLoader(augmented, 8, shuffle=True, num_workers=workers)

    def rest(batches: Any) -> list[Any]:
        return [(labels_of(batch), batch[0].sum().item()) for batch in batches]

    torch.manual_seed(2)
    whole = loader()
    iterator = iter(whole)
    next(iterator)
    state, drawn = whole.state_dict(), torch.get_rng_state()
    expected = [rest(iterator), rest(whole)]
    torch.manual_seed(77)
    resumed = loader()
    resumed.load_state_dict(state)
    torch.set_rng_state(drawn)
    assert [rest(resumed), rest(resumed)] == expected


@pytest.mark.parametrize("draws", [0, 1, 623, 624, 625, 5000])
def test_a_generator_is_restored_however_many_numbers_it_had_drawn(
    numbered: datasets.ImageFolder, draws: int
) -> None:
    def loader() -> hr.DataLoader:
        return hr.DataLoader(numbered, 8, shuffle=True, generator=torch.Generator())

    first = loader()
    first.generator.manual_seed(99)
    torch.empty(draws, dtype=torch.int32).random_(generator=first.generator)
    iterator = iter(first)
    next(iterator)
    state = first.state_dict()
    expected = [labels_of(batch) for batch in iterator]
    second = loader()
    second.load_state_dict(state)
    assert [labels_of(batch) for batch in second] == expected
    assert second.generator.get_state().equal(first.generator.get_state())


def test_set_epoch_with_another_epoch_than_the_states_begins_that_epoch(
    numbered: datasets.ImageFolder,
) -> None:
    def loader() -> hr.DataLoader:
        return hr.DataLoader(numbered, **ORDERS["distributed"](numbered))

    first = loader()
    first.sampler.set_epoch(2)
    next(iter(first))
    state = first.state_dict()
    for epoch, begins_at in ((2, 1), (3, 0)):
        second, whole = loader(), loader()
        second.load_state_dict(state)
        for each in (second, whole):
            each.sampler.set_epoch(epoch)
        expected = [labels_of(batch) for batch in whole]
        assert [labels_of(batch) for batch in second] == expected[begins_at:]


def test_a_state_of_other_samples_is_refused(numbered: datasets.ImageFolder) -> None:
    state = hr.DataLoader(numbered, 8).state_dict()
    half = data.Subset(numbered, range(20))
    with pytest.raises(hr.HeadraceError, match="fingerprint"):
        hr.DataLoader(half, 8).load_state_dict(state)
    with pytest.raises(hr.HeadraceError, match="seed"):
        hr.DataLoader(numbered, 8, seed=1).load_state_dict(state)
    for broken in (
        {"batches": -1},
        {"batches": "3"},
        {"epoch": None},
        {"base_seed": 1.5},
        {"samples": None},
        {"drawn": [1, 2]},
    ):
        with pytest.raises(hr.HeadraceError, match=next(iter(broken))):
            hr.DataLoader(numbered, 8).load_state_dict(state | broken)
    beyond = hr.DataLoader(numbered, 8)
    beyond.load_state_dict(state | {"batches": 8, "samples": 64})
    with pytest.raises(hr.HeadraceError, match="sampler has fewer"):
        next(iter(beyond))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["eager batch sampler", "a users", "lost"])
def test_a_sampler_that_gives_other_samples_after_a_resume_is_refused(
    numbered: datasets.ImageFolder, monkeypatch: pytest.MonkeyPatch, name: str, workers: int
) -> None:
    class Users:
        def __iter__(self) -> Iterator[int]:
            return iter(random.sample(range(COUNT), 40))

    def loader() -> hr.DataLoader:
        options = {
            "a users": {"batch_size": 8, "sampler": Users()},
            "lost": ORDERS["weighted"](numbered),
        }
        chosen = options.get(name) or ORDERS[name](numbered)
        return hr.DataLoader(numbered, num_workers=workers, **chosen)

    def seeded(seed: int) -> hr.DataLoader:
        made = loader()
        torch.manual_seed(seed)
        random.seed(seed)
        return made

    first = seeded(4)
    iterator = iter(first)
    next(iterator)
    next(iterator)
    state = first.state_dict()
    if name == "lost":  # as for a generator that drew too many numbers to be replayed
        assert state["generator"] == [4, 2]
        state["generator"] = None
    state = json.loads(json.dumps(state))
    expected = [labels_of(batch) for batch in iterator]
    other = seeded(5)
    other.load_state_dict(state)
    for _ in range(2):
        with pytest.raises(hr.HeadraceError, match="samples again that it gave"):
            next(iter(other))
        assert other.state_dict() == state
    # The samples of another of as many ranks may differ, so they cannot be checked.
    elsewhere = seeded(5)
    elsewhere.load_state_dict(state | {"drawn": [state["drawn"][0], 1, 2]})
    with pytest.raises(hr.HeadraceError, match="2 ranks began, and this is rank 0 of 1"):
        next(iter(elsewhere))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    next(iter(elsewhere))
    monkeypatch.undo()
    alike = seeded(4)
    alike.load_state_dict(state)
    if workers or name == "lost":  # the base seed, which the state has, was drawn first
        torch.empty((), dtype=torch.int64).random_()
    assert [labels_of(batch) for batch in alike] == expected


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ["shuffle", "weighted", "distributed"])
def test_a_state_resumes_at_the_very_next_sample_with_another_batch_size(
    augmented: datasets.ImageFolder, name: str, workers: int
) -> None:
    def samples(batches: Any) -> list[tuple[int, bytes]]:
        return [
            (int(label), image.numpy().tobytes())
            for images_, labels in batches
            for image, label in zip(images_, labels, strict=True)
        ]

    given = ORDERS[name](augmented)
    torch.manual_seed(8)
    whole = hr.DataLoader(augmented, num_workers=workers, **given)
    iterator = iter(whole)
    next(iterator)
    state = whole.state_dict()
    assert (state["batches"], state["samples"]) == (1, 8)
    expected = samples(iterator)
    for size in (1, 3, 16, 60):
        torch.manual_seed(9)
        resumed = hr.DataLoader(augmented, **{**given, "batch_size": size})
        resumed.load_state_dict(state)
        assert samples(resumed) == expected
