"""Describes the state of a ``torch.Generator`` by two numbers instead of its 5 KB.

A CPU generator is a Mersenne Twister: 624 words that are mixed again after as many draws. The
number of its draws so far is found by stepping a second generator from the same seed.
"""

from __future__ import annotations

import torch

_WORDS = 624
# The state: seed (8 bytes), how many words are left (4), a flag (4), the next word (8), all words
# (8 each), and after them what belongs to normal draws.
_NEXT, _STATE, _END = 16, 24, 24 + 8 * _WORDS
_MOST_BLOCKS = 50_000  # how far it looks from one epoch to the next: 31 million draws


class Tracker:
    """Follows a generator. It remembers how far, so that an epoch costs only its own draws."""

    def __init__(self) -> None:
        self._lost: int | None = None  # a seed that led nowhere, so that it is searched only once
        self._start(0)

    def place(self, generator: torch.Generator) -> list[int] | None:
        """The seed, and the number of 32-bit draws since; None: they are not found."""
        state = generator.get_state()
        if generator.device.type != "cpu" or len(state) < _END:
            return None
        seed = generator.initial_seed()
        if seed == self._lost:
            return None
        if self._twin.initial_seed() != seed or not self._follow(state):
            self._start(seed)  # the generator may have been seeded again
            if not self._follow(state):
                self._lost = seed
                return None
        if not self._blocks:
            return [seed, 0] if self._twin.get_state().equal(state) else None
        in_block = int.from_bytes(state[_NEXT:_STATE].numpy().tobytes(), "little")
        # The words are not all of the state: normal draws keep a number beside them.
        check = torch.Generator()
        check.set_state(self._before)
        _draw(check, in_block)
        draws = (self._blocks - 1) * _WORDS + in_block
        return [seed, draws] if check.get_state().equal(state) else None

    def _start(self, seed: int) -> None:
        self._twin = torch.Generator()
        self._twin.manual_seed(seed)
        self._blocks = 0
        self._before = self._twin.get_state()  # its state one block earlier

    def _follow(self, state: torch.Tensor) -> bool:
        """Draws block after block until the words are those of a state."""
        for _ in range(_MOST_BLOCKS):
            reached = self._twin.get_state()
            if reached[_STATE:_END].equal(state[_STATE:_END]):
                return True
            self._before = reached
            _draw(self._twin, _WORDS)
            self._blocks += 1
        return False


def go_to(generator: torch.Generator, seed: int, draws: int) -> None:
    """Puts a generator into the state that it has after a seed and so many 32-bit draws."""
    generator.manual_seed(seed)
    while draws:
        part = min(draws, 2**20)
        _draw(generator, part)
        draws -= part


def _draw(generator: torch.Generator, count: int) -> None:
    torch.empty(count, dtype=torch.int32).random_(generator=generator)
