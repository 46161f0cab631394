"""Bad files in programs of many shapes: batches, draws and errors equal those of torch's loader."""

from __future__ import annotations

import contextlib
import io
import os
import random
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data

import headrace as hr
import images
import sayings
from deferred.test_own_code import equal

SMALL = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])
CUT_OFF, TEXT, DAMAGED = (2, 8), 6, 10


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Fifteen files: two truncated JPEGs, a text, and a PNG that is damaged in its middle."""
    root = images.plain_tree(tmp_path_factory.mktemp("again") / "photos", 15)
    found = sorted(str(path) for path in root.rglob("*.jpg"))
    for number in CUT_OFF:
        whole = Path(found[number]).read_bytes()
        Path(found[number]).write_bytes(whole[: len(whole) // 2])
    Path(found[TEXT]).write_bytes(b"no image")
    made = io.BytesIO()
    Image.open(found[DAMAGED]).save(made, "PNG")
    damaged = bytearray(made.getvalue())
    damaged[len(damaged) // 2] ^= 255
    Path(found[DAMAGED]).write_bytes(damaged)
    for path in found:
        os.utime(path, (1e9, 1e9))
    return found


class Retries(data.Dataset[Any]):
    """Draws a number, and takes the next file in place of a bad one."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.own = paths, np.random.default_rng(7)
        self.kept = {"by name": [random.Random(3)]}

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        drawn = random.random(), np.random.rand(), torch.rand(1), self.own.random()
        try:
            image = Image.open(self.paths[index]).convert("RGB")
        except OSError:
            return self[(index + 1) % len(self)]
        return self.sample(image, index, (*drawn, self.kept["by name"][0].random()))

    def sample(self, image: Any, index: int, drawn: Any) -> Any:
        return SMALL(image), index, drawn


class AtOnce(Retries):
    def __getitems__(self, indices: list[int]) -> list[Any]:
        return [self[index] for index in indices]


class Images(Retries):
    def sample(self, image: Any, index: int, drawn: Any) -> Any:
        return image.resize((16, 16)), index, drawn


class Arrays(Retries):
    """Needs pixels after the line that catches errors."""

    def sample(self, image: Any, index: int, drawn: Any) -> Any:
        return np.asarray(image.resize((16, 16))), index, drawn


class Large(Retries):
    def sample(self, image: Any, index: int, drawn: Any) -> Any:
        return SMALL(image), index, drawn, np.full(12 << 20, index, np.uint8)


class Views(Retries):
    def sample(self, image: Any, index: int, drawn: Any) -> Any:
        whole = F.pil_to_tensor(image.resize((16, 16)))
        return whole, whole.view(3, 16, 16), index, drawn


class Raises(Retries):
    """An earlier file of the same batch is bad, which only decoding finds."""

    def __getitem__(self, index: int) -> Any:
        drawn = random.random()
        return SMALL(Image.open(self.paths[index]).convert("RGB")), index, drawn


def tensors(samples: list[Any]) -> Any:
    return torch.stack([F.to_tensor(sample[0]) for sample in samples]), [s[1:] for s in samples]


def arrays(samples: list[Any]) -> Any:
    factor = random.random()
    return [np.asarray(sample[0]) * factor for sample in samples], [s[1:] for s in samples]


def as_they_are(samples: list[Any]) -> Any:
    return samples


SHAPES: dict[str, tuple[type[Retries], Any]] = {
    "a tensor": (Retries, data.default_collate),
    "all of a batch in one call": (AtOnce, data.default_collate),
    "images that collate makes tensors of": (Images, tensors),
    "images that collate makes arrays of": (Images, arrays),
    "images that the batch has": (Images, as_they_are),
    "arrays": (Arrays, data.default_collate),
    "arrays of many bytes": (Large, data.default_collate),
    "two views of one tensor": (Views, data.default_collate),
    "an error": (Raises, data.default_collate),
}


def seeded(loader: Any, epochs: int) -> list[Any]:
    """Batches and errors, and the generators' states after them."""
    torch.manual_seed(4)
    random.seed(5)
    np.random.seed(6)
    found: list[Any] = []
    for _ in range(epochs):
        batches = iter(loader)
        while True:
            try:
                found.append(next(batches))
            except StopIteration:
                break
            except OSError as failure:
                found.append((type(failure).__name__, sayings.arguments(failure)))
        del batches
    return [*found, random.random(), np.random.rand(), torch.rand(1)]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bad_file_leaves_batches_draws_and_errors_as_with_torchs_loader(
    paths: list[str], shape: str
) -> None:
    kind, collate = SHAPES[shape]
    expected = seeded(data.DataLoader(kind(paths), 4, collate_fn=collate), 2)
    loader = hr.DataLoader(kind(paths), 4, collate_fn=collate, ahead=0)
    with contextlib.closing(loader):
        assert equal(seeded(loader, 2), expected)


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "shape",
    [shape for shape in SHAPES if shape not in ("an error", "images that collate makes arrays of")],
)
def test_in_worker_processes_the_batch_of_a_bad_file_keeps_its_draws(
    paths: list[str], shape: str
) -> None:
    """Checked for the first batch that a worker makes, because no later batch is made there."""
    kind, collate = SHAPES[shape]
    options = {"batch_size": 4, "collate_fn": collate, "num_workers": 4}
    expected = seeded(data.DataLoader(kind(paths), **options), 1)
    with contextlib.closing(hr.DataLoader(kind(paths), **options)) as loader:
        assert equal(seeded(loader, 1), expected)


