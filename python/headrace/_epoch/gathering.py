"""Exchanges one value of each rank between all ranks, in a wait that Ctrl-C can interrupt.

While torch waits, Python runs no signal handler. So each rank polls whether the others have
arrived. A rank that is interrupted leaves a note in the store through which the ranks met, so that
the others do not wait for it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from typing import Any

_LOOK_S = 0.002  # between two looks, at first
_LONGEST_LOOK_S = 0.05
_NOTE_S = 0.5  # between two looks at the store, which one process serves

_groups: tuple[Any, Any] = (None, None)  # the default group, and ours beside it
_under_way: Gathering | None = None  # one that an exception ended, for the next call
_number = 0  # the number of the next exchange
_note = ""  # the note that this rank left in the store


class InterruptedElsewhereError(RuntimeError):
    """A rank left a note that it was interrupted. It may come again, and so may this one."""


class Gathering:
    """An exchange of the words of all ranks: first their lengths, then the words themselves."""

    def __init__(self, distributed: Any, group: Any, word: bytes, number: int) -> None:
        import torch

        self.word, self.group, self.number = word, group, number
        self._distributed = distributed
        own = torch.frombuffer(bytearray(word), dtype=torch.uint8)
        self._own = own
        self._lengths: Any = torch.zeros(distributed.get_world_size(), dtype=torch.int64)
        self._words: list[Any] = []
        self._work: Any = None

    def finished(self) -> bool:
        """Whether all ranks have come. The first call sends this rank's word."""
        import torch

        if self._work is None:
            length = torch.tensor([len(self.word)])
            self._work = self._all(list(self._lengths.split(1)), length)
        if not self._work.is_completed():
            return False
        self._work.wait()  # raises what went wrong
        if self._words:
            return True
        longest = int(self._lengths.max())
        own = torch.zeros(longest, dtype=torch.uint8)
        own[: len(self.word)] = self._own
        words = [torch.empty_like(own) for _ in self._lengths]
        self._work = self._all(words, own)
        self._words = words
        return False

    def _all(self, into: list[Any], own: Any) -> Any:
        return self._distributed.all_gather(into, own, group=self.group, async_op=True)

    def words(self) -> list[Any]:
        """Returns what each rank said, once the exchange is finished."""
        lengths = self._lengths.tolist()
        return [
            json.loads(bytes(word[:length].tolist()))
            for word, length in zip(self._words, lengths, strict=True)
        ]


def everyones(distributed: Any, word: Any, timeout_s: float) -> list[Any]:
    """Returns what each rank says, by rank. All ranks have to call this, with what JSON can hold.

    Raises:
        RuntimeError: a rank did not come in that time, was interrupted, or is gone.
    """
    global _under_way, _number, _note
    group = _group(distributed, timeout_s)
    told = json.dumps(word, default=repr).encode()
    store, key = _store(distributed), ""
    try:
        found = _under_way
        if found is None or found.group is not group or found.word != told:
            found = _under_way = Gathering(distributed, group, told, _number)
        key = f"headrace/interrupted/{found.number}"
        if _note and store is not None:
            with contextlib.suppress(RuntimeError):  # some stores cannot delete
                store.delete_key(_note)
            _note = ""
        _wait(found, store, key)
    except InterruptedElsewhereError:
        raise
    except RuntimeError:
        _under_way = None
        raise
    except BaseException as failure:
        if store is not None and key:
            _note = key
            store.set(key, f"rank {distributed.get_rank()} was interrupted: {failure!r}")
        raise
    _number, _under_way = found.number + 1, None
    return found.words()


def _wait(found: Gathering, store: Any, key: str) -> None:
    pause, looked = _LOOK_S, time.monotonic()
    while not found.finished():
        time.sleep(pause)
        pause = min(pause * 1.5, _LONGEST_LOOK_S)
        if store is not None and time.monotonic() - looked > _NOTE_S:
            looked = time.monotonic()
            if store.check([key]):
                raise InterruptedElsewhereError(store.get(key).decode("utf-8", "replace"))


def _store(distributed: Any) -> Any:
    """The store through which the ranks met; None if torch does not say, or they met otherwise."""
    try:
        return distributed.distributed_c10d._get_default_store()
    except (AttributeError, ValueError, RuntimeError):
        return None


def _group(distributed: Any, timeout_s: float) -> Any:
    """Returns a group over CPU sockets, because the default one may be NCCL's, which takes only a
    GPU's tensors."""
    global _groups, _number
    world = distributed.group.WORLD
    if _groups[0] is not world:
        limit = datetime.timedelta(seconds=timeout_s)
        _groups, _number = (world, distributed.new_group(backend="gloo", timeout=limit)), 0
    return _groups[1]
