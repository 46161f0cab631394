"""Makes the values of a recorded batch natively, for the tensors that are still referred to."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import PIL.Image
import torch

from headrace._deferred import tensor
from headrace._deferred.arriving import Recorded
from headrace._deferred.chain import Chain, Form, Key, config
from headrace._deferred.derived import Derivations, empty, is_derived, view_of
from headrace._deferred.image import DeferredImage
from headrace._deferred.leftover import Pillows
from headrace._deferred.memory import Blocks
from headrace._deferred.parts import AnyPart, Part, Stacked
from headrace._deferred.source import Source
from headrace._deferred.tensor import PendingTensor
from headrace._engine import decoder
from headrace._engine.decoder import AnyTask, Decoder, Work
from headrace._torch.failures import joined, noted
from headrace._torch.threads import Result
from headrace.errors import ChangedError, HeadraceError, UnsupportedError


class Means(NamedTuple):
    """What a loader makes batches with.

    Attributes:
        mode: "exact" or "fast".
        strict: whether it is an error if Pillow has to decode an image.
    """

    threads: Decoder | None
    blocks: Blocks
    pillows: Pillows
    mode: str
    strict: bool


class Batch:
    """What the program's code made of a batch, and the values that are still to come.

    Args:
        recorded: the batch as it was recorded. Only those of its pending tensors are made that
            somebody still refers to.

    Attributes:
        data: what the collate function returned.
        asked: what the dataset was asked for; None for a stream.
        taken: as in ``Recorded``.
        collated: whether ``data`` is a batch; else it is the samples for the collate function.
        pins: whether the batch that the function makes of them is to be in pinned memory.
        native: whether the engine makes some of its images.
        worker: the number of the worker process that made the batch; None: this process.
        why: for each file that neither the engine nor Pillow can decode, its sample and what is
            wrong with it; known once ``finish`` has returned some.
        failure: what Pillow raised for the last of these.
    """

    def __init__(self, recorded: Recorded, means: Means) -> None:
        self.data, self.asked, self._means = recorded.data, recorded.asked, means
        self.collated, self._limits = recorded.collated, recorded.limits
        self.worker, self.pins = recorded.worker, recorded.pins
        self.taken = recorded.taken
        self.number = -1  # in a trace: how much work the engine got before; -1: this has none
        self.why: list[str] = []
        self.failure: Exception | None = None
        # The pending tensors, and what takes their place.
        alive = _alive(recorded.pending)
        # With torch's loader, tensors that a worker process sends share memory, but autograd knows
        # of none that it is a view of another.
        apart = recorded.worker is not None
        plain = [value for value in alive if not is_derived(value)]
        self._pairs, filled = _places(plain, means, apart)
        derived = [value for value in alive if is_derived(value)]
        self._derived = Derivations(derived, self._pairs, means.blocks, apart)
        self._work: Work | None = None
        # By the numbers of tasks: why the engine failed at them, and Pillow's results for them.
        self._failures: dict[int, HeadraceError] = {}
        self._left: dict[int, Result] | None = None
        self._bad: list[int] | None = None  # what finish returns, once it is known
        wanted = [one for value, made in filled for one in _wanted(value.parts, made)]
        wanted += [(leaf, made.data_ptr(), made.nbytes) for leaf, made in self._derived.wanted]
        # With torch's loader these images have their pixels by now, whatever happens to their
        # files later. So they are decoded, too.
        self._images = [
            (image, chain, np.empty(_bytes(chain), np.uint8))
            for image, chain in images_of(recorded)
        ]
        wanted += [_of_an_image(*one) for one in self._images]
        self.native = bool(recorded.pending or self._images)
        self._parts, tasks = _together(wanted, means.mode, self._limits.text)
        # Where the values of each task go. These are numbers, because Python's garbage collector
        # would look at waiting objects again and again.
        self._addresses, self._sizes = [task[3] for task in tasks], [task[4] for task in tasks]
        if tasks and means.threads is not None:
            kept = [*(made for _, made in self._pairs), *(data for *_, data in self._images)]
            kept += [made for _, made in self._derived.wanted]
            self._work = means.threads.submit(tasks, keep=kept)
            self.number = means.threads.submitted - 1

    def look(self) -> bool:
        """Whether the engine is done; if so, Pillow begins with the images that are left to it."""
        return self._engine_is_done(0)

    def _engine_is_done(self, timeout_s: float | None) -> bool:
        if self._work is None or self._left is not None or self._bad is not None:
            return True
        if not self._work.wait(timeout_s):
            return False
        self._failures = self._work.failures()
        left, begin = {}, self._means.pillows.begin
        for number, failure in self._failures.items():
            if not self._limits.stand(failure):
                part = self._parts[number]
                left[number] = begin(part.chain, part.form, self._means.mode, failure)
        self._left = left
        return True

    def wait(self, timeout_s: float | None) -> bool:
        """Whether all values came within that time (None: as long as it takes)."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._engine_is_done(timeout_s):
            return False
        for result in (self._left or {}).values():
            if not result.wait(None if end is None else max(0.0, end - time.monotonic())):
                return False
        return True

    def finish(self) -> list[int]:
        """Puts the values where they belong, once they came. If interrupted, it is called again.

        Returns:
            the places in the batch of the samples whose files neither the engine nor Pillow can
            decode; empty: ``data`` is the batch as torch's loader would have made it.

        Raises:
            ChangedError: a file is not the one that was opened any more.
            LimitError: an image meets a limit that is not Pillow's. Both are ``OSError``s.
            UnsupportedError: the loader is strict, and Pillow has decoded a file.
            OSError: a file of a stream is bad. A stream's samples cannot be made again.
        """
        if self._bad is None:
            bad = [number for number in self._failures if not self._by_pillow(number)]
            self.why = [self._told(number) for number in bad]
            self._bad = [self._parts[number].place for number in bad]
        if not self._bad:
            self._derived.make()
            for value, made in self._pairs:
                tensor.replace(value, made)
            for image, chain, data in self._images:
                if image.chain is chain:
                    image.become(PIL.Image.frombytes(chain.mode, chain.size, data))
        self.close()
        self._pairs, self._images = [], []
        self._derived.close()
        return self._bad

    def _by_pillow(self, number: int) -> bool:
        """Puts what Pillow has decoded in its place; false: Pillow could not decode it."""
        failure, result = self._failures[number], (self._left or {}).get(number)
        if result is None:
            raise joined(failure, OSError()) from None
        try:
            data = result.get()
        except (ChangedError, MemoryError):
            raise  # run again, the program's code would open another file
        except Exception as theirs:
            # Pillow's error of a bad file. The program's own code will meet it when it runs again.
            if self.asked is None:
                noted(theirs, self._told(number))
                raise
            self.failure = theirs.with_traceback(None)
            return False
        if self._means.strict:
            text = f"strict=True, and Pillow decodes what the engine cannot: {failure}"
            raise UnsupportedError(text)
        ctypes.memmove(self._addresses[number], data, self._sizes[number])
        return True

    def _told(self, number: int) -> str:
        """What is wrong with a task's file, and the index of its sample."""
        text, place = str(self._failures[number]), self._parts[number].place
        if self.asked is None:
            return text
        indices = self.asked.indices
        known = self.asked.batched and isinstance(indices, list | tuple) and place < len(indices)
        index = indices[place] if known else indices
        return f"{text} (index {index!r})"

    def close(self) -> None:
        """Gives up the work that is under way."""
        for result in (self._left or {}).values():
            result.cancel()
        if self._work is not None:
            self._work.close()


