"""Where the bytes of a deferred image are: in a file that is as it was, or in memory."""

from __future__ import annotations

import io
import os
import stat
import time
from collections.abc import Callable
from functools import partial

from headrace._deferred import header
from headrace._deferred.header import Header

# A file's times come from a clock that ticks every few milliseconds, and on network file systems
# from another machine's. What was written so short a time ago may be written again without a sign,
# so its bytes are read at once (git reads such files again: "racy git").
_RECENT_NS = 2_000_000_000


Identity = tuple[int, int, int, int]


class File:
    """A file by its path, and which one it was when it was opened.

    Attributes:
        path: absolute.
        identity: device, inode, size in bytes and time of the last change in nanoseconds.
        data: its bytes where the path will not do; else None.
    """

    __slots__ = ("_file", "data", "identity", "path")

    def __init__(self, path: bytes, file: io.FileIO | None, identity: Identity) -> None:
        self.path, self._file, self.identity = path, file, identity
        self.data: bytes | None = None

    @staticmethod
    def known(path: bytes, identity: Identity) -> File:
        """A file that another process opened."""
        return File(path, None, identity)

    def settle(self) -> bool:
        """Lets go of the open file, once the program that opened it has had its turn.

        Returns:
            whether the bytes are those of the file as it was opened. What was moved or deleted
            since is read now; what was written to meanwhile is lost.
        """
        file, self._file = self._file, None
        if file is None:
            return True
        with file:
            try:
                same = _identity(os.stat(self.path)) == self.identity
            except OSError:
                same = False
            if same or self.data is not None:
                return True
            self.data = _read(file.fileno())
            return _identity(os.fstat(file.fileno())) == self.identity

    def read(self) -> bytes:
        """All of its bytes.

        Raises:
            OSError: it is not what it was when it was opened, or cannot be read.
        """
        if self.data is not None:
            return self.data
        if self._file is not None:
            return _read(self._file.fileno())
        with io.FileIO(self.path) as file:
            if _identity(os.fstat(file.fileno())) != self.identity:
                raise OSError(f"{os.fsdecode(self.path)} was changed after it was opened")
            return _read(file.fileno())


Source = File | bytes


def opened(path: bytes, name: bytes) -> tuple[File, Header] | None:
    """What a file holds; None where Pillow has to look.

    Args:
        path: the file's, absolute.
        name: what to open: the path, or that of an open descriptor in /proc.
    """
    # A FileIO closes itself in C, whatever exception comes, and when.
    file = io.FileIO(name)
    found = os.fstat(file.fileno())
    head = header.read(partial(_at, file)) if stat.S_ISREG(found.st_mode) else None
    if head is None:
        file.close()
        return None
    made = File(path, file, _identity(found))
    if time.time_ns() - found.st_mtime_ns < _RECENT_NS:
        made.data = _read(file.fileno())
    return made, head


def _at(file: io.FileIO, count: int, offset: int) -> bytes:
    return os.pread(file.fileno(), count, offset)


def header_of(data: bytes) -> Header | None:
    """The header of encoded bytes in memory, as ``header.read``."""
    read: Callable[[int, int], bytes] = lambda count, offset: data[offset : offset + count]  # noqa: E731
    return header.read(read)


def encoded_pixels(width: int, height: int, pixels: bytes) -> bytes:
    """RGB pixels, row by row, as a file of the engine's simplest format: a binary PPM."""
    return b"P6 %d %d 255\n" % (width, height) + pixels


def _identity(found: os.stat_result) -> Identity:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _read(descriptor: int) -> bytes:
    parts, at = [], 0
    while part := os.pread(descriptor, 1 << 22, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
