"""The result of a translation: a list of ``headrace.transforms``, and what comes out of it."""

from __future__ import annotations

from typing import Any

from headrace._translate import registered
from headrace._translate.parts import known
from headrace._translate.values import integers

# Transforms whose result has a random size.
_SIZES_OF_THEIR_OWN = ("RandomShortestSize", "RandomResize", "ScaleJitter", "RandomZoomOut")


class Translation(list[Any]):
    """The ``headrace.transforms`` that stand for a torchvision pipeline, in order.

    Attributes:
        dtype: the dtype of the result: "float32", "float16", "bfloat16" or "uint8".
        scale: "div" if bytes were divided by 255 (ToTensor), "mul" if they were multiplied by 1/255
            (v2.ToDtype).
        gives: what torchvision has at this place: "PIL image", "tensor" or "tv_tensors.Image".
        size: height and width of every result; None if they depend on the image.
        rest: the transforms from the first one without a translation on; empty for
        ``from_torchvision``.
        reason: why that first one has no translation.
        taken: the program's transforms before ``rest``, of which this is the translation.
        alone: whether the first of ``rest`` is nothing that Headrace could be expected to know.
    """

    def __init__(self) -> None:
        super().__init__()
        self.dtype = "uint8"
        self.scale = "div"
        self.gives = "PIL image"
        self.size: tuple[int, int] | None = None
        self.rest: list[Any] = []
        self.reason = ""
        self.taken: list[Any] = []
        self.alone = False

    @property
    def keywords(self) -> dict[str, Any]:
        """The arguments of ``hr.Loader`` that do the same: transform, dtype and scale."""
        return {"transform": list(self), "dtype": self.dtype, "scale": self.scale}

    def add(self, step: Any) -> None:
        """Appends a step, and updates the size."""
        self.append(step)
        told = step if isinstance(step, dict) else step.to_dict()
        if told.get("name") in _SIZES_OF_THEIR_OWN or told.get("expand"):
            self.size = None
        elif told.get("name") in ("Resize", "RandomResizedCrop", "CenterCrop", "RandomCrop"):
            size = [] if told["size"] is None else integers(told["size"])
            if told["name"] != "Resize" or len(size) == 2:
                self.size = (size[0], size[-1])
            elif self.size and not size:
                self.size = _longer_side(self.size, told["max_size"])
            elif self.size:
                self.size = _shorter_side(self.size, size[0], told.get("max_size"))
        elif told.get("name") == "Pad" and self.size:
            left, top, right, bottom = _four(told["padding"])
            self.size = (self.size[0] + top + bottom, self.size[1] + left + right)
        elif told.get("name") in ("RandomApply", "RandomChoice", "RandomOrder"):
            self._follow_group(told)

    def _follow_group(self, told: dict[str, Any]) -> None:
        """Updates the size after a group: it is known only if all ways through have that result."""
        for step in told["transforms"]:
            inner = Translation()
            inner.size = self.size
            inner.add(step)
            if inner.size != self.size:
                self.size = None
                return

    @property
    def anew(self) -> bool:
        """Whether torchvision makes a new PIL image of every image, whatever is drawn. A new image
        lacks the ``info`` of the one before."""
        return any(map(_anew, self))

    @property
    def obstacle(self) -> str:
        """Names the first transform without a translation, and why it has none, as a clause."""
        return f"{called(self.rest[0])} has no translation: {self.reason}"

    @property
    def goes_on(self) -> bool:
        """Whether known transforms follow the first one without a translation, and it is alone."""
        behind = self.rest[1:]
        return self.alone and any(known(op)[0] or registered.is_spoken_of(op) for op in behind)

    def __repr__(self) -> str:
        lines = [f"    {step!r}," for step in self]
        lines += [f"    # then in Python: {op!r}" for op in self.rest]
        body = "\n".join(["[", *lines, "]"]) if lines else "[]"
        return f"{body} dtype={self.dtype!r} scale={self.scale!r}"


MOST_OPS = 64  # the engine's ops of one image (HRN_MAX_OPS, docs/limits.md)


def engine_ops(transform: Any) -> int:
    """Of how many ops the engine makes a transform, at most: ``internal/transform/groups.go``."""
    told = transform if isinstance(transform, dict) else transform.to_dict()
    name, inner = told.get("name"), told.get("transforms") or ()
    if name == "Normalize":
        return 0
    if name == "RandomPhotometricDistort":
        return 19
    if inner:  # each member of a choice or an order is a group of its own
        return 1 + sum(map(engine_ops, inner)) + (name != "RandomApply") * len(inner)
    # What has a probability is in a group of its own, but for flips, which draw for themselves.
    return 1 + ("p" in told and name not in _FLIPS)


_FLIPS = ("RandomHorizontalFlip", "RandomVerticalFlip")


def called(op: Any) -> str:
    """Names a transform's class for a sentence; for a function, its name and where it is."""
    code = getattr(op, "__code__", None)
    if code is None:
        return type(op).__name__
    return f"the function {op.__qualname__} ({code.co_filename}:{code.co_firstlineno})"


def _anew(step: Any) -> bool:
    told = step if isinstance(step, dict) else step.to_dict()
    name, inner = told.get("name"), told.get("transforms") or ()
    if name in _BY_CHANCE and told.get("p", 1.0) < 1:
        return False
    if name in ("RandomApply", "RandomOrder"):
        return any(map(_anew, inner))
    if name == "RandomChoice":
        return all(map(_anew, inner))
    if name == "ColorJitter":
        return any(told.get(part) for part in ("brightness", "contrast", "hue"))
    if name == "RandomCrop":
        return told.get("padding") is not None
    return name in _ALWAYS_ANEW or told.get("num_output_channels") == 3


# Transforms whose result torchvision makes by Image.new, Image.fromarray or Image.open.
_ALWAYS_ANEW = (
    *("GaussianBlur", "JPEG", "Pad", "RandomChannelPermutation", "RandomGrayscale"),
    "RandomZoomOut",
)
# For these, `p` is the probability of the whole transform.
_BY_CHANCE = ("RandomApply", "RandomGrayscale", "RandomZoomOut")


def _four(padding: Any) -> list[int]:
    """Returns padding of one, two or four numbers as left, top, right, bottom."""
    sides = integers(padding)
    return [sides[side % len(sides)] for side in range(4)]


def _longer_side(now: tuple[int, int], longest: int) -> tuple[int, int]:
    """What Resize(None, max_size) makes of a height and width, with torchvision's rounding."""
    shorter = int(longest * min(now) / max(1, *now))
    return (longest, shorter) if now[0] >= now[1] else (shorter, longest)


def _shorter_side(now: tuple[int, int], shorter: int, longest: int | None) -> tuple[int, int]:
    """What Resize with one number makes of a height and width, with torchvision's rounding."""
    low, high = max(1, min(now)), max(now)  # an image without pixels cannot be resized
    new_low, new_high = shorter, int(shorter * high / low)
    if longest is not None and new_high > longest:
        new_low, new_high = int(longest * new_low / new_high), longest
    return (new_low, new_high) if now[0] <= now[1] else (new_high, new_low)
