"""Many images at once: any bytes and files, any transforms, any memory.

The caller says where the pixels go and passes the owner of that memory to be kept. This module
knows nothing of arrays or tensors.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Sequence
from ctypes import byref, c_char, c_char_p, c_int64, c_uint64, c_void_p
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace._engine import _lib, abi, arguments
from headrace._engine.finalizer import Finalizer
from headrace.errors import ArgumentError, ClosedError, HeadraceError, WaitTimeoutError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# hr_task, whose members have no gaps: bytes, path, config and data with their sizes, the key
# without its view, device, inode, size, mtime_ns, view, flags, descriptor, reserved.
TASK = struct.Struct("=8Q4Q2Q2qIIiI")
_DESCRIPTOR, _SAME_IMAGE, _CHECKED = 1, 2, 4  # enum hr_task_flag
_NONE = (0, 0, 0, 0)


class File(NamedTuple):
    """An encoded image in a file of its own."""

    path: bytes
    descriptor: int = -1  # 0 or more: read instead of the path; the caller keeps it open
    # Device, inode, size and mtime in nanoseconds; another file or version is an error.
    identity: tuple[int, int, int, int] | None = None


class Task(NamedTuple):
    """One image to make."""

    source: Any  # bytes-like: the encoded image; or a File
    config: bytes  # JSON as hr_decode takes it, without the key; b"": the whole image, HWC uint8
    key: tuple[int, int, int, int, int]  # seed, epoch, sample, draw, view
    address: int  # of writable memory
    capacity: int  # bytes of that memory; 0: only Work.size is found out
    same_image: bool = False  # the previous task's image, read only once; ``source`` is ignored


# A Task, or a plain tuple of the same values, which takes a third of the time to make.
AnyTask = tuple[Any, bytes, tuple[int, int, int, int, int], int, int, bool]


class Decoder:
    """Threads of the engine that decode what is submitted.

    Attributes:
        submitted: works of at least one task; the engine numbers them from 0.

    Args:
        num_threads: 0 means as many as a loader has.
        read_delay_ms: for tests: the delay of every read of a file.

    Raises:
        ArgumentError: a number is out of range.
        LimitError, MemoryShortError: not even one thread is allowed.
        ForkedError: the process was forked after the engine was first used.
    """

    def __init__(self, num_threads: int = 0, *, read_delay_ms: int = 0) -> None:
        config = {"num_threads": num_threads, "read_delay_ms": read_delay_ms}
        self._handle = _lib.opened("hr_decoder_open", config)
        self.submitted = 0

    def submit(self, tasks: Iterable[AnyTask], keep: Any = None) -> Work:
        """Hands tasks over and returns at once.

        Works are done in the order in which they were submitted, and the tasks of each in theirs.

        Args:
            tasks: paths and configurations are copied. Sources, and the memory at the addresses,
                belong to the engine until the work is finished or closed. Descriptors have to stay
                open as long.
            keep: kept alive as long as sources are: the owner of that memory.

        Raises:
            ArgumentError: a task is impossible; the sentence says its number, and no task is begun.
                Errors of an image or a configuration are in ``Work.failures``.
            LimitError: too many tasks wait unfinished.
            ClosedError: the decoder was closed.
        """
        made = Work(self, self._handle.value, list(tasks), keep)
        self.submitted += made.count > 0
        return made

    @property
    def handle(self) -> _lib.Handle:
        """The engine's handle, which has statistics and traces like a loader's."""
        return self._handle

    def close(self) -> None:
        """Closes the works that are not finished, and ends the threads."""
        self._handle.close()


class Work:
    """Tasks that were submitted together; ``Decoder.submit`` makes it.

    Attributes:
        count: the number of its tasks.

    It is closed by hand or by the garbage collector. Tasks that have not begun are cancelled, and
    those being decoded are waited for. Only then are sources and ``keep`` released.
    """

    def __init__(self, decoder: Decoder, handle: int, tasks: Sequence[AnyTask], keep: Any) -> None:
        self._decoder = decoder  # keeps the decoder open
        self._failures: dict[int, HeadraceError] | None = None  # known when all is finished
        self.count = len(tasks)
        memory, held = _packed(tasks)
        self._kept = [held, keep]
        # The engine writes the handle to where the finalizer looks, as in _lib.Handle.
        self._place = c_int64()
        self._close = Finalizer(self, _let_go, self._place, self._kept)
        array = (c_char * len(memory)).from_buffer(memory)
        _lib.call("hr_decoder_submit", handle, array, len(tasks), byref(self._place))

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until all tasks are finished; then sources and ``keep`` are released.

        Args:
            timeout_s: seconds; 0 only looks, None waits without limit.

        Returns:
            Whether all tasks are finished.

        Raises:
            ClosedError: the work or its decoder was closed before.
        """
        if self._failures is not None:
            return True
        failed, error = c_uint64(), abi.Error()
        wait = _lib.library().hr_decoder_wait
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            slice_ms = _lib.SLICE_MS
            if end is not None:
                slice_ms = min(slice_ms, max(0, round((end - time.monotonic()) * 1000)))
            code = wait(self._handle(), slice_ms, byref(failed), byref(error))
            if code == abi.OK:
                self._failures = self._failed() if failed.value else {}
                self._kept.clear()
                return True
            if code != abi.TIMEOUT:
                raise error.exception()
            if end is not None and time.monotonic() >= end:
                return False

    def failures(self) -> dict[int, HeadraceError]:
        """The errors of tasks by their number in the list; complete once ``wait`` returned True."""
        return dict(self._failed() if self._failures is None else self._failures)

    def size(self, index: int) -> tuple[int, int, int]:
        """Returns width and height in pixels, and bytes, of the result of a finished task.

        Raises:
            HeadraceError: the size is unknown; this is the task's error, which says why.
            WaitTimeoutError: the task is not finished.
        """
        image, error = abi.Image(), abi.Error()
        code = self._result(index, byref(image), error)
        if code == abi.TIMEOUT:
            raise WaitTimeoutError(f"task {index} is not finished")
        if code and not image.bytes:
            raise error.exception()
        return image.width, image.height, image.bytes

    def close(self) -> None:
        """Cancels tasks that have not begun, and waits for those being decoded."""
        self._close()

    def _handle(self) -> int:
        if not self._close.alive:
            raise ClosedError("the work was closed")
        return self._place.value

    def _failed(self) -> dict[int, HeadraceError]:
        found, error = {}, abi.Error()
        for index in range(self.count):
            if self._result(index, None, error) not in (abi.OK, abi.TIMEOUT):
                found[index] = error.exception()
        return found

    def _result(self, index: int, image: Any, error: abi.Error) -> int:
        code: int = _lib.library().hr_decoder_result(self._handle(), index, image, byref(error))
        return code


