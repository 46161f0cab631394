"""Reads the bytes of a deferred image, from memory or from a file that must be as it was opened."""

from __future__ import annotations

import io
import os
import time
from collections.abc import Callable
from typing import Any

from headrace._deferred import header
from headrace._deferred.header import Header, Identity
from headrace._torch.failures import joined
from headrace.errors import ChangedError

# A file's times come from a clock that ticks every few milliseconds, and on network file systems
# from another machine's clock. A file that was written less than this time ago may be written again
# without a sign of it, so its bytes are read at once (git reads such files again: "racy git").
_RECENT_NS = 2_000_000_000
_UNKNOWN = (0, 0, 0, 0)


class File:
    """A file by its path, and its identity when it was opened.

    Attributes:
        path: the absolute path.
        identity: device, inode, size in bytes and time of the last change in nanoseconds.
        data: the file's bytes, if its path is not enough to find them later; else None.
    """

    __slots__ = ("_held", "data", "identity", "path")

    def __init__(self, path: bytes, held: Any, identity: Identity) -> None:
        self.path, self._held, self.identity = path, held, identity
        self.data: bytes | None = None

    @staticmethod
    def known(path: bytes, identity: Identity) -> File:
        """A file that another process opened."""
        return File(path, None, identity)

    def settle(self) -> bool:
        """Lets go of the open file, once the program that opened it has had its turn.

        Returns:
            whether the bytes are those of the file as it was opened. A file that was moved or
            deleted since is read now. If it was written to meanwhile, its old bytes are lost.
        """
        held, whole = self._held, True
        if held is None:
            return True
        if self.data is not None:
            header.close(held)
        elif not header.settle(self.path, held):
            try:
                descriptor = header.descriptor(held)
                self.data = _read(descriptor)
                whole = header.leads_to(_name(descriptor), self.identity)
            finally:
                header.close(held)
                self._held = None
        # Last, because until then `_OpenFile.__del__` closes what an interrupt leaves open.
        self._held, self.__class__ = None, File
        return whole

    def read(self) -> bytes:
        """All of its bytes.

        Raises:
            ChangedError: the file is not as it was when it was opened. It is an ``OSError``, too.
            OSError: the file cannot be read.
        """
        if self.data is not None:
            return self.data
        if self._held is not None:
            return _read(header.descriptor(self._held))
        try:
            file = io.FileIO(self.path)
        except FileNotFoundError:
            raise self._changed("moved or deleted") from None
        with file:
            data, name = b"", _name(file.fileno())
            if header.leads_to(name, self.identity):
                data = _read(file.fileno())
            if not header.leads_to(name, self.identity):
                raise self._changed("replaced or written to")
            return data

    def first(self, count: int) -> bytes:
        """So many bytes of its beginning; b"" if they are not at hand, as the file is closed."""
        if self.data is not None:
            return self.data[:count]
        return b"" if self._held is None else os.pread(header.descriptor(self._held), count, 0)

    def last(self, count: int) -> bytes:
        """So many bytes of its end; b"" if they are not at hand, as the file is closed."""
        if self.data is not None:
            return self.data[-count:]
        if self._held is None:
            return b""
        at = max(0, self.identity[2] - count)
        return os.pread(header.descriptor(self._held), count, at)

    def _changed(self, how: str) -> Exception:
        name = os.fsdecode(self.path)
        text = f"{name}: bad: the file was {how} after the dataset opened it, before it was decoded"
        return joined(ChangedError(text, file=name), OSError())


class _OpenFile(File):
    """A file that is open, and is closed when this object dies. ``settle`` makes it a ``File``.

    Python ignores exceptions in ``__del__``, also an interrupt that comes just then. So objects
    have a ``__del__`` only as long as it is needed.
    """

    __slots__ = ()

    def __del__(self, close: Callable[[Any], None] = header.close) -> None:
        held = getattr(self, "_held", None)  # an interrupt may have come first
        if held is not None:
            close(held)


Source = File | bytes


def bytes_of(source: Source) -> bytes:
    """The encoded image.

    Raises:
        ChangedError: the file is not the one that was opened any more.
    """
    return source if isinstance(source, bytes) else source.read()


def beginning(source: Source, count: int) -> bytes:
    """The first bytes of an image that the program has open; b"" if they are not at hand."""
    return source[:count] if isinstance(source, bytes) else source.first(count)


def opened(path: bytes, name: bytes) -> tuple[File, Header] | None:
    """A file and its header; None: Pillow has to look.

    Args:
        path: the file's absolute path.
        name: what to open: that path, or the path of an open descriptor in /proc.
    """
    held = header.Answer()
    made = _OpenFile(path, held, _UNKNOWN)
    found = header.opened(name, held)
    if found is None:
        return None
    head, made.identity = found
    if time.time_ns() - made.identity[3] < _RECENT_NS:
        made.data = _read(header.descriptor(held))
    return made, head


def encoded_pixels(width: int, height: int, pixels: bytes) -> bytes:
    """RGB or grey pixels, row by row, as a file of the engine's simplest format: PPM or PGM."""
    kind = b"P6" if len(pixels) == 3 * width * height else b"P5"
    return kind + b" %d %d 255\n" % (width, height) + pixels


def _name(descriptor: int) -> bytes:
    """A path that leads to an open file, whatever happened to the file's own path."""
    return b"/proc/self/fd/%d" % descriptor


def _read(descriptor: int) -> bytes:
    parts, at = [], 0
    while part := os.pread(descriptor, 1 << 22, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
