"""Where and when the code of a dataset runs, and how its epochs resume from a state."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import equal

CROP = tv.Compose([tv.RandomResizedCrop(16), tv.RandomHorizontalFlip(), tv.ToTensor()])
COUNT = 23


class Named(data.Dataset[Any]):
    """Images by their paths, with their indices."""

    def __init__(self, paths: list[str], transform: Any = CROP) -> None:
        self.paths, self.transform = paths, transform

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        return self.transform(Image.open(self.paths[index]).convert("RGB")), index


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("photos")
    made = []
    for number in range(COUNT):
        path = folder / f"{number:03}.jpg"
        Image.fromarray(images.pixels(40 + number, 50 - number, seed=number)).save(path)
        made.append(str(path))
    return made


@contextlib.contextmanager
def loader(dataset: Any, **options: Any) -> Iterator[hr.DataLoader[Any]]:
    with contextlib.closing(hr.DataLoader(dataset, **{"batch_size": 4, **options})) as made:
        yield made


# ---- states --------------------------------------------------------------------------------------


def orders(paths: list[str]) -> dict[str, Any]:
    weights = torch.arange(1.0, COUNT + 1)
    return {
        "in order": dict,
        "shuffled": lambda: {"shuffle": True},
        "with a generator": lambda: {
            "shuffle": True,
            "generator": torch.Generator().manual_seed(5),
        },
        "repeated": lambda: {"sampler": data.WeightedRandomSampler(weights, 30)},
        "a list": lambda: {"sampler": [3, 3, 1, 2, 3, 9, 8, 7, 6, 1, 0, 3]},
        "batches": lambda: {
            "batch_sampler": data.BatchSampler(data.RandomSampler(paths), 3, True),
            "batch_size": 1,
        },
        "single": lambda: {"batch_size": None, "shuffle": True},
        "ranks": lambda: {
            "sampler": data.DistributedSampler(paths, num_replicas=2, rank=1, seed=3),
        },
    }


ORDERS = ["in order", "shuffled", "with a generator", "repeated", "a list", "batches", "single"]


@pytest.mark.parametrize("order", [*ORDERS, "ranks"])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("seed", [None, pytest.param(7, marks=pytest.mark.slow)])
@pytest.mark.every(2)
def test_an_epoch_resumes_from_a_state_as_if_it_had_not_been_stopped(
    paths: list[str], order: str, workers: int, seed: int | None
) -> None:
    options = {"num_workers": workers, "seed": seed, "strict": True}
    dataset = Named(paths)
    torch.manual_seed(11)
    with loader(dataset, **orders(paths)[order](), **options) as made:
        expected = [list(made), list(made)]
    for stop in (1, min(4, len(expected[0]) - 1)):
        torch.manual_seed(11)
        with loader(dataset, **orders(paths)[order](), **options) as made:
            taken = [*itertools.islice(iter(made), stop)]
            state = json.loads(json.dumps(made.state_dict()))
            standing = torch.get_rng_state()
        torch.set_rng_state(standing)  # as a program restores it
        with loader(dataset, **orders(paths)[order](), **options) as made:
            made.load_state_dict(state)
            assert len(made) == len(expected[0])
            assert equal([*taken, *made], expected[0])
            if order != "ranks":  # its order is that of set_epoch
                assert equal(list(made), expected[1])


def test_a_state_counts_batches_that_were_handed_out_and_not_prefetched_ones(
    paths: list[str],
) -> None:
    with loader(Named(paths), strict=True) as made:
        batches = iter(made)
        for number in range(5):
            assert made.state_dict()["batches"] == number
            next(batches)
        assert [len(labels) for _, labels in batches] == [3]
        assert (made.state_dict()["epoch"], made.state_dict()["batches"]) == (1, 0)


def test_a_state_of_another_dataset_is_refused(paths: list[str]) -> None:
    with loader(Named(paths)) as made:
        state = made.state_dict()
    with loader(Named(paths[1:])) as made, pytest.raises(hr.HeadraceError, match="fingerprint"):
        made.load_state_dict(state)


def test_each_epoch_draws_anew_and_a_seed_repeats_them_with_any_number_of_workers(
    paths: list[str],
) -> None:
    epochs = []
    for options in ({}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}):
        with loader(Named(paths), seed=3, strict=True, **options) as made:
            epochs.append([list(made), list(made), list(made)])
    assert equal(epochs[0], epochs[1])
    assert equal(epochs[0], epochs[2])
    assert not equal(epochs[0][0], epochs[0][1])
    assert not equal(epochs[0][1], epochs[0][2])


class NeedsPixels(Named):
    """Needs the pixels of every second image after its random crop."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths * 4)
        self.crop = tv.RandomCrop(20)
        self.still = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])

    def __getitem__(self, index: int) -> Any:
        image = self.crop(Image.open(self.paths[index]).convert("RGB"))
        mean = 0.0 if index % 2 else float(np.asarray(image).mean())
        return self.still(image), index, mean


