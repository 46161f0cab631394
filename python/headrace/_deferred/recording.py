"""Keeps what a dataset's own code does to images while a batch of its samples is made.

One recording belongs to one batch and to the thread that runs the dataset's code. Nothing here
knows of Pillow, or of how images are decoded.
"""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from headrace._deferred.chain import Chain, Key, Op
from headrace._deferred.drawn import Repeated
from headrace._deferred.known import Transforms, behind_draws
from headrace._deferred.limits import Limits
from headrace._deferred.source import File, Source
from headrace._translate.libraries import of_python, package_of

if TYPE_CHECKING:
    from headrace._deferred.altering import Altering


class Draws(NamedTuple):
    """What a loader's draws in the engine are keyed by, apart from the sample."""

    seed: int
    epoch: int


class Asked(NamedTuple):
    """A batch that the sampler chose.

    Attributes:
        number: the number of the batch in its epoch.
        indices: what the sampler gave; for a loader that does not batch, a single index.
        samples: the number of each sample.
        draws: how often each sample came before in this epoch.
        batched: whether ``indices`` is a list of indices.
        key: the key of the draws; None: it is made of torch's base seed, which is known where the
            batch is made, and of ``passed``.
        passed: how many epochs that base seed served before.
        eager: the places in the batch of samples whose images Pillow opens.
    """

    number: int
    indices: Any
    samples: list[int]
    draws: list[int]
    batched: bool
    key: Draws | None
    passed: int
    eager: frozenset[int] = frozenset()


class Reason(NamedTuple):
    """Why pixels were needed in Python, and the line of the program that needed them."""

    text: str
    place: str


class ValuesNeeded(BaseException):
    """A collate function needs values that are not made yet; it will be called again with them.

    This is no ``Exception``, because the function may catch those.
    """


_numbers = itertools.count(1)
_initial_seed = torch.default_generator.initial_seed  # what torch.initial_seed calls


