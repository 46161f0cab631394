"""Gives one line of a program other pixels, to find out in which images they end up.

What Python does with pixels cannot be followed, because any library may do it. So the sample is
made again, and where that line asks for an image's pixels it gets them turned around or inverted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import PIL.Image
import PIL.ImageOps
import torch


class Altering(NamedTuple):
    """Which line of the program gets other pixels, and how they differ.

    Attributes:
        place: file and line, as ``recording.Reason`` has them.
        inverts: whether every value is inverted; else the image is turned by 180 degrees, which
            makes no number of a palette or a class that the image did not have.
    """

    place: str
    inverts: bool

    def of_image(self, image: PIL.Image.Image) -> PIL.Image.Image:
        """Different pixels, in an image of the same mode and size."""
        if not self.inverts:
            return image.transpose(PIL.Image.Transpose.ROTATE_180)
        return PIL.ImageOps.invert(image) if image.mode in ("RGB", "L") else image

    def of_tensor(self, made: torch.Tensor) -> torch.Tensor:
        """Different values, in a tensor of the same shape and dtype."""
        if not self.inverts:
            return made.flip((-2, -1)).contiguous()
        return 255 - made if made.dtype == torch.uint8 else 1 - made

    def in_place(self, image: Any) -> None:
        """Gives different pixels to an image that Pillow opened; it stays of the same class."""
        image.load()
        image.im = self.of_image(image.copy()).im
