"""Format, mode and size of a JPEG or PNG as Pillow says them, from the first bytes of the file.

Only what is certain is said: of everything else Pillow itself reads the header. A file whose header
is read here may still be damaged behind it, which decoding finds.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

# Enough for the tables of nearly every JPEG; what lies behind larger segments is read on its own.
_FIRST = 4096
_MOST_SEGMENTS = 256

# Pillow's JpegImagePlugin.SOF sets the mode from the number of components. Four are CMYK, inverted
# or not by a marker: Pillow decides.
_JPEG_MODES = {1: "L", 3: "RGB"}
_BASELINE, _EXTENDED, _PROGRESSIVE = 0xC0, 0xC1, 0xC2
_TABLES = frozenset([0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)])
_MULTIPLE_PICTURES = b"MPF\0"  # APP2 of CIPA DC-007, which Pillow opens as another format

# PngImagePlugin._MODES, less the modes of 16 bits and of less than 8.
_PNG_MODES = {0: "L", 2: "RGB", 3: "P", 4: "LA", 6: "RGBA"}
_PNG_START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


class Header(NamedTuple):
    """What Pillow's ``Image.open`` would tell of a file."""

    format: str
    mode: str
    size: tuple[int, int]  # width and height


def read(pread: Callable[[int, int], bytes]) -> Header | None:
    """The header of a file, or None where Pillow has to be asked.

    Args:
        pread: reads so many bytes from an offset; fewer at the end.
    """
    first = pread(_FIRST, 0)
    if first.startswith(b"\xff\xd8\xff"):
        return _jpeg(first, pread)
    if first.startswith(_PNG_START):
        return _png(first)
    return None


def _jpeg(first: bytes, pread: Callable[[int, int], bytes]) -> Header | None:
    """Walks from segment to segment to the frame header (ITU-T T.81, annex B)."""
    block, begin, at = first, 0, 2
    for _ in range(_MOST_SEGMENTS):
        if at - begin + 10 > len(block):
            block, begin = pread(64, at), at
            if len(block) < 10:
                return None
        here = at - begin
        if block[here] != 0xFF:
            return None
        marker, length = block[here + 1], int.from_bytes(block[here + 2 : here + 4], "big")
        if marker in (_BASELINE, _EXTENDED, _PROGRESSIVE):
            precision, height, width, components = struct.unpack_from(">BHHB", block, here + 4)
            mode = _JPEG_MODES.get(components)
            if precision != 8 or not height or not width or mode is None:
                return None
            return Header("JPEG", mode, (width, height))
        if marker not in _TABLES or length < 2:
            return None
        if marker == 0xE2 and block[here + 4 : here + 8] == _MULTIPLE_PICTURES:
            return None
        at += 2 + length
    return None


def _png(first: bytes) -> Header | None:
    if len(first) < 33 or zlib.crc32(first[12:29]) != int.from_bytes(first[29:33], "big"):
        return None
    width, height, depth, colour, compression, filtering, interlace = struct.unpack_from(
        ">IIBBBBB", first, 16
    )
    mode = _PNG_MODES.get(colour)
    if depth != 8 or mode is None or compression or filtering or interlace > 1:
        return None
    return Header("PNG", mode, (width, height)) if width and height else None
