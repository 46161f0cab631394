"""timm's transforms of PIL images, as ``timm.data.create_transform`` composes them.

timm's augmentations keep no configuration string. So a string is written from what they hold, and
timm builds an augmentation from it. They are translated only if that one holds the same.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from headrace import transforms
from headrace._transforms.base import plain

_RANDOM = ("bilinear", "bicubic")  # what timm's "random" interpolation chooses from
_SETS = ("rand", "rand-inc1", "rand-t3a", "rand-t3aw", "rand-tweights")
_POLICIES = ("v0", "v0r", "original", "originalr", "3a")


def _name(value: Any) -> Any:
    return plain("interpolation", value)


def _held(ops: Any) -> list[tuple[Any, ...]]:
    """Returns everything that timm's ops do, for comparison."""
    names = ("name", "prob", "magnitude", "magnitude_std", "magnitude_max", "kwargs")
    return [tuple(getattr(op, name) for name in names) for op in ops]


class Timm:
    """A base class of ``Reader`` for these; it has ``made`` and ``_stage``."""

    made: Any
    _stage: str
    _normalize: Any
    _erasings: list[tuple[Any, bool]]  # and whether Normalize comes before

    def _TimmRandomResizedCropAndInterpolation(self, op: Any) -> str:
        if self._stage != "PIL":
            return "here it has a tensor"
        several = isinstance(op.interpolation, tuple | list)
        filters = [_name(one) for one in (op.interpolation if several else [op.interpolation])]
        size = tuple(int(side) for side in op.size)
        scale, ratio = (tuple(float(n) for n in pair) for pair in (op.scale, op.ratio))
        if not all(0 < low <= high < math.inf for low, high in (scale, ratio)):
            return f"scale={op.scale!r}, ratio={op.ratio!r}"
        crops = [transforms.RandomResizedCrop(size, scale, ratio, name) for name in filters]
        self.made.add(crops[0] if len(crops) == 1 else transforms.RandomChoice(crops))
        self.made.size = size
        return ""

    def _TimmMaybeToTensor(self, op: Any) -> str:
        return self._ToTensor(op) if self._stage == "PIL" else ""

    def _TimmMaybePILToTensor(self, op: Any) -> str:
        return self._PILToTensor(op) if self._stage == "PIL" else ""

    def _ToTensor(self, op: Any) -> str:
        raise NotImplementedError

    def _PILToTensor(self, op: Any) -> str:
        raise NotImplementedError

    def _TimmRandAugment(self, op: Any) -> str:
        first, timm = op.ops[0], sys.modules["timm.data.auto_augment"]
        for start in _SETS:
            config = f"{start}-m{first.magnitude:g}-n{op.num_layers}-p{float(first.prob)}"
            if first.magnitude_std:
                config += f"-mstd{101 if first.magnitude_std == math.inf else first.magnitude_std}"
            if first.magnitude_max:
                config += f"-mmax{first.magnitude_max}"
            found = timm.rand_augment_transform(config, _parameters(first))
            weights = [
                None if o.choice_weights is None else list(o.choice_weights) for o in (op, found)
            ]
            same = weights[0] == weights[1] and found.num_layers == op.num_layers
            if same and _held(found.ops) == _held(op.ops):
                return self._augment(config, first)
        return "its ops are none of timm's own sets"

    def _TimmAutoAugment(self, op: Any) -> str:
        first, timm = op.policy[0][0], sys.modules["timm.data.auto_augment"]
        for start in _POLICIES:
            config = f"{start}-mstd{first.magnitude_std}" if first.magnitude_std else start
            found = timm.auto_augment_transform(config, _parameters(first))
            if list(map(_held, found.policy)) == list(map(_held, op.policy)):
                return self._augment(config, first)
        return "its policy is none of timm's own"

    def _TimmAugMixAugment(self, op: Any) -> str:
        if op.blended:
            return "blended AugMix"
        first, timm = op.ops[0], sys.modules["timm.data.auto_augment"]
        config = f"augmix-m{first.magnitude:g}-w{op.width}-a{float(op.alpha)}"
        if op.depth > 0:
            config += f"-d{op.depth}"
        if first.magnitude_std != math.inf:
            config += f"-mstd{first.magnitude_std}"
        found = timm.augment_and_mix_transform(config, _parameters(first))
        if _held(found.ops) != _held(op.ops) or found.alpha != op.alpha:
            return "its ops are not timm's own"
        return self._augment(config, first)

    def _augment(self, config: str, op: Any) -> str:
        """Appends the step for ops that are all like `op`, given by a configuration string."""
        if self._stage != "PIL":
            return "here it has a tensor"
        filters = op.kwargs["resample"]
        several = isinstance(filters, tuple | list)
        if several and tuple(map(_name, filters)) != _RANDOM:
            return f"resample={filters!r}"
        self.made.add(
            transforms.TimmAugment(
                config,
                None if several else _name(filters),
                tuple(int(n) for n in op.kwargs["fillcolor"]),
                float(op.hparams.get("translate_pct", 0.45)),  # as timm reads it
            )
        )
        return ""

    def _TimmRandomErasing(self, op: Any) -> str:
        if self._stage != "float32":
            return "here the values are no float32, in which the engine erases"
        mode = op.mode or "const"
        if mode != "const" and not self._normalize:
            return f"mode={op.mode!r} in front of Normalize"
        low, high = (math.exp(side) for side in op.log_aspect_ratio)
        step = transforms.TimmErasing(
            float(op.probability),
            float(op.min_area),
            float(op.max_area),
            low,
            high,
            mode,
            int(op.min_count),
            int(op.max_count),
        )
        self._erasings.append((step, self._normalize is not None))
        return ""


def _parameters(op: Any) -> dict[str, Any]:
    """Returns what an augmentation like that of `op` is built with, beside its configuration."""
    spoken = ("magnitude_std", "magnitude_max")
    return {name: value for name, value in op.hparams.items() if name not in spoken}
