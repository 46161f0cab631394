"""What a dataset's own code does to images while a batch of its samples is made.

One recording belongs to one batch and to the thread that runs the dataset's code. Nothing here
knows of Pillow or of how images are decoded.
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
from headrace._deferred.source import File

if TYPE_CHECKING:
    from headrace._deferred.altering import Altering


class Draws(NamedTuple):
    """What the engine's draws of a loader are keyed by, apart from the sample."""

    seed: int
    epoch: int


class Asked(NamedTuple):
    """A batch that the sampler chose.

    Attributes:
        number: of the batch in its epoch.
        indices: what the sampler said; of a loader that does not batch, one of them.
        samples: the number of each.
        draws: how often each came before in this epoch.
        batched: ``indices`` is a list of them.
        key: of the draws; None: torch's base seed, known where the batch is made, and ``passed``,
            the epochs that it served before.
        eager: places in the batch of samples that open their images as ever.
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
    """A collate function needs values that are still to come, and is called again with them.

    Not an ``Exception``, for it may catch those.
    """


_numbers = itertools.count(1)
_initial_seed = torch.default_generator.initial_seed  # what torch.initial_seed asks


class Recording:
    """The images of one batch.

    Attributes:
        number: among the recordings of the process.
        pending: every pending tensor that was made, alive or not; of earlier samples those that
            have no values yet.
        some_have_values: of the tensors of this sample.
        files: every file that was opened.
        reasons: why pixels were needed in Python, once each.
        foreign: of each image that Pillow has opened in the engine's place the path, or b"", and
            why.
        engine: whether this process may decode natively.
        engine_made: it made an image at once, for code that needed its pixels.
        eager_open: opened images are decoded at once, natively where that is allowed.
        travels: the batch, or an error in its place, goes to another process.
        before: the thread's own recording, where a dataset iterates over a loader.
        place: of the sample in the batch.
        collating: the samples are there, and the collate function runs.
        eager: open everything with Pillow, as if nothing were recorded.
        asked: the batch; None of a stream.
        failed: places of samples whose files could not be decoded when somebody needed pixels, or
            were written to meanwhile.
        transforms: the dataset's, as the engine knows them.
        limits: the engine's, for what is opened.
        opened: the program's code opened images.
        waits: values are not made now but with all of the batch: whoever needs some is asked again.
        refused: somebody was asked to wait; an ``except:`` may have kept it from us.
        drawing: transforms are drawn by the engine; else by torchvision, from torch's generator.
        explains: every line that needs pixels is noted, also of pixels that are there already.
        altering: what other pixels a line gets; None: all get the image's own.
        repeated: of a process without the engine, what draws the sample's transforms in its place
            where pixels are needed at once; and ``images``, the sample's that were drawn.
        made: every deferred image of the batch.
        steps: of the sample's image that Pillow has made last, ``pixels.Step``.
        inside: the ids of transforms that say what they equal, and whose own code runs.
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
        self._looked_at = 0  # of these
        self.some_have_values = False
        self.files: list[File] = []
        self.reasons: dict[Reason, None] = {}
        self.foreign: list[tuple[bytes, str]] = []
        self._stem = (*draws, 0, 0)  # of the sample's keys: its number, how often it came before
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
        # The keys of this batch, and how many places of the engine's lists calls of each may have.
        self._places: dict[Key, int] = {}

    @property
    def draws_natively(self) -> bool:
        """Whether the engine draws what comes next: nobody has seeded torch's generator, not even
        by that one's own method, which no patch sees."""
        return self.drawing and _initial_seed() == self._seed

    def begin(self, sample: int, draw: int, eager: bool = False) -> None:
        """The next sample's turn has come."""
        if self.some_have_values:  # which would be kept as long as the batch
            self.some_have_values = False
            self.pending[self._looked_at :] = [
                value for value in self.pending[self._looked_at :] if "parts" in value.__dict__
            ]
        self._looked_at = len(self.pending)
        self._stem, self.eager = (*self.draws, sample, draw), eager
        self.opened |= eager  # of which nothing is seen
        self.place += 1
        self._calls, self.drawing, self._seed = 0, True, _initial_seed()
        self.repeated.clear()
        self.images.clear()

    def new_key(self) -> Key:
        """The key of the next call of transforms that the engine draws; each draws its own."""
        self._calls += 1
        key = (*self._stem, self._calls - 1)
        self._places[key] = 0
        return key

    def before_more_draws(self, chain: Chain, drawn: tuple[Op, ...]) -> tuple[Op, ...] | None:
        """What stands between an image that was drawn and the next call that draws; None: that is
        torchvision's, of an image that the program kept of another batch, or of too many calls."""
        key = chain.key
        if key not in self._places:
            return None
        found = behind_draws(chain.ops, drawn, self._places[key])
        if found is None:
            return None
        between, self._places[key] = found
        return (between,) if between.text else ()

    def refuse(self) -> None:
        """Has whoever needs values wait. Who asks again has not heard it, and is given them.

        Raises:
            ValuesNeeded: where values are not made now.
        """
        if self.waits:
            self.waits, self.refused = False, True
            raise ValuesNeeded

    def settle(self) -> bool:
        """Lets go of the files that the sample opened.

        Returns:
            false where one was written to meanwhile, and its images are yet to be decoded.
        """
        self.steps.clear()
        if not self.files:
            return True
        kept = [file.settle() for file in self.files]
        self.files.clear()
        return self.eager_open or all(kept)

    def say_instead(self, text: str, other: str) -> None:
        """Has what was noted say something else, as more is known now."""
        self.reasons = {
            reason._replace(text=other) if reason.text == text else reason: None
            for reason in self.reasons
        }

    def note(self, text: str = "", of: str = "") -> Altering | None:
        """Remembers that pixels are needed in Python, by what, and at which line of the program.

        Args:
            of: what is special about the image.

        Returns:
            how they are to be others for that line; None: they are the image's own.
        """
        needing, line = _caller()
        self.reasons[Reason(text or f"{needing} needs the pixels{of}", line)] = None
        altering = self.altering
        return altering if altering is not None and altering.place == line else None


