"""Whether a file is complete, as far as that can be told without decoding it.

A stream's sample cannot be made again, since its code has continued. So Pillow opens a file of a
stream that looks truncated or damaged, and the program can catch its error there.
"""

from __future__ import annotations

import struct
import zlib

from headrace._deferred.image import DeferredImage
from headrace._deferred.source import File, Source, bytes_of

_LAST = 256  # bytes of a JPEG among which its end is; what some cameras write behind it is longer
_END_OF_JPEG = b"\xff\xd9"
_END_OF_PNG = b"\0\0\0\0IEND\xaeB`\x82"


def is_whole(image: DeferredImage) -> bool:
    """False where Pillow has to look."""
    assert image.chain is not None, "it was opened just now"
    source, kind = image.chain.source, image.format
    if kind == "JPEG":
        # Within its data this mark does not occur (ITU T.81, B.1.1.2). To Pillow data that is
        # damaged in its midst is no error.
        return _END_OF_JPEG in _last(source, _LAST)
    if kind == "PNG":
        return _last(source, len(_END_OF_PNG)) == _END_OF_PNG and _sums_hold(bytes_of(source))
    if kind == "WEBP":
        head = bytes_of(source)[4:8]
        return len(head) == 4 and struct.unpack("<I", head)[0] + 8 <= _size(source)
    return False  # of a BMP, GIF or TIFF it is not known


def _sums_hold(data: bytes) -> bool:
    """Whether a PNG's chunks have the checksums that are written behind them (PNG, 5.3)."""
    at = 8
    while at + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        end = at + 8 + length
        if end + 4 > len(data):
            return False
        if zlib.crc32(data[at + 4 : end]) != struct.unpack_from(">I", data, end)[0]:
            return False
        at = end + 4
    return True


def _size(source: Source) -> int:
    if isinstance(source, File):
        return source.identity[2] if source.data is None else len(source.data)
    return len(source)


def _last(source: Source, count: int) -> bytes:
    if isinstance(source, File):
        return source.last(count)
    return source[-count:]
