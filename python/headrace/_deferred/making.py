"""From what was recorded of a batch to its values: the tensors that are alive, made natively."""

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
from headrace._deferred.derived import Derivations, empty, is_derived
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
        strict: nothing may be left to Pillow that it decodes.
    """

    threads: Decoder | None
    blocks: Blocks
    pillows: Pillows
    mode: str
    strict: bool


class Batch:
    """What the program's code made of a batch, and the values that are still to come.

    Args:
        recorded: of its pending tensors those are made that somebody still refers to.

    Attributes:
        data: what the collate function returned.
        asked: what the dataset was asked for; None of a stream.
        collated: ``data`` is a batch; else the samples that the collate function takes.
        pins: the batch that the function makes of them is to be in pinned memory.
        native: some of its images are the engine's.
        worker: the process that made it; None: this one.
        why: of each file that neither the engine nor Pillow can decode, which sample it is of and
            what is wrong with it; known once ``finish`` has said that there are some.
        failure: what Pillow raised of the last of these.
    """

    def __init__(self, recorded: Recorded, means: Means) -> None:
        self.data, self.asked, self._means = recorded.data, recorded.asked, means
        self.collated, self._limits = recorded.collated, recorded.limits
        self.worker, self.pins = recorded.worker, recorded.pins
        self.number = -1  # of those that the engine has had work of; in a trace it is the batch
        self.why: list[str] = []
        self.failure: Exception | None = None
        # The pending tensors, and what takes their place.
        alive = _alive(recorded.pending)
        self._pairs, filled = _places([value for value in alive if not is_derived(value)], means)
        self._derived = Derivations(
            [value for value in alive if is_derived(value)], self._pairs, means.blocks
        )
        self._work: Work | None = None
        # By their numbers, the tasks that the engine failed at, and why; and what Pillow is at.
        self._failures: dict[int, HeadraceError] = {}
        self._left: dict[int, Result] | None = None
        self._bad: list[int] | None = None  # what finish returns, once it is known
        wanted = [one for value, made in filled for one in _wanted(value.parts, made)]
        wanted += [(leaf, made.data_ptr(), made.nbytes) for leaf, made in self._derived.wanted]
        # With torch's loader these have their pixels by now, whatever becomes of their files.
        self._images = [
            (image, chain, np.empty(_bytes(chain), np.uint8))
            for image, chain in images_of(recorded)
        ]
        wanted += [_of_an_image(*one) for one in self._images]
        self.native = bool(recorded.pending or self._images)
        self._parts, tasks = _together(wanted, means.mode, self._limits.text)
        # Of each task where its values go. As numbers: of objects that wait Python's collector
        # looks at each again and again.
        self._addresses, self._sizes = [task[3] for task in tasks], [task[4] for task in tasks]
        if tasks and means.threads is not None:
            kept = [*(made for _, made in self._pairs), *(data for *_, data in self._images)]
            kept += [made for _, made in self._derived.wanted]
            self._work = means.threads.submit(tasks, keep=kept)
            self.number = means.threads.submitted - 1

    def look(self) -> bool:
        """Begins with what is left to Pillow, if the engine has done the rest; whether it has."""
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
        """Whether all values came in that time (None: as long as it takes)."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._engine_is_done(timeout_s):
            return False
        for result in (self._left or {}).values():
            if not result.wait(None if end is None else max(0.0, end - time.monotonic())):
                return False
        return True

    def finish(self) -> list[int]:
        """Puts the values where they belong, once they came. An interrupted one is called again.

        Returns:
            the places in the batch of the samples whose files neither the engine nor Pillow can
            decode; empty where ``data`` is the batch as torch's loader would have made it.

        Raises:
            ChangedError: a file is another than the one that was opened.
            LimitError: an image meets a limit that is not Pillow's. Both are ``OSError``s.
            UnsupportedError: the loader is strict, and Pillow has decoded a file.
            OSError: of a stream, whose samples cannot be made again, a file is bad.
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
        """Puts what Pillow has decoded in its place; false where it could not."""
        failure, result = self._failures[number], (self._left or {}).get(number)
        if result is None:
            raise joined(failure, OSError()) from None
        try:
            data = result.get()
        except (ChangedError, MemoryError):
            raise  # the program's code would open another file than it did
        except Exception as theirs:
            # What Pillow raises of bad files. The program's own code will meet it.
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
        """Which sample a file is of, and what is wrong with it."""
        text, place = str(self._failures[number]), self._parts[number].place
        if self.asked is None:
            return text
        indices = self.asked.indices
        known = self.asked.batched and isinstance(indices, list | tuple) and place < len(indices)
        index = indices[place] if known else indices
        return f"{text} (index {index!r})"

    def close(self) -> None:
        """Gives up what is under way."""
        for result in (self._left or {}).values():
            result.cancel()
        if self._work is not None:
            self._work.close()


_Pair = tuple[PendingTensor, torch.Tensor]


def _places(pending: list[PendingTensor], means: Means) -> tuple[list[_Pair], list[_Pair]]:
    """The memory for each tensor's values, and those pairs whose memory is to be filled: tensors
    of another class for the same image (``tv_tensors.Image(x)``) are views of one memory."""
    pairs, filled = [], []
    known: dict[int, torch.Tensor] = {}
    for value in pending:
        one = value.parts[0]
        alone = not (value.stacked or value.pinned)
        if alone and id(one) in known:
            pairs.append((value, known[id(one)][...]))
            continue
        made = empty(value, means.blocks)
        if alone:
            known[id(one)] = made
        pairs.append((value, made))
        filled.append(pairs[-1])
    return pairs, filled


def _alive(pending: list[PendingTensor]) -> list[PendingTensor]:
    """Those that are pending still, and that somebody besides the list refers to."""
    count, probe = sys.getrefcount, [object()]
    unreferred = count(probe[0])
    return [
        pending[place]
        for place in range(len(pending))
        if count(pending[place]) > unreferred and isinstance(pending[place], PendingTensor)
    ]


def images_of(recorded: Recorded) -> list[tuple[DeferredImage, Chain]]:
    """The batch's images that would have their pixels by now, and are yet to be decoded."""
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


