"""Checks that a user's sampler, run again after a resume, gives the samples that it gave before.

A state does not store what a sampler gave, so a resume asks the sampler for all of it again. If the
sampler draws from a generator that was not restored, it gives another order: some samples would
come twice in the epoch and others never. The state has a checksum by which that is noticed.
"""

from __future__ import annotations

import array
import zlib
from collections.abc import Iterable

from headrace.errors import ArgumentError


def checksum(samples: Iterable[int], before: int = 0) -> int:
    """Returns the CRC-32 of samples that follow those with the checksum ``before``."""
    numbers = samples if isinstance(samples, array.array) else array.array("q", samples)
    return zlib.crc32(numbers, before)


def compare(expected: int | None, found: int, count: int) -> None:
    """Refuses ``count`` samples if their checksum is not the state's; some states have none.

    Raises:
        ArgumentError: the checksums differ.
    """
    if expected is None or expected == found:
        return
    raise ArgumentError(
        f"the sampler does not give the {count} samples again that it gave before the state was "
        "saved: put its random generator back to where it was when the epoch began, or let the "
        "sampler seed a generator of its own"
    )
