"""The shared library behind the package: found and loaded at first use, called through ctypes.

It is never loaded at import. A process that is forked after Go's runtime started cannot use the
library, so merely importing Headrace must not make it unusable for a program's children; see
``capi/forward.c``.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import math
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from ctypes import (
    byref,
    c_char,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    py_object,
)
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from headrace._engine import abi, followed, scarce, userop
from headrace._engine.arguments import shown
from headrace._engine.finalizer import Finalizer
from headrace.errors import (
    ArgumentError,
    ArgumentTypeError,
    ClosedError,
    ForkedError,
    InternalError,
)

T = TypeVar("T")

# The longest wait inside the library. Python handles Ctrl-C only between two calls.
SLICE_MS = 200

_lock = threading.Lock()
_library: ctypes.CDLL | None = None
_loaded_in = 0
_release_batch: Any = None  # hr_release as a callback of weak references


def _unlock() -> None:
    """Makes a new lock in a forked child, which lacks the thread that may hold the lock."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlock)


def library() -> ctypes.CDLL:
    """Returns the library, which the first call loads.

    Raises:
        ForkedError: in a child that was forked after its parent had loaded the library.
        InternalError: the library is missing or of another version than this package.
    """
    global _library, _loaded_in
    if _library is None and _loaded_in in (0, os.getpid()):
        with _lock:
            if _library is None:
                _loaded_in = os.getpid()  # set before, because a child may be forked meanwhile
                try:
                    loaded = _load()
                except BaseException:
                    _loaded_in = 0
                    raise
                _library = loaded
    # The library would refuse this as well, but what it holds open here belongs to the parent.
    if _library is None or _loaded_in != os.getpid():
        raise ForkedError(
            "this process was forked after Headrace was first used, and the engine's threads do "
            "not exist here; start workers with 'spawn' or 'forkserver', or use Headrace first "
            "in the child"
        )
    return _library


def came_by_fork() -> bool:
    """Whether the library belongs to the process that this one was forked from."""
    return _loaded_in not in (0, os.getpid())


def _load() -> ctypes.CDLL:
    path = Path(__file__).parents[1] / "libheadrace.so"
    try:
        loaded = ctypes.CDLL(str(path), mode=os.RTLD_LOCAL | os.RTLD_NOW)
    except OSError as failure:
        scarce.check_space(path)
        raise InternalError(f"the engine could not be loaded: {failure}", file=str(path)) from None
    for name, arguments in abi.PROTOTYPES.items():
        function = getattr(loaded, name)
        function.argtypes, function.restype = arguments, c_int32
    global _release_batch
    # A weak reference passes itself to its callback; nobody needs it.
    with_reference = ctypes.CFUNCTYPE(c_int32, c_int64, c_void_p, py_object)
    _release_batch = with_reference(("hr_release", loaded))
    found = loaded.hr_abi_version()
    if found != abi.ABI_VERSION:
        raise InternalError(
            f"{path} speaks version {found} of the C ABI and this package version "
            f"{abi.ABI_VERSION}: they were not installed together",
            file=str(path),
        )
    return loaded


def call(name: str, *arguments: Any) -> bytes:
    """Calls a function whose last parameter is the error, and raises what it reports.

    Returns:
        What the function warns of, if headrace.h says that it may; otherwise nothing.
    """
    error = abi.Error()
    if getattr(library(), name)(*arguments, byref(error)):
        raise error.exception()
    text: bytes = error.text
    return text


def decode(
    encoded: Any, length: int, config: Mapping[str, Any], make: Callable[[abi.Image], tuple[T, Any]]
) -> T:
    """Calls ``hr_decode`` for the size of its answer, and then for the answer.

    Args:
        encoded, length: the image's bytes, in a form that ctypes takes as an address, and their
        number.
        config: what ``hr_decode`` documents.
        make: gets the size, makes the object for the answer, and returns it and its address.
    """
    text = to_text(followed.following(config))
    image = abi.Image()
    source = (encoded, length, text, len(text))
    call("hr_decode", *source, None, 0, byref(image))
    made, address = make(image)
    call("hr_decode", *source, address, image.bytes, byref(image))
    return made


def submit(loader: int, indices: array.array[int], draws: array.array[int]) -> None:
    """Calls ``hr_submit`` with an array of int64 and one of uint64 of equal length."""
    count = len(indices)
    if not count:  # an empty array has no address, and NULL would end the epoch
        call("hr_submit", loader, (c_int64 * 1)(), (c_uint64 * 1)(), 0)
        return
    numbers, times = (c_int64 * count).from_buffer(indices), (c_uint64 * count).from_buffer(draws)
    call("hr_submit", loader, numbers, times, count)


class Handle:
    """Owns one handle of the library, closed by hand, by the garbage collector, or at exit."""

    def __init__(self) -> None:
        # The library writes the handle to where the finalizer looks for it, so no exception can
        # come between opening an object and owning it.
        self.place = c_int64()
        self._kept: list[dict[int, Any]] = []
        self.close = Finalizer(self, close_if_open, self.place)

    def keep(self, loans: dict[int, Any]) -> None:
        """Keeps what is lent to the object alive until the object has been closed."""
        self._kept.append(loans)
        if len(self._kept) == 1:
            before = self.close
            self.close = Finalizer(self, _close_lent, self.place, self._kept)
            before.detach()

    @property
    def value(self) -> int:
        """The integer.

        Raises:
            ClosedError: the object was closed.
        """
        if not self.close.alive:
            raise ClosedError(abi.WAS_CLOSED)
        return self.place.value