class NeedsPixelsStream(data.IterableDataset[Any]):
    """The same samples in order, with at most one worker."""

    def __init__(self, paths: list[str]) -> None:
        self.samples = NeedsPixels(paths)

    def __iter__(self) -> Iterator[Any]:
        return (self.samples[index] for index in range(len(self.samples)))


@pytest.mark.parametrize(
    ("made", "workers"), [(NeedsPixels, 1), (NeedsPixels, 2), (NeedsPixelsStream, 1)]
)
def test_draws_of_native_samples_do_not_depend_on_earlier_samples_of_their_worker(
    paths: list[str], made: Any, workers: int
) -> None:
    found = []
    for count in (0, workers):
        with loader(made(paths), seed=3, num_workers=count) as one:
            samples = [sample for batch in one for sample in zip(*batch[:2], strict=True)]
            decoded = one.stats()["images_decoded"]
        found.append([image for image, index in samples if index % 2])
        assert decoded >= len(found[-1]) == 2 * COUNT
    assert equal(*found)


class CropStream(data.IterableDataset[Any]):
    """Random crops of the first images, in order."""

    def __init__(self, paths: list[str], count: int) -> None:
        self.samples, self.count = Named(paths), count

    def __iter__(self) -> Iterator[Any]:
        return (self.samples[index] for index in range(self.count))


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("count", [8, 10])  # whole batches, and one that drop_last leaves out
def test_each_epoch_of_a_stream_draws_anew_from_its_first_batch_on(
    paths: list[str], count: int, workers: int
) -> None:
    options = {"num_workers": workers, "persistent_workers": workers > 0, "drop_last": True}
    with loader(CropStream(paths, count), seed=3, strict=True, **options) as made:
        epochs = [list(made), list(made), list(made)]
    for place in range(2):
        first = [epoch[place][0] for epoch in epochs]
        assert not any(torch.equal(one, other) for one, other in itertools.combinations(first, 2))
    with loader(CropStream(paths, count), seed=3, strict=True, **options) as made:
        assert equal(epochs, [list(made), list(made), list(made)])


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_of_workers_without_a_seed_differ_and_repeat_with_torchs_seed(
    paths: list[str], persistent: bool
) -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(4)
        options = {"num_workers": 1, "persistent_workers": persistent}
        with loader(Named(paths), strict=True, **options) as made:
            found.append([list(made), list(made)])
    assert equal(found[0], found[1])
    assert not equal(found[0][0], found[0][1])


@pytest.mark.parametrize("persistent", [False, True])
def test_epochs_of_workers_after_a_resumed_one_draw_as_without_a_stop(
    paths: list[str], persistent: bool
) -> None:
    options = {"num_workers": 1, "persistent_workers": persistent, "strict": True}
    torch.manual_seed(4)
    with loader(Named(paths), **options) as whole:
        iterator = iter(whole)
        next(iterator)
        state, drawn = whole.state_dict(), torch.get_rng_state()
        expected = [list(iterator), list(whole), list(whole)]
    torch.manual_seed(5)
    with loader(Named(paths), **options) as resumed:
        resumed.load_state_dict(state)
        torch.set_rng_state(drawn)
        assert equal([list(resumed), list(resumed), list(resumed)], expected)


