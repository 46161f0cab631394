"""torchvision's augmentations, v1 and v2, as ``headrace.transforms``: the half of translate.py that
is about colour, warps, policies and groups.

All but RandomErasing are translated where the image is still a PIL image, for there torchvision
gives the bytes that the engine gives. GaussianBlur's differ by one in a few of ten million, v2's in
a hundred: torchvision blurs PIL images as tensors, and its own bytes depend as much on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace import transforms

_WARPS = ("nearest", "bilinear", "bicubic")
_POLICIES = ("imagenet", "cifar10", "svhn")
_LARGEST_KERNEL = 1023  # of the engine: internal/transform/value.go
_NO_PIL_IMAGE = "here it works on a tensor; in front of ToImage or ToTensor it has a PIL image"


def _name(value: Any) -> Any:
    return transforms._plain("interpolation", value)


def _fill(value: Any) -> Any:
    """A fill as one number or three; a ValueError where it is something else."""
    if value is None:
        return 0
    listed = [value] if isinstance(value, int | float) else list(value)
    if len(listed) not in (1, 3) or not all(n == int(n) and 0 <= n <= 255 for n in listed):
        raise ValueError(f"fill={value!r}")
    return int(listed[0]) if len(listed) == 1 else tuple(int(n) for n in listed)


def _bounds(value: Any) -> Any:
    """An interval as a pair of floats, None as None."""
    return None if value is None else tuple(float(n) for n in value)


def _odd(side: Any) -> int:
    """A side of a blur's kernel."""
    if side % 2 != 1 or not 1 <= side <= _LARGEST_KERNEL:
        raise ValueError(f"kernel_size={side!r}")
    return int(side)


# Name in torchvision -> what the engine's class is given. An AttributeError or a ValueError in
# here is a transform without translation.
_STEPS: dict[str, Any] = {
    "RandomGrayscale": lambda op: transforms.RandomGrayscale(float(op.p)),
    "RandomInvert": lambda op: transforms.RandomInvert(float(op.p)),
    "RandomPosterize": lambda op: transforms.RandomPosterize(int(op.bits), float(op.p)),
    "RandomSolarize": lambda op: transforms.RandomSolarize(float(op.threshold), float(op.p)),
    "RandomAdjustSharpness": lambda op: transforms.RandomAdjustSharpness(
        float(op.sharpness_factor), float(op.p)
    ),
    "RandomAutocontrast": lambda op: transforms.RandomAutocontrast(float(op.p)),
    "RandomEqualize": lambda op: transforms.RandomEqualize(float(op.p)),
    "RandomChannelPermutation": lambda op: transforms.RandomChannelPermutation(),
    # None, which torchvision makes of 0, is the interval of the factor that changes nothing.
    "ColorJitter": lambda op: transforms.ColorJitter(
        _bounds(op.brightness) or 0,
        _bounds(op.contrast) or 0,
        _bounds(op.saturation) or 0,
        _bounds(op.hue) or 0,
    ),
    "GaussianBlur": lambda op: transforms.GaussianBlur(
        tuple(_odd(n) for n in op.kernel_size), _bounds(op.sigma)
    ),
    "JPEG": lambda op: transforms.JPEG(tuple(op.quality)),
    "RandomRotation": lambda op: transforms.RandomRotation(
        _bounds(op.degrees), _name(op.interpolation), op.expand, _bounds(op.center), _fill(op.fill)
    ),
    "RandomZoomOut": lambda op: transforms.RandomZoomOut(
        _fill(op.fill), _bounds(op.side_range), float(op.p)
    ),
    "RandomAffine": lambda op: transforms.RandomAffine(
        _bounds(op.degrees),
        _bounds(op.translate),
        _bounds(op.scale),
        _bounds(op.shear),
        _name(op.interpolation),
        _fill(op.fill),
        _bounds(op.center),
    ),
    "RandomPerspective": lambda op: transforms.RandomPerspective(
        float(op.distortion_scale), float(op.p), _name(op.interpolation), _fill(op.fill)
    ),
    "AutoAugment": lambda op: transforms.AutoAugment(
        getattr(op.policy, "value", op.policy), _name(op.interpolation), _fill(op.fill)
    ),
    "RandAugment": lambda op: transforms.RandAugment(
        op.num_ops, op.magnitude, op.num_magnitude_bins, _name(op.interpolation), _fill(op.fill)
    ),
    "TrivialAugmentWide": lambda op: transforms.TrivialAugmentWide(
        op.num_magnitude_bins, _name(op.interpolation), _fill(op.fill)
    ),
}


