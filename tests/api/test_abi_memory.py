"""The C ABI's pointers: NULL for each argument of each function, and buffers of every capacity."""

from __future__ import annotations

import ctypes
import itertools
import json
from collections.abc import Callable, Iterator
from ctypes import byref
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import images
import processes
from headrace._engine import _lib, abi

SHORT_BUFFER, BAD_HANDLE, ARGUMENT, TRUNCATED = 3, 4, 5, 8
NO_SIZES = (2**63, 2**64 - 1)
IMAGE = images.png(8, 8, 2)
CONFIG = {
    "batch_size": 4,
    "transform": [{"name": "RandomResizedCrop", "size": 16}],
    "dtype": "uint8",
    "num_threads": 1,
}


class Objects:
    """Handles and memory for calls that succeed; all of it is given back at the end."""

    def __init__(self, packed: Path, directory: Path) -> None:
        self.packed, self._directory = packed, directory
        self._handles: list[int] = []
        self._kept: list[Any] = []
        self._numbers = itertools.count()
        self.out, self.held = ctypes.c_int64(), abi.Batch()
        self.dataset = self.opened("hr_dataset_open", self.source())
        self.loader = self.opened("hr_loader_open", text(CONFIG), self.dataset)
        self.submitted = self.opened(
            "hr_loader_open", text(CONFIG | {"order": "submitted"}), self.dataset
        )
        self.decoder = self.opened("hr_decoder_open", b"{}")
        self.work = ctypes.c_int64()
        task = decoder_task()
        library = _lib.library()
        assert library.hr_decoder_submit(self.decoder, task, 1, byref(self.work), None) == 0
        self._handles.append(self.work.value)
        assert library.hr_decoder_wait(self.work, 60_000, None, None) == 0
        self.job = self.writer()
        assert _lib.library().hr_writer_finish(self.job, None) == 0

    def source(self) -> bytes:
        return text({"path": str(self.packed)})

    def destination(self) -> bytes:
        return text({"destination": str(self._directory / f"{next(self._numbers)}.hr")})

    def opened(self, name: str, config: bytes, *first: int) -> int:
        out = ctypes.c_int64()
        assert getattr(_lib.library(), name)(*first, config, len(config), byref(out), None) == 0
        self._handles.append(out.value)
        return out.value

    def writer(self) -> int:
        """A writer with one sample."""
        writer = self.opened("hr_writer_open", self.destination())
        assert _lib.library().hr_writer_add(writer, IMAGE, len(IMAGE), None, 0, None) == 0
        return writer

    def ready(self) -> int:
        """The loader, with a batch ready."""
        assert _lib.library().hr_seek(self.loader, 0, 0, None) == 0
        return self.loader

    def batch(self) -> int:
        assert _lib.library().hr_next(self.ready(), 60_000, self.held, None) == 0
        self.keep(0)
        return self._handles[-1]

    def memory(self) -> tuple[int, int]:
        """As much memory as a batch needs, from a multiple of 64."""
        size = _lib.info("hr_loader_info", self.loader)["slot_bytes"]
        self._kept.append(ctypes.create_string_buffer(size + 64))
        return (ctypes.addressof(self._kept[-1]) + 63) & ~63, size

    def trace(self) -> bytes:
        return bytes(self._directory / "run.json")

    def keep(self, code: int) -> None:
        """Notes the handle or batch that a call made, to release it later."""
        for made in (self.out.value, self.held.batch):
            if made:
                assert code == 0
                self._handles.append(made)
        self.out.value = self.held.batch = 0

    def close(self) -> None:
        library = _lib.library()
        for handle in reversed(self._handles):
            assert library.hr_release(handle, None) in (0, BAD_HANDLE)
            assert library.hr_close(handle, None) in (0, BAD_HANDLE)


def text(config: Any) -> bytes:
    return json.dumps(config).encode()


@pytest.fixture
def objects(packed: Path, tmp_path: Path) -> Iterator[Objects]:
    made = Objects(packed, tmp_path)
    yield made
    made.close()


