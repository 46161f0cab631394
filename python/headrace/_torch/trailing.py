"""Finds the ``info`` of an image that Pillow has only once it has read the pixels.

A PNG may have chunks after its image data (PNG specification, 5.6), such as EXIF and texts. Pillow
reads these when it loads the pixels (``PngImageFile.load_end``).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

# How many chunks are looked at before Pillow has to read the file. libpng writes chunks of 8 KiB,
# so that is half a gigabyte.
_MOST_CHUNKS = 1 << 16

# The info of a WebP with one frame, as libwebp's decoder of animations gives it.
_OF_A_FRAME = {"timestamp": 0, "duration": 0}


def chunks(data: bytes | bytearray) -> Iterator[tuple[bytes | bytearray, int, int]]:
    """Yields the chunks of a PNG: the name of each, and where its data begins and ends.

    If the bytes are cut, the last chunk ends after them, or its name has less than four bytes.
    """
    at = 8
    for _ in range(_MOST_CHUNKS):
        begin = at + 8
        end = begin + int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : begin], begin, end
        at = end + 4  # a checksum


def has_more(data: bytes | bytearray) -> bool:
    """Whether encoded bytes are a PNG in which anything other than its end follows its pixels."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return False
    pixels = False
    for name, _, _ in chunks(data):
        if name == b"IDAT":
            pixels = True
        elif pixels or len(name) < 4:  # true for a truncated file, so that Pillow raises
            return name != b"IEND"
    return True


def found_in(data: bytes | bytearray, format: str | None) -> dict[Any, Any]:
    """What Pillow adds to ``info`` when it reads the pixels.

    Args:
        format: Pillow's name of the file's format.

    Raises:
        OSError, SyntaxError: Pillow cannot read them.
    """
    if format == "WEBP":
        return dict(_OF_A_FRAME)
    if format != "PNG" or not has_more(data):
        return {}
    from PIL import Image

    with Image.open(io.BytesIO(data)) as opened:
        before = dict(opened.info)
        opened.load()
        info: dict[Any, Any] = opened.info
        return {key: value for key, value in info.items() if before.get(key) is not value}