_Pair = tuple[PendingTensor, torch.Tensor]


def _places(
    pending: list[PendingTensor], means: Means, apart: bool
) -> tuple[list[_Pair], list[_Pair]]:
    """Each tensor with the memory for its values; and those pairs whose memory is to be filled.

    Tensors of different classes for the same image (``tv_tensors.Image(x)``) have one memory, which
    is filled once.

    Args:
        apart: as in ``Derivations``.
    """
    pairs, filled = [], []
    known: dict[int, torch.Tensor] = {}
    for value in pending:
        one = value.parts[0]
        alone = not (value.stacked or value.pinned)
        if alone and id(one) in known:
            pairs.append((value, view_of(known[id(one)], apart)))
            continue
        made = empty(value, means.blocks)
        if alone:
            known[id(one)] = made
        filled.append((value, made))
        pairs.append((value, view_of(made, apart) if alone and value.viewed else made))
    return pairs, filled


def _alive(pending: list[PendingTensor]) -> list[PendingTensor]:
    """The tensors that are still pending, and that somebody besides this list refers to."""
    count, probe = sys.getrefcount, [object()]
    unreferred = count(probe[0])
    return [
        pending[place]
        for place in range(len(pending))
        if count(pending[place]) > unreferred and isinstance(pending[place], PendingTensor)
    ]


