"""Programs that seed, keep or restore torch's generator around their transforms."""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
from collections.abc import Callable
from random import seed as seed_bound_early
from types import ModuleType
from typing import Any

import pytest
import torch
import torchvision.transforms as tv
import torchvision.transforms.functional as F
from PIL import Image
from torch.utils import data
from torchvision.transforms import v2

import headrace as hr
from deferred.test_own_code import Opens, equal, paths
from headrace._deferred import switches

__all__ = ["paths"]  # a fixture

WORKERS = pytest.mark.parametrize("workers", [0, 2])
DRAWS = tv.Compose(
    [
        *(tv.RandomResizedCrop(24), tv.RandomHorizontalFlip(), tv.ColorJitter(0.3, 0.3)),
        tv.ToTensor(),
    ]
)
GEOMETRY = v2.Compose([v2.RandomResizedCrop(20, antialias=True), v2.RandomVerticalFlip()])
# They draw from Python's generator.
CHOICE = tv.RandomChoice(
    [tv.RandomHorizontalFlip(1.0), tv.RandomVerticalFlip(1.0), tv.RandomInvert(1.0)]
)
ORDER = tv.RandomOrder([tv.RandomRotation((90, 90)), tv.RandomHorizontalFlip(1.0)])


def opened(path: str) -> Any:
    return Image.open(path).convert("RGB")


def image_and_mask(path: str, index: int) -> Any:
    """Uses the same random numbers for both, by the generator's state."""
    state = torch.get_rng_state()
    image = F.to_tensor(GEOMETRY(opened(path)))
    torch.set_rng_state(state)
    return image, F.pil_to_tensor(GEOMETRY(opened(path)))


def forked(path: str, index: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(index)
        inside = DRAWS(opened(path))
    return inside, DRAWS(opened(path)), torch.rand(1)


def seeded_by_a_drawn_number(path: str, index: int) -> Any:
    seed = int(torch.randint(1 << 30, (1,)))
    views = []
    for _ in range(2):
        torch.manual_seed(seed)
        views.append(DRAWS(opened(path)))
    return views, seed


def before_it_opens(path: str, index: int) -> Any:
    torch.random.manual_seed(7 + index)
    image = opened(path)
    return DRAWS(image), float(torch.rand(1))


def by_the_generators_method(path: str, index: int) -> Any:
    torch.default_generator.manual_seed(1000 + index)
    image = DRAWS(opened(path))
    torch.default_generator.manual_seed(1000 + index)
    return image, DRAWS(opened(path))


def views(path: str) -> Any:
    made = CHOICE(opened(path)), ORDER(opened(path))
    return [F.to_tensor(image.resize((20, 21))) for image in made]


def by_pythons_seed(path: str, index: int) -> Any:
    random.seed(index)
    image = views(path)
    seed_bound_early(index)
    return image, views(path)


def by_pythons_state(path: str, index: int) -> Any:
    state = random.getstate()
    image = views(path)
    random.setstate(state)
    return image, views(path)


PROGRAMS: list[Callable[[str, int], Any]] = [
    by_the_generators_method,
    by_pythons_seed,
    by_pythons_state,
    *(image_and_mask, forked, seeded_by_a_drawn_number, before_it_opens),
]


def seeded(kind: Any, dataset: Any, **options: Any) -> Any:
    """The batches of two epochs, and torch's generator state after them."""
    torch.manual_seed(5)
    random.seed(5)
    loader = kind(dataset, 5, **options)
    try:
        return [list(loader), list(loader)], torch.get_rng_state()
    finally:
        if kind is hr.DataLoader:
            loader.close()


@pytest.mark.every(3)
@WORKERS
@pytest.mark.parametrize("make", PROGRAMS)
def test_transforms_after_a_seed_or_a_restored_state_draw_as_torchvisions_in_torchs_order(
    paths: list[str], make: Any, workers: int
) -> None:
    dataset, options = Opens(paths, make), {"num_workers": workers, "shuffle": True}
    expected = seeded(data.DataLoader, dataset, **options)
    assert equal(seeded(hr.DataLoader, dataset, ahead=0, strict=True, **options), expected)


def test_an_image_and_its_mask_have_the_same_draws(paths: list[str]) -> None:
    with contextlib.closing(hr.DataLoader(Opens(paths, image_and_mask), 4, strict=True)) as loader:
        for image, mask in loader:
            assert torch.equal((image * 255).round().byte(), mask)


class SeededCollate:
    """Transforms images in the collate function after seeding."""

    def __call__(self, samples: list[Any]) -> Any:
        torch.manual_seed(len(samples))
        return torch.stack([DRAWS(image) for image, _ in samples]), [n for _, n in samples]


class RestoringCollate:
    """Uses the same random numbers for each image of the batch."""

    def __call__(self, samples: list[Any]) -> Any:
        state, made = torch.get_rng_state(), []
        for image, _ in samples:
            torch.set_rng_state(state)
            made.append(F.to_tensor(GEOMETRY(image)))
        return torch.stack(made), [n for _, n in samples]


@WORKERS
@pytest.mark.parametrize("collate", [SeededCollate(), RestoringCollate()])
def test_transforms_in_collate_functions_that_seed_or_restore_draw_as_torchvisions(
    paths: list[str], collate: Any, workers: int
) -> None:
    dataset = Opens(paths, lambda path, index: (opened(path), index))
    options = {"num_workers": workers, "collate_fn": collate}
    expected = seeded(data.DataLoader, dataset, **options)
    assert equal(seeded(hr.DataLoader, dataset, ahead=0, strict=True, **options), expected)


def test_a_module_attribute_that_a_program_rebinds_is_not_overwritten(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("module_of_a_program")
    module.seed, module.getstate = random.seed, random.getstate
    monkeypatch.setitem(sys.modules, module.__name__, module)
    dataset = Opens(paths, lambda path, _: F.to_tensor(opened(path).resize((8, 8))))
    with contextlib.closing(hr.DataLoader(dataset, 4)) as loader:
        list(loader)
        assert module.seed is random.seed
        module.seed = 1234
        batches = iter(loader)
        next(batches)
        module.getstate = None
        list(batches)
        list(loader)
    assert (module.seed, module.getstate) == (1234, None)
    assert "headrace" not in random.seed.__code__.co_filename


def test_the_code_that_asks_a_handler_is_of_the_kind_of_the_functions_own() -> None:
    # Since Python 3.13 another kind is a DeprecationWarning.
    kinds = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    generators = 0
    for switch in switches._switches:
        assert not (switch.own.co_flags ^ switch.other.co_flags) & kinds, switch.function
        generators += bool(switch.own.co_flags & kinds)
    assert generators
