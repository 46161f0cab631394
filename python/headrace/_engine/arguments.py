"""Arguments as users give them, checked by name before the engine sees them.

Each function returns the argument in the one form that the rest of the package uses, or raises an
``ArgumentError`` that says its name, its value and what is allowed.
"""

from __future__ import annotations

import math
import operator
import os
import re
import reprlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

LIMITS = (
    *("max_pixels", "max_scans", "max_scan_blocks", "max_decoder_bytes", "max_record_bytes"),
    *("max_block_bytes", "max_cached_bytes"),
)
_MOST_OF = {"max_block_bytes": 256 << 20}  # the engine's own bound
MODES = ("exact", "fast")
ON_ERROR = ("raise", "replace")
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
UINT64_MAX = 2**64 - 1
MOST_RATE = 1e12  # the most images a second that can be asked for: more than memory brings bytes
LAST_EPOCH = 2**62  # far from where the number of the epoch after it would wrap around

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def shown(value: Any) -> str:
    """Shortens a value for a sentence, because a wrong argument may be an image of megabytes."""
    try:
        return " ".join(_short.repr(value).split())
    except Exception:  # a foreign repr failed; that must not hide the error itself
        return f"a {type(value).__name__}"


def refuse(name: str, value: Any, allowed: str) -> ArgumentError:
    """Returns the error of a value that has the right type."""
    return ArgumentError(f"{name}={shown(value)}: {allowed} was expected")


def refuse_type(name: str, value: Any, allowed: str) -> ArgumentTypeError:
    """Returns the error of a value that has another type."""
    kind = type(value).__name__
    return ArgumentTypeError(f"{name}={shown(value)} is of type {kind}: {allowed} was expected")


def path(name: str, value: Any) -> str:
    """Returns a path as the engine takes it: bytes that are not UTF-8 are escaped."""
    # Of a million paths most are plain ASCII, which is the same in every encoding of file names.
    plain = isinstance(value, str) and value.isascii()
    found = value if plain else _path_of_bytes(name, value)
    if not found or "\0" in found:
        raise refuse(name, value, "a path that is not empty and has no NUL")
    return str(found)


def _path_of_bytes(name: str, value: Any) -> str:
    try:
        return os.fsencode(value).decode("utf-8", "surrogateescape")
    except TypeError:
        raise refuse_type(name, value, "a path (str or os.PathLike)") from None
    except UnicodeEncodeError:
        allowed = f"a path that can be said in {sys.getfilesystemencoding()}, as file names are,"
        raise refuse(name, value, allowed) from None