class Function(NamedTuple):
    """Arguments with which a call succeeds, without the error."""

    arguments: Callable[[Objects], tuple[Any, ...]]
    needed: tuple[int, ...] = ()  # pointers for which NULL is refused
    spare: tuple[int, ...] = ()  # pointers for which NULL means: not wanted
    sizes: tuple[int, ...] = ()


ROOM = 1 << 16


def answer(*before: Any) -> tuple[Any, ...]:
    return (*before, ctypes.create_string_buffer(ROOM), ROOM, byref(ctypes.c_size_t()))


def configured(config: bytes, o: Objects) -> tuple[Any, ...]:
    return config, len(config), byref(o.out)


def decode_arguments(_: Objects) -> tuple[Any, ...]:
    room = ctypes.create_string_buffer(192)
    return IMAGE, len(IMAGE), b"{}", 2, room, 192, byref(abi.Image())


def decoder_task() -> Any:
    """A task that asks for a size."""
    return byref(abi.Task(bytes=ctypes.cast(IMAGE, ctypes.c_void_p), length=len(IMAGE)))


def verify(o: Objects) -> bytes:
    return text({"job": "verify", "source": str(o.packed)})


INDICES, DRAWS = (ctypes.c_int64 * 2)(3, 1), (ctypes.c_uint64 * 2)(0, 1)
FUNCTIONS = {
    "hr_close": Function(lambda o: (o.opened("hr_dataset_open", o.source()),)),
    "hr_dataset_open": Function(lambda o: configured(o.source(), o), (0, 2), (), (1,)),
    "hr_dataset_info": Function(lambda o: answer(o.dataset, -1), (2,), (4,), (3,)),
    "hr_dataset_read": Function(lambda o: answer(o.dataset, 3), (2,), (4,), (3,)),
    "hr_decode": Function(decode_arguments, (0, 2, 4), (6,), (1, 3, 5)),
    "hr_decoder_open": Function(lambda o: configured(b"{}", o), (0, 2), (), (1,)),
    "hr_decoder_submit": Function(
        lambda o: (o.decoder, decoder_task(), 1, byref(o.out)), (1, 3), (), (2,)
    ),
    "hr_decoder_wait": Function(
        lambda o: (o.work.value, 60_000, byref(ctypes.c_uint64())), (), (2,)
    ),
    "hr_decoder_result": Function(lambda o: (o.work.value, 0, byref(abi.Image())), (), (2,)),
    "hr_loader_open": Function(
        lambda o: (o.dataset, *configured(text(CONFIG), o)), (1, 3), (), (2,)
    ),
    "hr_seek": Function(lambda o: (o.loader, 0, 0)),
    "hr_submit": Function(lambda o: (o.submitted, INDICES, DRAWS, 2), (1,), (2,), (3,)),
    "hr_next": Function(lambda o: (o.ready(), 60_000, byref(o.held)), (2,)),
    "hr_release": Function(lambda o: (o.batch(),)),
    "hr_lend": Function(lambda o: (o.loader, *o.memory(), next(TAGS)), (1,), (), (2,)),
    "hr_loader_info": Function(lambda o: answer(o.loader), (1,), (3,), (2,)),
    "hr_loader_event": Function(lambda o: (o.loader, byref(ctypes.c_int32())), (1,)),
    "hr_trace": Function(lambda o: (o.loader, o.trace(), len(o.trace())), (1,), (), (2,)),
    "hr_span": Function(lambda o: (o.loader, abi.SPAN_WAIT, 0, 0, 1, 2)),
    "hr_job_start": Function(lambda o: configured(verify(o), o), (0, 2), (), (1,)),
    "hr_job_wait": Function(lambda o: (o.job, 0, byref(abi.Progress())), (), (2,)),
    "hr_job_result": Function(lambda o: answer(o.job), (1,), (3,), (2,)),
    "hr_writer_open": Function(lambda o: configured(o.destination(), o), (0, 2), (), (1,)),
    "hr_writer_add": Function(
        lambda o: (o.writer(), IMAGE, len(IMAGE), b"{}", 2), (1, 3), (), (2, 4)
    ),
    "hr_writer_finish": Function(lambda o: (o.writer(),)),
}
TAGS = itertools.count()
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def called(o: Objects, name: str, arguments: tuple[Any, ...], error: Any) -> int:
    code = int(getattr(_lib.library(), name)(*arguments, error))
    o.keep(code)
    return code


