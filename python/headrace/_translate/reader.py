"""Finds the transforms of Headrace that do what torchvision's do with what they are given."""

from __future__ import annotations

import sys
from typing import Any

from headrace import transforms
from headrace._translate import tensors
from headrace._translate.augmentations import NOT_ON_TENSORS, Augmentations
from headrace._translate.functions import is_to_tensor, makes_rgb
from headrace._translate.grey import OF_ONE_CHANNEL, Grey, has_three_numbers
from headrace._translate.openclip import OpenClip
from headrace._translate.own import Own, is_own
from headrace._translate.parts import Part, known, parts
from headrace._translate.result import MOST_OPS, Translation, engine_ops
from headrace._translate.table import CHOICES
from headrace._translate.timm import Timm
from headrace._translate.values import integers, name_of, numbers, pair, short

# Ops that would move the values which RandomErasing has replaced.
_MOVES_PIXELS = (
    "CenterCrop",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
)

# Headrace has these as well, but torchvision composes them in another way.
_TUPLE = "it gives a tuple of images; headrace.transforms has one of the name, for Loader"
_BATCHES = "it takes batches: it belongs into collate_fn, or last into a Loader's transform"
_INSTEAD = {
    "FiveCrop": _TUPLE,
    "TenCrop": _TUPLE,
    "MixUp": _BATCHES,
    "CutMix": _BATCHES,
    "RandomIoUCrop": (
        "it looks at the boxes beside an image; headrace.transforms has one of the name, for a "
        "Loader with labels"
    ),
    "LinearTransformation": (
        "its product with a matrix is torch's, which adds up in an order of its own; a plan of the "
        "engine has no room for the matrix"
    ),
}