class Recording:
    """The images of one batch.

    Attributes:
        number: its number among the recordings of the process.
        pending: every pending tensor that was made, alive or not; of earlier samples only those
            that have no values yet.
        some_have_values: whether some pending tensors of this sample got their values.
        files: every file that was opened.
        reasons: why pixels were needed in Python, once each.
        foreign: for each image that Pillow opened in the engine's place, its path, or b"", and why.
        engine: whether this process may decode natively.
        engine_made: whether the engine made an image at once, for code that needed its pixels.
        eager_open: whether opened images are decoded at once, natively if that is allowed.
        travels: whether the batch, or an error in its place, is sent to another process.
        before: the recording that this thread had before, if a dataset iterates over a loader.
        place: the place of the current sample in the batch.
        collating: whether all samples are made, and the collate function runs.
        eager: whether Pillow opens everything, as if nothing were recorded.
        asked: the request for the batch; None for a stream.
        failed: the places of samples whose files could not be decoded when code needed pixels, or
            were written to meanwhile.
        transforms: the dataset's transforms, as the engine knows them.
        limits: the engine's limits for what is opened.
        opened: whether the program's code opened images.
        waits: whether values are made with the whole batch and not now; code that needs some is
            called again then.
        refused: whether code had to wait. It is noted here because an ``except:`` of the program
            may have caught ``ValuesNeeded``.
        drawing: whether the engine draws transforms; else torchvision does, from torch's generator.
        explains: whether every line that needs pixels is noted, also if the pixels are there.
        altering: what other pixels a line gets; None: all lines get the image's own.
        repeated: in a process without the engine, what draws the sample's transforms in its place
            if pixels are needed at once.
        images: in such a process, the sample's images that have draws.
        made: every deferred image of the batch.
        steps: the steps (``pixels.Step``) of the sample's image that Pillow made last.
        inside: the ids of transforms that say what they equal and whose own code is running.
        begun: by their ids, the sources that Pillow would have decoded by now and that nobody has
            decoded yet, with the places of their samples.
    """

    def __init__(
        self,
        draws: Draws,
        engine: bool,
        transforms: Transforms,
        asked: Asked | None,
        limits: Limits,
    ) -> None:
        self.draws, self.engine, self.transforms, self.asked = draws, engine, transforms, asked
        self.limits = limits
        self.engine_made, self.number = False, next(_numbers)
        self.failed: set[int] = set()
        self.eager_open, self.before, self.travels = False, current(), False
        self.pending: list[Any] = []
        self._looked_at = 0  # how many of these belong to earlier samples
        self.some_have_values = False
        self.files: list[File] = []
        self.begun: dict[int, tuple[Source, int]] = {}
        self.reasons: dict[Reason, None] = {}
        self.foreign: list[tuple[bytes, str]] = []
        # The beginning of the sample's keys, with its number and how often it came before.
        self._stem = (*draws, 0, 0)
        self.place, self.collating = -1, False
        self.eager = self.opened = False
        self.drawing, self.waits, self.refused = True, False, False
        self.explains = False
        self.altering: Altering | None = None
        self.repeated: list[Repeated] = []
        self.images: list[Any] = []
        self.made: list[weakref.ref[Any]] = []
        self.steps: list[Any] = []
        self.inside: set[int] = set()
        self._calls, self._seed = 0, _initial_seed()
        # For each key of this batch, how many places in the engine's list its calls may take.
        self._places: dict[Key, int] = {}

    @property
    def draws_natively(self) -> bool:
        """Whether the engine draws what comes next, because nobody has seeded torch's generator.

        The generator's own method may have seeded it, which no patch sees. So its seed is compared.
        """
        return self.drawing and _initial_seed() == self._seed

    def begin(self, sample: int, draw: int, eager: bool = False) -> None:
        """Begins with the next sample."""
        if self.some_have_values:  # these would be kept as long as the batch
            self.some_have_values = False
            self.pending[self._looked_at :] = [
                value for value in self.pending[self._looked_at :] if "parts" in value.__dict__
            ]
        self._looked_at = len(self.pending)
        self._stem, self.eager = (*self.draws, sample, draw), eager
        self.opened |= eager  # nothing is seen of what an eager sample opens
        self.place += 1
        self._calls, self.drawing, self._seed = 0, True, _initial_seed()
        self.repeated.clear()
        self.images.clear()

    def new_key(self) -> Key:
        """A new key for the next call of transforms that the engine draws."""
        self._calls += 1
        key = (*self._stem, self._calls - 1)
        self._places[key] = 0
        return key

    def before_more_draws(self, chain: Chain, drawn: tuple[Op, ...]) -> tuple[Op, ...] | None:
        """The ops to put between an image that has draws and the next call that draws.

        None: torchvision has to do that call, because the program kept the image from another
        batch, or because there are too many calls.
        """
        key = chain.key
        if key not in self._places:
            return None
        found = behind_draws(chain.ops, drawn, self._places[key])
        if found is None:
            return None
        between, self._places[key] = found
        return (between,) if between.text else ()

    def refuse(self) -> None:
        """Has code that needs values wait. If it asks again, it has caught the error and gets them.

        Raises:
            ValuesNeeded: values are not made now.
        """
        if self.waits:
            self.waits, self.refused = False, True
            raise ValuesNeeded

    def let_go(self) -> list[tuple[Source, int]]:
        """The sources in ``begun`` of which the program has kept nothing, with their places."""
        count, pending = sys.getrefcount, self.pending
        alone = [place for place, value in enumerate(pending) if count(value) <= _LISTED]
        for place in reversed(alone):
            del pending[place]
        begun, self.begun = [*self.begun.values()], {}
        return [(source, place) for source, place in begun if count(source) <= _PAIRED]

    def settle(self) -> bool:
        """Lets go of the files that the sample opened.

        Returns:
            false: a file was written to meanwhile, and its images are not decoded yet.
        """
        self.steps.clear()
        if not self.files:
            return True
        kept = [file.settle() for file in self.files]
        self.files.clear()
        return self.eager_open or all(kept)

    def say_instead(self, text: str, other: str) -> None:
        """Replaces the text of a reason that was noted, because more is known now."""
        self.reasons = {
            reason._replace(text=other) if reason.text == text else reason: None
            for reason in self.reasons
        }

    def note(self, text: str = "", of: str = "") -> Altering | None:
        """Notes that pixels are needed in Python, by what, and at which line of the program.

        Args:
            text: the reason; "": the function that the program called is the reason.
            of: what is special about the image.

        Returns:
            how the pixels are to be altered for that line; None: they stay the image's own.
        """
        needing, line = _caller()
        self.reasons[Reason(text or f"{needing} needs the pixels{of}", line)] = None
        altering = self.altering
        return altering if altering is not None and altering.place == line else None


# The references that a loop sees to what is in one list, or one pair of a list, and nowhere else.
(_LISTED,) = [sys.getrefcount(value) for _, value in enumerate([object()])]
(_PAIRED,) = [sys.getrefcount(source) for source, _ in [(object(), 0)]]