class Augmentations:
    """What ``translate._Reader`` inherits for these; it has ``made`` and ``_stage``."""

    made: Any
    _stage: str
    _version: int
    _normalize: Any
    _erasings: list[tuple[Any, bool]]  # with whether Normalize stands before

    @staticmethod
    def is_augmentation(name: str) -> bool:
        """Whether `augmentation` knows the class."""
        return name in _STEPS

    def augmentation(self, name: str, op: Any) -> str:
        """Appends the step for a torchvision object, and answers "" or why it has none."""
        if self._stage != "PIL":
            return _NO_PIL_IMAGE
        if getattr(op, "interpolation", None) is not None and _name(op.interpolation) not in _WARPS:
            return f"interpolation={op.interpolation!r}"
        if getattr(op, "expand", False) and op.center is not None and self._version == 2:
            return "v2 leaves the centre out where it expands"
        if name == "AutoAugment" and getattr(op.policy, "value", op.policy) not in _POLICIES:
            return f"policy={op.policy!r}"
        step = _STEPS[name](op)
        self.made.add(step)
        return ""

    def _Grayscale(self, op: Any) -> str:
        if self._stage != "PIL":
            return _NO_PIL_IMAGE
        if op.num_output_channels != 3:
            return "a batch has three channels; num_output_channels=3 gives them"
        self.made.add(transforms.Grayscale(3))
        return ""

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
        """Each of a group's transforms as one step; those of a Compose together are one."""
        inner, reason = self._members([[part] for part in op.transforms])
        steps = [part[0] if len(part) == 1 else transforms.RandomApply(part, 1.0) for part in inner]
        return steps, reason

    def _members(self, lists: Sequence[Any]) -> tuple[list[list[Any]], str]:
        """Each list of transforms by a reader of its own."""
        if self._stage != "PIL":
            return [], _NO_PIL_IMAGE
        found = []
        size = self.made.size
        for ops in lists:
            reader: Any = type(self)()
            reader.made.size = size
            for op in self._flattened(ops):
                reason: str = reader.read(op)
                if reason:
                    return [], f"{type(op).__name__} in it has no translation: {reason}"
            if reader._stage != "PIL" or reader._normalize or reader._erasings:
                return [], "it makes a tensor of some images and not of others"
            if not reader.made:
                reader.made.add(transforms.RandomApply([transforms.RandomInvert(0.0)], 0.0))
            found.append(list(reader.made))
        return found, ""

    def _flattened(self, ops: Any) -> list[Any]:
        raise NotImplementedError

    def _Pad(self, op: Any) -> str:
        if self._stage != "PIL":
            return "it pads a tensor, whose fill is on another scale than a PIL image's"
        padding = [op.padding] if isinstance(op.padding, int) else list(op.padding)
        if len(padding) not in (1, 2, 4) or not all(type(n) is int and n >= 0 for n in padding):
            return f"padding={op.padding!r}"
        if op.padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            return f"padding_mode={op.padding_mode!r}"
        self.made.add(transforms.Pad(padding, _fill(op.fill), op.padding_mode))
        return ""

    def _GaussianNoise(self, op: Any) -> str:
        if self._stage != "uint8":
            where = "a PIL image, which it refuses" if self._stage == "PIL" else "no bytes"
            return f"here it has {where}; behind ToImage and in front of ToDtype it has bytes"
        self.made.add(transforms.GaussianNoise(float(op.mean), float(op.sigma), bool(op.clip)))
        return ""

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
        step = transforms.RandomErasing(float(op.p), _bounds(op.scale), _bounds(op.ratio), value)
        self._erasings.append((step, self._normalize is not None))
        return ""
