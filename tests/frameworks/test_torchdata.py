"""torchdata: StatefulDataLoader's contract."""

from __future__ import annotations

import functools
import itertools
import json
import pickle
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import torch
from frameworks_support import EXAMPLES, FOLDER
from torchdata.stateful_dataloader import StatefulDataLoader
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr

# A separate process, because it forks workers and must not have used Headrace before.
RESUME = """
    import json, pickle, sys
    sys.path.insert(0, sys.argv[1])
    import torchdata_stateful as program
    photographs, workers, stop = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    def seen(loader, steps=None):
        found = []
        for images, labels, more in loader:
            found.append(more["index"].tolist())
            if len(found) == steps:
                break
        return found
    first = program.loader_over(photographs, workers)
    begun = seen(first, stop)
    state = pickle.loads(pickle.dumps(first.state_dict()))
    second = program.loader_over(photographs, workers)
    second.load_state_dict(state)
    resumed, following = seen(second), seen(second)
    third = program.loader_over(photographs, workers)
    print(json.dumps([begun, resumed, following, seen(third), seen(third)]))
"""


@pytest.mark.parametrize(("workers", "stop"), [(0, 5), (0, 15), (2, 6), (2, 7)])
def test_a_state_resumes_with_the_very_next_batch(
    photographs: Path, workers: int, stop: int
) -> None:
    import processes

    said = processes.run(RESUME, EXAMPLES, photographs, workers, stop, timeout=300)
    begun, resumed, following, first, second = json.loads(said)
    assert begun + resumed == first
    assert sorted(chain.from_iterable(first)) == list(range(256))
    assert following == second != first


def test_the_drop_in_fulfils_the_contract_of_a_stateful_data_loader() -> None:
    """The same program works with either: the very next batch comes, and then a whole epoch."""
    compose = tv.Compose([tv.Resize((24, 24)), tv.ToTensor()])
    photographs = datasets.ImageFolder(FOLDER, compose)
    photographs.samples = [(path, n) for n, (path, _) in enumerate(photographs.samples)]

    def run(kind: Any, drawn: int) -> list[Any]:
        def loader() -> Any:
            generator = torch.Generator().manual_seed(5)
            return kind(photographs, batch_size=16, shuffle=True, generator=generator)

        first = loader()
        assert isinstance(first, torch.utils.data.DataLoader)
        whole = [labels.tolist() for _, labels in loader()]
        found: list[Any] = []
        for _, labels in first:
            found.append(labels.tolist())
            if len(found) == drawn:
                break
        state = pickle.loads(pickle.dumps(first.state_dict()))
        second = loader()
        second.load_state_dict(state)
        found += [labels.tolist() for _, labels in second]
        found += [labels.tolist() for _, labels in second]
        assert found[:16] == whole
        assert sorted(chain.from_iterable(found[16:])) == list(range(256))
        return found

    for drawn in (1, 7, 15):
        ours = run(functools.partial(hr.DataLoader, strict=True), drawn)
        theirs = run(StatefulDataLoader, drawn)
        assert [len(batch) for batch in ours] == [len(batch) for batch in theirs]


@pytest.mark.parametrize("native", [True, False])
def test_with_torchdatas_argument_the_drop_in_resumes_as_torchdatas_loader_native_or_not(
    native: bool,
) -> None:
    """If torch's loader would read, torchdata's does, and the state is torchdata's."""
    photographs = datasets.ImageFolder(FOLDER, tv.Compose([tv.Resize((24, 24)), tv.ToTensor()]))
    numbers = torch.utils.data.TensorDataset(torch.arange(40))
    dataset: Any = photographs if native else numbers

    def run(kind: Any) -> tuple[list[Any], dict[str, Any]]:
        def loader() -> Any:
            torch.manual_seed(3)
            return kind(dataset, 8, sampler=range(40), snapshot_every_n_steps=3)

        def seen(loader: Any, steps: int) -> list[Any]:
            return [[part.tolist() for part in batch] for batch in itertools.islice(loader, steps)]

        first = loader()
        found = seen(first, 2)
        state = pickle.loads(pickle.dumps(first.state_dict()))
        second = loader()
        second.load_state_dict(state)
        return found + seen(second, 9) + seen(second, 9), state

    (ours, mine), (theirs, its) = run(hr.DataLoader), run(StatefulDataLoader)
    assert len(ours) == 10
    assert ours == theirs
    assert ("fingerprint" in mine) == native
    assert native or mine == its
    assert isinstance(hr.DataLoader(dataset, snapshot_every_n_steps=1), torch.utils.data.DataLoader)


class Longer(torch.utils.data.IterableDataset[int]):
    """A stream with more samples than its length says."""

    def __iter__(self) -> Any:
        return iter(range(6))

    def __len__(self) -> int:
        return 4


def test_attributes_and_length_of_the_drop_in_work_as_in_torchdatas_loader() -> None:
    found = []
    for loader in (
        StatefulDataLoader(Longer(), snapshot_every_n_steps=1),
        hr.DataLoader(Longer(), snapshot_every_n_steps=1),
    ):
        first = [batch.tolist() for batch in loader]
        loader.collate_fn = sum
        assert len(loader) == 4
        with pytest.warns(UserWarning, match="but 5 samples have been fetched"):
            found.append((first, list(loader)))
    assert found[0] == found[1] == ([[0], [1], [2], [3], [4], [5]], [0, 1, 2, 3, 4, 5])


def test_the_example_trains_and_resumes(photographs: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "torchdata_stateful.py", photographs],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "together 256 different photographs of 256" in done.stdout
