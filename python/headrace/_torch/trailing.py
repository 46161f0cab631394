"""What Pillow says of an image only once it has read its pixels.

A PNG may have chunks behind its image data (PNG specification, 5.6): EXIF and texts among them,
which Pillow reads when it loads the pixels (``PngImageFile.load_end``).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

# Chunks that are looked at before Pillow has to read the file: of the 8 KiB that libpng writes as
# one, half a gigabyte.
_MOST_CHUNKS = 1 << 16

# Of a WebP with one frame, as libwebp's decoder of animations says it.
_OF_A_FRAME = {"timestamp": 0, "duration": 0}


def chunks(data: bytes | bytearray) -> Iterator[tuple[bytes | bytearray, int, int]]:
    """Yields the chunks of a PNG: the name of each, and where its data begins and ends.

    If the bytes are cut, the last chunk ends behind them, or its name has less than four bytes.
    """
    at = 8
    for _ in range(_MOST_CHUNKS):
        begin = at + 8
        end = begin + int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : begin], begin, end
        at = end + 4  # a checksum


def has_more(data: bytes | bytearray) -> bool:
    """Whether encoded bytes are a PNG in which anything but its end stands behind its pixels."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return False
    pixels = False
    for name, _, _ in chunks(data):
        if name == b"IDAT":
            pixels = True
        elif pixels or len(name) < 4:  # of a truncated file Pillow raises
            return name != b"IEND"
    return True


def found_in(data: bytes | bytearray, format: str | None) -> dict[Any, Any]:
    """What is added to ``info`` when Pillow reads the pixels.

    Args:
        format: Pillow's name of it.

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
