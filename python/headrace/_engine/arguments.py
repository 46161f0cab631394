"""Arguments as users give them, checked by name before the engine sees them.

Each function returns the argument in the one form that the rest works with, or raises an
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
MOST_RATE = 1e12  # images a second that can be asked for: as many as memory brings bytes, and more
LAST_EPOCH = 2**62  # far from where the number of the epoch after it would wrap around

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def shown(value: Any) -> str:
    """A value for a sentence: an argument by mistake may be an image of megabytes."""
    try:
        return " ".join(_short.repr(value).split())
    except Exception:  # a repr of somebody else's, which must not hide what is wrong
        return f"a {type(value).__name__}"


def refuse(name: str, value: Any, allowed: str) -> ArgumentError:
    """The error of a value that is of the right type."""
    return ArgumentError(f"{name}={shown(value)}: {allowed} was expected")


def refuse_type(name: str, value: Any, allowed: str) -> ArgumentTypeError:
    """The error of a value of another type."""
    kind = type(value).__name__
    return ArgumentTypeError(f"{name}={shown(value)} is of type {kind}: {allowed} was expected")


def path(name: str, value: Any) -> str:
    """A path of the file system, as the engine takes it: bytes that are no UTF-8 are escaped."""
    # Of a million paths most are such, which every encoding of file names has alike.
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
    """A path that the engine tells, as Python opens it."""
    return os.fsdecode(text.encode("utf-8", "surrogateescape"))


def printable(path: str | bytes) -> str:
    """A path for a sentence: bytes that are no UTF-8 are shown as such.

    A terminal may not print lone surrogates.
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def text(name: str, value: Any) -> str:
    """Text that UTF-8 can say.

    A lone surrogate, which is how Python holds a file name of other bytes, would reach the engine
    as a replacement character: as another name.
    """
    if not isinstance(value, str):
        raise refuse_type(name, value, "a str")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise refuse(name, value, "text that is valid UTF-8") from None
    return value


def name(what: str, value: Any) -> str:
    """Text that names something."""
    if "\0" in text(what, value) or not value:
        raise refuse(what, value, "a name that is not empty and has no NUL")
    return str(value)


def integer(name: str, value: Any, least: int = INT64_MIN, most: int = INT64_MAX) -> int:
    """An int, or what stands for one: of NumPy, or a tensor of one whole number."""
    allowed = f"an int of at least {least}"
    if most != INT64_MAX:
        allowed = f"an int from {least} to {most}"
    try:
        found = operator.index(value)
    except (TypeError, ValueError, RuntimeError):
        raise refuse_type(name, value, allowed) from None
    if not least <= found <= most:
        raise refuse(name, value, allowed if least > INT64_MIN else "an int of 64 bits")
    return found


def size(name: str, value: Any) -> int:
    """Bytes, of a number or of text such as "256MB" (10**6) or "256MiB" (2**20)."""
    if not isinstance(value, str):
        return count(name, value, 1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?)?B?\s*", value.upper(), re.ASCII)
    number = float(found[1]) * _UNITS[found[2] or ""] if found else 0
    if not 1 <= number <= INT64_MAX:
        raise refuse(name, value, "a positive number of bytes, or text such as '256MB',")
    return round(number)


def count(name: str, value: Any, least: int = 0, most: int = INT64_MAX) -> int:
    """An int that counts something: True, an int to Python, is a flag in the wrong place."""
    if isinstance(value, bool):
        raise refuse_type(name, value, f"an int of at least {least}")
    return integer(name, value, least, most)


def seed(name: str, value: Any) -> int:
    return count(name, value, 0, UINT64_MAX)


def epoch(name: str, value: Any) -> int:
    return count(name, value, 0, LAST_EPOCH)


def number(name: str, value: Any) -> float:
    """A finite number, an int kept as one."""
    if isinstance(value, bool | str | bytes):
        raise refuse_type(name, value, "a number")
    try:
        found = value if isinstance(value, int) else float(value)
        if math.isfinite(found):
            return found
    except (TypeError, ValueError, RuntimeError):
        raise refuse_type(name, value, "a number") from None
    except OverflowError:  # an int beyond every float
        pass
    raise refuse(name, value, "a finite number")


def seconds(name: str, value: Any) -> float:
    """A time that is more than none and ends."""
    allowed = "a number of seconds, more than 0,"
    if isinstance(value, str | bytes | bool):  # float() would read it
        raise refuse_type(name, value, allowed)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise refuse_type(name, value, allowed) from None
    if not 0 < found < math.inf:
        raise refuse(name, value, allowed)
    return found


def rate(name: str, value: Any) -> float:
    """Images a second, of which there are more than none and no more than any machine makes."""
    allowed = f"a number of images a second, more than 0 and at most {MOST_RATE:,.0f},"
    if isinstance(value, str | bytes | bool):  # float() would read it
        raise refuse_type(name, value, allowed)
    try:
        found = float(value)
    except OverflowError:  # an int beyond every float
        raise refuse(name, value, allowed) from None
    except (TypeError, ValueError, RuntimeError):
        raise refuse_type(name, value, allowed) from None
    if not 0 < found <= MOST_RATE:
        raise refuse(name, value, allowed)
    return found


def flag(name: str, value: Any) -> bool:
    # bool("no") is True: text is never taken for a flag.
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
    """A list of the checked parts of a sequence; a lone str is none, though it has parts."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise refuse_type(name, values, "a sequence")
    try:
        parts = list(values)
    except TypeError:  # an array or tensor without a dimension says so only now
        raise refuse_type(name, values, "a sequence") from None
    return [check(f"{name}[{number}]", part) for number, part in enumerate(parts)]


def numbers(name: str, value: Any) -> list[float]:
    """Numbers, of which one may stand alone."""
    if hasattr(value, "__float__") and np.ndim(value) == 0:
        return [number(name, value)]
    if not isinstance(value, Iterable):
        raise refuse_type(name, value, "a number, or a sequence of them,")
    return each(name, value, number)


def height_and_width(name: str, value: Any) -> list[int]:
    """Two whole numbers, at least 1."""
    if not hasattr(value, "__getitem__"):  # a set has no first
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
    """A saved state.

    Args:
        keys: what each state of that kind has.
        whose: the class that saves it.
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
    """Limits by name (docs/limits.md)."""
    found = mapping("limits", value)
    for key in found:
        choice("a key of limits", key, LIMITS)
    return {
        key: count(f"limits[{key!r}]", part, 1, _MOST_OF.get(key, INT64_MAX))
        for key, part in found.items()
    }


def encoded(name: str, value: Any) -> NDArray[np.uint8]:
    """The bytes of a file, or of whatever has a buffer, without copying them."""
    try:
        return np.frombuffer(value, np.uint8)
    except (TypeError, ValueError, BufferError):
        raise refuse_type(name, value, "bytes, or an array of uint8 in one piece,") from None


_TRANSLATION = "**headrace.from_torchvision(compose).keywords in place of it translates a Compose"


def transforms(name: str, value: Any) -> list[dict[str, Any]]:
    """A list of transforms as the engine reads it."""
    if hasattr(value, "to_dict"):
        raise refuse_type(name, value, f"a list, as {name}=[...],")
    if not isinstance(value, Iterable) and type(value).__module__.startswith("torchvision."):
        raise refuse_type(name, value, f"a list of headrace.transforms ({_TRANSLATION})")
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
