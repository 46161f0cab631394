"""Headrace's exceptions: one class for each kind of error."""

from __future__ import annotations

import re

# Unicode's control characters, its two line separators, and code points that are not characters.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def one_line(text: str) -> str:
    """Makes text printable in one line: a name may have control characters and any bytes."""
    return _BREAKS.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as os.fsdecode returns it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


class HeadraceError(Exception):
    """The base class of all of Headrace's errors. ``str()`` gives one readable sentence.

    Attributes:
        file: the file concerned, or None.
        record: the sample's number in its dataset, or None.
        offset: the byte offset in ``file``, or None.
        reason: the sentence, without the file if the engine reported it separately.

    In the sentence, control characters and bytes that are not UTF-8 are escaped; in ``file`` they
    are not.
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
        # The default would lose the keyword-only parts when the error comes back from a worker
        # process.
        return (type(self), (self.reason,), self.__dict__)


class ArgumentError(HeadraceError, ValueError):
    """An argument, or a combination of arguments, is impossible; the sentence names it."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument has a wrong type; the sentence names it and the types that are allowed."""


class NoSampleError(ArgumentError, IndexError):
    """A dataset has no sample with that number."""


class UnsupportedError(HeadraceError):
    """A file, an argument or a request is valid, but this version does not support it."""


class BadFileError(HeadraceError):
    """An index, a manifest, a shard or a source is damaged, or contradicts itself."""


class BadImageError(HeadraceError):
    """A record is not a valid image of its format."""


class TruncatedError(HeadraceError):
    """A shard, file or image ends before it should."""


class ChecksumError(HeadraceError):
    """The stored CRC-32C differs from that of the bytes: they were changed or damaged."""


class LimitError(HeadraceError):
    """A limit was exceeded, such as pixels, scans, decoder memory, record size or threads.

    docs/limits.md lists them.
    """


class NoPixelsError(LimitError, ValueError):
    """A transform leaves an image no pixels, such as a resize that keeps the ratio of a narrow one.

    Pillow raises a ``ValueError`` there.
    """


class SystemFailure(HeadraceError, OSError):
    """The operating system reported an error; ``errno`` says which."""


class MissingFileError(SystemFailure, FileNotFoundError):
    """A file or directory does not exist."""


class ChangedError(BadFileError):
    """An object in a store was replaced after it was opened or indexed.

    Or a file that a dataset's own code opened was changed before it was decoded; then the error is
    also an ``OSError``.
    """


class DeniedError(HeadraceError, PermissionError):
    """A store refused access: credentials are missing, wrong, or do not suffice."""


class UnreachableError(HeadraceError, ConnectionError):
    """A store did not answer, or failed at each attempt."""


class MemoryShortError(HeadraceError, MemoryError):
    """There is not enough memory; the sentence says how much was needed."""


class DuplicateKeyError(HeadraceError):
    """Two samples have the same key."""


class EmptyDatasetError(HeadraceError):
    """A dataset has no sample, or none was found."""


class ForkedError(HeadraceError):
    """This process was forked after Headrace was first used, so it cannot use Headrace."""


class ClosedError(HeadraceError):
    """The object was closed, or never opened."""


class WaitTimeoutError(HeadraceError, TimeoutError):
    """No batch came, or a store gave no answer, within the ``timeout`` that was set."""


class InternalError(HeadraceError):
    """A fault of Headrace itself; please report it."""
