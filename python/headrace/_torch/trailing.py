"""What Pillow says of an image only once it has read its pixels.

A PNG may have chunks behind its image data (PNG specification, 5.6): EXIF and texts among them,
which Pillow reads when it loads the pixels (``PngImageFile.load_end``).
"""

from __future__ import annotations

import io
from typing import Any

# Chunks that are looked at before Pillow has to read the file: of the 8 KiB that libpng writes as
# one, half a gigabyte.
_MOST_CHUNKS = 1 << 16

# Of a WebP with one frame, as libwebp's decoder of animations says it.
_OF_A_FRAME = {"timestamp": 0, "duration": 0}


def has_more(data: bytes | bytearray) -> bool:
    """Whether encoded bytes are a PNG in which anything but its end stands behind its pixels."""
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return False
    at, pixels = 8, False
    for _ in range(_MOST_CHUNKS):
        name = data[at + 4 : at + 8]
        if name == b"IDAT":
            pixels = True
        elif pixels or len(name) < 4:  # of a truncated file Pillow raises
            return name != b"IEND"
        at += 12 + int.from_bytes(data[at : at + 4], "big")
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