def images_of(recorded: Recorded) -> list[tuple[DeferredImage, Chain]]:
    """The batch's images that are not decoded yet, but would be with torch's loader."""
    alive = [image for known in recorded.images if (image := known()) is not None]
    return [
        (image, image.chain)
        for image in alive
        if image.loaded and image.chain is not None and image.chain.native
    ]


def _bytes(chain: Chain) -> int:
    return chain.size[0] * chain.size[1] * chain.channels


def _of_an_image(image: DeferredImage, chain: Chain, data: Any) -> _Wanted:
    form = Form(layout="NHWC", channels=chain.channels)
    return Part(chain, form, image.place), data.ctypes.data, data.nbytes


_Wanted = tuple[Part, int, int]  # an image, and the address and size in bytes of its memory


def _wanted(parts: tuple[AnyPart, ...], made: torch.Tensor) -> Iterator[_Wanted]:
    """The images of one tensor, which lie one after the other in its memory."""
    address, size = made.data_ptr(), made.nbytes // len(parts)
    for place, part in enumerate(parts):
        if isinstance(part, torch.Tensor):
            made[place] = part
        elif isinstance(part, Stacked):
            yield from _wanted(part.parts, made[place])
        else:
            leaf = part.leaf
            assert isinstance(leaf, Part), "what operators make is given to Derivations"
            yield leaf, address + place * size, size


def _together(wanted: list[_Wanted], mode: str, limits: str) -> tuple[list[Part], list[AnyTask]]:
    """The engine's tasks; those that one sample makes of one file follow one another.

    Views that are collated as a list lie in different tensors. The engine reads a file once for
    tasks that follow one another, and decodes it once for those whose keys count up.
    """
    files: dict[Any, list[_Wanted]] = {}
    for one in wanted:
        # By sample, too: a dataset that has one file many times is still work for all threads.
        files.setdefault((one[0].place, _same(one[0].chain.source)), []).append(one)
    parts, tasks = [], []
    ops: Any = None  # the ops and the form of the task before: if they are the same, so is the text
    form: Any = None
    text = b""
    for views in files.values():
        if len(views) > 1:
            views.sort(key=_by_key)
        key: Key | None = None
        for part, address, size in views:
            chain = part.chain
            if chain.ops is not ops or part.form is not form:
                ops, form = chain.ops, part.form
                text = config(chain, form, mode, limits).encode()
            same = key is not None
            # A task that draws nothing may have any key, so it gets the next.
            key = chain.key or ((*key[:4], key[4] + 1) if key else (0, 0, 0, 0, 0))
            parts.append(part)
            tasks.append((_source(chain.source), text, key, address, size, same))
    return parts, tasks


def _by_key(one: _Wanted) -> tuple[bool, Key]:
    key = one[0].chain.key
    return key is None, key or (0, 0, 0, 0, 0)


def _same(source: Source) -> Any:
    """A value that is equal for sources of the same bytes, as far as is known without reading."""
    if isinstance(source, bytes):
        return id(source)
    return (source.path, source.identity) if source.data is None else id(source.data)


def _source(source: Source) -> Any:
    if isinstance(source, bytes):
        return source
    return source.data or decoder.File(source.path, -1, source.identity)
