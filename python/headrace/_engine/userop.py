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
    """An address that this process's own code gave, and no file: JSON does not make one."""


@dataclass(frozen=True)
class Native:
    """Calls a compiled function of your own on each image's pixels, in place.

    It is an ``hr_pixel_function`` of ``headrace.h``, which says what it gets and what it may not
    do; nothing checks that it is one, and a wrong address ends the process. It stands wherever an
    op on pixels may, in groups too, and runs in the decoding threads, several at a time. A
    ``ctypes.CFUNCTYPE`` object around Python works but takes turns for the interpreter's lock. What
    the addresses point to has to stay until the loader is closed and its last read has ended.

    Labels that move with the image (``Loader(labels=)``) stay where they are: it is there for
    colours, and what moves pixels moves no boxes.

    A number other than 0 that it returns is an error of that sample, as a damaged image is.

    Args:
        function: its address: a whole number (numba's ``cfunc(...).address``), or a function of
            ctypes.
        context: a number that it gets first, as a pointer; 0 for none.

    Raises:
        ArgumentError: the function is 0, or something is no address. Addresses mean nothing in
            another process, so it cannot be pickled, and a dict of it that was read from a file is
            refused.
    """

    function: Any
    context: Any = 0

    def __post_init__(self) -> None:
        if _address("function", self.function) == 0:
            raise ArgumentError("function is 0 (expected the address of a function)")
        _address("context", self.context)

    def to_dict(self) -> dict[str, Any]:
        """As the engine reads it, in this process alone."""
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
    """Refuses addresses, however deep in a configuration, that are not this process's own.

    Raises:
        ArgumentError: there is one.
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
