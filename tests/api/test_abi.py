"""The C ABI itself, called as from another language: lent memory, the event, strictness."""

from __future__ import annotations

import ctypes
import json
import select
import threading
import time
from collections.abc import Iterator
from ctypes import byref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import images
from headrace._engine import _lib, abi
from timing import within

CONFIG = {
    "batch_size": 4,
    "transform": [{"name": "RandomResizedCrop", "size": 16}],
    "dtype": "uint8",
    "layout": "NHWC",
    "num_threads": 2,
}


def failure(name: str, *arguments: Any) -> tuple[int, str]:
    error = abi.Error()
    code = getattr(_lib.library(), name)(*arguments, byref(error))
    assert error.code == code
    return code, error.text.decode()


def opened(name: str, config: Any, *first: Any) -> tuple[int, str]:
    handle = ctypes.c_int64()
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    code, message = failure(name, *first, text, len(text), byref(handle))
    return (0, str(handle.value)) if code == 0 else (code, message)


@pytest.fixture
def dataset(packed: Path) -> Iterator[int]:
    with _opened("hr_dataset_open", {"path": str(packed)}) as handle:
        yield handle


class _opened:
    def __init__(self, name: str, config: Any, *first: Any) -> None:
        code, answer = opened(name, config, *first)
        assert code == 0, answer
        self.handle = int(answer)

    def __enter__(self) -> int:
        return self.handle

    def __exit__(self, *_: object) -> None:
        _lib.library().hr_close(self.handle, None)


def aligned(size: int) -> tuple[Any, int]:
    buffer = ctypes.create_string_buffer(size + 64)
    return buffer, (ctypes.addressof(buffer) + 63) & ~63


def test_batches_are_written_into_lent_memory_first(dataset: int) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()
    with (
        _opened("hr_loader_open", CONFIG, dataset) as plain,
        _opened("hr_loader_open", CONFIG, dataset) as lent,
    ):
        size = _lib.info("hr_loader_info", lent)["slot_bytes"]
        loans = {}
        for tag in (7, 8, 9):
            memory, address = aligned(size)
            loans[tag] = (memory, address)
            assert library.hr_lend(lent, address, size, tag, error) == 0, error.text
        tags = []
        for _ in range(6):
            assert library.hr_next(plain, 60_000, batch, error) == 0
            images = batch.fields[0]
            expected = ctypes.string_at(images.data, images.bytes)
            assert batch.tag == -1
            library.hr_release(batch.batch, None)
            assert library.hr_next(lent, 60_000, batch, error) == 0
            images = batch.fields[0]
            assert ctypes.string_at(images.data, images.bytes) == expected
            if batch.tag != -1:
                assert images.data == loans[batch.tag][1]
            tags.append(batch.tag)
            library.hr_release(batch.batch, None)
        # A batch may have been begun in the ring's own memory before the loans came.
        assert {tag for tag in tags if tag != -1} == {7, 8, 9}
        assert len([tag for tag in tags if tag != -1]) == 3


def test_memory_that_cannot_be_lent_is_refused(dataset: int) -> None:
    with _opened("hr_loader_open", CONFIG, dataset) as loader:
        size = _lib.info("hr_loader_info", loader)["slot_bytes"]
        _memory, address = aligned(size)
        for arguments in (
            (address, size - 1, 1),
            (address + 1, size, 1),
            (None, size, 1),
            (address, 2**64 - 1, 1),
        ):
            code, text = failure("hr_lend", loader, *arguments)
            assert code == 5, (arguments, text)


pixel_function = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int32,
    ctypes.c_int32,
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_uint64,
)


def native_op(function: Any) -> dict[str, Any]:
    address = ctypes.cast(function, ctypes.c_void_p).value
    return {"name": "Native", "function": address, "context": 0}


@pytest.mark.slow
def test_no_function_of_the_program_runs_after_its_loader_is_closed(dataset: int) -> None:
    running, calls = threading.Event(), []

    @pixel_function
    def slow(*_: Any) -> int:
        running.set()
        time.sleep(1.2)
        return 0

    @pixel_function
    def count(*_: Any) -> int:
        calls.append(time.monotonic())
        return 0

    config = CONFIG | {"num_threads": 1}
    config["transform"] = [*CONFIG["transform"], native_op(slow), native_op(count)]
    with _opened("hr_loader_open", config, dataset) as loader:
        assert running.wait(60)
        assert _lib.library().hr_close(loader, None) == 0
        closed = time.monotonic()
        time.sleep(1.5)
        assert len(calls) == 1
        assert calls[0] < closed