def test_indices_of_any_type_give_the_same_draws_in_every_process(paths: list[str]) -> None:
    class ByName(data.Dataset[Any]):
        def __len__(self) -> int:
            return COUNT

        def __getitem__(self, index: Any) -> Any:
            name = index[0] if isinstance(index, tuple) else index
            return CROP(Image.open(paths[int(name)]).convert("RGB")), int(name)

    for kind in (str, np.int64, lambda index: (str(index), 1)):
        sampler = [*map(kind, range(8))]
        made = []
        for workers in (0, 1):
            options = {"sampler": sampler, "seed": 1, "strict": True, "num_workers": workers}
            with loader(ByName(), **options) as one:
                made.append(list(one))
        assert equal(*made)


# ---- where and when ------------------------------------------------------------------------------


class IndexTypes(data.Dataset[Any]):
    """Each sample says of which type its batch's indices were."""

    def __init__(self, paths: list[str]) -> None:
        self.samples = Named(paths, tv.ToTensor())

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        raise AssertionError("it is asked for batches")

    def __getitems__(self, indices: Any) -> Any:
        numbers = [int(index) for index in indices]
        return [(type(indices).__name__, *self.samples[number]) for number in numbers]


@pytest.mark.parametrize("kind", [np.array, torch.tensor, list, tuple, iter])
def test_getitems_gets_the_indices_in_the_batch_samplers_own_type(
    paths: list[str], kind: Any
) -> None:
    """Indices that can be read only once come as a list."""
    batches = [[3, 1], [0, 5], [2, 4]]

    def made(of: Any) -> list[Any]:
        sampler = [kind(numbers) for numbers in batches]
        return list(of(IndexTypes(paths), batch_sampler=sampler, collate_fn=list))

    expected, found = made(data.DataLoader), made(hr.DataLoader)
    named = [[sample[0] for sample in batch] for batch in found]
    assert [[sample[2] for sample in batch] for batch in found] == batches
    if kind is not iter:
        assert named == [[sample[0] for sample in batch] for batch in expected]


class Counting(Named):
    """Notes which samples were asked for."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.asked: list[int] = []

    def __getitem__(self, index: int) -> Any:
        self.asked.append(index)
        return super().__getitem__(index)


@pytest.mark.parametrize("ahead", [0, 1, 2, 5])
def test_the_code_of_a_dataset_runs_exactly_ahead_batches_ahead(
    paths: list[str], ahead: int
) -> None:
    dataset = Counting(paths)
    with loader(dataset, batch_size=2, ahead=ahead, strict=True) as made:
        for number, _ in enumerate(made, start=1):
            assert len(dataset.asked) == min(COUNT, 2 * (number + ahead))
    assert dataset.asked == [*range(COUNT)]


def test_the_code_of_a_dataset_without_images_runs_no_batch_ahead(paths: list[str]) -> None:
    class Numbers(Counting):
        def __getitem__(self, index: int) -> Any:
            self.asked.append(index)
            return index

    dataset = Numbers(paths)
    with loader(dataset, batch_size=2) as made:
        for number, _ in enumerate(made, start=1):
            assert len(dataset.asked) == min(COUNT, 2 * number)


class FromArrays(Named):
    """Images made of arrays, as datasets of small images keep them in memory."""

    def __getitem__(self, index: int) -> Any:
        return CROP(Image.fromarray(images.pixels(20, 20, seed=index % 7))), index


def test_a_waiting_sample_adds_few_objects_for_pythons_garbage_collector() -> None:
    """The collector looks at each of them again and again, and so at the program's own."""

    def alive(ahead: int) -> int:
        with loader(FromArrays(["name"] * 640), batch_size=64, ahead=ahead, strict=True) as made:
            batches = iter(made)
            next(batches), next(batches)
            gc.collect()
            return len(gc.get_objects())

    alive(0)
    assert (alive(4) - alive(0)) / (4 * 64) < 4


class Noisy(Named):
    """Draws from every generator that a program may use."""

    def __getitem__(self, index: int) -> Any:
        image, _ = super().__getitem__(index)
        drawn = torch.rand(1), float(np.random.rand()), random.random()
        return image, *drawn


