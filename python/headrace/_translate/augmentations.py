"""Augmentations, groups and erasings of torchvision's v1 and v2; table.py says how they are read.

All but RandomErasing, GaussianNoise and ElasticTransform are translated only while the image is
still a PIL image, because there torchvision gives the same bytes as the engine. GaussianBlur's
bytes differ by one in a few of ten million values, and v2's in a hundred of them. torchvision blurs
PIL images as tensors, and its own bytes differ as much between CPUs. AugMix gives v1's bytes; v2's
differ from them by one now and then, and chains may enlarge that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace import transforms
from headrace._translate import tensors
from headrace._translate.result import called
from headrace._translate.table import TRANSLATED
from headrace._translate.values import bounds, read

_NO_PIL_IMAGE = "here it works on a tensor; in front of ToImage or ToTensor it has a PIL image"
# The same reason for ops that pad.
NOT_ON_TENSORS = "it pads a tensor, whose fill is on another scale than a PIL image's"


def _at_odds(name: str, op: Any, version: int) -> str:
    """Says why arguments that are allowed alone have no equal together; "" if they have one."""
    if name == "RandomRotation" and op.expand and op.center is not None and version == 2:
        return "v2 leaves the centre out where it expands"
    if name == "RandomResize" and op.min_size >= op.max_size:
        return f"min_size={op.min_size!r} with max_size={op.max_size!r}"
    if name == "RandomResizedCrop" and (min(op.ratio) >= 2 or max(op.ratio) <= 0.5):
        return f"ratio={op.ratio!r}: of an image a pixel wide or high torchvision crops nothing"
    return ""


class Augmentations:
    """A base class of ``Reader`` for augmentations; it has ``made`` and ``_stage``."""

    made: Any
    _stage: str
    _version: int
    _normalize: Any
    _erasings: list[tuple[Any, bool]]  # and whether Normalize comes before

    @staticmethod
    def is_augmentation(name: str) -> bool:
        """Whether `augmentation` knows the class."""
        return name in TRANSLATED

    def augmentation(self, name: str, op: Any) -> str:
        """Appends the step for a torchvision object; returns "" or why there is none."""
        stage, arguments = TRANSLATED[name]
        given: dict[str, Any] = {}
        if stage == "PIL image" and self._stage != "PIL":
            if "interpolation" not in arguments.values():
                return NOT_ON_TENSORS if "padding" in arguments.values() else _NO_PIL_IMAGE
            given["interpolation"], reason = tensors.read_filter(op, self._stage, self._version)
            if reason:
                return reason
        if stage == "uint8 tensor" and self._stage != "uint8":
            where = "a PIL image, which it refuses" if self._stage == "PIL" else "no bytes"
            return f"here it has {where}; behind ToImage and in front of ToDtype it has bytes"
        if stage == "PIL image or uint8 tensor" and self._stage not in ("PIL", "uint8"):
            return "here it has no bytes; in front of ToDtype or ToTensor it has"
        try:
            for key, kind in arguments.items():
                if kind == "version":
                    given[key] = self._version
                elif key not in given:
                    given[key] = read(key, kind, getattr(op, key))
        except ValueError as failure:
            return str(failure)
        reason = _at_odds(name, op, self._version)
        # With such a jitter torchvision returns the very same image.
        if not reason and not (name == "ColorJitter" and not any(given.values())):
            self.made.add(getattr(transforms, name)(**given))
        return reason

    def _RandomApply(self, op: Any) -> str:
        inner, reason = self._members([op.transforms])
        if not reason:
            self.made.add(transforms.RandomApply(inner[0], float(op.p)))
        return reason

    def _RandomOrder(self, op: Any) -> str:
        steps, reason = self._alternatives(op)
        if not reason:
            self.made.add(transforms.RandomOrder(steps))
        return reason

    def _RandomChoice(self, op: Any) -> str:
        steps, reason = self._alternatives(op)
        if not reason:
            weights = None if op.p is None else [float(p) for p in op.p]
            self.made.add(transforms.RandomChoice(steps, weights))
        return reason

    def _alternatives(self, op: Any) -> tuple[list[Any], str]:
        """Returns each of a group's transforms as one step; a Compose becomes one step."""
        inner, reason = self._members([[part] for part in op.transforms])
        steps = [part[0] if len(part) == 1 else transforms.RandomApply(part, 1.0) for part in inner]
        return steps, reason

    def _members(self, lists: Sequence[Any]) -> tuple[list[list[Any]], str]:
        """Reads each list of transforms with a reader of its own."""
        if self._stage != "PIL":
            return [], _NO_PIL_IMAGE
        found = []
        kind: Any = type(self)
        size = self.made.size
        for ops in lists:
            reader = kind(inside=True)
            reader.made.size = size
            for part in self._flattened(ops):
                reason: str = reader.read(part)
                if reason:
                    return [], f"{called(part.op)} in it has no translation: {reason}"
            if reader._stage != "PIL" or reader._normalize or reader._erasings:
                return [], "it makes a tensor of some images and not of others"
            if not reader.made:
                reader.made.add(transforms.RandomApply([transforms.RandomInvert(0.0)], 0.0))
            found.append(list(reader.made))
        return found, ""

    def _flattened(self, ops: Any) -> list[Any]:
        raise NotImplementedError

    def _RandomErasing(self, op: Any) -> str:
        if self._stage != "float32":
            return "here the values are no float32, in which the engine erases"
        value = op.value
        if isinstance(value, str):
            if value != "random" or not self._normalize:
                return f"value={value!r} in front of Normalize"
        else:
            value = [value] if isinstance(value, int | float) else value
            value = [float(n) for n in value] if value is not None else "random"
            if value == "random" and not self._normalize:
                return "value='random' in front of Normalize"
            if value != "random" and len(value) not in (1, 3):
                return f"value={op.value!r}"
        step = transforms.RandomErasing(float(op.p), bounds(op.scale), bounds(op.ratio), value)
        self._erasings.append((step, self._normalize is not None))
        return ""