@pytest.mark.slow
def test_close_waits_for_the_image_that_is_written_into_lent_memory(dataset: int) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()

    @pixel_function
    def slow(*_: Any) -> int:
        time.sleep(1.2)
        return 0

    config = CONFIG | {"batch_size": 1, "num_threads": 1, "prefetch": 2}
    config["transform"] = [*CONFIG["transform"], native_op(slow)]
    with _opened("hr_loader_open", config, dataset) as loader:
        size = _lib.info("hr_loader_info", loader)["slot_bytes"]
        loans = [aligned(size) for _ in range(3)]
        for tag, (memory, start) in enumerate(loans):
            ctypes.memset(memory, 0xA5, len(memory))
            assert library.hr_lend(loader, start, size, tag, error) == 0, error.text
        batch.tag = -1
        while batch.tag == -1:  # the next one is in lent memory, too
            assert library.hr_next(loader, 60_000, batch, error) == 0, error.text
            library.hr_release(batch.batch, None)
        time.sleep(0.2)
        assert library.hr_close(loader, error) == 0, error.text
        were = [memory.raw for memory, _ in loans]
        time.sleep(1.5)
        assert [memory.raw for memory, _ in loans] == were


def test_the_event_is_readable_exactly_while_a_batch_is_ready(dataset: int) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()

    def drained_and_unreadable() -> bool:
        while (code := library.hr_next(loader, 0, batch, error)) in (0, 1):
            if code == 0:
                library.hr_release(batch.batch, None)
        return not readable(descriptor, 0)

    config = {**CONFIG, "read_delay_ms": 50, "num_threads": 1, "read_ahead": 1}
    with _opened("hr_loader_open", config, dataset) as loader:
        descriptor = ctypes.c_int32(-1)
        assert library.hr_loader_event(loader, descriptor, error) == 0
        for _ in range(3):
            assert readable(descriptor, 60)
            assert library.hr_next(loader, 0, batch, error) == 0
            library.hr_release(batch.batch, None)
        # Another batch may become ready between the two looks, but not each time.
        assert any(drained_and_unreadable() for _ in range(20))


def readable(descriptor: ctypes.c_int32, seconds: float) -> bool:
    return bool(select.select([descriptor.value], [], [], seconds)[0])


def test_next_with_a_timeout_of_zero_or_less_only_looks(dataset: int) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()
    with _opened("hr_loader_open", {**CONFIG, "read_delay_ms": 1500}, dataset) as loader:

        def look() -> float:
            begun = time.monotonic()
            assert library.hr_next(loader, 0, batch, error) == 2
            assert library.hr_next(loader, -5, batch, error) == 2
            return time.monotonic() - begun

        within(0.1, look)


def test_the_end_of_an_epoch_is_reported_once_and_the_next_epoch_follows(dataset: int) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()
    with _opened("hr_loader_open", CONFIG, dataset) as loader:
        places = []
        for _ in range(14):
            code = library.hr_next(loader, 60_000, batch, error)
            places.append((batch.epoch, batch.step) if code == 0 else code)
            if code == 0:
                library.hr_release(batch.batch, None)
    assert places == [*((0, s) for s in range(6)), 1, *((1, s) for s in range(6)), 1]


def test_a_batch_is_described_field_by_field(dataset: int) -> None:
    batch, error = abi.Batch(), abi.Error()
    config = {**CONFIG, "dtype": "bfloat16", "layout": "NCHW"}
    with _opened("hr_loader_open", config, dataset) as loader:
        assert _lib.library().hr_next(loader, 60_000, batch, error) == 0
        images, labels, indices = batch.fields[:3]
        assert (batch.field_count, batch.length, batch.epoch, batch.step) == (3, 4, 0, 0)
        assert [f.name for f in (images, labels, indices)] == [b"images", b"labels", b"indices"]
        assert (images.dtype_code, images.dtype_bits, images.ndim) == (4, 16, 4)
        assert images.shape[:] == [4, 3, 16, 16, 0]
        assert images.strides[:] == [1536, 512, 32, 2, 0]
        assert images.bytes == 4 * 1536
        assert (labels.dtype_code, labels.dtype_bits, labels.ndim) == (0, 64, 1)
        assert labels.shape[:] == [4, 0, 0, 0, 0]
        for field in (images, labels, indices):
            assert field.data % 64 == 0
        numbers = np.ctypeslib.as_array((ctypes.c_int64 * 4).from_address(indices.data))
        assert numbers.tolist() == [0, 1, 2, 3]
        assert _lib.library().hr_release(batch.batch, error) == 0
        assert _lib.library().hr_release(batch.batch, error) == 4


