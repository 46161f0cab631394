"""Lets the engine go on with the pixels of an image that a program's Python code made.

A function in the middle of a Compose makes such an image.
"""

from __future__ import annotations

from typing import Any

import PIL.Image

from headrace._deferred import source
from headrace._deferred.behind import Given
from headrace._deferred.chain import Chain
from headrace._deferred.image import DeferredImage
from headrace._deferred.methods import LARGEST
from headrace._deferred.recording import Recording

# Pixels are copied, wait with their batch and travel with it from worker processes. For large
# images, such as a camera's photographs, that is more work than to go on in Python.
_MOST_BYTES = 1 << 20
_HEADER = 32  # the most bytes of a record's header, before the pixels


def is_taken(found: Recording, image: Any) -> bool:
    """Whether the engine goes on with an image of which nothing is recorded."""
    # It must be of Pillow's own class and have pixels: another class may keep more than these.
    made = image.chain is None if type(image) is DeferredImage else type(image) is PIL.Image.Image
    if not made or found.eager_open or image.mode not in ("RGB", "L"):
        return False
    width, height = image.size
    if not 0 < min(width, height) <= max(width, height) <= LARGEST:
        return False
    size = width * height * len(image.mode)
    # Limits bound what the program opens. An image that Python has made is not refused; beyond the
    # limits it stays in Python.
    within = found.limits.hold(width * height, size + _HEADER)
    return bool(size <= _MOST_BYTES and within)


def chain_of(found: Recording, image: Any) -> Chain:
    """A chain that begins with the pixels that the image has now."""
    found.opened = True
    (width, height), mode = image.size, image.mode
    data = source.encoded_pixels(width, height, image.tobytes())
    chain = Chain(data, mode, mode, (width, height), (), None, Given(data, image.info))
    return chain.in_grey() if mode == "L" else chain
