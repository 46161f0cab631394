"""Format, mode and size of a JPEG, PNG or WebP as Pillow says them, from a file's first bytes.

``libheadrace_header.so`` reads them, C without an engine (``header/header.h``): worker processes
open images, too. What is doubtful is left to Pillow.
"""

from __future__ import annotations

import ctypes
import io
import struct
from ctypes import c_char, c_char_p, c_int, c_int64, c_size_t, c_uint64
from pathlib import Path
from typing import Any

_FORMATS = ("", "JPEG", "PNG", "WEBP", "")
_MODES = ("L", "RGB", "P", "LA", "RGBA")

Identity = tuple[int, int, int, int]


# What Pillow's Image.open would tell of a file: format, mode, and width and height. Of format "" it
# has to be asked. A tuple without a class of its own, for it is made for every image.
Header = tuple[str, str, tuple[int, int]]

_header = struct.Struct("=4q2Q2q")  # hrh_header
_Answer: Any = c_char * _header.size
_library = ctypes.CDLL(str(Path(__file__).parents[1] / "libheadrace_header.so"))
_open = _library.hrh_open
_open.argtypes = (c_char_p, _Answer)
# A FileIO, made of the descriptor in C, closes it whatever exception comes, and when. Of -1 it
# makes a ValueError.
_open.restype = io.FileIO
_read = _library.hrh_read
_read.argtypes, _read.restype = (c_char_p, c_size_t, _Answer), None
_behind = _library.hrh_behind
_behind.argtypes, _behind.restype = (c_int, c_char_p, c_size_t), c_int64
_is = _library.hrh_is
_is.argtypes, _is.restype = (c_char_p, c_uint64, c_uint64, c_int64, c_int64), c_int


def opened(path: bytes) -> tuple[io.FileIO, Header, Identity] | None:
    """A file, its header and which it is: device, inode, size in bytes, last change in ns.

    Returns:
        None where there is no such file, it is no regular one, or Pillow has to look.
    """
    answer = _Answer()
    if b"\0" in path:  # which would end a path of C's
        return None
    try:
        file = _open(path, answer)
    except ValueError:
        return None
    kind, mode, width, height, *identity = _header.unpack(answer)
    return file, (_FORMATS[kind], _MODES[mode], (width, height)), tuple(identity)


def read(data: bytes) -> Header | None:
    """The header of encoded bytes in memory, or None where Pillow has to be asked."""
    answer = _Answer()
    _read(data, len(data), answer)
    kind, mode, width, height, *_ = _header.unpack(answer)
    return (_FORMATS[kind], _MODES[mode], (width, height)) if kind else None


def behind(file: bytes | int) -> int | None:
    """Where Pillow has read to once it has opened encoded bytes, or a file by its descriptor.

    Returns:
        behind the header; None where Pillow has to open it.
    """
    at: int = _behind(-1, file, len(file)) if isinstance(file, bytes) else _behind(file, None, 0)
    return None if at < 0 else at


def leads_to(path: bytes, identity: Identity) -> bool:
    """Whether the file at a path is the one that was opened, and as it was."""
    return bool(_is(path, *identity))