def test_the_tables_of_this_file_have_every_function() -> None:
    assert {*FUNCTIONS, "hr_abi_version"} == set(abi.PROTOTYPES)
    for name, function in FUNCTIONS.items():
        pointers = {
            place
            for place, kind in enumerate(abi.PROTOTYPES[name][:-1])
            if kind in (ctypes.c_char_p, ctypes.c_void_p) or hasattr(kind, "contents")
        }
        assert pointers == {*function.needed, *function.spare}, name


@every_function
def test_null_for_any_pointers_is_refused_or_means_that_the_value_is_not_wanted(
    objects: Objects, name: str
) -> None:
    function = FUNCTIONS[name]
    places = (*function.needed, *function.spare)
    for count in range(len(places) + 1):
        for missing in itertools.combinations(places, count):
            for error in (byref(abi.Error()), None):
                given = function.arguments(objects)
                taken = tuple(None if at in missing else one for at, one in enumerate(given))
                expected = ARGUMENT if set(missing) & set(function.needed) else 0
                assert called(objects, name, taken, error) == expected, missing


@every_function
def test_a_size_larger_than_any_memory_is_refused(objects: Objects, name: str) -> None:
    function = FUNCTIONS[name]
    for at, size in itertools.product(function.sizes, NO_SIZES):
        given = list(function.arguments(objects))
        given[at] = size
        error = abi.Error()
        assert called(objects, name, tuple(given), byref(error)) == ARGUMENT
        assert str(size) in error.text.decode()
        given[at - 1] = None
        assert called(objects, name, tuple(given), None) == ARGUMENT


@pytest.mark.parametrize(
    ("name", "places", "expected"),
    [
        ("hr_dataset_open", (0,), ARGUMENT),  # a configuration is needed
        ("hr_loader_open", (1,), ARGUMENT),
        ("hr_job_start", (0,), ARGUMENT),
        ("hr_writer_open", (0,), ARGUMENT),
        ("hr_dataset_info", (2,), SHORT_BUFFER),  # the way to ask for the size
        ("hr_dataset_read", (2,), SHORT_BUFFER),
        ("hr_loader_info", (1,), SHORT_BUFFER),
        ("hr_job_result", (1,), SHORT_BUFFER),
        ("hr_decode", (0,), TRUNCATED),
        ("hr_decode", (2,), 0),
        ("hr_decode", (4,), 0),
        ("hr_decode", (2, 4), 0),
        ("hr_decoder_open", (0,), ARGUMENT),
        ("hr_decoder_submit", (1,), 0),  # a work without tasks
        ("hr_submit", (1, 2), 0),  # the end of an epoch
        ("hr_writer_add", (1,), 0),
        ("hr_writer_add", (3,), 0),
        ("hr_writer_add", (1, 3), 0),
        ("hr_lend", (1,), ARGUMENT),
        ("hr_trace", (1,), 0),  # ends the trace
    ],
)
def test_null_with_length_zero_is_an_empty_value(
    objects: Objects, name: str, places: tuple[int, ...], expected: int
) -> None:
    given = list(FUNCTIONS[name].arguments(objects))
    for at in places:
        given[at] = None
    sizes = [size for size in FUNCTIONS[name].sizes if size - 1 in places or name == "hr_submit"]
    for at in sizes:
        given[at] = 0
    assert called(objects, name, tuple(given), byref(abi.Error())) == expected


# In a process of its own: Go looks at addresses when a stack grows, so in its first calls.
AT_ANY_ADDRESS = """
import ctypes, sys
from headrace._engine import _lib, abi

library, error, number = _lib.library(), abi.Error(), ctypes.c_void_p(int(sys.argv[1]))
for prototype in (library.hr_decode, library.hr_submit, library.hr_decoder_submit):
    prototype.argtypes = None  # any address in the place of a pointer to something
zero, config = ctypes.c_size_t(0), b'{"transform": [{"name": "Resize", "size": [3, 5]}]}'
image = bytes.fromhex(sys.argv[2])
size, length, out = ctypes.c_size_t(len(image)), ctypes.c_size_t(len(config)), abi.Image()
arguments = (image, size, config, length, number, zero, ctypes.byref(out), ctypes.byref(error))
assert library.hr_decode(*arguments) == 0, error.text
assert (out.width, out.height) == (5, 3)
work, decoder = ctypes.c_int64(), ctypes.c_int64()
assert library.hr_decoder_open(b"{}", 2, ctypes.byref(decoder), None) == 0
assert library.hr_decoder_submit(decoder, number, zero, ctypes.byref(work), None) == 0
"""


