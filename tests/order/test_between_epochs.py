"""A state of a DataLoader that was saved after the last batch of an epoch."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv

import headrace as hr
import images

COUNT = 21
CROP = tv.Compose([tv.RandomResizedCrop(16), tv.ToTensor()])


class Own(data.Dataset[Any]):
    """Opens the images itself."""

    def __init__(self, folder: datasets.ImageFolder) -> None:
        self.samples = folder.samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        path, label = self.samples[index]
        return CROP(Image.open(path).convert("RGB")), label


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> datasets.ImageFolder:
    """Images whose class is their number."""
    root: Path = tmp_path_factory.mktemp("numbered")
    for number in range(COUNT):
        folder = root / f"{number:02}"
        folder.mkdir()
        Image.fromarray(images.pixels(30, 40, seed=number)).save(folder / "0.png")
    return datasets.ImageFolder(str(root), CROP)


SAMPLERS: dict[str, Callable[[Any, torch.Generator], dict[str, Any]]] = {
    "shuffle": lambda dataset, generator: {"shuffle": True, "generator": generator},
    "a sampler's own": lambda dataset, generator: {
        "sampler": data.RandomSampler(dataset, generator=generator)
    },
    "with replacement": lambda dataset, generator: {
        "sampler": data.RandomSampler(dataset, True, 30, generator),
        "generator": generator,
    },
    "weighted": lambda dataset, generator: {
        "sampler": data.WeightedRandomSampler(torch.arange(1.0, 22.0), 25, generator=generator),
        "generator": generator,
    },
    "batches": lambda dataset, generator: {
        "batch_sampler": data.BatchSampler(
            data.SubsetRandomSampler(range(20), generator), 3, drop_last=True
        ),
        "generator": generator,
    },
}
WORKERS = [(0, False), (2, False), (2, True)]


def values(batches: Iterable[Any]) -> list[tuple[list[int], bytes]]:
    return [(labels.tolist(), pixels.numpy().tobytes()) for pixels, labels in batches]


def labels_of(epochs: list[list[tuple[list[int], bytes]]]) -> list[list[list[int]]]:
    return [[labels for labels, _ in epoch] for epoch in epochs]


@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("own", [False, True])
def test_a_state_between_two_epochs_goes_on_with_the_generator_of_the_sampler(
    numbered: datasets.ImageFolder, own: bool, name: str, workers: int, persistent: bool
) -> None:
    """In a new process the program seeds its generator again, as at its start."""
    dataset: Any = Own(numbered) if own else numbered

    def loader() -> hr.DataLoader[Any]:
        torch.manual_seed(5)
        settings = SAMPLERS[name](dataset, torch.Generator().manual_seed(9))
        settings |= {} if "batch_sampler" in settings else {"batch_size": 4}
        return hr.DataLoader(
            dataset, num_workers=workers, persistent_workers=persistent, strict=True, **settings
        )

    with contextlib.closing(loader()) as whole:
        epochs = [values(whole) for _ in range(2)]
        state = json.loads(json.dumps(whole.state_dict()))
        assert whole.state_dict() == state
        epochs += [values(whole) for _ in range(2)]
    assert (state["epoch"], state["batches"]) == (2, 0)
    with contextlib.closing(loader()) as resumed:
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        iter(resumed)  # used and dropped, as trainers do
        found = [values(resumed) for _ in range(2)]
    assert labels_of(found) == labels_of(epochs[2:])
    if name != "a sampler's own":  # there torch's global generator has the augmentations' seed
        assert found == epochs[2:]
    assert labels_of(epochs[2:]) != labels_of(epochs[:2])


def test_a_state_between_two_epochs_leaves_the_global_generator_to_the_program(
    numbered: datasets.ImageFolder,
) -> None:
    torch.manual_seed(5)
    with contextlib.closing(hr.DataLoader(numbered, 4, shuffle=True)) as whole:
        list(whole)
        state, drawn = whole.state_dict(), torch.get_rng_state()
        expected = [values(whole), values(whole)]
    assert state["generator"] is None
    with contextlib.closing(hr.DataLoader(numbered, 4, shuffle=True)) as resumed:
        resumed.load_state_dict(state)
        torch.set_rng_state(drawn)
        assert [values(resumed), values(resumed)] == expected
