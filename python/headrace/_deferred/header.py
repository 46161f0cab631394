"""Reads format, mode and size of a JPEG, PNG or WebP as Pillow has them, from its first bytes.

``libheadrace_header.so`` does the work. It is C without an engine (``header/header.h``), because
worker processes open images, too. Doubtful files are left to Pillow.
"""

from __future__ import annotations

import ctypes
import struct
from ctypes import c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64
from pathlib import Path
from typing import Any

_FORMATS = ("", "JPEG", "PNG", "WEBP", "")
_MODES = ("L", "RGB", "P", "LA", "RGBA")

Identity = tuple[int, int, int, int]


# What Pillow's Image.open would tell of a file: format, mode, and width and height. If the format
# is "", Pillow has to be asked. It is a plain tuple, because one is made for every image.
Header = tuple[str, str, tuple[int, int]]

_header = struct.Struct("=4q2Q4q")  # hrh_header
_descriptor = struct.Struct("=64xq8x")  # its descriptor alone
Answer: Any = c_char * _header.size
_library = ctypes.CDLL(str(Path(__file__).parents[1] / "libheadrace_header.so"))
_open = _library.hrh_open
_open.argtypes = (c_char_p, Answer)
_read = _library.hrh_read
_read.argtypes, _read.restype = (c_char_p, c_size_t, Answer), None
_behind = _library.hrh_behind
_behind.argtypes, _behind.restype = (c_int,), c_int64
_is = _library.hrh_is
_is.argtypes, _is.restype = (c_char_p, c_uint64, c_uint64, c_int64, c_int64), c_int
_settle = _library.hrh_settle
_settle.argtypes = (c_char_p, Answer)
_close = _library.hrh_close
_close.argtypes, _close.restype = (Answer,), None


def opened(path: bytes, answer: Any) -> tuple[Header, Identity] | None:
    """The header of a file, and its identity: device, inode, size in bytes, last change in ns.

    Args:
        answer: an ``Answer``, which holds the file open until ``settle`` or ``close``. C writes the
            descriptor there, so that no exception can come before its owner knows of it.

    Returns:
        None: there is no such file, it is no regular file, or Pillow has to look.
    """
    if b"\0" in path or not _open(path, answer):  # a zero byte would end C's string
        return None
    kind, mode, width, height, device, inode, size, changed_ns, _, _ = _header.unpack(answer)
    head = _FORMATS[kind], _MODES[mode], (width, height)
    return head, (device, inode, size, changed_ns)


def read(data: bytes) -> tuple[Header, int | None] | None:
    """The header of encoded bytes in memory, and what ``behind`` returns for them.

    Returns:
        None: Pillow has to be asked.
    """
    answer = Answer()
    _read(data, len(data), answer)
    kind, mode, width, height, *_, behind = _header.unpack(answer)
    if not kind:
        return None
    return (_FORMATS[kind], _MODES[mode], (width, height)), None if behind < 0 else behind


def behind(descriptor: int) -> int | None:
    """How far Pillow has read once it has opened a file.

    Returns:
        an offset behind the header, or for a WebP the end; None: Pillow has to open the file.
    """
    at: int = _behind(descriptor)
    return None if at < 0 else at


def leads_to(path: bytes, identity: Identity) -> bool:
    """Whether the file at a path is the one that was opened, and was not changed since."""
    return bool(_is(path, *identity))


def descriptor(answer: Any) -> int:
    """The descriptor of the open file; -1: it is closed."""
    (found,) = _descriptor.unpack(answer)
    return int(found)


def settle(path: bytes, answer: Any) -> bool:
    """As ``leads_to``, for an open file. If it is true, the file is closed."""
    return bool(_settle(path, answer))


def close(answer: Any) -> None:
    """Closes the file, unless that was done before."""
    _close(answer)