class _Local(threading.local):
    recording: Recording | None = None
    # If this thread works for code that is recorded in another thread: that recording, and the
    # line that gave it the work.
    giver: tuple[Recording, str] | None = None
    failures = 0  # how many files could not be decoded when code needed their pixels


_local = _Local()


def current() -> Recording | None:
    """The recording of this thread; None: images open as without Headrace."""
    return _local.recording


def place_of(known: int | None) -> int:
    """The place in the batch that belongs to an image or a tensor which is made now.

    In a collate function that is the place of the image that it is made of. In a dataset's code it
    is the current sample's, because the code may have kept that image from another batch.

    Args:
        known: the place of the image that it is made of; None: there is none.
    """
    found = _local.recording
    if found is None or (found.collating and known is not None):
        return known or 0
    return found.place


def change(recording: Recording | None) -> None:
    """Makes a recording this thread's."""
    _local.recording = recording


def has_values() -> None:
    """Notes that a tensor of the sample got its values."""
    found = _worked_for()
    if found is not None:
        found.some_have_values = True


def _worked_for() -> Recording | None:
    """The recording of this thread, or of the thread that gave it its work."""
    return _local.recording if _local.giver is None else _local.giver[0]


def decoding_failed() -> None:
    """Notes that a file could not be decoded, later than Pillow would have found out."""
    _local.failures += 1
    found = _worked_for()
    if found is not None and not found.eager_open:
        found.failed.add(found.place)


def failures() -> int:
    """How many files this thread could not decode."""
    return _local.failures


@contextmanager
def paused() -> Iterator[None]:
    """A context in which Pillow and torchvision work in this thread as without Headrace."""
    before, giver = _local.recording, _local.giver
    _local.recording = _local.giver = None
    try:
        yield
    finally:
        _local.recording, _local.giver = before, giver


def for_another_thread(found: Recording, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a function that recorded code has another thread call, which records nothing."""
    giver = (found, _caller()[1])

    def called(*arguments: Any, **named: Any) -> Any:
        before, _local.giver = _local.giver, giver
        try:
            return function(*arguments, **named)
        finally:
            _local.giver = before

    return called


def note_of_another_thread(text: str) -> None:
    """Notes what Python does in this thread, if it works for code that another thread records."""
    if _local.giver is not None:
        found, place = _local.giver
        found.opened = True
        found.reasons[Reason(text, place)] = None


SWITCHED = "<headrace>"  # the file of the code that takes the place of a function's own
# Lines of these are not the program's own, nor are those of Python's own modules. Lines of
# torchvision's datasets count as the program's, because they are what it runs.
_LIBRARIES = ("headrace.", "PIL.", "torch.", "torchvision.", "numpy.")
_DATASETS = "torchvision.datasets."
# Frames that say little: those that call a Module's forward, torch's operators written in Python,
# and wrappers of functions that switch gradients off or have several forms.
_BEHIND_CALLS = (
    *("torch.nn.modules.module.", "torch._tensor.", "torch.overrides."),
    *("torch.utils._contextlib.", "torch._jit_internal."),
)


def _name(frame: Any) -> str:
    """The name of a frame's function, with the class of the object if it is a method."""
    owner = frame.f_locals.get("self")
    if owner is not None and not isinstance(owner, type):
        return f"{type(owner).__module__}.{type(owner).__qualname__}.{frame.f_code.co_name}"
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    return f"{module}.{getattr(code, 'co_qualname', code.co_name)}"  # Python 3.11 and later


def _of_a_library(module: str) -> bool:
    return (
        module.startswith(_LIBRARIES)
        or package_of(module) in ("datasets", "timm")
        or of_python(module)
    )


def _says_little(frame: Any) -> bool:
    """Whether a frame is a list of transforms or a switched function: what they call says more."""
    return (
        type(frame.f_locals.get("self")).__name__ in ("Compose", "Sequential")
        or frame.f_code.co_filename == SWITCHED
    )


def _caller() -> tuple[str, str]:
    """The function that the program called, and the program's line: the innermost of no library."""
    frame: Any = sys._getframe(1)
    called: Any = None
    while frame is not None:
        module = f"{frame.f_globals.get('__name__', '')}."
        if module.startswith("torch.utils.data."):
            break  # beyond is code that iterates over the loader, and it has not called this
        if not _of_a_library(module) or module.startswith(_DATASETS):
            return _name(called or frame), f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if not module.startswith(("headrace.", *_BEHIND_CALLS)) and not _says_little(frame):
            called = frame
        frame = frame.f_back
    if called is None:
        return "", ""
    return _name(called), f"{called.f_code.co_filename}:{called.f_lineno}"
