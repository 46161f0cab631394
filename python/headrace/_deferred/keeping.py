"""The samples of batches that are under way, so that one whose file is bad is made again alone.

A file turns out to be bad when its batch is decoded, which may be some batches later. The program's
code then runs for that sample, and the batch is collated anew with the others as they were.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np
import torch

from headrace._deferred.arriving import kind_of
from headrace._deferred.recording import Asked
from headrace._deferred.tensor import Part, PendingTensor, stands_alone

_MOST_BYTES = 32 << 20  # of a batch's arrays and files in memory
_KINDS = "torchvision.tv_tensors."  # of tensors, whose clones are of them
_PLAIN = {bool, int, float, complex, str, bytes, type(None)}

_UNCHANGING = (np.generic, PurePath)  # once: a union is made anew each time


class _NotKeptError(Exception):
    """Something of a sample cannot be kept as it is."""


class Kept:
    """The samples of one batch before it is collated.

    They are one flat list, for what waits is looked at by Python's collector: of a container its
    class, how many parts it has, and these; and pending tensors without the tensor, which would be
    made if somebody referred to it.

    Args:
        copies: a collate function of the program's own may change what is kept.
    """

    def __init__(self, asked: Asked, samples: list[Any], copies: bool) -> None:
        self.asked, self._copies, self._bytes = asked, copies, 0
        self._flat: list[Any] = []
        self._keep(samples)

    def samples(self) -> list[Any]:
        """They again; pending tensors are new ones."""
        made: list[Any] = _anew(iter(self._flat))
        return made

    def _keep(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._flat += (None, value)
        elif kind is dict:
            self._flat += (dict, len(value))
            for key, part in value.items():
                self._flat.append(key)
                self._keep(part)
        elif kind in (list, tuple) or (isinstance(value, tuple) and hasattr(kind, "_make")):
            self._flat += (kind, len(value))
            for part in value:
                self._keep(part)
        elif isinstance(value, PendingTensor):
            part = value.parts[0]
            if not isinstance(part, Part) or not stands_alone(value):
                raise _NotKeptError
            source = part.chain.source
            self._add_bytes(source if isinstance(source, bytes) else source.data)
            self._flat += (PendingTensor, value.plain, part)
        else:
            self._flat += (None, self._leaf(value))

    def _leaf(self, value: Any) -> Any:
        if isinstance(value, _UNCHANGING):
            return value
        if type(value) is np.ndarray and not value.dtype.hasobject:
            self._add_bytes(value)
            return value.copy() if self._copies else value
        of_a_kind = type(value) is torch.Tensor or type(value).__module__.startswith(_KINDS)
        if of_a_kind and isinstance(value, torch.Tensor) and value.layout == torch.strided:
            self._add_bytes(value)
            return value.clone() if self._copies else value
        # An object may hold pending tensors: kept, each would be made besides the batch.
        raise _NotKeptError

    def _add_bytes(self, value: Any) -> None:
        self._bytes += len(value) if isinstance(value, bytes) else getattr(value, "nbytes", 0)
        if self._bytes > _MOST_BYTES:
            raise _NotKeptError


def _anew(flat: Iterator[Any]) -> Any:
    kind = next(flat)
    if kind is None:
        return next(flat)
    if kind is PendingTensor:
        plain, part = next(flat), next(flat)
        return kind_of(plain)((part,), *part.described())
    count = next(flat)
    if kind is dict:
        return {next(flat): _anew(flat) for _ in range(count)}
    parts = [_anew(flat) for _ in range(count)]
    return parts if kind is list else getattr(kind, "_make", tuple)(parts)


class Keeping:
    """The batches that a process has made last.

    Args:
        most: how many may be under way.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: dict[int, Kept] = {}

    def keep(self, asked: Asked, samples: Any, copies: bool) -> None:
        """Keeps a batch's samples, if they can be."""
        self._kept.pop(asked.number, None)
        try:
            kept = Kept(asked, samples, copies)
        except _NotKeptError:
            return
        self._kept[asked.number] = kept
        while len(self._kept) > self.most:
            del self._kept[next(iter(self._kept))]

    def forget(self, number: int) -> None:
        """A batch has all its values, and is not asked for again."""
        self._kept.pop(number, None)

    def of(self, asked: Asked) -> Kept | None:
        """What there is of a batch that is asked for again; None: all of it has to be made."""
        kept = self._kept.get(asked.number)
        if kept is None:
            return None
        before, now = (one._replace(indices=None, eager=frozenset()) for one in (kept.asked, asked))
        return kept if before == now and asked.eager > kept.asked.eager else None


class Turns(Iterator[int]):
    """Which worker process torch's loader gives the next batch; one may be sent where it was made.

    torch's loader asks its sampler for a batch, and then this for the worker (``_try_put_index``).
    Of a worker that has ended it asks again.

    Attributes:
        made_by: the workers of batches that are made again, by their numbers.
    """

    def __init__(self, own: Iterator[int]) -> None:
        self._own = own
        self._next: int | None = None
        self.made_by: dict[int, int] = {}

    def send(self, number: int) -> None:
        """Has a batch go where it was made, as the next one."""
        self._next = self.made_by.pop(number, None)

    def __next__(self) -> int:
        chosen, self._next = self._next, None
        return next(self._own) if chosen is None else chosen
