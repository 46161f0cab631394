"""Saves and restores the states of the process's random generators."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from random import Random, SystemRandom, getstate, setstate
from types import FunctionType, MethodType, ModuleType, NoneType
from typing import Any

import numpy as np
import torch

from headrace._deferred import numpystate

States = tuple[Any, Any, torch.Tensor, list[tuple[Any, Any]]]

# Bounds of the search for generators in a program's objects: the depth, the entries of a container,
# and the objects that are looked at.
_DEEPEST, _LONGEST, _MOST = 8, 64, 300
_OTHERS = (
    type, FunctionType, MethodType, ModuleType, torch.Tensor, np.ndarray,
    str, bytes, int, float, NoneType,
)  # fmt: skip


def states(own: Iterable[Any] = ()) -> States:
    """The states of Python's, NumPy's and torch's global generators, and of ``own``."""
    others = [(generator, _state(generator)) for generator in own]
    return getstate(), numpystate.state(), torch.default_generator.get_state(), others


def go_back(before: States) -> None:
    """Puts the generators back into these states."""
    setstate(before[0])
    numpystate.put(before[1])
    torch.default_generator.set_state(before[2])
    for generator, state in before[3]:
        _put(generator, state)


def moved(before: States) -> bool:
    """Whether somebody has drawn from the generators since they had these states."""
    now = states(generator for generator, _ in before[3])
    pairs = [*zip(before[:3], now[:3], strict=True), *zip(before[3], now[3], strict=True)]
    return not all(_same(one, other) for one, other in pairs)


_GENERATORS = (Random, np.random.RandomState, np.random.Generator, torch.Generator)


def _state(generator: Any) -> Any:
    if isinstance(generator, Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def _put(generator: Any, state: Any) -> None:
    if isinstance(generator, Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, dict):
        return all(_same(one[name], other[name]) for name in one)
    if isinstance(one, tuple | list) and len(one) < _LONGEST:
        return all(map(_same, one, other))
    return bool(one == other)


def generators_of(value: Any) -> list[Any]:
    """The generators that an object of the program and its parts hold."""
    found: list[Any] = []
    seen = {id(value)}
    level = [value]
    for _ in range(_DEEPEST):
        parts: list[Any] = []
        for one in level:
            inside = _inside(one)
            if len(inside) <= _LONGEST:
                parts += inside
        level = []
        for part in parts:
            if id(part) in seen or len(seen) > _MOST:
                continue
            seen.add(id(part))
            if issubclass(type(part), _GENERATORS):  # isinstance asks a proxy for its object
                if _goes_back(part):
                    found.append(part)
            elif not issubclass(type(part), _OTHERS):
                level.append(part)
    return found


def _inside(value: Any) -> Collection[Any]:
    """What an object or a container holds; nothing if it raises when it is looked at."""
    try:
        inside = value if isinstance(value, dict | list | tuple) else vars(value)
    except Exception:  # a proxy whose object is gone, or an object without attributes
        return ()
    return inside.values() if isinstance(inside, dict) else inside


def _goes_back(generator: Any) -> bool:
    """Whether a generator can be put back: the system's has no state, a device's is left alone."""
    if isinstance(generator, SystemRandom):
        return False
    return not isinstance(generator, torch.Generator) or generator.device.type == "cpu"


class Repeated:
    """A transform that draws from the process's generators, but every time the same numbers.

    Attributes:
        before: the generators' states before the first call; None: it was not called yet.
    """

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self._transform = transform
        self.before: States | None = None

    def __call__(self, image: Any) -> Any:
        now = states()
        if self.before is None:
            self.before = now
            return self._transform(image)
        go_back(self.before)
        try:
            return self._transform(image)
        finally:
            go_back(now)