def to_text(config: Mapping[str, Any]) -> bytes:
    """Returns a configuration as JSON.

    Raises:
        ArgumentError: JSON cannot express it: a number is not finite, or an argument has another
            type. The sentence names the argument.
    """
    userop.check_origin((config.get("transform"), config.get("views")))
    for name, value in _step_arguments(config):
        _check_finite(name, value)
    try:
        return json.dumps(config, allow_nan=False, default=_in_memory).encode()
    except (TypeError, ValueError, RecursionError):
        for name, value in _step_arguments(config):
            _check_sayable(name, value)
        for name, value in config.items():
            _check_sayable(name, value)
        raise


def _in_memory(value: Any) -> Any:
    """Turns an object that stands for memory into its address, which JSON can express."""
    if not hasattr(value, "to_json"):
        raise TypeError
    return value.to_json()


def _step_arguments(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the arguments of all transforms, with what a sentence calls them."""
    views = config.get("views") or [{"transform": config.get("transform") or ()}]
    for place, view in enumerate(views):
        which = f"view {place}, " if len(views) > 1 else ""
        for number, step in enumerate(view["transform"]):
            for argument, value in step.items():
                yield f"{which}transform {number} ({step.get('name')}): {argument}", value


def _check_sayable(name: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False, default=_in_memory)
    except TypeError:
        allowed = "expected numbers, text, True, False, None, or lists of them"
        raise ArgumentTypeError(f"{name} is {shown(value)} ({allowed})") from None
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{name} is {shown(value)}: {error}") from None


def _check_finite(what: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ArgumentError(f"{what} is {value} (expected a finite number)")
    if isinstance(value, list | tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            _check_finite(what, part)


def opened(name: str, config: Mapping[str, Any], *first: Any) -> Handle:
    """Calls a function that takes a configuration and returns a handle."""
    handle = Handle()
    if name == "hr_loader_open":
        config = followed.following(config)
    text = to_text(config)
    scarce.warn_of(call(name, *first, text, len(text), byref(handle.place)))
    return handle


def answer(name: str, *arguments: Any, guess: int = 4096) -> bytearray:
    """Calls a function that answers into a buffer, and again if the first guess was too small."""
    need, error = c_size_t(), abi.Error()
    while True:
        buffer = bytearray(guess)
        memory = (c_char * guess).from_buffer(buffer)
        code = getattr(library(), name)(*arguments, memory, guess, byref(need), byref(error))
        del memory
        if code == abi.OK:
            del buffer[need.value :]
            return buffer
        if code != abi.SHORT_BUFFER:
            raise error.exception()
        guess = need.value


def info(name: str, *arguments: Any) -> dict[str, Any]:
    """Returns the JSON object that a function answers with."""
    found: dict[str, Any] = json.loads(answer(name, *arguments)[:-1])
    return found


def close_if_open(handle: c_int64) -> None:
    """Closes what a handle stands for, if it is open and this is not a forked child."""
    # This runs in whatever thread the collector picked. In a forked child the object still belongs
    # to the parent, which needs it. It takes none of our locks, because the thread that it
    # interrupts may hold one.
    if handle.value and _library is not None and _loaded_in == os.getpid():
        _library.hr_close(handle, None)


# The longest time that hr_close waits for threads (closeGrace in internal/pipeline), less a margin.
_CLOSE_GRACE_S = 0.45
_stuck: list[dict[int, Any]] = []


def end(handle: Handle) -> None:
    """Closes a job or a writer, finished or not, and warns of its files that it cannot remove."""
    if not handle.close.alive or _library is None or _loaded_in != os.getpid():
        return
    error = abi.Error()
    code = _library.hr_close(handle.place, byref(error))
    handle.close.detach()  # only now: a finalizer may find it closed
    if not code:
        scarce.warn_of(error.text)


def _close_lent(handle: c_int64, kept: list[dict[int, Any]]) -> None:
    begun = time.monotonic()
    close_if_open(handle)
    over = time.monotonic() - begun < _CLOSE_GRACE_S
    for loans in kept:
        if not over and loans:
            # A read that does not end kept a thread running, and that thread may still use what is
            # lent.
            _stuck.append(dict(loans))
        if over:
            loans.clear()


def release(batch: int) -> None:
    """Gives a batch's memory back. It is for finalizers, like ``close_if_open``."""
    if _library is not None and _loaded_in == os.getpid():
        _library.hr_release(batch, None)


# A weak reference works only as long as it lives itself. Here they are by batch, and the batches'
# numbers, oldest first.
_watching: dict[int, weakref.ref[Any]] = {}
_watched: deque[int] = deque()


def release_with(owner: Any, batch: abi.Batch) -> None:
    """Takes over a batch: its memory goes back when ``owner`` is freed.

    C alone does this. Python runs signal handlers between any two instructions, also in a
    finalizer. What a handler raises there, such as KeyboardInterrupt, is printed and lost. In a
    forked child the library itself notices that the batch belongs to the parent.
    """
    number = batch.batch
    give_back = partial(_release_batch, number, None)
    # From here on the batch belongs to the owner and no longer to the structure. No exception can
    # come between these lines, because none of them is a call. If one comes after the first line,
    # the reference is lost with it.
    watch = weakref.ref(owner, give_back)
    _watching[number] = watch
    batch.batch = 0
    _watched.append(number)
    # Two old references are checked for each new one, so that dead ones do not pile up.
    for _ in range(2):
        with contextlib.suppress(IndexError):  # another thread took it
            oldest = _watched.popleft()
            found = _watching.get(oldest)
            if found is not None and found() is not None:
                _watched.append(oldest)
            elif found is not None:
                del _watching[oldest]