@pytest.mark.parametrize("address", [1, 8, 4095, 2**47])
def test_with_length_zero_the_address_may_be_any_number(objects: Objects, address: int) -> None:
    processes.run(AT_ANY_ADDRESS, address, IMAGE.hex())
    number = ctypes.c_void_p(address)
    library, zero, error = _lib.library(), ctypes.c_size_t(0), abi.Error()
    indices = ctypes.cast(number, ctypes.POINTER(ctypes.c_int64))
    draws = ctypes.cast(number, ctypes.POINTER(ctypes.c_uint64))
    # This is an empty batch, and not the end of the epoch.
    assert library.hr_submit(objects.submitted, indices, draws, zero, byref(error)) == 0, error.text
    assert library.hr_next(objects.submitted, 60_000, objects.held, None) == 0
    assert objects.held.length == 0
    objects.keep(0)
    # Nor does it end the trace.
    path = ctypes.cast(number, ctypes.c_char_p)
    assert library.hr_trace(objects.loader, path, zero, byref(error)) == ARGUMENT
    assert library.hr_writer_add(objects.writer(), path, zero, path, zero, None) == 0


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("hr_dataset_info", lambda o: (o.dataset, -1)),
        ("hr_dataset_info", lambda o: (o.dataset, 5)),
        ("hr_dataset_read", lambda o: (o.dataset, 5)),
        ("hr_job_result", lambda o: (o.job,)),
    ],
    ids=["dataset", "sample", "bytes", "job"],
)
def test_an_answer_is_written_whole_or_not_at_all_and_a_short_buffer_gets_the_needed_size(
    objects: Objects, name: str, before: Callable[[Objects], tuple[Any, ...]]
) -> None:
    first, need = before(objects), ctypes.c_size_t()
    assert called(objects, name, (*first, None, 0, byref(need)), None) == SHORT_BUFFER
    size = need.value
    for capacity in (0, 1, size - 1, size, size + 1):
        room = ctypes.create_string_buffer(b"?" * (size + 2))
        for wanted in (byref(need), None):
            need.value = 0
            code = called(objects, name, (*first, room, capacity, wanted), None)
            assert code == (SHORT_BUFFER if capacity < size else 0)
            assert need.value == (size if wanted else 0)
            assert (room.raw[:size] == b"?" * size) == (capacity < size)
            assert room.raw[size:] == b"??\0"
    for capacity in (1, size - 1, size, size + 1):
        need.value = 7
        assert called(objects, name, (*first, None, capacity, byref(need)), None) == ARGUMENT
        assert need.value == 7


def test_closing_a_batchs_handle_is_an_error_and_the_batch_stays_held(objects: Objects) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()
    assert library.hr_next(objects.loader, 60_000, batch, None) == 0
    held, pixels = batch.batch, batch.fields[0]
    was = ctypes.string_at(pixels.data, pixels.bytes)
    assert library.hr_close(held, byref(error)) == BAD_HANDLE
    assert "a batch's handle" in error.text.decode()
    for _ in range(5):
        assert library.hr_next(objects.loader, 60_000, objects.held, None) == 0
        assert library.hr_release(objects.held.batch, None) == 0
        assert objects.held.fields[0].data != pixels.data
    objects.held.batch = 0
    assert library.hr_close(objects.loader, None) == 0
    assert library.hr_close(held, None) == BAD_HANDLE
    assert ctypes.string_at(pixels.data, pixels.bytes) == was
    assert library.hr_release(held, None) == 0
    for end in (library.hr_release, library.hr_close):
        assert end(held, None) == BAD_HANDLE
