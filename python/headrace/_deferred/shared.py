"""Gives pending tensors that share memory, as views of one another, their values together.

Each image is decoded once for all of them.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Making = Callable[[torch.Tensor], torch.Tensor]


class Seen(NamedTuple):
    """How a tensor is made of a memory: the last step, and the steps before it.

    It is a linked list and not a function of functions, because a program may take thousands of
    views of one another.
    """

    before: Seen | None
    making: Making


class Shared:
    """The tensors that are made together.

    Each member is a view of a memory: that of the first tensor, or one that an operator fills.

    Args:
        first: the pending tensor that the others are made of.
        first_values: makes the values of the first memory.
        put: puts values in the place of a pending tensor; leaves a tensor with values alone.
        kind: the class of pending tensors.
    """

    def __init__(
        self,
        first: Any,
        first_values: Callable[[], torch.Tensor],
        put: Callable[[Any, torch.Tensor], None],
        kind: type,
    ) -> None:
        self._first_values, self._put, self._kind = first_values, put, kind
        self._lock = threading.RLock()
        self.made: dict[int, torch.Tensor] = {}  # memories that some members may have already
        # Of these memories, the members that have all of one. As in torch these are no views, and
        # the others are views of them.
        self._wholes: dict[int, Any] = {}
        # For each memory except the first: the memory that it is made of, and how.
        self._memories: list[tuple[int, Seen]] = []
        self._members: list[tuple[weakref.ref[Any], int, Seen]] = []
        self._join(first, 0, Seen(None, whole))

    def add(self, base: Any, made: Any, making: Making, copies: bool) -> None:
        """Adds a tensor that is made of a member: a view of it, or a copy."""
        memory, before = base.member
        seen = Seen(before, making)
        if copies:
            self._memories.append((memory, seen))
            memory, seen = len(self._memories), Seen(None, whole)
        self._join(made, memory, seen)

    def _join(self, one: Any, memory: int, seen: Seen) -> None:
        # The tensor has it, too: a program may take thousands of views, and each is found at once.
        one.shared, one.member = self, (memory, seen)
        self._members.append((weakref.ref(one), memory, seen))

    def alive(self) -> list[tuple[Any, int, Seen]]:
        """The members that are still pending, and that somebody refers to."""
        members = [(known(), memory, seen) for known, memory, seen in self._members]
        return [one for one in members if isinstance(one[0], self._kind)]

    def make(self) -> None:
        """Gives all members their values. If it is interrupted and called again, it goes on."""
        with self._lock:  # several threads of the program may ask for members
            alive, made = self.alive(), self.made
            kept = {memory for _, memory, _ in alive}
            wanted = kept - set(made)
            for number in range(len(self._memories), 0, -1):
                if number in wanted and self._memories[number - 1][0] not in made:
                    wanted.add(self._memories[number - 1][0])
            if 0 in wanted:
                made[0] = self._first_values()
            # A memory that only other memories are made of is freed after the last of them, as in
            # torch.
            users = Counter(self._memories[number - 1][0] for number in wanted if number)
            for number, (of, seen) in enumerate(self._memories, 1):
                if number in wanted:
                    made[number] = _followed(seen, self._memory(of), {})
                    users[of] -= 1
                    if not users[of] and of not in kept:
                        del made[of]
            views: dict[int, torch.Tensor] = {}
            for one, memory, seen in alive:
                if seen.before is None:
                    self._wholes[memory] = one
                    self._put(one, made[memory])
                else:
                    self._put(one, _followed(seen, self._memory(memory), views)[...])
            self.made, self._wholes = {}, {}

    def _memory(self, number: int) -> torch.Tensor:
        """The values of a memory, also once a member has all of them."""
        made = self.made[number]
        if not is_wrapper(made):
            return made
        # What was put into the place of the member has become the member's wrapper.
        return torch.Tensor.as_subclass(self._wholes[number], torch.Tensor)


def _followed(seen: Seen, tensor: torch.Tensor, views: dict[int, torch.Tensor]) -> torch.Tensor:
    """Applies steps to a memory.

    Args:
        views: the results of earlier steps, by the ids of these.
    """
    steps: list[Seen] = []
    step: Seen | None = seen
    while step is not None and id(step) not in views:
        steps.append(step)
        step = step.before
    if step is not None:
        tensor = views[id(step)]
    for step in reversed(steps):
        tensor = views[id(step)] = step.making(tensor)
    return tensor


def is_wrapper(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no memory, because it is pending."""
    return bool(torch._C._dispatch_keys(tensor).has(torch._C.DispatchKey.Python))


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """A view of all of it with the same strides; ``view`` changes those of axes of length one."""
    return tensor[...]
