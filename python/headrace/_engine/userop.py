"""A user's own op on pixels: a compiled function, by its address."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from headrace.errors import ArgumentError, ArgumentTypeError

# The base class of all functions of ctypes, foreign ones and callbacks; it has no public name.
_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]


class Address(int):
    """An address that this process's own code gave. One read from JSON is not of this type."""


@dataclass(frozen=True)
class Native:
    """Calls a compiled function of your own on each image's pixels, in place.

    The function is an ``hr_pixel_function`` of ``headrace.h``, which says what it gets and what it
    may not do. Nothing checks that it is one, and a wrong address ends the process. This op may
    stand wherever an op on pixels may, in groups too. It runs in the decoding threads, in several
    at a time. A ``ctypes.CFUNCTYPE`` object around Python works, but its calls take turns for the
    interpreter's lock. What the addresses point to has to stay until the loader is closed and its
    last read has ended.

    Labels that move with the image (``Loader(labels=)``) stay where they are: this op is meant for
    colours, so an op that moves pixels does not move boxes.

    If the function returns a number other than 0, that is an error of the sample, as a damaged
    image is.

    Args:
        function: the function's address: a whole number (numba's ``cfunc(...).address``), or a
            function of ctypes.
        context: a number that the function gets first, as a pointer; 0 for none.

    Raises:
        ArgumentError: the function is 0, or a value is not an address. Addresses mean nothing in
            another process, so this op cannot be pickled, and a dict of it that was read from a
            file is refused.
    """

    function: Any
    context: Any = 0

    def __post_init__(self) -> None:
        if _address("function", self.function) == 0:
            raise ArgumentError("function is 0 (expected the address of a function)")
        _address("context", self.context)

    def to_dict(self) -> dict[str, Any]:
        """Returns the op as the engine reads it, in this process only."""
        function, context = (
            Address(_address(name, getattr(self, name))) for name in ("function", "context")
        )
        return {"name": "Native", "function": function, "context": context}

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Native has addresses of this process, and cannot go to another one")


def _address(name: str, value: Any) -> int:
    if isinstance(value, _FUNCTION | ctypes.c_void_p):
        value = ctypes.cast(value, ctypes.c_void_p).value or 0
    try:
        if isinstance(value, bool):
            raise TypeError
        found = operator.index(value)
    except TypeError:
        kind = type(value).__name__
        raise ArgumentTypeError(f"{name} is a {kind} (expected an address)") from None
    if not 0 <= found < 2**64:
        raise ArgumentError(f"{name} is {found} (expected an address, 0 to 2^64-1)")
    return found


def check_origin(value: Any) -> None:
    """Refuses addresses, however deep in a configuration, that did not come from this process's
    code.

    Raises:
        ArgumentError: there is such an address.
    """
    for step in _natives(value):
        given = [step[name] for name in ("function", "context") if name in step]
        if not all(isinstance(address, Address) for address in given):
            raise ArgumentError(
                "a Native that was read from text (expected headrace.transforms.Native, made in "
                "this process, where its addresses are known to be right)"
            )


def _natives(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if value.get("name") == "Native":
            yield value
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for part in value:
        yield from _natives(part)
