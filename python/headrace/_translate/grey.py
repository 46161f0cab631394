"""Grayscale, and the transforms that may follow it if it leaves one channel."""

from __future__ import annotations

from typing import Any

from headrace import transforms

# Transforms that treat each channel by itself, so an image of one channel gets the values that
# three equal channels would get.
OF_ONE_CHANNEL = {
    *("Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "Pad"),
    *("RandomHorizontalFlip", "RandomVerticalFlip"),
    *("RandomRotation", "RandomAffine", "RandomPerspective"),
    *("Grayscale", "RandomGrayscale", "ColorJitter", "RandomInvert", "RandomPosterize"),
    *("RandomSolarize", "RandomAutocontrast", "RandomEqualize", "RandomErasing"),
    *("ToTensor", "PILToTensor", "ToImage", "ToPureTensor", "ToDtype", "ConvertImageDtype"),
    *("Normalize", "Identity"),
}


def has_three_numbers(op: Any) -> bool:
    """Whether a transform has an argument with a number for each of three channels."""
    held: list[Any] = [getattr(op, name, None) for name in ("mean", "std", "fill", "value")]
    return any(hasattr(value, "__len__") and len(value) == 3 for value in held)


class Grey:
    """A base class of ``Reader`` for Grayscale; it has ``made`` and ``_stage``."""

    made: Any
    _stage: str
    _takes_grey: bool
    _grey: bool

    def _Grayscale(self, op: Any) -> str:
        if op.num_output_channels != 1 or not self._takes_grey or self._stage != "PIL":
            reason = self.augmentation("Grayscale", op)
            self._grey = self._grey and bool(reason)
            return reason
        return self.grey()

    def grey(self) -> str:
        """Appends a step that leaves one channel; returns "" or why it may not stand here."""
        if not self._takes_grey:
            return "some images would have one channel and others three"
        self.made.add(transforms.Grayscale(1))
        self._grey = True
        return ""

    def augmentation(self, name: str, op: Any) -> str:
        raise NotImplementedError
