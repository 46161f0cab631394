"""What programs know of torch's own iterator."""

from __future__ import annotations

import contextlib
import gc
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torchvision import transforms as T

import headrace as hr
from deferred.test_own_code import Opens, paths
from headrace.errors import UnsupportedError

__all__ = ["paths"]  # a fixture


class Longer(data.IterableDataset[int]):
    """A stream with more samples than its length says."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(60))

    def __len__(self) -> int:
        return 20

    def __str__(self) -> str:
        return "a stream of numbers"


def warnings_of(kind: Any, workers: int, asked: bool) -> list[str]:
    loader = kind(Longer(), num_workers=workers, batch_size=None)
    with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
        if asked:
            assert len(loader) == 20
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            assert len(list(loader)) == 60 * max(workers, 1)
    return [str(one.message) for one in found if "have been fetched" in str(one.message)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_longer_than_its_len_is_warned_of_as_by_torch(workers: int) -> None:
    expected = warnings_of(data.DataLoader, workers, asked=True)
    assert "a stream of numbers" in expected[0]
    assert warnings_of(hr.DataLoader, workers, asked=True) == expected
    assert not warnings_of(hr.DataLoader, workers, asked=False)


def test_the_iterator_shows_its_worker_processes_as_torchs_does() -> None:
    with contextlib.closing(hr.DataLoader(Longer(), num_workers=2, batch_size=None)) as loader:
        batches = iter(loader)
        assert [worker.is_alive() for worker in batches._workers] == [True, True]
        assert len(list(batches)) == 120
    with contextlib.closing(hr.DataLoader(Longer(), batch_size=None)) as loader:
        assert not hasattr(iter(loader), "_workers")


class Refusing(data.Dataset[int]):
    """Its third item raises."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 2:
            raise ValueError("the third")
        return index


class Opening(data.Dataset[Any]):
    """Its images need Python, which a strict loader refuses."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        return int(np.asarray(Image.open(self.path)).sum())


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", ["of a sample", "of a strict loader"])
def test_an_error_that_ends_an_iteration_leaves_no_reference_cycle_with_the_iterator(
    folder: Path, kind: str, workers: int
) -> None:
    """torch's worker processes end when the last reference goes; as garbage they end late."""
    dataset: Any = Refusing() if kind == "of a sample" else Opening(next(folder.rglob("*.jpg")))
    loader = hr.DataLoader(dataset, 2, num_workers=workers, strict=kind != "of a sample")
    watched: list[weakref.ref[Any]] = []

    def iterate() -> None:
        batches = iter(loader)
        watched.append(weakref.ref(batches))
        for _ in batches:
            pass

    gc.collect()
    gc.disable()
    try:
        said = ""
        try:
            iterate()
        except (ValueError, UnsupportedError) as error:
            said = str(error)
        assert "the third" in said or "strict=True" in said
        assert watched[0]() is None
    finally:
        gc.enable()
    loader.close()


class Drawn(data.Dataset[Any]):
    """An image as a tensor, its number, its worker, and what its code drew."""

    def __init__(self, folder: Path) -> None:
        self.paths = sorted(folder.rglob("*.jpg"))[:8]
        self.transform = T.Compose([T.Resize((8, 8)), T.ToTensor()])

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        worker = data.get_worker_info()
        made = self.transform(Image.open(self.paths[index]).convert("RGB"))
        return made, index, -1 if worker is None else worker.id, torch.rand(()).item()


def reversed_pairs(samples: list[Any]) -> Any:
    return data.default_collate(samples[::-1])


def drawing_zeros(worker: int) -> None:
    torch.manual_seed(worker)


def epochs_with_changes(kind: Any, folder: Path, persistent: bool) -> list[list[Any]]:
    options = {"num_workers": 1, "persistent_workers": True} if persistent else {}
    generator = torch.Generator().manual_seed(3)
    loader = kind(Drawn(folder), 4, shuffle=True, generator=generator, **options)
    found = []
    with contextlib.closing(loader) if kind is hr.DataLoader else contextlib.nullcontext():
        for name, value in (
            ("collate_fn", data.default_collate),  # restores the old value
            ("collate_fn", reversed_pairs),
            ("generator", torch.Generator().manual_seed(5)),
            ("num_workers", 2),
            ("prefetch_factor", 3),
            ("worker_init_fn", drawing_zeros),
            ("timeout", 100),
            ("num_workers", 0),
            ("num_workers", 2),
        ):
            setattr(loader, name, value)
            try:
                found.append([[np.asarray(part).tolist() for part in batch] for batch in loader])
            except Exception as error:
                found.append([type(error).__name__, str(error)])
        if persistent:  # as Lightning does
            loader._iterator._shutdown_workers()
            loader._iterator = None
            batches = list(loader)
            found.append([batches[0][1].tolist(), loader._iterator is None])
    return found


# torch's iterator of workers without a prefetch_factor is garbage that cannot end.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("persistent", [False, True])
def test_attributes_set_between_two_iterations_take_effect_as_in_torchs_loader(
    folder: Path, persistent: bool
) -> None:
    torch.manual_seed(1)
    expected = epochs_with_changes(data.DataLoader, folder, persistent)
    torch.manual_seed(1)
    assert epochs_with_changes(hr.DataLoader, folder, persistent) == expected
    assert expected[0] != expected[1]


@pytest.mark.parametrize("kind", [Drawn, Longer])
def test_closing_a_loader_ends_its_persistent_workers(folder: Path, kind: Any) -> None:
    dataset = kind(folder) if kind is Drawn else kind()
    loader = hr.DataLoader(dataset, num_workers=1, persistent_workers=True)
    assert loader._iterator is None
    batches = sum(1 for _ in loader)
    first = loader._iterator._workers[0]
    assert sum(1 for _ in loader) == batches
    assert loader._iterator._workers[0] is first
    assert first.is_alive()
    loader.close()
    assert not first.is_alive()
    assert loader._iterator is None


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}, {"batch_size": None}])
def test_a_dataset_is_freed_with_its_loader(paths: list[str], options: dict[str, Any]) -> None:
    """At once, as with torch's loader, because an LMDB cannot be opened twice in one process."""

    def made(path: str, index: int) -> Any:
        return F.to_tensor(Image.open(path).convert("RGB").resize((9, 9)))

    dataset = Opens(paths[:4], made)
    known = weakref.ref(dataset)
    gc.disable()
    try:
        loader = hr.DataLoader(dataset, **options)
        assert sum(1 for _ in loader) == 4
        del dataset, loader
        assert known() is None
    finally:
        gc.enable()
