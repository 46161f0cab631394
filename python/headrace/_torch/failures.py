"""Makes the errors for files that torch's loader would have opened with Pillow.

A program that skips bad files catches what Pillow raises: ``OSError``, and for a file that is no
image at all ``PIL.UnidentifiedImageError``. So in the drop-in an error about a file is both: the
engine's error, by its kind, with file and record; and Pillow's.
"""

from __future__ import annotations

import sys
from typing import Any

from headrace.errors import HeadraceError

_kinds: dict[tuple[type[HeadraceError], type[Exception]], type[HeadraceError]] = {}


def joined(ours: HeadraceError, theirs: Exception) -> HeadraceError:
    """The engine's error, which is also of the type of Pillow's.

    Args:
        theirs: what Pillow raised. If that is neither an ``OSError``, nor a warning that was made
            an error, nor an image with too many pixels, the new error is an ``OSError``.
    """
    if isinstance(ours, ValueError):
        return ours  # so are Pillow's, for an image that a transform leaves no pixels
    kind = _theirs(theirs)
    if isinstance(ours, kind):
        return ours
    return _again(type(ours), kind, ours.reason, ours.__dict__)


def noted(failure: Exception, text: str) -> None:
    """Adds a sentence to an error, which keeps its type and its own sentence."""
    notes = getattr(failure, "__notes__", ())
    if sys.version_info >= (3, 11):
        if text not in notes:
            failure.add_note(text)
    elif len(failure.args) == 1 and isinstance(failure.args[0], str):
        failure.args = (f"{failure.args[0]} ({text})",)


def _theirs(failure: Exception) -> type[Exception]:
    if isinstance(failure, OSError | Warning):
        return type(failure)
    if type(failure).__name__ == "DecompressionBombError":
        return type(failure)
    return OSError


def _again(
    ours: type[HeadraceError], theirs: type[Exception], reason: str, parts: dict[str, Any]
) -> HeadraceError:
    made = _kind(ours, theirs)(reason)
    made.__dict__.update(parts)
    if isinstance(made, OSError):
        made.filename = made.file
    return made


def _kind(ours: type[HeadraceError], theirs: type[Exception]) -> type[HeadraceError]:
    """A subclass of both. Its errors pickle by the two classes, because pickle cannot find it."""
    known = _kinds.get((ours, theirs))
    if known is not None:
        return known

    def reduce(self: HeadraceError) -> tuple[object, ...]:
        return _again, (ours, theirs, self.reason, self.__dict__)

    made: type[HeadraceError] = type(
        ours.__name__, (ours, theirs), {"__module__": ours.__module__, "__reduce__": reduce}
    )
    return _kinds.setdefault((ours, theirs), made)