class Reader(Augmentations, Grey, OpenClip, Own, Timm):
    """Follows what the image is before each transform, and notes the steps that do the same.

    The methods have the names of the transforms. Each returns "" or why there is no translation.
    """

    def __init__(self, inside: bool = False) -> None:
        self.made = Translation()
        self._version = 0
        self._takes_grey = not inside  # a group's members all have three channels
        self._grey = False  # the image has one channel
        # "PIL", or the dtype of the tensor that the image has become.
        self._stage = "PIL"
        self._normalize: transforms.Normalize | None = None
        self._erasings = []

    def of(self, grey: bool, size: tuple[int, int] | None) -> Reader:
        """Sets up the reader for images of one channel (``grey``) or three, and of a known size."""
        self.made.size = size
        if grey:
            self.grey()
        return self

    def read(self, part: Part) -> str:
        """Notes what stands for a part of a pipeline; returns "" or why nothing does."""
        if part.reason:
            return part.reason
        op = part.op
        name, self._version = known(op)
        method = getattr(self, f"_{name}", None) if name else None
        if is_own(op) and part.whole is not None:
            method = self.own
        elif makes_rgb(op):
            method = self._convert
        elif is_to_tensor(op):
            method = self._TimmMaybeToTensor
        if method is None and not self.is_augmentation(name):
            return _INSTEAD.get(name, "Headrace has no such transform")
        known_of_one = name in OF_ONE_CHANNEL and not has_three_numbers(op)
        if self._grey and name and not known_of_one:
            return "behind Grayscale(1) it is not known to be equal"
        if self._erasings and name in _MOVES_PIXELS:
            return "behind RandomErasing, which the engine does last"
        if self._version == 1 and self.made.gives == "tv_tensors.Image":
            return "v1 behind v2's ToImage"
        if len(self.made) + (self._normalize is not None) >= MOST_OPS:
            return f"it is behind {MOST_OPS} others, the most that the engine takes"
        try:
            reason: str = method(op) if method else self.augmentation(name, op)
        except (AttributeError, TypeError, ValueError, OverflowError) as failure:
            return f"its arguments are not understood ({failure})"
        return reason or self._too_many()

    def _too_many(self) -> str:
        """Why the engine does not take the steps that are there now, or ""."""
        if sum(map(engine_ops, self.made)) + len(self._erasings) <= MOST_OPS:
            return ""
        return f"with it they are more than {MOST_OPS}, the most that the engine takes"

    def finish(self) -> Translation:
        made: Translation = self.made
        if self._stage != "PIL":
            made.dtype = self._stage
        made.extend(step for step, normalized in self._erasings if not normalized)
        if self._normalize:
            made.add(self._normalize)
        made.extend(step for step, normalized in self._erasings if normalized)
        return made

    def _flattened(self, ops: Any) -> list[Part]:
        return [part for op in ops for part in parts(op)]

    # ---- where the pixels go -----------------------------------------------------------------

    def _Resize(self, op: Any) -> str:
        size, most = [] if op.size is None else integers(op.size), op.max_size
        filter_name: Any = name_of(op.interpolation)
        if self._stage != "PIL":
            filter_name, reason = tensors.read_filter(op, self._stage, self._version)
            if reason:
                return reason
        elif filter_name not in CHOICES["interpolation"]:
            return f"interpolation={op.interpolation!r}"
        if op.size is None and type(most) is int and most >= 1:
            self.made.add(transforms.Resize(None, filter_name, most))
            return ""
        if not size or len(size) > 2 or min(size) < 1:
            return f"size={op.size!r}"
        if most is not None and (len(size) == 2 or type(most) is not int or most <= size[0]):
            return f"size={op.size!r} with max_size={most!r}"
        both: Any = (size[0], size[1]) if len(size) == 2 else size[0]
        self.made.add(transforms.Resize(both, filter_name, most))
        return ""

    def _CenterCrop(self, op: Any) -> str:
        size, now = pair(op.size), self.made.size
        # torchvision pads a small image with 0, and 0 is black only before Normalize.
        if self._normalize and not (now and now[0] >= size[0] and now[1] >= size[1]):
            return "it may pad with 0, which is not black behind Normalize"
        self.made.add(transforms.CenterCrop(short(size)))
        return ""

    def _RandomCrop(self, op: Any) -> str:
        size, padding = pair(op.size), op.padding
        if padding is not None:
            padding = integers(padding)
            if self._version == 2:  # kept as left, right, top, bottom
                padding = [padding[side] for side in (0, 2, 1, 3)]
            if len(padding) not in (1, 2, 4) or min(padding) < 0:
                return f"padding={op.padding!r}"
        step = transforms.RandomCrop(short(size))
        if padding is not None or op.pad_if_needed:
            reason = self._padding(op)
            if reason:
                return reason
            needed = bool(op.pad_if_needed)
            step = transforms.RandomCrop(short(size), padding, needed, op.fill, op.padding_mode)
        self.made.add(step)
        return ""

    def _padding(self, op: Any) -> str:
        """Says why the padding of a RandomCrop has no equal; "" if it has one."""
        fill, mode = op.fill, op.padding_mode
        if self._stage != "PIL":
            return NOT_ON_TENSORS
        if mode not in CHOICES["padding_mode"]:
            return f"padding_mode={mode!r}"
        if self._version == 2 and op.pad_if_needed and mode != "constant":
            # v2 pads once by both amounts; v1 and the engine pad twice, which gives other mirrored
            # pixels.
            return f"pad_if_needed with padding_mode={mode!r} in v2"
        one = type(fill) is int and 0 <= fill <= 255
        three = self._version == 1 and isinstance(fill, tuple) and len(fill) == 3
        if not one and not (three and all(type(n) is int and 0 <= n <= 255 for n in fill)):
            return f"fill={fill!r}"
        return ""

    def _Identity(self, op: Any) -> str:
        return ""

    def _RGB(self, op: Any) -> str:
        return ""  # the engine has already made RGB of all images

    def _Lambda(self, op: Any) -> str:
        return self._convert(op) if makes_rgb(op.lambd) else "it calls a function of the program's"

    def _convert(self, op: Any) -> str:
        if self._grey:
            return "behind Grayscale(1) it makes three channels again"
        # Pillow's convert("RGB") only copies an RGB image.
        return "" if self._stage == "PIL" else "here it has a tensor"

    # ---- what a pixel is ---------------------------------------------------------------------

    def _ToTensor(self, op: Any) -> str:
        if self._stage != "PIL":
            return "the image is a tensor already"
        torch = sys.modules["torch"]
        if torch.get_default_dtype() != torch.float32:
            return f"it gives torch's default dtype, which is {torch.get_default_dtype()}"
        self._stage, self.made.gives, self.made.scale = "float32", "tensor", "div"
        return ""

    def _PILToTensor(self, op: Any) -> str:
        if self._stage != "PIL":
            return "the image is a tensor already"
        self._stage, self.made.gives = "uint8", "tensor"
        return ""

    def _ToImage(self, op: Any) -> str:
        if self._stage == "PIL":
            self._stage = "uint8"
        self.made.gives = "tv_tensors.Image"
        return ""

    def _ToPureTensor(self, op: Any) -> str:
        if self._stage != "PIL":
            self.made.gives = "tensor"
        return ""

    def _ToDtype(self, op: Any) -> str:
        return self._cast(op.dtype, "mul" if op.scale else "")

    def _ConvertImageDtype(self, op: Any) -> str:
        # v1 divides by 255, and v2 multiplies by the inverse: half of all values differ.
        return self._cast(op.dtype, "div" if self._version == 1 else "mul")

    def _cast(self, dtype: Any, scale: str) -> str:
        """Converts to another dtype; `scale` says how bytes become 0 to 1, and "" that they do
        not."""
        wanted = str(dtype).removeprefix("torch.")
        if self._stage == "PIL":
            return "the image is no tensor yet"
        if wanted == self._stage:
            return ""
        if wanted not in ("float32", "float16", "bfloat16") or isinstance(dtype, dict):
            return f"dtype={dtype!r}"
        if self._stage == "uint8":
            if not scale:
                return "scale=False leaves values from 0 to 255 in a float"
            if wanted != "float32" and scale != "mul":
                return f"dtype={dtype!r} straight from bytes"
            self.made.scale = scale
        elif self._stage != "float32":
            return f"dtype={dtype!r} from {self._stage}"
        self._stage = wanted
        return ""

    def _Normalize(self, op: Any) -> str:
        if self._stage != "float32":
            return f"the image is {self._stage} here, not float32"
        if self._normalize:
            return "it is the second of its kind"
        mean, std = numbers(op.mean), numbers(op.std)
        if len(mean) not in (1, 3) or len(std) not in (1, 3):
            return f"mean={op.mean!r}, std={op.std!r}"
        if any(abs(n) < 1e-30 for n in std):
            return f"std={op.std!r}"
        # The engine normalizes last. Later flips and crops only move finished pixels, so they may
        # go first.
        self._normalize = transforms.Normalize(mean, std)
        return ""
