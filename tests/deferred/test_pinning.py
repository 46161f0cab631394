"""``pin_memory=True`` over datasets with code of their own: tensors at any depth, and objects that
torch knows nothing of.

Without an accelerator torch does not pin. So it is told here that there is one, and what would be
pinned is noted.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
from deferred.test_own_code import Opens, paths
from headrace._deferred import making

__all__ = ["paths"]  # a fixture
STEPS = tv.Compose([tv.Resize((20, 24)), tv.ToTensor()])
WORKERS = pytest.mark.parametrize("workers", [0, 1])


class Pins:
    """A batch with a pin_memory method, which torch calls."""

    def __init__(self, samples: list[Any]) -> None:
        self.images = torch.stack([image for image, _ in samples])
        self.names = [name for _, name in samples]
        self.first, self.calls = samples[0][0], 0

    def pin_memory(self) -> Pins:
        self.images = self.images.pin_memory()
        self.calls += self.images.shape[0]
        return self


class Opaque:
    """A batch that torch hands on unchanged."""

    def __init__(self, samples: list[Any]) -> None:
        self.parts = {"images": [image for image, _ in samples]}
        self.kept = self.parts["images"][0]


def named(samples: list[Any]) -> Any:
    return {"images": torch.stack([image for image, _ in samples]), "more": Opaque(samples)}


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the tensors that were made in pinned memory."""
    found: list[tuple[int, ...]] = []
    empty = torch.empty

    def allocated(*shape: Any, pin_memory: bool = False, **options: Any) -> torch.Tensor:
        if pin_memory:
            found.append(tuple(shape[0]))
        return empty(*shape, **options)

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "set_device_index", lambda device: None)
    monkeypatch.setattr(making.torch, "empty", allocated)
    return found


def opening(path: str, index: int) -> Any:
    return STEPS(Image.open(path).convert("RGB")), f"{index}"


def batches(paths: list[str], collate: Any, workers: int) -> list[Any]:
    loader = hr.DataLoader(
        *(Opens(paths, opening), 4),
        num_workers=workers,
        pin_memory=True,
        collate_fn=collate,
        strict=True,
    )
    with contextlib.closing(loader):
        return list(loader)


def expected(paths: list[str], workers: int) -> list[torch.Tensor]:
    return [images for images, _ in data.DataLoader(Opens(paths, opening), 4, num_workers=workers)]


@WORKERS
def test_an_object_with_a_pin_memory_method_is_pinned_by_that_method(
    paths: list[str], pinned: list[tuple[int, ...]], workers: int
) -> None:
    found = batches(paths, Pins, workers)
    assert pinned == [(4, 3, 20, 24)] * 3
    for batch, images in zip(found, expected(paths, 0), strict=True):
        assert type(batch) is Pins
        assert type(batch.images) is type(batch.first) is torch.Tensor
        assert torch.equal(batch.images, images)
        assert torch.equal(batch.first, images[0])
        assert (batch.calls, len(batch.names)) == (4, 4)


@WORKERS
def test_tensors_in_an_object_of_unknown_type_are_plain_and_not_pinned(
    paths: list[str], pinned: list[tuple[int, ...]], workers: int
) -> None:
    found = batches(paths, named, workers)
    assert pinned == [(4, 3, 20, 24)] * 3  # the dict's
    for batch, images in zip(found, expected(paths, 0), strict=True):
        assert torch.equal(batch["images"], images)
        parts = batch["more"].parts["images"]
        assert batch["more"].kept is parts[0]
        assert {type(part) for part in parts} == {torch.Tensor}
        assert torch.equal(torch.stack(parts), images)


def doubled(samples: list[Any]) -> Any:
    """Needs values, and so runs when they are there."""
    return torch.stack([image for image, _ in samples]).mul_(2), [name for _, name in samples]


@WORKERS
def test_a_batch_whose_collate_function_needs_values_is_pinned_but_its_samples_are_not(
    paths: list[str],
    pinned: list[tuple[int, ...]],
    workers: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[int, ...]] = []

    def pin_memory(self: torch.Tensor, *_: Any) -> torch.Tensor:
        asked.append(tuple(self.shape))
        return self

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin_memory)
    found = batches(paths, doubled, workers)
    assert asked == [(4, 3, 20, 24)] * 3
    assert not pinned
    for (batch, _), images in zip(found, expected(paths, 0), strict=True):
        assert torch.equal(batch, images * 2)


@WORKERS
def test_a_batch_that_is_made_again_for_a_bad_file_is_pinned(
    paths: list[str], pinned: list[tuple[int, ...]], workers: int, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(Path(paths[0]).read_bytes()[:-900])

    def replacing(path: str, index: int) -> Any:
        try:
            return opening(str(bad) if index == 1 else path, index)
        except OSError:
            return opening(paths[5], index)

    loader = hr.DataLoader(Opens(paths, replacing), 4, num_workers=workers, pin_memory=True)
    with contextlib.closing(loader):
        found = list(loader)
    ours = [shape for shape in pinned if shape[0] == 4]
    assert len(found) == 3
    assert len(ours) > 3  # the first batch twice
    assert torch.equal(found[0][0][1], opening(paths[5], 1)[0])
