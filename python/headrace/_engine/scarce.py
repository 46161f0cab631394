"""Warnings of calls that succeeded, and errors for a lack of threads or address space."""

from __future__ import annotations

import re
import resource
import struct
import sys
import threading
import warnings
from pathlib import Path

from headrace.errors import HeadraceError, LimitError, MemoryShortError

_NUMBER = re.compile(r"\d+")
_warned: set[str] = set()  # kinds of warnings: their sentences without numbers


def warn_of(text: bytes) -> None:
    """Warns of each line that a successful call reported, once in a process for each kind."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("headrace."):
        level, frame = level + 1, frame.f_back
    for line in text.decode("utf-8", "replace").splitlines():
        kind = _NUMBER.sub("", line)
        if line and kind not in _warned:
            _warned.add(kind)
            warnings.warn(f"headrace: {line}", stacklevel=level)


def check_space(library: Path) -> None:
    """Reports that a library was not loaded for lack of address space, because ``dlopen`` does not
    say so.

    Raises:
        MemoryShortError: the process may not map as much as the library needs.
    """
    if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
        return
    with library.open("rb") as file:
        needed = _extent(file.read(4096))
    if text := _short_of_space(needed):
        raise MemoryShortError(f"the engine's library needs {text}", file=str(library))


def no_thread(wanted: int, failure: str) -> HeadraceError:
    """Returns the error if no Python thread could be started.

    Args:
        wanted: how many threads were wanted.
        failure: what Python says of it; it does not say why.
    """
    stack = threading.stack_size() or resource.getrlimit(resource.RLIMIT_STACK)[0]
    text = _short_of_space(stack) if stack != resource.RLIM_INFINITY else ""
    if text:
        return MemoryShortError(f"a thread of a DataLoader needs {text}")
    return LimitError(f"a DataLoader needs {wanted} threads (0 are allowed): {failure}")


def _short_of_space(needed: int) -> str:
    """Says what is needed and what is allowed, if so many bytes are too many; otherwise ""."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    if limit == resource.RLIM_INFINITY or needed <= limit - mapped:
        return ""
    return (
        f"{needed} bytes of address space more ({max(limit - mapped, 0)} are allowed): "
        f"RLIMIT_AS is {limit}, and {mapped} are mapped"
    )


def _extent(header: bytes) -> int:
    """Returns how much memory an ELF file of 64 bits takes, by its program headers (elf(5))."""
    (table,) = struct.unpack_from("=Q", header, 32)
    size, count = struct.unpack_from("=HH", header, 54)
    end = 0
    for at in range(table, table + size * count, size):
        kind, _, _, address, _, _, length = struct.unpack_from("=IIQQQQQ", header, at)
        if kind == 1:  # PT_LOAD
            end = max(end, address + length)
    return end
