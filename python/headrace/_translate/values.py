"""Turns attributes of torchvision's objects into arguments of ``headrace.transforms``: a reader for
each type of the table (table.py). A ValueError means that an argument has no equal.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from headrace._transforms.base import plain
from headrace._translate.table import CHOICES

# The engine's own limits: docs/limits.md, internal/transform/value.go.
_LARGEST_KERNEL = 1023
_MOST_SIZES = 12
_LARGEST_ALPHA, _LARGEST_SIGMA = 1e6, 127


def numbers(value: Any) -> tuple[float, ...]:
    """Returns a number, or a sequence, array or tensor of numbers, as a tuple."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    listed = value if isinstance(value, Sequence) else [value]
    return tuple(float(number) for number in listed)


def integers(value: Any) -> list[int]:
    """An integer or a sequence of integers as a list; empty if it contains anything else."""
    listed = [value] if isinstance(value, int) else list(value)
    return listed if all(type(number) is int for number in listed) else []


def pair(value: Any) -> tuple[int, int]:
    """Returns a height and a width, both at least 1."""
    size = integers(value)
    size = size * 2 if len(size) == 1 else size
    if len(size) != 2 or min(size) < 1:
        raise ValueError(value)
    return size[0], size[1]


def short(size: tuple[int, int]) -> Any:
    """Returns a square size as the one number that people write."""
    return size[0] if size[0] == size[1] else size


def name_of(value: Any) -> Any:
    """The name of a filter or policy, given a name, torchvision's enum or Pillow's number."""
    return plain("interpolation", value)


def bounds(value: Any) -> tuple[float, ...]:
    """Returns the numbers of an interval."""
    return tuple(float(number) for number in value)


def drawn_between(value: Any) -> tuple[float, ...]:
    """Returns pairs of numbers between which torch draws one, in single precision. If both are
    equal, it draws that number, rounded."""
    numbers = bounds(value)
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return tuple(
        end for pair in pairs for end in (map(_single, pair) if pair[0] == pair[1] else pair)
    )


def _single(number: float) -> float:
    return ctypes.c_float(number).value


def _one_of(kind: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        name = name_of(value)
        if name not in CHOICES[kind]:
            raise ValueError(value)
        return name

    return read


def _fill(value: Any) -> Any:
    """Returns one number or three, from 0 to 255."""
    listed = [value] if isinstance(value, int | float) else list(value)
    if len(listed) not in (1, 3) or not all(n == int(n) and 0 <= n <= 255 for n in listed):
        raise ValueError(value)
    return int(listed[0]) if len(listed) == 1 else tuple(int(n) for n in listed)


def _probability(value: Any) -> float:
    if not 0 <= value <= 1:
        raise ValueError(value)
    return float(value)


def _interval(value: Any) -> tuple[float, ...]:
    low, high = drawn_between(value)
    if not 0 < low <= high < float("inf"):
        raise ValueError(value)
    return low, high


def _length(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(value)
    return value


def _sizes(value: Any) -> list[int]:
    sizes = integers(value)
    if not 1 <= len(sizes) <= _MOST_SIZES or min(sizes) < 1:
        raise ValueError(value)
    return sizes


def _padding(value: Any) -> list[int]:
    sides = integers(value)
    if len(sides) not in (1, 2, 4) or min(sides) < 0:
        raise ValueError(value)
    return sides


def _kernel(value: Any) -> tuple[int, ...]:
    for side in value:
        if side % 2 != 1 or not 1 <= side <= _LARGEST_KERNEL:
            raise ValueError(f"kernel_size={side!r}")
    return tuple(int(side) for side in value)


def _elastic_alpha(value: Any) -> tuple[float, ...]:
    both = bounds(value)
    if len(both) != 2 or not all(abs(alpha) <= _LARGEST_ALPHA for alpha in both):
        raise ValueError(value)
    return both


def _elastic_sigma(value: Any) -> tuple[float, ...]:
    across, down = bounds(value)
    blurs = min(across, down) > 0 and max(across, down) <= _LARGEST_SIGMA
    if not (blurs or across == down == 0):
        raise ValueError(value)
    return across, down


def _grey_channels(value: Any) -> int:
    if value != 3:
        raise ValueError(
            "some images would have one channel and others three; num_output_channels=3 is"
        )
    return 3


def _whole(value: Any) -> int:
    if value != int(value):
        raise ValueError(value)
    return int(value)


_READERS: dict[str, Callable[[Any], Any]] = {
    **{kind: _one_of(kind) for kind in CHOICES},
    **dict.fromkeys(("number", "factor", "concentration", "noise_mean", "noise_deviation"), float),
    **dict.fromkeys(("count", "bins", "bits", "severity", "chains", "depth"), _whole),
    **dict.fromkeys(("shares", "centre", "side_range"), bounds),
    **dict.fromkeys(("sigma", "degrees", "shear"), drawn_between),
    **dict.fromkeys(("jitter", "hue_jitter", "factors", "turns"), drawn_between),
    **dict.fromkeys(("fill", "tensor_fill"), _fill),
    "bool": bool,
    "elastic_alpha": _elastic_alpha,
    "elastic_sigma": _elastic_sigma,
    "height_width": pair,
    "interval": _interval,
    "kernel": _kernel,
    "length": _length,
    "padding": _padding,
    "probability": _probability,
    "quality": lambda value: tuple(_whole(bound) for bound in value),
    "size": lambda value: short(pair(value)),
    "sizes": _sizes,
    "grey_channels": _grey_channels,
}

_SAY_MORE = ("kernel", "grey_channels")  # readers whose errors are whole sentences

# What None stands for in an attribute. A jitter that changes nothing is None in torchvision; a fill
# that is not given is black in a PIL image.
_OF_NONE = {"jitter": 0, "hue_jitter": 0, "fill": 0}


def read(name: str, kind: str, value: Any) -> Any:
    """Returns an attribute as the argument with that name and type in the table."""
    if value is None:
        return _OF_NONE.get(kind)
    try:
        return _READERS[kind](value)
    except (AttributeError, TypeError, ValueError, OverflowError) as failure:
        said = str(failure) if kind in _SAY_MORE else f"{name}={value!r}"
        raise ValueError(said) from None
