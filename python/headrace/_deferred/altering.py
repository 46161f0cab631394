"""Gives one line of a program other pixels, to find out in which images they end up.

What Python makes of pixels cannot be followed: it may be any library's work. So a sample is made
again with an image that is turned around, or inverted, where that line asks for its pixels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import PIL.Image
import PIL.ImageOps
import torch


class Altering(NamedTuple):
    """Which line gets other pixels, and which.

    Attributes:
        place: file and line, as ``recording.Reason`` has them.
        inverts: every value; else the image is turned by 180 degrees, which leaves palettes' and
            classes' numbers what they are.
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
        """Gives different pixels to an image that Pillow opened, which keeps its class."""
        image.load()
        image.im = self.of_image(image.copy()).im
