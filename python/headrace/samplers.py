"""Which samples an epoch has, and how often: data that the engine draws by.

For ``Loader(sampler=...)``. Nothing is iterated in Python and nothing but a position needs saving,
so a loader with one of these resumes at once, and with any number of ranks.
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
    """Some samples, each once an epoch; in this order, or shuffled where the loader shuffles.

    Args:
        indices: sample numbers, none of them twice. A ``range`` takes no memory.
    """

    indices: Samples

    def to_dict(self) -> dict[str, Any]:
        """As ``hr_loader_open`` takes it."""
        return {"kind": "subset", **_part(self.indices)}


@dataclass(frozen=True)
class _Drawn:
    """Samples that come as often as their share of the draws says, rounded up or down.

    Always shuffled; the number of a sample's draw is its position in the epoch, so that one that
    comes twice is augmented differently.
    """


@dataclass(frozen=True)
class Weighted(_Drawn):
    """Samples in proportion to their weights.

    Args:
        weights: one a sample of the dataset, 0 or more. They need not add up to anything.
        length: draws an epoch, of all ranks together; None: as many as the dataset has samples.

    With equal weights and no length every sample comes exactly once, and one whose share is below
    one comes at most once: there is no need to say with or without replacement.
    """

    weights: Sequence[float]
    length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As ``hr_loader_open`` takes it."""
        return {"kind": "weighted", "weights": _floats(self.weights), **_length(self.length)}


@dataclass(frozen=True)
class ClassBalanced(_Drawn):
    """Equally many samples of every label, and the samples of a label equally often.

    Args:
        length: draws an epoch, of all ranks together; None: as many as the dataset has samples.
    """

    length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As ``hr_loader_open`` takes it."""
        return {"kind": "class_balanced", **_length(self.length)}


@dataclass(frozen=True)
class Mix(_Drawn):
    """Parts of a dataset in proportion to their weights, and the samples of a part equally often.

    Several datasets are mixed as parts of their concatenation: with ``Mix(weights=[3, 1])``, three
    samples of four come from the first dataset of ``Loader([first, second], ...)``.

    Args:
        parts: the sample numbers of each part, best as ``range``. A sample may be in several. None:
            each dataset of a concatenation is one.
        weights: one a part, 0 or more.
        length: draws an epoch, of all ranks together; None: as many as the dataset has samples.
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
        """As ``hr_loader_open`` takes it."""
        parts = {}
        if self.parts is not None:
            parts["parts"] = arguments.each("sampler.parts", self.parts, lambda _, p: _part(p))
        return {"kind": "mix", **parts, "weights": _floats(self.weights), **_length(self.length)}


@dataclass(frozen=True)
class Repeated:
    """Every sample several times, each augmented differently: DeiT's repeated augmentation.

    In order, or shuffled where the loader shuffles, and cut off so that an epoch is as long as one
    without repeats: of three, it has a third of the samples, and the next epoch another third.
    The repeats of a sample come in one step wherever its ``batch_size * world_size`` samples have
    room for them: the first ones of all at its front, then the second ones. So they fall on
    different ranks, if there are as many ranks as repeats.

    What a step has is the same for any number of ranks with the same ``batch_size * world_size``,
    and for any step size a resumed epoch goes on with the samples that were not taken.

    Args:
        times: how often a sample comes, 1 or more.
        length: samples an epoch, of all ranks together; None: as timm's ``RepeatAugSampler``, the
            dataset's size rounded down to a multiple of 256; not rounded where it is less.
    """

    times: int = 3
    length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """As ``hr_loader_open`` takes it."""
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