def test_a_batch_may_be_released_after_its_loader_was_closed(dataset: int) -> None:
    batch, error = abi.Batch(), abi.Error()
    with _opened("hr_loader_open", CONFIG, dataset) as loader:
        assert _lib.library().hr_next(loader, 60_000, batch, error) == 0
    first = ctypes.string_at(batch.fields[0].data, 16)
    assert len(first) == 16
    assert _lib.library().hr_release(batch.batch, error) == 0


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (b"", "empty"),
        (b"{", "configuration"),
        (b"[]", "configuration"),
        (b'{"path": "\xff"}', "UTF-8"),
        (b'{"path": 3}', "path is a number (expected a string)"),
        (b'{"path": "a\\ud800"}', "a name has a lone \\ud800, which stands for no byte"),
        (b'{"paths": ["a", "\\udc2f"]}', "a name has a lone \\udc2f, which stands for no byte"),
        (b'{"pth": "x"}', 'there is no argument "pth"'),
        (b'{"path": "x"} {}', "more than one"),
        (b"{}", "path is missing"),
        (b'{"path": "a", "paths": []}', "several"),
        (b'{"parts": [{"path": "a", "backend": "mmap"}]}', 'there is no argument "backend"'),
        (b'{"parts": [{}]}', "path is missing"),
        (b'{"parts": []}', "parts is an empty list"),
        (b'{"path": "a", "backend": "smoke"}', "smoke"),
    ],
)
def test_a_configuration_with_a_mistake_is_refused(config: bytes, words: str) -> None:
    code, text = opened("hr_dataset_open", config)
    assert (code, words in text) == (5, True), text


def test_null_memory_is_refused_before_anything_is_done(dataset: int) -> None:
    loader_config = json.dumps(CONFIG).encode()
    config = (loader_config, len(loader_config))
    image = ctypes.create_string_buffer(images.jpeg(8, 8))
    whole = (image, len(image) - 1)
    room, made = ctypes.create_string_buffer(192), abi.Image()
    with _opened("hr_loader_open", CONFIG, dataset) as loader:
        for name, arguments in (
            ("hr_dataset_open", (None, 9, byref(ctypes.c_int64()))),
            ("hr_dataset_open", (*config, None)),
            ("hr_loader_open", (dataset, *config, None)),
            ("hr_job_start", (b'{"job": "verify"}', 17, None)),
            ("hr_writer_open", (b"{}", 2, None)),
            ("hr_next", (loader, 1000, None)),
            ("hr_loader_event", (loader, None)),
            ("hr_decode", (None, 9, None, 0, room, 192, byref(made))),
            ("hr_decode", (*whole, None, 9, room, 192, byref(made))),
            ("hr_decode", (*whole, None, 0, None, 192, byref(made))),
            ("hr_decode", (image, 2**63, None, 0, room, 192, byref(made))),
        ):
            code, text = failure(name, *arguments)
            assert code == 5, (name, arguments, text)
            assert " is NULL (expected " in text or "(expected a size of memory)" in text
        assert failure("hr_decode", *whole, None, 0, room, 192, None)[0] == 0
        answer = ctypes.create_string_buffer(1 << 16)
        assert failure("hr_dataset_info", dataset, -1, answer, len(answer), None)[0] == 0
        assert failure("hr_loader_info", loader, answer, len(answer), None)[0] == 0
        batch = abi.Batch()
        assert _lib.library().hr_next(loader, 60_000, batch, None) == 0
        assert batch.step == 0  # the refused call took no batch
        _lib.library().hr_release(batch.batch, None)


def test_a_short_buffer_is_not_written_and_the_needed_size_is_returned(dataset: int) -> None:
    need, buffer = ctypes.c_size_t(), ctypes.create_string_buffer(b"untouched", 64)
    code, text = failure("hr_dataset_info", dataset, -1, buffer, 10, byref(need))
    assert code == 3
    assert str(need.value) in text
    assert buffer.raw.startswith(b"untouched")
    large = ctypes.create_string_buffer(need.value)
    assert failure("hr_dataset_info", dataset, -1, large, need.value, byref(need))[0] == 0
    assert json.loads(large.value)["rows"] == 24


