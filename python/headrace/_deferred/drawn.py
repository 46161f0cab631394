"""Where the process's random generators stand, and back to there."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

States = tuple[Any, Any, torch.Tensor]


def states() -> States:
    """Of Python's, NumPy's and torch's."""
    return random.getstate(), np.random.get_state(), torch.default_generator.get_state()


def go_back(before: States) -> None:
    """Puts them where they stood."""
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.default_generator.set_state(before[2])
