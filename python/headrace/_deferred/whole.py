"""Checks whether a file is complete, as far as that can be told without decoding it.

A stream's sample cannot be made again, because its code has continued. So if a file of a stream
looks truncated or damaged, Pillow opens it, and the program can catch its error there.
"""

from __future__ import annotations

import struct
import zlib

from headrace._deferred.image import DeferredImage
from headrace._deferred.source import File, Source, bytes_of

# The last bytes of a JPEG, which are searched for its end. Some cameras write more after the end.
_LAST = 256
_END_OF_JPEG = b"\xff\xd9"
_END_OF_PNG = b"\0\0\0\0IEND\xaeB`\x82"


def is_whole(image: DeferredImage) -> bool:
    """Whether an image's file seems complete; false: Pillow has to look."""
    assert image.chain is not None, "it was opened just now"
    source, kind = image.chain.source, image.format
    if kind == "JPEG":
        # This marker does not occur within the data (ITU T.81, B.1.1.2). Pillow does not raise if
        # the data is damaged in the middle.
        return _END_OF_JPEG in _last(source, _LAST)
    if kind == "PNG":
        return _last(source, len(_END_OF_PNG)) == _END_OF_PNG and _sums_hold(bytes_of(source))
    if kind == "WEBP":
        head = bytes_of(source)[4:8]
        return len(head) == 4 and struct.unpack("<I", head)[0] + 8 <= _size(source)
    return False  # for a BMP, GIF or TIFF it is not known


def _sums_hold(data: bytes) -> bool:
    """Whether a PNG's chunks have the checksums that follow them (PNG, 5.3)."""
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
