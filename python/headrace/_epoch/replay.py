"""Whether a sampler that is replayed to a state's place gives again what it gave before.

A state has no room for what a sampler draws, so a resume asks it for all that was handed out once
more. One that draws from a generator which nobody put back gives another order then, and some
samples would come twice in the epoch and others never. A state has the checksum that tells.
"""

from __future__ import annotations

import array
import zlib
from collections.abc import Iterable

from headrace.errors import ArgumentError


def checksum(samples: Iterable[int], before: int = 0) -> int:
    """The CRC-32 of samples that follow those of the checksum ``before``."""
    numbers = samples if isinstance(samples, array.array) else array.array("q", samples)
    return zlib.crc32(numbers, before)


def compare(expected: int | None, found: int, count: int) -> None:
    """Refuses a replay of ``count`` samples with another checksum than the state's, if it has one.

    Raises:
        ArgumentError: they differ.
    """
    if expected is None or expected == found:
        return
    raise ArgumentError(
        f"the sampler does not give the {count} samples again that it gave before the state was "
        "made: what it draws from has to stand where it stood when the epoch began, or be a "
        "generator of its own that the sampler seeds"
    )
