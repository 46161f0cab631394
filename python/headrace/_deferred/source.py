"""Where the bytes of a deferred image are: in a file that is as it was, or in memory."""

from __future__ import annotations

import io
import os
import time

from headrace._deferred import header
from headrace._deferred.header import Header, Identity
from headrace._torch.failures import joined
from headrace.errors import ChangedError

# A file's times come from a clock that ticks every few milliseconds, and on network file systems
# from another machine's. What was written so short a time ago may be written again without a sign,
# so its bytes are read at once (git reads such files again: "racy git").
_RECENT_NS = 2_000_000_000


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
            if self.data is not None or header.leads_to(self.path, self.identity):
                return True
            self.data = _read(file.fileno())
            return header.leads_to(_name(file), self.identity)

    def read(self) -> bytes:
        """All of its bytes.

        Raises:
            ChangedError: it is not what it was when it was opened. An ``OSError``, too.
            OSError: it cannot be read.
        """
        if self.data is not None:
            return self.data
        if self._file is not None:
            return _read(self._file.fileno())
        try:
            file = io.FileIO(self.path)
        except FileNotFoundError:
            raise self._changed("moved or deleted") from None
        with file:
            data = b""
            if header.leads_to(_name(file), self.identity):
                data = _read(file.fileno())
            if not header.leads_to(_name(file), self.identity):
                raise self._changed("replaced or written to")
            return data

    def first(self, count: int) -> bytes:
        """So many bytes of its beginning, while it is open."""
        if self.data is not None:
            return self.data[:count]
        return b"" if self._file is None else os.pread(self._file.fileno(), count, 0)

    def last(self, count: int) -> bytes:
        """So many bytes of its end, while it is open."""
        if self.data is not None:
            return self.data[-count:]
        if self._file is None:
            return b""
        return os.pread(self._file.fileno(), count, max(0, self.identity[2] - count))

    def _changed(self, how: str) -> Exception:
        name = os.fsdecode(self.path)
        text = f"{name}: bad: the file was {how} after the dataset opened it, before it was decoded"
        return joined(ChangedError(text, file=name), OSError())


Source = File | bytes


def bytes_of(source: Source) -> bytes:
    """The encoded image.

    Raises:
        ChangedError: the file is another than the one that was opened.
    """
    return source if isinstance(source, bytes) else source.read()


def beginning(source: Source, count: int) -> bytes:
    """The first bytes of an image that the program has open; b"" where they are not at hand."""
    return source[:count] if isinstance(source, bytes) else source.first(count)


def opened(path: bytes, name: bytes) -> tuple[File, Header] | None:
    """What a file holds; None where Pillow has to look.

    Args:
        path: the file's, absolute.
        name: what to open: the path, or that of an open descriptor in /proc.
    """
    found = header.opened(name)
    if found is None:
        return None
    file, head, identity = found
    made = File(path, file, identity)
    if time.time_ns() - identity[3] < _RECENT_NS:
        made.data = _read(file.fileno())
    return made, head


def encoded_pixels(width: int, height: int, pixels: bytes) -> bytes:
    """RGB or grey pixels, row by row, as a file of the engine's simplest format: PPM or PGM."""
    kind = b"P6" if len(pixels) == 3 * width * height else b"P5"
    return kind + b" %d %d 255\n" % (width, height) + pixels


def _name(file: io.FileIO) -> bytes:
    """A path that leads to an open file, whatever has become of its own."""
    return b"/proc/self/fd/%d" % file.fileno()


def _read(descriptor: int) -> bytes:
    parts, at = [], 0
    while part := os.pread(descriptor, 1 << 22, at):
        parts.append(part)
        at += len(part)
    return b"".join(parts)
