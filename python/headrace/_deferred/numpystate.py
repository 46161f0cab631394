"""Notes the state of NumPy's global generator in a microsecond, and restores it.

``np.random.get_state`` makes an array of 624 words one by one, which takes as long as opening two
images. The words lie where ``BitGenerator.ctypes`` says (numpy/random/src/mt19937/mt19937.h: 624
words and the place among them). Normal numbers are made in pairs, and ``RandomState`` keeps the
second one until it is asked for. That one lies in the object itself, after a flag that says whether
there is one (numpy/random/src/legacy/legacy-distributions.h, ``aug_bitgen``). No function tells
where in the object, so this module finds it with a generator of its own. If that fails, NumPy is
asked.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

_WORDS = struct.Struct("=2496si")  # mt19937_state
_KEPT = struct.Struct("@id")  # in aug_bitgen: has_gauss, gauss


def state() -> Any:
    """The generator's state, for ``put``. Equal states compare equal."""
    own: Any = np.random.mtrand._rand
    bits = own._bit_generator
    if _kept_at is None or type(bits) is not np.random.MT19937:
        return np.random.get_state()
    with bits.lock:  # another thread may draw without the interpreter's lock
        words = ctypes.string_at(bits.ctypes.state_address, _WORDS.size)
        kept = ctypes.string_at(id(own) + _kept_at, _KEPT.size)
    return words, _KEPT.unpack(kept)


def put(before: Any) -> None:
    """Puts the generator back into a state."""
    if isinstance(before, tuple) and isinstance(before[0], bytes):
        words, place = _WORDS.unpack(before[0])
        before = ("MT19937", np.frombuffer(words, np.uint32), place, *before[1])
    np.random.set_state(before)


def _find_kept() -> int | None:
    """The offset at which a ``RandomState`` keeps a normal number; None: it is not found."""
    tried: Any = np.random.RandomState(0)
    _, key, place, *_ = tried.get_state()
    found: set[int] | None = None
    for kept in ((1, 0.7310585786300049), (0, 0.0), (1, -1.2345678901234567)):
        tried.set_state(("MT19937", key, place, *kept))
        memory = ctypes.string_at(id(tried), type(tried).__basicsize__)
        here = {
            at
            for at in range(0, len(memory) - _KEPT.size + 1, 4)
            if _KEPT.unpack_from(memory, at) == kept
        }
        found = here if found is None else found & here
    return found.pop() if found and len(found) == 1 else None


_kept_at = _find_kept()