class _Local(threading.local):
    recording: Recording | None = None
    # Of a thread that works for code that is recorded in another one: that recording, and the line
    # that gave it the work.
    giver: tuple[Recording, str] | None = None
    failures = 0  # of files that could not be decoded when somebody needed their pixels


_local = _Local()


def current() -> Recording | None:
    """The recording of this thread, or None where images open as ever."""
    return _local.recording


def place_of(known: int | None) -> int:
    """The place in the batch of what is made now.

    A collate function makes it of any sample's image; a dataset's code may have kept that image of
    another batch.

    Args:
        known: of the image that it is made of; None: there is none.
    """
    found = _local.recording
    if found is None or (found.collating and known is not None):
        return known or 0
    return found.place


def change(recording: Recording | None) -> None:
    """Makes it this thread's."""
    _local.recording = recording


def has_values() -> None:
    """Remembers that a tensor of the sample has its values by now."""
    found = _worked_for()
    if found is not None:
        found.some_have_values = True


def _worked_for() -> Recording | None:
    """The recording of this thread, or of the one that gave it its work."""
    return _local.recording if _local.giver is None else _local.giver[0]


def decoding_failed() -> None:
    """Remembers that a file could not be decoded, later than Pillow would have tried."""
    _local.failures += 1
    found = _worked_for()
    if found is not None and not found.eager_open:
        found.failed.add(found.place)


def failures() -> int:
    """How many files this thread could not decode."""
    return _local.failures


@contextmanager
def paused() -> Iterator[None]:
    """Lets Pillow and torchvision work as ever in this thread."""
    before, giver = _local.recording, _local.giver
    _local.recording = _local.giver = None
    try:
        yield
    finally:
        _local.recording, _local.giver = before, giver


def for_another_thread(found: Recording, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that the recorded code has another thread call. Nothing is recorded there."""
    giver = (found, _caller()[1])

    def called(*arguments: Any, **named: Any) -> Any:
        before, _local.giver = _local.giver, giver
        try:
            return function(*arguments, **named)
        finally:
            _local.giver = before

    return called


def note_of_another_thread(text: str) -> None:
    """Remembers what Python does in this thread, where it works for a recording of another one."""
    if _local.giver is not None:
        found, place = _local.giver
        found.opened = True
        found.reasons[Reason(text, place)] = None


SWITCHED = "<headrace>"  # the file of the code that takes the place of a function's own
# Whose lines are not the program's own, nor are those of Python's own modules. Datasets of
# torchvision's are: they are what it runs.
_LIBRARIES = ("headrace.", "PIL.", "torch.", "torchvision.", "numpy.", "timm.", "datasets.")
_DATASETS = "torchvision.datasets."
# How each transform that is a Module is called, what torch writes in Python of its operators, and
# what stands around functions that switch gradients off or have other forms.
_BEHIND_CALLS = (
    *("torch.nn.modules.module.", "torch._tensor.", "torch.overrides."),
    *("torch.utils._contextlib.", "torch._jit_internal."),
)


def _name(frame: Any) -> str:
    """The name of a function, with the class of the object whose method it is."""
    owner = frame.f_locals.get("self")
    if owner is not None and not isinstance(owner, type):
        return f"{type(owner).__module__}.{type(owner).__qualname__}.{frame.f_code.co_name}"
    code, module = frame.f_code, frame.f_globals.get("__name__", "")
    return f"{module}.{getattr(code, 'co_qualname', code.co_name)}"  # Python 3.11 and later


def _of_a_library(module: str) -> bool:
    return module.startswith(_LIBRARIES) or module.partition(".")[0] in sys.stdlib_module_names


def _says_little(frame: Any) -> bool:
    """Whether it is a list of transforms, or a switched function: what those call says more."""
    return (
        type(frame.f_locals.get("self")).__name__ in ("Compose", "Sequential")
        or frame.f_code.co_filename == SWITCHED
    )


def _caller() -> tuple[str, str]:
    """The function that the program called, and its line: the innermost of no library."""
    frame: Any = sys._getframe(1)
    called: Any = None
    while frame is not None:
        module = f"{frame.f_globals.get('__name__', '')}."
        if module.startswith("torch.utils.data."):
            break  # whoever iterates has not called it
        if not _of_a_library(module) or module.startswith(_DATASETS):
            return _name(called or frame), f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if not module.startswith(("headrace.", *_BEHIND_CALLS)) and not _says_little(frame):
            called = frame
        frame = frame.f_back
    if called is None:
        return "", ""
    return _name(called), f"{called.f_code.co_filename}:{called.f_lineno}"
