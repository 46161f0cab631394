"""Where the process's random generators stand, and back to there."""

from __future__ import annotations

from collections.abc import Callable
from random import getstate, setstate
from typing import Any

import numpy as np
import torch

States = tuple[Any, Any, torch.Tensor]


def states() -> States:
    """Of Python's, NumPy's and torch's."""
    return getstate(), np.random.get_state(), torch.default_generator.get_state()


def go_back(before: States) -> None:
    """Puts them where they stood."""
    setstate(before[0])
    np.random.set_state(before[1])
    torch.default_generator.set_state(before[2])


def moved(before: States) -> bool:
    """Whether somebody has drawn since they stood so."""
    now = states()
    ours, others = before[1], now[1]
    return (
        before[0] != now[0]
        or ours[2:] != others[2:]
        or not np.array_equal(ours[1], others[1])
        or not torch.equal(before[2], now[2])
    )


class Repeated:
    """A transform that draws from the process's generators: each time what it drew the first time.

    Attributes:
        before: where the generators stood the first time; None: it was not called.
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