def _let_go(place: c_int64, kept: list[Any]) -> None:
    _lib.close_if_open(place)
    kept.clear()


def _packed(tasks: Sequence[AnyTask]) -> tuple[bytearray, list[Any]]:
    """The tasks as an array of hr_task, and the objects behind its addresses, such as sources.

    This runs for each image, so one call returns all addresses, and a task is packed in one step.
    """
    texts, arrays = _texts(tasks)
    configs = dict.fromkeys([task[1] for task in tasks])
    held = (c_char_p * (len(tasks) + len(configs)))(*texts, *_checked(configs))
    addresses = (c_void_p * len(held)).from_buffer(held)[:]
    config_at = dict(zip(configs, addresses[len(tasks) :], strict=True))
    memory = bytearray(TASK.size * len(tasks))
    pack, size, at = TASK.pack_into, TASK.size, 0
    for task, text, first in zip(tasks, texts, addresses, strict=False):
        source, config, (seed, epoch, sample, draw, view), address, capacity, same = task
        flags, descriptor, identity = 0, 0, _NONE
        where: tuple[Any, ...] = _NONE  # bytes and path, with their lengths
        if same:
            flags = _SAME_IMAGE
        elif type(source) is File:
            where = (0, 0, first, len(text))
            if source[1] >= 0:
                flags, descriptor = flags | _DESCRIPTOR, source[1]
            if source[2] is not None:
                flags, identity = flags | _CHECKED, source[2]
        elif type(source) is bytes:
            where = (first, len(text), 0, 0)
        else:
            array = arrays[at // size]
            where = (array.ctypes.data, array.size, 0, 0)
        try:
            pack(
                *(memory, at, *where, config_at[config], len(config), address, capacity),
                *(seed, epoch, sample, draw, *identity, view, flags, descriptor, 0),
            )
        except (struct.error, TypeError) as error:
            raise ArgumentError(f"task {at // size}: {error}") from None
        at += size
    return memory, [held, arrays]


def _texts(tasks: Sequence[AnyTask]) -> tuple[list[bytes], dict[int, NDArray[np.uint8]]]:
    """Returns path or image of each task that has it as bytes; arrays of the others, by number."""
    texts, arrays = [], {}
    for number, task in enumerate(tasks):
        source = b"" if task[5] else task[0]
        text = source[0] if type(source) is File else source
        if type(text) is not bytes:
            if type(source) is File:
                raise arguments.refuse_type(f"task {number}: path", text, "bytes")
            arrays[number] = arguments.encoded(f"task {number}: source", text)
            text = b""
        texts.append(text)
    return texts, arrays


def _checked(configs: Iterable[bytes]) -> Iterable[bytes]:
    """Refuses what is not bytes: ctypes would take None, and a number for an address."""
    for config in configs:
        if type(config) is not bytes:
            raise arguments.refuse_type("config", config, "bytes, JSON,")
    return configs
