"""From what was recorded of a batch to its values: the tensors that are alive, made natively."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import torch

from headrace._deferred import pixels, tensor
from headrace._deferred.arriving import Recorded
from headrace._deferred.chain import Key, config
from headrace._deferred.memory import Blocks
from headrace._deferred.source import Source
from headrace._deferred.tensor import Part, PendingTensor
from headrace._engine import decoder
from headrace._engine.decoder import Decoder, Task, Work
from headrace.errors import ChangedError, HeadraceError


class Batch:
    """What the program's code made of a batch, and the values that are still to come.

    Args:
        recorded: of its pending tensors those are made that somebody still refers to.
        mode: "exact" or "fast".

    Attributes:
        data: what the collate function returned.
        asked: what the dataset was asked for; None of a stream.
        collated: ``data`` is a batch; else the samples that the collate function takes.
        native: some of its images are the engine's.
    """

    def __init__(
        self, recorded: Recorded, threads: Decoder | None, blocks: Blocks, mode: str
    ) -> None:
        self.data, self.asked, self._mode = recorded.data, recorded.asked, mode
        self.collated = recorded.collated
        self.native = bool(recorded.pending)
        # The pending tensors, and what takes their place.
        self._pairs = [(value, _empty(value, blocks)) for value in _alive(recorded.pending)]
        self._work: Work | None = None
        self._bad: list[int] | None = None  # what finish returns, once it is known
        wanted = [one for value, made in self._pairs for one in _wanted(value.parts, made)]
        self._parts, self._tasks = _together(wanted, mode)
        if self._tasks and threads is not None:
            self._work = threads.submit(self._tasks, keep=[made for _, made in self._pairs])

    def wait(self, timeout_s: float | None) -> bool:
        """Whether all values came in that time (None: as long as it takes)."""
        return self._work is None or self._bad is not None or self._work.wait(timeout_s)

    def finish(self) -> list[int]:
        """Puts the values where they belong, once they came. An interrupted one is called again.

        Returns:
            the places in the batch of the samples whose files neither the engine nor Pillow can
            decode; empty where ``data`` is the batch as torch's loader would have made it.

        Raises:
            ChangedError: a file is another than the one that was opened.
        """
        if self._bad is None:
            failures = [] if self._work is None else self._work.failures()
            bad = [number for number in failures if not self._with_pillow(number)]
            self._bad = [self._parts[number].place for number in bad]
        if not self._bad:
            for value, made in self._pairs:
                tensor.replace(value, made)
        self.close()
        self._pairs = []
        return self._bad

    def _with_pillow(self, number: int) -> bool:
        """What Pillow decodes and the engine does not: its pixels take the place of the file."""
        part, (_, _, _, address, size, _) = self._parts[number], self._tasks[number]
        try:
            _, data = pixels.decoded(part.chain, part.form, self._mode)
        except ChangedError:
            raise  # the program's code would open another file than it did
        except (OSError, ValueError, SyntaxError, HeadraceError):
            # What Pillow raises of bad files. The program's own code will meet it.
            if self.asked is None:
                raise
            return False
        ctypes.memmove(address, data, size)
        return True

    def close(self) -> None:
        """Gives up what is under way."""
        if self._work is not None:
            self._work.close()


def _alive(pending: list[PendingTensor]) -> list[PendingTensor]:
    """Those that are pending still, and that somebody besides the list refers to."""
    count, probe = sys.getrefcount, [object()]
    unreferred = count(probe[0])
    return [
        pending[place]
        for place in range(len(pending))
        if count(pending[place]) > unreferred and isinstance(pending[place], PendingTensor)
    ]


_Wanted = tuple[Part, int, int]  # an image, and the address and the bytes of its place in memory


def _wanted(parts: tuple[Part | torch.Tensor, ...], made: torch.Tensor) -> Iterator[_Wanted]:
    """The images of one tensor, one behind the other in its memory."""
    address, size = made.data_ptr(), made.nbytes // len(parts)
    for place, part in enumerate(parts):
        if isinstance(part, torch.Tensor):
            made[place] = part
        else:
            yield part, address + place * size, size


def _together(wanted: list[_Wanted], mode: str) -> tuple[list[Part], list[Task]]:
    """The engine's tasks, those that a sample makes of one file behind each other.

    Views that are collated as a list lie in different tensors. The engine reads a file once for the
    tasks that follow one another, and decodes it once for those whose keys count up.
    """
    files: dict[Any, list[_Wanted]] = {}
    for one in wanted:
        # Of one sample: a set of one file many times is still work for all threads.
        files.setdefault((one[0].place, _same(one[0].chain.source)), []).append(one)
    parts, tasks = [], []
    for views in files.values():
        if len(views) > 1:
            views.sort(key=_by_key)
        key: tuple[int, int, int, int, int] | None = None
        for part, address, size in views:
            chain = part.chain
            text = config(chain, part.form, mode).encode()
            same = key is not None
            # What draws nothing may have any key: the next.
            key = chain.key or ((*key[:4], key[4] + 1) if key else (0, 0, 0, 0, 0))
            parts.append(part)
            tasks.append(Task(_source(chain.source), text, key, address, size, same))
    return parts, tasks


def _by_key(one: _Wanted) -> tuple[bool, Key]:
    key = one[0].chain.key
    return key is None, key or Key(0, 0, 0, 0, 0)


def _same(source: Source) -> Any:
    """Equal for sources of the same bytes, as far as that is known without reading them."""
    if isinstance(source, bytes):
        return id(source)
    return (source.path, source.identity) if source.data is None else id(source.data)


def _source(source: Source) -> Any:
    if isinstance(source, bytes):
        return source
    return source.data or decoder.File(source.path, identity=source.identity)


def _empty(value: PendingTensor, blocks: Blocks) -> torch.Tensor:
    shape, dtype = value.described()
    if value.pinned:
        return torch.empty(shape, dtype=dtype, pin_memory=True)
    return blocks.tensor(shape, dtype)