_Wanted = tuple[Part, int, int]  # an image, and the address and the bytes of its place in memory


def _wanted(parts: tuple[AnyPart, ...], made: torch.Tensor) -> Iterator[_Wanted]:
    """The images of one tensor, one behind the other in its memory."""
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
    """The engine's tasks, those that a sample makes of one file behind each other.

    Views that are collated as a list lie in different tensors. The engine reads a file once for the
    tasks that follow one another, and decodes it once for those whose keys count up.
    """
    files: dict[Any, list[_Wanted]] = {}
    for one in wanted:
        # Of one sample: a set of one file many times is still work for all threads.
        files.setdefault((one[0].place, _same(one[0].chain.source)), []).append(one)
    parts, tasks = [], []
    ops: Any = None  # of the task before, and its form: for the same ones the text is the same
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
            # What draws nothing may have any key: the next.
            key = chain.key or ((*key[:4], key[4] + 1) if key else (0, 0, 0, 0, 0))
            parts.append(part)
            tasks.append((_source(chain.source), text, key, address, size, same))
    return parts, tasks


def _by_key(one: _Wanted) -> tuple[bool, Key]:
    key = one[0].chain.key
    return key is None, key or (0, 0, 0, 0, 0)


def _same(source: Source) -> Any:
    """Equal for sources of the same bytes, as far as that is known without reading them."""
    if isinstance(source, bytes):
        return id(source)
    return (source.path, source.identity) if source.data is None else id(source.data)


def _source(source: Source) -> Any:
    if isinstance(source, bytes):
        return source
    return source.data or decoder.File(source.path, -1, source.identity)
