"""Records Pillow's methods that make an image smaller in place: ``draft`` and ``thumbnail``."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import PIL.Image

from headrace._deferred import behind, pixels, recording
from headrace._deferred.methods import RecordedImage


def draft(image: Any, mode: Any, size: Any) -> Any:
    """``draft`` of an image that is not decoded yet.

    libjpeg decodes a JPEG at 1/2, 1/4 or 1/8 of its size; for other files Pillow does nothing.
    """
    chain = image.chain
    if chain is None or image.format != "JPEG" or image.loaded:
        return None
    if mode != "YCbCr" and chain.native:
        return _recorded(image, mode, size)
    header = behind.header(chain)
    answer = header.draft(mode, size)
    if answer is not None:
        pixels.note()
        image._mode, image._size, info = header.mode, header.size, header.info
        image.chain = None
        with recording.paused():
            image._im, image.info = header.copy().im, info
    return answer


def _recorded(image: Any, mode: Any, size: Any) -> Any:
    """Records what PIL.JpegImagePlugin.JpegImageFile.draft does."""
    chain = image.chain
    if chain.drafts:
        return None
    (width, height), factor = image.size, 1
    if size:
        least = min(width // size[0], height // size[1])
        factor = next(f for f in (8, 4, 2, 1) if least >= f or f == 1)
    sides = ((width + factor - 1) // factor, (height + factor - 1) // factor)
    grey = mode == "L" and chain.mode == "RGB"
    image.chain = chain.drafted(sides, factor, grey, partial(behind.as_draft, mode, size))
    image._mode, image._size, image._twin = image.chain.mode, sides, None
    return image.mode, (0, 0, width / factor, height / factor)


def thumbnail(image: Any, size: Any, resample: Any, reducing_gap: Any) -> None:
    """As Pillow's ``thumbnail``, which changes the image in place, by ``resize``."""
    method: Any = PIL.Image.Image.thumbnail
    if image.chain is None:
        method(image, size, resample, reducing_gap)
        return
    found = _Thumbnail(image)
    method(found, size, resample, reducing_gap)
    made = found.made
    if isinstance(made, RecordedImage):
        image.chain, image._size, image._twin = made.chain, made.size, None
    elif made is not None:
        image.im, image._size = made.im, made.size


class _Thumbnail:
    """The image that Pillow's ``thumbnail`` gets: that finds the size, and calls ``resize``."""

    def __init__(self, image: Any) -> None:
        self._image = image
        self.made: PIL.Image.Image | None = None
        self.width, self.height = self.size = image.size

    def draft(self, mode: Any, size: Any) -> Any:
        answer = self._image.draft(mode, size)
        self.size = self._image.size
        return answer

    def load(self) -> None:
        """Does nothing. Before Pillow 11 ``thumbnail`` loads the image, which keeps its size."""

    def resize(self, *arguments: Any, **named: Any) -> Any:
        self.made = self._image.resize(*arguments, **named)
        return SimpleNamespace(im=SimpleNamespace(mode=self.made.mode))