def found_path(text: str) -> str:
    """Returns a path that the engine reported, as Python opens it."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def printable(path: str | bytes) -> str:
    """Returns a path for a sentence: bytes that are not UTF-8 are shown as escapes.

    A terminal may not print lone surrogates.
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def text(name: str, value: Any) -> str:
    """Returns text that UTF-8 can encode.

    A lone surrogate stands for a byte of a file name that is not UTF-8. The engine would get a
    replacement character for it, and so another name.
    """
    if not isinstance(value, str):
        raise refuse_type(name, value, "a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse(name, value, "text that is valid UTF-8") from None
    return value


def name(what: str, value: Any) -> str:
    """Returns text that names something."""
    if "\0" in text(what, value) or not value:
        raise refuse(what, value, "a name that is not empty and has no NUL")
    return str(value)


def integer(name: str, value: Any, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
    """Returns an int. Takes what stands for one as well: a number of NumPy, or a tensor of one
    whole number."""
    allowed = f"an int of at least {least}"
    if most != INT64_MAX:
        allowed = f"an int from {least} to {most}"
    try:
        found = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise refuse_type(name, value, allowed) from None
    if not least <= found <= most:
        if least == INT64_MIN or (found > most and most == INT64_MAX):
            allowed = "an int of 64 bits"
        raise refuse(name, value, allowed)
    return found


def size(name: str, value: Any) -> int:
    """Returns bytes, given a number or text such as "256MB" (10**6) or "256MiB" (2**20)."""
    if not isinstance(value, str):
        return count(name, value, 1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?)?B?\s*", value.upper(), re.ASCII)
    number = float(found[1]) * _UNITS[found[2] or ""] if found else 0
    if not 1 <= number <= INT64_MAX:
        raise refuse(name, value, "a positive number of bytes, or text such as '256MB',")
    return round(number)


def count(name: str, value: Any, least: int = 0, most: int = INT64_MAX) -> int:
    """Returns an int that counts something. True is an int to Python, but here a flag in the wrong
    place."""
    if isinstance(value, bool):
        raise refuse_type(name, value, f"an int of at least {least}")
    return integer(name, value, least, most)


def seed(name: str, value: Any) -> int:
    return count(name, value, 0, UINT64_MAX)


def epoch(name: str, value: Any) -> int:
    return count(name, value, 0, LAST_EPOCH)


def number(name: str, value: Any) -> float:
    """Returns a finite number; an int stays an int."""
    if isinstance(value, bool | str | bytes):
        raise refuse_type(name, value, "a number")
    try:
        found = value if isinstance(value, int) else float(value)
        if math.isfinite(found):
            return found
    except (TypeError, ValueError, RuntimeError):
        raise refuse_type(name, value, "a number") from None
    except OverflowError:  # an int too large for a float
        pass
    raise refuse(name, value, "a finite number")


def seconds(name: str, value: Any) -> float:
    """Returns a time that is more than zero and finite."""
    allowed = "a number of seconds, more than 0,"
    if isinstance(value, str | bytes | bool):  # float() would take it
        raise refuse_type(name, value, allowed)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise refuse_type(name, value, allowed) from None
    if not 0 < found < math.inf:
        raise refuse(name, value, allowed)
    return found


def rate(name: str, value: Any) -> float:
    """Returns a rate in images a second: more than zero, and no more than any machine makes."""
    allowed = f"a number of images a second, more than 0 and at most {MOST_RATE:,.0f},"
    if isinstance(value, str | bytes | bool):  # float() would take it
        raise refuse_type(name, value, allowed)
    try:
        found = float(value)
    except OverflowError:  # an int too large for a float
        raise refuse(name, value, allowed) from None
    except (TypeError, ValueError, RuntimeError):
        raise refuse_type(name, value, allowed) from None
    if not 0 < found <= MOST_RATE:
        raise refuse(name, value, allowed)
    return found


def flag(name: str, value: Any) -> bool:
    # bool("no") is True, so text is never taken for a flag.
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):
        raise refuse_type(name, value, "True or False")
    return bool(value)


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    if not isinstance(value, str):
        raise refuse_type(name, value, f"one of {', '.join(allowed)}")
    if value not in allowed:
        raise refuse(name, value, f"one of {', '.join(allowed)}")
    return value


def each(name: str, values: Any, check: Callable[[str, Any], Any]) -> list[Any]:
    """A list of the checked parts of a sequence. A lone str does not count as a sequence."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise refuse_type(name, values, "a sequence")
    try:
        parts = list(values)
    except TypeError:  # an array or tensor without dimensions fails only here
        raise refuse_type(name, values, "a sequence") from None
    return [check(f"{name}[{number}]", part) for number, part in enumerate(parts)]


def numbers(name: str, value: Any) -> list[float]:
    """Returns numbers, given several or one alone."""
    if hasattr(value, "__float__") and np.ndim(value) == 0:
        return [number(name, value)]
    if not isinstance(value, Iterable):
        raise refuse_type(name, value, "a number, or a sequence of them,")
    return each(name, value, number)


def height_and_width(name: str, value: Any) -> list[int]:
    """Returns two whole numbers of at least 1."""
    if not hasattr(value, "__getitem__"):  # a set has no order
        raise refuse_type(name, value, "an int, or height and width,")
    found = each(name, value, lambda part, side: count(part, side, 1))
    if len(found) != 2:
        raise refuse(name, value, "an int, or height and width,")
    return found


def mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise refuse_type(name, value, "a mapping, as a dict,")
    return {text(f"a key of {name}", key): part for key, part in value.items()}


def state(value: Any, keys: Iterable[str], whose: str) -> dict[str, Any]:
    """Checks a saved state.

    Args:
        keys: what every state of this kind has.
        whose: the class that saves such states.
    """
    found = mapping("state", value)
    missing = [repr(key) for key in keys if key not in found]
    if missing:
        raise ArgumentError(
            f"the state is not one that {whose}.state_dict() returned: it has no "
            f"{', '.join(missing)}"
        )
    return found


def limits(value: Any) -> dict[str, int]:
    """Checks limits by name (docs/limits.md)."""
    found = mapping("limits", value)
    for key in found:
        choice("a key of limits", key, LIMITS)
    return {
        key: count(f"limits[{key!r}]", part, 1, _MOST_OF.get(key, INT64_MAX))
        for key, part in found.items()
    }


def encoded(name: str, value: Any) -> NDArray[np.uint8]:
    """Returns the bytes of a file, or of any object with a buffer, without copying them."""
    try:
        return np.frombuffer(value, np.uint8)
    except (TypeError, ValueError, BufferError):
        raise refuse_type(name, value, "bytes, or an array of uint8 in one piece,") from None


_TRANSLATION = "**headrace.from_torchvision(transform).keywords translates torchvision's transforms"


def transforms(name: str, value: Any) -> list[dict[str, Any]]:
    """Returns a list of transforms as the engine reads it."""
    if hasattr(value, "to_dict"):
        raise refuse_type(name, value, f"a list, as {name}=[...],")
    if not isinstance(value, Iterable) and type(value).__module__.startswith("torchvision."):
        raise refuse_type(name, value, f"a list of headrace.transforms ({_TRANSLATION})")
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise refuse_type(name, value, "a list, as [headrace.transforms.CenterCrop(224)],")
    return each(name, value, _step)


def _step(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return mapping(name, value)
    if not hasattr(value, "to_dict") or isinstance(value, type):
        foreign = type(value).__module__.startswith(("torchvision.", "timm."))
        cure = f" ({_TRANSLATION})" if foreign else ""
        raise refuse_type(
            name, value, f"one of headrace.transforms, which run in the engine,{cure}"
        )
    found: dict[str, Any] = value.to_dict()
    return found


def callback(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise refuse_type(name, value, "a function or None")
    return value