def test_hr_decode_refuses_memory_that_is_too_small_for_its_answer() -> None:
    """For every kind of answer of hr_decode: pixels, drawn parameters, a mask and boxes."""
    image, made = images.png(8, 8, 2), abi.Image()
    mask, boxes = bytes(64), np.array([[0, 0, 4, 4]], np.float32).tobytes()
    flip = {"transform": [{"name": "RandomHorizontalFlip", "p": 1}]}
    for data, config in (
        (image, flip),
        (image, flip | {"replay": True}),
        (image, flip | {"replay": True, "samples": 3}),
        (mask, flip | {"size": [8, 8], "label": {"name": "Mask"}}),
        (boxes, flip | {"size": [8, 8], "label": {"name": "Boxes"}}),
    ):
        text = json.dumps(config).encode()
        source = (data, len(data), text, len(text))
        assert failure("hr_decode", *source, None, 0, byref(made))[0] == 0
        need, room = made.bytes, ctypes.create_string_buffer(b"?" * 512)
        assert 0 < need < 512
        for short in (1, need - 1):
            made.bytes = 0
            code, message = failure("hr_decode", *source, room, short, byref(made))
            assert (code, made.bytes) == (3, need), config
            assert f"needs {need} bytes, the buffer has {short}" in message
            assert room.raw[:512] == b"?" * 512
        assert failure("hr_decode", *source, room, need, byref(made))[0] == 0
        assert room.raw[:need] != b"?" * need


def test_a_label_moves_as_the_image_of_its_view_does() -> None:
    image, box = images.png(8, 8, 2), np.array([[0, 0, 1, 8]], np.float32).tobytes()
    config = {"transform": [{"name": "RandomHorizontalFlip"}]}
    made, room = abi.Image(), ctypes.create_string_buffer(200)
    flipped = []
    for view in range(16):
        answers = []
        for data, more in (
            (image, {"replay": True}),
            (box, {"size": [8, 8], "label": {"name": "Boxes"}}),
        ):
            text = json.dumps(config | {"view": view} | more).encode()
            source = (data, len(data), text, len(text))
            assert failure("hr_decode", *source, room, 200, byref(made))[0] == 0
            answers.append(room.raw[: made.bytes])
        flipped.append(b"hflip" in answers[0])
        assert np.frombuffer(answers[1][8:], np.float32)[0] == (7 if flipped[-1] else 0)
    assert len(set(flipped)) == 2


def test_a_dataset_may_be_closed_before_its_loader(packed: Path) -> None:
    batch, error = abi.Batch(), abi.Error()
    with _opened("hr_dataset_open", {"path": str(packed)}) as handle:
        code, loader = opened("hr_loader_open", CONFIG, handle)
        assert code == 0
    for _ in range(8):
        code = _lib.library().hr_next(int(loader), 60_000, batch, error)
        assert code in (0, 1)
        if code == 0:
            _lib.library().hr_release(batch.batch, None)
    assert _lib.library().hr_close(int(loader), error) == 0
    assert _lib.library().hr_close(int(loader), error) == 4


def test_loans_are_refused_by_a_closed_loader_and_end_with_it(dataset: int) -> None:
    library, batch, error = _lib.library(), abi.Batch(), abi.Error()
    with _opened("hr_loader_open", CONFIG, dataset) as loader:
        size = _lib.info("hr_loader_info", loader)["slot_bytes"]
        memory, address = aligned(size)
        assert library.hr_lend(loader, address, size, 1, error) == 0
        for tag in (1, -1):  # already lent, and a loan without a tag
            assert failure("hr_lend", loader, address, size, tag)[0] == 5
        assert library.hr_next(loader, 10_000, batch, error) == 0
        assert library.hr_release(batch.batch, error) == 0
    assert failure("hr_lend", loader, address, size, 2)[0] == 4
    ctypes.memset(address, 0xA5, size)
    time.sleep(0.05)
    assert ctypes.string_at(address, size) == b"\xa5" * size  # nobody writes there any more
    del memory


def test_the_event_of_a_closed_loader_is_refused(dataset: int) -> None:
    descriptor = ctypes.c_int32(-1)
    with _opened("hr_loader_open", CONFIG, dataset) as loader:
        assert failure("hr_loader_event", loader, byref(descriptor))[0] == 0
        assert descriptor.value >= 0
    assert failure("hr_loader_event", loader, byref(descriptor))[0] == 4
    assert failure("hr_loader_event", 7, byref(descriptor))[0] == 4