class Skips(data.IterableDataset[Any]):
    """Leaves bad files out."""

    def __init__(self, paths: list[str], opens: Callable[[str], Any]) -> None:
        self.paths, self.opens = paths, opens

    def __iter__(self) -> Any:
        worker = data.get_worker_info()
        number, count = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for path in self.paths[number::count]:
            drawn = random.random()
            try:
                image = self.opens(path).convert("RGB")
            except OSError:
                continue
            yield SMALL(image), drawn


def of_bytes(path: str) -> Any:
    return Image.open(io.BytesIO(Path(path).read_bytes()))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("opens", [Image.open, of_bytes])
def test_a_stream_gets_the_error_of_a_bad_file_where_it_opens_the_file(
    paths: list[str], opens: Any, workers: int
) -> None:
    options: dict[str, Any] = {"batch_size": 4, "num_workers": workers}
    expected = seeded(data.DataLoader(Skips(paths, opens), **options), 2)
    with contextlib.closing(hr.DataLoader(Skips(paths, opens), ahead=0, **options)) as loader:
        assert equal(seeded(loader, 2), expected)


def test_images_of_a_batch_keep_their_pixels_when_their_files_change_or_go(
    paths: list[str], tmp_path: Path
) -> None:
    copies = []
    for number in (0, 1, 3, 4):
        copies.append(str(tmp_path / f"{number}.jpg"))
        Path(copies[-1]).write_bytes(Path(paths[number]).read_bytes())
        os.utime(copies[-1], (1e9, 1e9))
    (expected,) = data.DataLoader(Images(copies), 4, collate_fn=as_they_are)
    with contextlib.closing(hr.DataLoader(Images(copies), 4, collate_fn=as_they_are)) as loader:
        (found,) = loader
        for path in copies:
            Path(path).write_bytes(b"something else")
        assert [one[0].tobytes() for one in found] == [one[0].tobytes() for one in expected]


class Holds(Retries):
    """Also holds what cannot be restored: the system's random numbers, and a dead proxy."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.secrets, self.gone = random.SystemRandom(), weakref.proxy(Retries(paths))


class Seeded(Retries):
    """Makes its generator anew each epoch."""

    def set_epoch(self, epoch: int) -> None:
        self.own = np.random.default_rng(epoch)


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("kind", [Holds, Seeded])
def test_a_datasets_generators_are_restored_if_they_can_be(
    paths: list[str], kind: type[Retries], behind: bool
) -> None:
    def epochs(make: Callable[..., Any], **more: Any) -> list[Any]:
        dataset = kind(paths)
        inner = data.Subset(dataset, range(12)) if behind else dataset
        torch.manual_seed(3)
        random.seed(3)
        np.random.seed(3)
        loader, found = make(inner, 4, **more), []
        for epoch in range(3):
            if isinstance(dataset, Seeded):
                dataset.set_epoch(epoch)
            found.append(list(loader))
        return found

    assert equal(epochs(hr.DataLoader, ahead=0), epochs(data.DataLoader))


class Refuses(data.Dataset[Any]):
    """Raises for one sample, and counts its calls."""

    def __init__(self, paths: list[str]) -> None:
        self.paths, self.calls = paths, 0

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        self.calls += 1
        image = SMALL(Image.open(self.paths[index]).convert("RGB"))
        if index == 1:
            raise ValueError("no such label")
        return image


@pytest.mark.parametrize(("bad", "calls", "error"), [(False, 2, ValueError), (True, 3, OSError)])
def test_an_error_that_has_nothing_to_do_with_a_file_makes_no_code_run_twice(
    paths: list[str], bad: bool, calls: int, error: type[Exception]
) -> None:
    dataset = Refuses([paths[CUT_OFF[0]] if bad else paths[0], *paths[11:14]])
    with (
        contextlib.closing(hr.DataLoader(dataset, 4, ahead=0)) as loader,
        pytest.raises(error, match="no such label" if error is ValueError else "truncated"),
    ):
        next(iter(loader))
    assert dataset.calls == calls
