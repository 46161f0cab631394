"""The recipe of a ``DataLoader``'s batches: which samples, and how they are transformed."""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace._torch.samples import Samples
from headrace._translate.result import Translation


class Recipe(NamedTuple):
    """Which samples are read and how they are transformed. While both stay, so does the engine."""

    samples: Samples
    translation: Translation
    num_threads: int  # 0: automatic
    prefetch: int
    seed: int
    mode: str
    on_error: str
    pin_memory: bool
    strict: bool

    def config(self) -> dict[str, Any]:
        """The part of a configuration that loaders and single images have in common."""
        made = self.translation
        steps = [step if isinstance(step, dict) else step.to_dict() for step in made]
        return {"transform": steps, "dtype": made.dtype, "scale": made.scale, "mode": self.mode}

    def same_as(self, other: Recipe) -> bool:
        return self.samples is other.samples and self._numbers() == other._numbers()

    def _numbers(self) -> tuple[Any, ...]:
        return (self.config(), self[2:])
