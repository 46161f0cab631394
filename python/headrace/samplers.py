"""Samplers for ``Loader(sampler=...)``: which samples an epoch has, and how often.

A sampler is data from which the engine computes the order. Nothing is iterated in Python, and a
saved state needs only a position. So a loader with one of these resumes at once, and with any
number of ranks.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headrace._engine import arguments
from headrace.errors import ArgumentError

Samples = range | Sequence[int]


@dataclass(frozen=True)
class Subset:
    """Some of the samples, each once an epoch, in the given order, or shuffled if the loader does.

    Args:
        indices: sample numbers, without repetition. A ``range`` takes no memory.
    """

    indices: Samples

    def to_dict(self) -> dict[str, Any]:
        """Returns it as ``hr_loader_open`` takes it."""
        return {"kind": "subset", **_part(self.indices)}


@dataclass(frozen=True)
class _Drawn:
    """Each sample comes as often as its share of the draws demands, rounded up or down.

    The order is always shuffled. A sample that comes twice in an epoch is augmented differently,
    because its position in the epoch is part of what its augmentations are drawn from.
    """


@dataclass(frozen=True)
class Weighted(_Drawn):
    """Samples in proportion to their weights.

    With equal weights and no ``length`` every sample comes exactly once. A sample whose expected
    number is below one comes at most once. So there is no choice of with or without replacement.

    Args:
        weights: one for each sample of the dataset, 0 or more; their sum may be anything.
        length: samples of an epoch, over all ranks; None: as many as the dataset has.
    """

    weights: Sequence[float]
    length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns it as ``hr_loader_open`` takes it."""
        return {"kind": "weighted", "weights": _floats(self.weights), **_length(self.length)}


@dataclass(frozen=True)
class ClassBalanced(_Drawn):
    """Equally many samples of every label, and each sample of a label equally often.

    Args:
        length: samples of an epoch, over all ranks; None: as many as the dataset has.
    """

    length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns it as ``hr_loader_open`` takes it."""
        return {"kind": "class_balanced", **_length(self.length)}


@dataclass(frozen=True)
class Mix(_Drawn):
    """Parts of a dataset interleaved by weight, with each sample of a part equally often.

    Several datasets are interleaved as the parts of their concatenation: with
    ``Mix(weights=[3, 1])``, three of four samples come from the first dataset of
    ``Loader([first, second], ...)``.

    Args:
        parts: the sample numbers of each part, preferably as ``range``. A sample may be in several
            parts. None: each dataset of a concatenation is a part.
        weights: one for each part, 0 or more.
        length: samples of an epoch, over all ranks; None: as many as the dataset has.
    """

    parts: Sequence[Samples] | None = None
    weights: Sequence[float] = ()
    length: int | None = None

    def __post_init__(self) -> None:
        parts = self.parts
        if isinstance(parts, list | tuple) and any(isinstance(part, int | float) for part in parts):
            raise ArgumentError(
                f"sampler.parts is {arguments.shown(parts)} (expected None, or the sample numbers "
                "of each part; weights are given by their name, as Mix(weights=[3, 1]))"
            )

    def to_dict(self) -> dict[str, Any]:
        """Returns it as ``hr_loader_open`` takes it."""
        parts = {}
        if self.parts is not None:
            parts["parts"] = arguments.each("sampler.parts", self.parts, lambda _, p: _part(p))
        return {"kind": "mix", **parts, "weights": _floats(self.weights), **_length(self.length)}


@dataclass(frozen=True)
class Repeated:
    """Every sample several times, each augmented differently: DeiT's repeated augmentation.

    Samples come in order, or shuffled if the loader shuffles. An epoch is cut off so that it is as
    long as one without repeats: with three repeats it has a third of the samples, and the next
    epoch another third. The repeats of a sample come in one step, if the step's ``batch_size *
    world_size`` samples have room for them: first the first repeats of all samples, then the second
    ones. So they fall on different ranks if there are as many ranks as repeats.

    The samples of a step are the same for any number of ranks with the same ``batch_size *
    world_size``. A resumed epoch continues, with any step size, with the samples not yet taken.

    Args:
        times: how often a sample comes, 1 or more.
        length: samples of an epoch, over all ranks; None: as in timm's ``RepeatAugSampler``, the
            dataset's size rounded down to a multiple of 256, or not rounded if it is less than 256.
    """

    times: int = 3
    length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Returns it as ``hr_loader_open`` takes it."""
        times = arguments.count("sampler.times", self.times, 1)
        return {"kind": "repeated", "times": times, **_length(self.length)}


Sampler = Subset | Weighted | ClassBalanced | Mix | Repeated


def _part(samples: Samples) -> dict[str, Any]:
    if isinstance(samples, range):
        return {"first": samples.start, "stride": samples.step, "count": len(samples)}
    try:
        return {"indices": list(map(operator.index, samples))}
    except (TypeError, ValueError):
        raise ArgumentError(f"sampler: {arguments.shown(samples)} are no sample numbers") from None


def _floats(weights: Sequence[float]) -> list[float]:
    try:
        found = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise ArgumentError(f"sampler: {arguments.shown(weights)} are no weights") from None
    if not all(map(math.isfinite, found)):
        raise ArgumentError(
            f"sampler.weights is {arguments.shown(found)} (expected finite numbers)"
        )
    return found


def _length(length: int | None) -> dict[str, int]:
    return {} if length is None else {"length": arguments.count("sampler.length", length)}