@pytest.mark.parametrize("workers", [0, 2])
def test_seeded_code_of_a_dataset_draws_the_same_numbers_as_under_torchs_loader(
    paths: list[str], workers: int
) -> None:
    still = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])
    found = []
    for kind in (data.DataLoader, hr.DataLoader):
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        more = {"ahead": 0} if kind is hr.DataLoader and not workers else {}
        made = kind(Noisy(paths, still), 4, shuffle=True, num_workers=workers, **more)
        found.append([*made])
        if kind is hr.DataLoader:
            made.close()
    assert equal(found[0], found[1])


class WithWorkerInfo(Named):
    """Each sample says which worker made it, and whether its worker info has the program's
    dataset."""

    def __getitem__(self, index: int) -> Any:
        told = data.get_worker_info()
        image, _ = super().__getitem__(index)
        return image, -1 if told is None else told.id, told is None or told.dataset is self


def test_worker_info_has_torchs_ids_and_the_programs_own_dataset(paths: list[str]) -> None:
    with loader(WithWorkerInfo(paths), num_workers=2, strict=True) as made:
        found = [(ids.tolist(), own.tolist()) for _, ids, own in made]
    assert [ids for ids, _ in found] == [[n % 2] * (3 if n == 5 else 4) for n in range(6)]
    assert all(all(own) for _, own in found)


class Failing(Named):
    """Fails at some samples."""

    def __getitem__(self, index: int) -> Any:
        Image.open(self.paths[index])
        if index in (5, 9):
            raise KeyError(index)
        return super().__getitem__(index)


def test_image_open_is_pillows_own_between_batches_and_after_an_exception(paths: list[str]) -> None:
    before = Image.open.__code__
    with loader(Failing(paths)) as made:
        batches, failed = iter(made), 0
        for _ in range(6):
            try:
                next(batches)
            except KeyError:
                failed += 1
            assert Image.open.__code__ is before
            assert type(Image.open(paths[0])).__name__ == "JpegImageFile"
    assert failed == 2


class Retrying(Named):
    """Takes the next file if one cannot be read, and says which worker did."""

    def __getitem__(self, index: int) -> Any:
        told = data.get_worker_info()
        for place in range(index, index + 3):
            try:
                image = Image.open(self.paths[place]).convert("RGB")
                return self.transform(image), place, -1 if told is None else told.id
            except OSError:
                continue
        raise RuntimeError("no file in three can be read")


@pytest.mark.parametrize("bad", [(2,), (2, 9, 10), (21,), (0, 4, 8, 12, 16, 20)])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_samples_of_bad_files_are_made_again_in_their_worker_and_batches_keep_their_order(
    paths: list[str], tmp_path: Path, bad: tuple[int, ...], workers: int
) -> None:
    mine = []
    for number, path in enumerate(paths):
        content = Path(path).read_bytes()
        copy = tmp_path / f"{number}.jpg"
        copy.write_bytes(content[: len(content) // 2] if number in bad else content)
        mine.append(str(copy))
    still = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])
    expected = [*data.DataLoader(Retrying(mine, still), 4)]
    with loader(Retrying(mine, still), num_workers=workers) as made:
        found = list(made)
    for (one, places, _), (other, others, workers_of_it) in zip(expected, found, strict=True):
        assert equal(other, one)
        assert equal(others, places)
        assert workers_of_it.min() >= (0 if workers else -1)
        assert workers_of_it.max() < max(1, workers)


def test_a_lack_of_memory_in_a_worker_process_is_the_error_of_its_own_batch(
    paths: list[str],
) -> None:
    class Large(Named):
        def __getitem__(self, index: int) -> Any:
            if index == 9:
                raise MemoryError("an image of 1 TB")
            return super().__getitem__(index)

    def told(batches: Iterator[Any]) -> Iterator[Any]:
        while True:
            try:
                yield next(batches)[1].tolist()
            except StopIteration:
                return
            except MemoryError as failure:
                yield str(failure).split("\n")[0]

    options: dict[str, Any] = {"batch_size": 4, "num_workers": 2}
    expected = [*told(iter(data.DataLoader(Large(paths), **options)))]
    with loader(Large(paths), **options) as made:
        found = [*told(iter(made))]
    assert found == expected
    assert found[2] == "Caught MemoryError in DataLoader worker process 0."
