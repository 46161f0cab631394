"""What can go wrong, as exceptions: one class for each kind of the engine's errors."""

from __future__ import annotations

import re

# Unicode's control characters, its two separators of lines, and what it has no characters for.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(text: str) -> str:
    """Text that can be printed in one line: a name may have control characters, and any bytes."""
    return _BREAKS.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is no UTF-8, as os.fsdecode has it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class HeadraceError(Exception):
    """Any failure of Headrace. ``str()`` is one sentence for a person; the parts stand beside it.

    Attributes:
        file: the file concerned, or None.
        record: the sample's number in its dataset, or None.
        offset: the byte offset in ``file``, or None.
        reason: the sentence, without the file where the engine named it apart.

    Control characters in a name, and bytes that are no UTF-8, are escaped in the sentence, and in
    ``file`` they are not.
    """

    def __init__(
        self,
        reason: str,
        *,
        file: str | None = None,
        record: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.file = file
        self.record = record
        self.offset = offset

    def __str__(self) -> str:
        return one_line(self.reason)

    def __reduce__(self) -> tuple[object, ...]:
        # The default would lose the keyword-only parts on the way back from a worker process.
        return (type(self), (self.reason,), self.__dict__)


class ArgumentError(HeadraceError, ValueError):
    """An argument, or a combination of arguments, is impossible; the sentence names it."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of a type that is not taken; the sentence names it and those that are."""


class NoSampleError(ArgumentError, IndexError):
    """A dataset has no sample of that number."""


class UnsupportedError(HeadraceError):
    """Valid, but not done by this version."""


class BadFileError(HeadraceError):
    """An index, manifest, shard or source is not what it claims to be."""


class BadImageError(HeadraceError):
    """A record is no valid image of its kind."""


class TruncatedError(HeadraceError):
    """A shard, file or image ends before it should."""


class ChecksumError(HeadraceError):
    """The stored CRC-32C and that of the bytes differ."""


class LimitError(HeadraceError):
    """A limit was met: pixels, scans, decoder memory, record size, or the threads of a process."""


class SystemFailure(HeadraceError, OSError):
    """The operating system refused; ``errno`` says how."""


class MissingFileError(SystemFailure, FileNotFoundError):
    """A file or directory does not exist."""


class ChangedError(BadFileError):
    """An object of a store was replaced after it was opened or indexed.

    Or a file that a dataset's own code opened was, before it was decoded; then an ``OSError``, too.
    """


class DeniedError(HeadraceError, PermissionError):
    """A store refused: credentials are missing, wrong or not enough."""


class UnreachableError(HeadraceError, ConnectionError):
    """A store did not answer, or failed each time it was asked."""


class MemoryShortError(HeadraceError, MemoryError):
    """Memory is short; the sentence says how much was needed."""


class DuplicateKeyError(HeadraceError):
    """Two samples of one key."""


class EmptyDatasetError(HeadraceError):
    """No sample was found."""


class ForkedError(HeadraceError):
    """This process was forked after Headrace was first used."""


class ClosedError(HeadraceError):
    """The object was closed, or never was one."""


class WaitTimeoutError(HeadraceError, TimeoutError):
    """No batch came, or a store gave no answer, within the ``timeout`` that was set."""


class InternalError(HeadraceError):
    """Headrace is wrong; please report it."""
