"""Checks what the table of docs/drop-in.md says of a program with a loader of the same shape."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils import data

import headrace as hr
from deferred.test_own_code import compared, equal
from headrace.errors import UnsupportedError

PAGE = Path(__file__).parents[2] / "docs" / "drop-in.md"
WORDS = ("native", "partly", "torch's")


class Chances(NamedTuple):
    """Arguments of a program's random transforms.

    Attributes:
        p: the probability of transforms that have one.
        scale: of RandomResizedCrop.
        factor: by what a colour is multiplied.
    """

    p: float
    scale: tuple[float, float]
    factor: tuple[float, float]


DRAWN = Chances(0.5, (0.3, 1.0), (0.6, 1.4))
# Nothing random is left: a crop of four times the image is refused ten times, and then central.
CERTAIN = Chances(1.0, (4.0, 4.0), (1.3, 1.3))


def table() -> dict[str, str]:
    """The word for each program: native, partly or torch's."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) > 2 and cells[2] in WORDS:
            found[cells[0]] = cells[2]
    return found


def runs(program: str, dataset: Any, **options: Any) -> None:
    """Checks the program's loader without random draws: native as the table says, torch's bytes."""
    native = _explained(program, dataset, **options)
    compared(dataset, strict=native, **options)


def draws(program: str, dataset: Any, **options: Any) -> None:
    """Checks the program's loader with random draws: torch's structure, repeated by seeds."""
    native = _explained(program, dataset, **options)
    options = {"batch_size": 5} | options
    expected = list(data.DataLoader(dataset, **options))
    passes = [_seeded(dataset, strict=native, seed=3, **options) for _ in range(2)]
    assert _shaped(passes[0]) == _shaped(expected)
    assert equal(*passes)


def _explained(program: str, dataset: Any, **options: Any) -> bool:
    """Whether the table says native; checks that ``explain`` and ``strict`` agree."""
    word = table()[program]
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        told = loader.explain()
        assert told.native == (word == "native"), str(told)
        assert told.leaves
        assert bool(told.cure) == (word != "native")
    if word != "native":
        with (
            pytest.raises(UnsupportedError, match="strict=True"),
            contextlib.closing(hr.DataLoader(dataset, strict=True, **options)) as loader,
        ):
            next(iter(loader))
    return word == "native"


def _seeded(dataset: Any, **options: Any) -> list[Any]:
    """All batches of an epoch, from generators that are seeded."""
    torch.manual_seed(11)
    random.seed(11)
    np.random.seed(11)
    with contextlib.closing(hr.DataLoader(dataset, **options)) as loader:
        return list(loader)


def _shaped(value: Any) -> Any:
    """Types, shapes and dtypes at any depth; values of everything but images."""
    if isinstance(value, torch.Tensor | np.ndarray):
        small = value.ndim < 2 and value.dtype not in (torch.float32, np.float32)
        return type(value), tuple(value.shape), value.dtype, value.tolist() if small else None
    if isinstance(value, dict):
        return {key: _shaped(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [_shaped(part) for part in value]
    return type(value), value
