"""Many images at once: the decoder behind recorded images, through Python and through the C ABI."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import signal
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from ctypes import byref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import headrace as hr
import images
import processes
from headrace._engine import _lib, abi, followed
from headrace._engine.decoder import Decoder, File, Task, Work
from headrace.errors import (
    ArgumentError,
    BadFileError,
    ClosedError,
    HeadraceError,
    LimitError,
    MissingFileError,
    SystemFailure,
    TruncatedError,
    UnsupportedError,
    WaitTimeoutError,
)
from timing import eventually, within

Pixels = NDArray[Any]
Key = tuple[int, int, int, int, int]

NO_KEY: Key = (0, 0, 0, 0, 0)
CROP = {
    "transform": [{"name": "RandomResizedCrop", "size": 24}, {"name": "RandomHorizontalFlip"}],
    "dtype": "float32",
    "layout": "NCHW",
}
PPM = b"P6 31 17 255\n" + images.pixels(31, 17).tobytes()
IMAGES = [
    images.jpeg(90, 70),
    images.jpeg(64, 64, flags=("progressive",)),
    images.png(50, 40, 2),
    PPM,
]


@pytest.fixture
def decoder() -> Iterator[Decoder]:
    made = Decoder(2)
    yield made
    made.close()


def text(config: dict[str, Any]) -> bytes:
    return json.dumps(followed.following(config)).encode()


def alone(encoded: bytes, config: dict[str, Any], key: Key = NO_KEY) -> Pixels:
    """The result of hr_decode for it alone, as bytes."""
    names = ("seed", "epoch", "sample", "draw", "view")

    def make(image: abi.Image) -> tuple[Pixels, int]:
        room = np.zeros(image.bytes, np.uint8)
        return room, room.ctypes.data

    given = {**config, **dict(zip(names, key, strict=True))}
    return _lib.decode(encoded, len(encoded), given, make)


def why_alone(encoded: bytes, config: dict[str, Any]) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        alone(encoded, config)
    return caught.value


def room_for(encoded: bytes, config: dict[str, Any], key: Key = NO_KEY) -> Pixels:
    return np.full(len(alone(encoded, config, key)), 7, np.uint8)


def task(source: Any, config: dict[str, Any], key: Key, room: Pixels, same: bool = False) -> Task:
    return Task(source, text(config), key, room.ctypes.data, room.nbytes, same)


def finished(decoder: Decoder, tasks: Sequence[Task], keep: Any = None) -> Work:
    work = decoder.submit(tasks, keep)
    assert work.wait(60)
    return work


def identity(path: Path) -> tuple[int, int, int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


CONFIGS = [
    {},
    CROP,
    {"transform": [{"name": "Resize", "size": 20}], "layout": "NCHW"},
    {"transform": [{"name": "Resize", "size": 20}, {"name": "CenterCrop", "size": 16}]},
    {**CROP, "mode": "fast", "dtype": "bfloat16"},
    {
        "transform": [
            {"name": "RandomRotation", "degrees": 30, "expand": True},
            {"name": "ColorJitter", "brightness": 0.4, "hue": 0.1},
        ]
    },
]


@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_pixels_equal_those_of_each_image_decoded_alone_from_bytes_and_from_files(
    decoder: Decoder, tmp_path: Path, config: dict[str, Any]
) -> None:
    tasks, rooms, expected = [], [], []
    for number in range(40):
        encoded = IMAGES[number % len(IMAGES)]
        path = tmp_path / f"{number}.image"
        path.write_bytes(encoded)
        sources = [
            encoded,
            bytearray(encoded),
            memoryview(encoded),
            np.frombuffer(encoded, np.uint8),
            File(os.fsencode(path)),
            File(os.fsencode(path), -1, identity(path)),
        ]
        key = (3, number % 3, number, number % 2, number % 5)
        expected.append(alone(encoded, config, key))
        rooms.append(np.full(len(expected[-1]), 7, np.uint8))
        tasks.append(task(sources[number % len(sources)], config, key, rooms[-1]))
    work = finished(decoder, tasks, rooms)
    assert work.failures() == {}
    for number, (made, wanted) in enumerate(zip(rooms, expected, strict=True)):
        np.testing.assert_array_equal(made, wanted, err_msg=str(number))
        assert work.size(number)[2] == len(wanted)


@pytest.mark.parametrize("mode", ["exact", "fast"])
def test_several_results_of_one_image_equal_those_of_each_alone(
    decoder: Decoder, mode: str
) -> None:
    """With keys that count up by views, with others, and with a different plan and size each."""
    small = {"transform": [{"name": "RandomResizedCrop", "size": 8}], "mode": mode}
    large = {**CROP, "mode": mode}
    tasks, rooms, expected = [], [], []
    for number, encoded in enumerate(IMAGES):
        for call in range(40):
            config = large if call < 2 else {} if call == 9 else small
            key = (1, 2, number, 0, call if call < 36 else 99 - call)
            expected.append(alone(encoded, config, key))
            rooms.append(np.full(len(expected[-1]), 7, np.uint8))
            tasks.append(task(encoded if call == 0 else None, config, key, rooms[-1], call > 0))
    assert finished(decoder, tasks).failures() == {}
    for made, wanted in zip(rooms, expected, strict=True):
        np.testing.assert_array_equal(made, wanted)


def test_the_size_of_a_result_is_known_without_making_it(decoder: Decoder) -> None:
    turned = {"transform": [{"name": "Resize", "size": 20}], "dtype": "float32"}
    work = finished(
        decoder,
        [
            Task(IMAGES[0], text(turned), NO_KEY, 0, 0),
            Task(IMAGES[0], b"", NO_KEY, 0, 0),
            Task(IMAGES[0][:40], b"", NO_KEY, 0, 0),
        ],
    )
    assert work.size(0) == (25, 20, 25 * 20 * 3 * 4)
    assert work.size(1) == (90, 70, 90 * 70 * 3)
    assert list(work.failures()) == [2]
    with pytest.raises(TruncatedError):
        work.size(2)
    with pytest.raises(ArgumentError, match=r"index is 3 \(expected less than 3"):
        work.size(3)


def test_a_failed_task_has_its_own_error_and_the_other_tasks_have_their_pixels(
    decoder: Decoder, tmp_path: Path
) -> None:
    good, cut, missing, fifo = (tmp_path / name for name in ("good", "cut", "missing", "fifo"))
    good.write_bytes(IMAGES[0])
    cut.write_bytes(IMAGES[0][:-500])
    os.mkfifo(fifo)
    room = np.zeros(CROP_BYTES, np.uint8)
    few = {**CROP, "limits": {"max_record_bytes": 100}}
    cases: list[tuple[Any, dict[str, Any], Pixels, type[HeadraceError], str]] = [
        (File(bytes(missing)), CROP, room, MissingFileError, f"{missing}: cannot open it: no such"),
        (File(bytes(tmp_path)), CROP, room, BadFileError, f"{tmp_path}: bad: .* regular file"),
        (File(bytes(fifo)), CROP, room, BadFileError, f"{fifo}: bad: .* regular file"),
        (File(b"/dev/zero"), CROP, room, BadFileError, "/dev/zero: bad: .* regular file"),
        (File(b"a\0b"), CROP, room, SystemFailure, r"a\\x00b: cannot open it: invalid argument"),
        (File(bytes(cut)), {}, np.zeros(90 * 70 * 3, np.uint8), TruncatedError, f"^{cut}: at byte"),
        (File(bytes(good)), few, room, LimitError, f"^{good}: unsupported: the record has"),
        (IMAGES[0], few, room, LimitError, "max_record_bytes"),
        (b"", CROP, room, TruncatedError, "it is empty"),
        (b"\xff\x0a" + bytes(90), CROP, room, UnsupportedError, "JPEG XL"),
        (IMAGES[0], {"dtype": "float31"}, room, ArgumentError, "dtype"),
        (IMAGES[0], {"seed": 1}, room, ArgumentError, 'no argument "seed"'),
        (IMAGES[0], {"transform": [{"name": "CutMix"}]}, room, ArgumentError, "num_classes|mixes"),
        (IMAGES[0], CROP, room[:5], ArgumentError, r"capacity is 5 \(expected at least 6912"),
        (File(b"", 10**6), CROP, room, SystemFailure, "descriptor 1000000: .* bad file descriptor"),
    ]
    tasks, rooms = [], []
    for source, config, into, *_ in cases:
        rooms.append(np.full(CROP_BYTES, 7, np.uint8))
        tasks += [task(IMAGES[1], CROP, NO_KEY, rooms[-1]), task(source, config, NO_KEY, into)]
    failures = finished(decoder, tasks).failures()
    assert list(failures) == list(range(1, 2 * len(cases), 2))
    for error, (*_, kind, sentence) in zip(failures.values(), cases, strict=True):
        assert isinstance(error, kind), error
        with pytest.raises(kind, match=sentence):
            raise error
    for made in rooms:
        np.testing.assert_array_equal(made, alone(IMAGES[1], CROP))


CROP_BYTES = 24 * 24 * 3 * 4


def test_an_error_of_an_image_in_memory_has_the_same_message_as_by_hr_decode(
    decoder: Decoder,
) -> None:
    damaged = [data[:cut] for data in IMAGES for cut in (0, 1, 2, 9, 40, len(data) // 2)]
    damaged += [b"BM" + bytes(60), b"\x89PNG\r\n\x1a\n" + bytes(60), b"P6 0 0 255\n", b"P6 9 9 "]
    fits = {"transform": [{"name": "RandomCrop", "size": 60}]}
    for config in (CROP, {}, fits):
        rooms = [np.zeros(1 << 16, np.uint8) for _ in damaged]
        tasks = [task(one, config, NO_KEY, into) for one, into in zip(damaged, rooms, strict=True)]
        failures = finished(decoder, tasks).failures()
        assert sorted(failures) == [*range(len(damaged))]
        for number, error in failures.items():
            expected = why_alone(damaged[number], config)
            assert (type(error), str(error)) == (type(expected), str(expected))
    room = np.zeros(1 << 16, np.uint8)
    (error,) = finished(decoder, [task(PPM, fits, NO_KEY, room)]).failures().values()
    assert "transform 0 (RandomCrop): size" in str(error)
    assert str(error) == str(why_alone(PPM, fits))


def test_a_failed_result_leaves_the_other_results_of_its_image_intact(decoder: Decoder) -> None:
    fits = {"transform": [{"name": "RandomCrop", "size": 60}]}
    rooms = [np.zeros(60 * 60 * 3, np.uint8) for _ in range(3)]
    big = {"transform": [{"name": "RandomCrop", "size": 71}]}
    last = np.zeros(71 * 71 * 3, np.uint8)
    configs: list[dict[str, Any]] = [fits, {"no": 1}, fits, big]
    tasks = [
        task(IMAGES[0], config, (0, 0, 0, 0, view), into, view > 0)
        for view, (config, into) in enumerate(zip(configs, [*rooms, last], strict=True))
    ]
    assert list(finished(decoder, tasks).failures()) == [1, 3]
    for view in (0, 2):
        np.testing.assert_array_equal(rooms[view], alone(IMAGES[0], fits, (0, 0, 0, 0, view)))


def test_a_file_that_changed_since_it_was_seen_is_an_error(
    decoder: Decoder, tmp_path: Path
) -> None:
    path, other = tmp_path / "seen", tmp_path / "other"
    path.write_bytes(IMAGES[0])
    other.write_bytes(IMAGES[0])
    seen = identity(path)
    os.utime(other, ns=(seen[3], seen[3]))
    room = np.zeros(CROP_BYTES, np.uint8)

    def error() -> str:
        work = finished(decoder, [task(File(bytes(path), -1, seen), CROP, NO_KEY, room)])
        return "".join(map(str, work.failures().values()))

    assert error() == ""
    os.utime(path, ns=(seen[3] + 1, seen[3] + 1))
    assert f"(expected {seen[3]} ns, found {seen[3] + 1})" in error()
    path.write_bytes(IMAGES[0] + b"more")
    assert f"(expected {seen[2]} bytes, found {seen[2] + 4})" in error()
    os.replace(other, path)
    assert f"expected inode {seen[1]} of device {seen[0]}, found inode" in error()
    path.unlink()
    assert "no such file" in error()


def test_an_open_file_is_read_from_its_beginning_also_if_it_was_renamed_or_deleted(
    decoder: Decoder, tmp_path: Path
) -> None:
    path = tmp_path / "gone"
    path.write_bytes(IMAGES[0])
    room = np.zeros(CROP_BYTES, np.uint8)
    with path.open("rb") as file:
        file.seek(50)
        seen = identity(path)
        path.unlink()
        tasks = [
            task(File(bytes(path), file.fileno(), kept), CROP, NO_KEY, room)
            for kept in (None, seen)
        ]
        assert finished(decoder, tasks).failures() == {}
        assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == 50
    np.testing.assert_array_equal(room, alone(IMAGES[0], CROP))


def test_works_are_done_in_the_order_of_submission(decoder: Decoder) -> None:
    works = []
    for number in range(50):
        room = np.zeros(CROP_BYTES * 8, np.uint8)
        tasks = [
            Task(
                IMAGES[i % 4],
                text(CROP),
                (number, 0, i, 0, 0),
                room[i * CROP_BYTES :].ctypes.data,
                CROP_BYTES,
            )
            for i in range(8)
        ]
        works.append((decoder.submit(tasks, room), room))
    assert works[-1][0].wait(60)
    for number, (work, room) in enumerate(works):
        # When the last work finished, at most the tasks that other threads were busy with came
        # after it.
        assert work.wait(60)
        assert work.failures() == {}
        for i in range(8):
            made = room[i * CROP_BYTES : (i + 1) * CROP_BYTES]
            np.testing.assert_array_equal(made, alone(IMAGES[i % 4], CROP, (number, 0, i, 0, 0)))


def test_a_different_configuration_for_every_task_is_compiled_and_freed(decoder: Decoder) -> None:
    rooms, tasks, expected = [], [], []
    for number in range(1200):
        config = {
            "transform": [
                {"name": "Crop", "top": number % 7, "left": number // 100, "height": 4, "width": 5}
            ]
        }
        config["limits"] = {"max_pixels": 10_000 + number}
        rooms.append(np.zeros(60, np.uint8))
        expected.append(images.pixels(31, 17)[number % 7 :][:4, number // 100 :][:, :5])
        tasks.append(task(PPM, config, NO_KEY, rooms[-1]))
    assert finished(decoder, tasks).failures() == {}
    for made, wanted in zip(rooms, expected, strict=True):
        np.testing.assert_array_equal(made.reshape(4, 5, 3), wanted)


def test_a_scheduled_size_is_that_of_the_keys_epoch(decoder: Decoder) -> None:
    sizes = {"by": "epoch", "at": [[0, 8], [3, 16]]}
    config = text({"transform": [{"name": "RandomResizedCrop", "size": sizes}]})
    tasks = [Task(PPM, config, (0, epoch, 0, 0, 0), 0, 0) for epoch in (0, 2, 3, 2, 9)]
    work = finished(decoder, tasks)
    assert [work.size(i)[0] for i in range(5)] == [8, 8, 16, 8, 16]


def slow(count: int, room: Pixels, path: Path) -> list[Task]:
    path.write_bytes(IMAGES[0])
    return [task(File(bytes(path)), CROP, NO_KEY, room) for _ in range(count)]


def test_wait_keeps_its_timeout_and_says_whether_all_is_finished(tmp_path: Path) -> None:
    decoder, room = Decoder(1, read_delay_ms=400), np.zeros(CROP_BYTES, np.uint8)
    work = decoder.submit(slow(2, room, tmp_path / "a"), room)
    assert not work.wait(0)
    assert work.failures() == {}
    with pytest.raises(WaitTimeoutError):
        work.size(1)
    for timeout in (0.0, 0.05, 0.25):
        begun = time.monotonic()
        if work.wait(timeout):
            break
        assert time.monotonic() - begun >= timeout
    assert work.wait()
    assert work.wait(0)
    assert decoder.submit([]).wait(0)
    decoder.close()


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True], ids=["work", "decoder"])
def test_nothing_is_written_after_close_also_if_a_read_hangs(tmp_path: Path, whole: bool) -> None:
    decoder, room = Decoder(2, read_delay_ms=2500), np.zeros(CROP_BYTES, np.uint8)
    work = decoder.submit(slow(6, room, tmp_path / "a"), room)
    time.sleep(0.1)
    begun = time.monotonic()
    (decoder if whole else work).close()
    assert time.monotonic() - begun < 2.2, "it waited for the read"
    room[:] = 9
    with pytest.raises(ClosedError):
        work.wait(10)
    time.sleep(2.7)
    assert (room == 9).all()
    if not whole:
        next_one = decoder.submit(slow(1, room, tmp_path / "a"), room)
        assert next_one.wait(60)
        assert next_one.failures() == {}
        np.testing.assert_array_equal(room, alone(IMAGES[0], CROP))
        decoder.close()
    with pytest.raises(ClosedError):
        decoder.submit([])


def test_after_closing_at_any_moment_memory_is_not_written() -> None:
    large = images.jpeg(600, 500)
    size = 224 * 224 * 3
    config = text({"transform": [{"name": "RandomResizedCrop", "size": 224}]})
    decoder = Decoder(3)
    for number in range(60):
        room = np.zeros(12 * size, np.uint8)
        work = decoder.submit(
            [Task(large, config, NO_KEY, room.ctypes.data + i * size, size) for i in range(12)],
            room,
        )
        time.sleep(number * 0.0002)
        if number % 3 == 2:
            decoder.close()
            decoder = Decoder(3)
        else:
            work.close()
        room[:] = 9
        time.sleep(0.002)
        assert (room == 9).all()
    decoder.close()


class Owner:
    """An object whose end can be observed."""


def test_sources_and_memory_are_kept_alive_until_the_engine_releases_them(tmp_path: Path) -> None:
    decoder, room = Decoder(1, read_delay_ms=300), np.zeros(CROP_BYTES, np.uint8)
    owners = [Owner(), Owner(), Owner()]
    gone = [weakref.ref(owner) for owner in owners]
    array = bytearray(IMAGES[0])
    waited = decoder.submit(
        [*slow(1, room, tmp_path / "a"), task(array, CROP, NO_KEY, room)], owners[0]
    )
    closed = decoder.submit(slow(1, room, tmp_path / "a"), owners[1])
    dropped = decoder.submit(slow(1, room, tmp_path / "a"), owners[2])
    owners.clear()
    with pytest.raises(BufferError):
        array.append(1)
    assert waited.wait(60)
    array.append(1)
    assert gone[0]() is None
    assert gone[1]() is not None
    closed.close()
    assert gone[1]() is None
    assert gone[2]() is not None
    del dropped
    assert eventually(lambda: gone[2]() is None)
    decoder.close()


def test_a_decoder_and_its_works_are_closed_by_garbage_collection(tmp_path: Path) -> None:
    room = np.zeros(CROP_BYTES, np.uint8)
    work = Decoder(1, read_delay_ms=100).submit(slow(3, room, tmp_path / "a"), room)
    gc.collect()
    assert not work.wait(0), "the work holds its decoder"
    del work
    gc.collect()  # the check after this test sees what is left


def test_ctrl_c_interrupts_a_wait(tmp_path: Path) -> None:
    def interrupted() -> float:
        decoder, room = Decoder(1, read_delay_ms=900), np.zeros(CROP_BYTES, np.uint8)
        work = decoder.submit(slow(2, room, tmp_path / "a"), room)
        sent: list[float] = []

        def interrupt() -> None:
            sent.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

        timer = threading.Timer(0.1, interrupt)
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            work.wait()
        took = time.monotonic() - sent[0]
        timer.join()
        decoder.close()
        return took

    within(0.5, interrupted)


def test_a_wait_in_another_thread_ends_when_the_work_is_closed(tmp_path: Path) -> None:
    decoder, room = Decoder(1, read_delay_ms=400), np.zeros(CROP_BYTES, np.uint8)
    work = decoder.submit(slow(9, room, tmp_path / "a"), room)
    caught: list[BaseException] = []

    def wait() -> None:
        try:
            work.wait(60)
        except HeadraceError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    work.close()
    thread.join(20)
    assert isinstance(caught[0], ClosedError)
    decoder.close()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (Task(IMAGES[0], b"", NO_KEY, 0, 5), r"task 1: data is NULL \(expected 5 bytes\)"),
        (Task(File(b""), b"", NO_KEY, 0, 0), "task 1: it has no image"),
        (Task(5, b"", NO_KEY, 0, 0), "task 1: source"),
        (Task(File("text"), b"", NO_KEY, 0, 0), "task 1: path"),  # type: ignore[arg-type]
        (Task(None, b"", NO_KEY, 0, 0), "task 1: source"),
        (Task(IMAGES[0], "{}", NO_KEY, 0, 0), "config"),  # type: ignore[arg-type]
        (Task(IMAGES[0], b"", (-1, 0, 0, 0, 0), 0, 0), "task 1: "),
        (Task(IMAGES[0], b"", (0, 0, 0, 0, 2**32), 0, 0), "task 1: "),
        (Task(IMAGES[0], b"", NO_KEY, 1, 2**63), "task 1: the size of data"),
        (Task(IMAGES[0], b"", NO_KEY, 1, 2**64), "task 1: "),
        (Task(File(b"a", 2**31), b"", NO_KEY, 0, 0), "task 1: "),
        (Task(File(b"a", -1, (1, 2, 3)), b"", NO_KEY, 0, 0), "task 1: "),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_task_is_refused_and_no_task_is_begun(
    decoder: Decoder, given: Task, sentence: str
) -> None:
    room = np.zeros(CROP_BYTES, np.uint8)
    with pytest.raises(ArgumentError, match=sentence):
        decoder.submit([task(IMAGES[0], CROP, NO_KEY, room), given])
    time.sleep(0.02)
    assert not room.any()


def test_a_first_task_must_have_an_image_of_its_own(decoder: Decoder) -> None:
    with pytest.raises(ArgumentError, match="no task before it"):
        decoder.submit([Task(None, b"", NO_KEY, 0, 0, True)])


def submitted(decoder: int, tasks: Any, count: int) -> tuple[int, str]:
    error, work = abi.Error(), ctypes.c_int64()
    code = _lib.library().hr_decoder_submit(decoder, tasks, count, byref(work), byref(error))
    if code == 0:
        assert _lib.library().hr_decoder_wait(work, 60_000, None, None) == 0
        code = _lib.library().hr_decoder_result(work, 0, None, byref(error))
        assert _lib.library().hr_close(work, None) == 0
    return code, error.text.decode()


def test_hostile_tasks_through_the_c_abi_are_an_error_and_never_a_crash(decoder: Decoder) -> None:
    handle = decoder._handle.value
    image = np.frombuffer(IMAGES[0], np.uint8)
    good = {"bytes": image.ctypes.data, "length": image.size}
    room = np.zeros(8, np.uint8)
    for members, code in (
        ({}, 5),
        ({"length": 5}, 5),
        ({"path_length": 5}, 5),
        ({**good, "config_length": 5}, 5),
        ({**good, "capacity": 5}, 5),
        ({**good, "capacity": 2**63, "data": 1}, 5),
        ({**good, "length": 2**64 - 1}, 5),
        ({**good, "path_length": 2**40, "path": 1}, 5),
        ({**good, "flags": 2}, 5),
        ({**good, "flags": 8}, 5),
        ({**good, "reserved": 1}, 5),
        ({**good, "flags": 1, "descriptor": -1}, 5),
        ({**good, "capacity": 8, "data": room.ctypes.data}, 5),
        ({**good, "data": 1, "config": 1, "path": 1}, 0),  # addresses with length zero
        ({"bytes": 1}, 8),
        ({**good, "flags": 5, "descriptor": 2**31 - 1}, 0),  # bytes: the descriptor is ignored
    ):
        assert submitted(handle, byref(abi.Task(**members)), 1)[0] == code, members
    for count in (2**63, 2**64 - 1, 2**56):
        assert submitted(handle, byref(abi.Task(**good)), count)[0] == 5
    for count in (2**20 + 1, 2**33, 2**55):
        code, text = submitted(handle, byref(abi.Task(**good)), count)
        assert (code, f"{count} tasks were submitted, of at most 1048576" in text) == (11, True)
    assert submitted(handle, None, 1)[0] == 5
    for config in (b'{"num_threads": -1}', b'{"num_threads": 1025}', b'{"threads": 1}', b"[]"):
        opened = ctypes.c_int64()
        assert _lib.library().hr_decoder_open(config, len(config), byref(opened), None) == 5


@pytest.mark.every(3)
@pytest.mark.parametrize("closing", ["", "work.close()", "decoder.close()", "del decoder, work"])
def test_a_program_may_end_with_works_unfinished(tmp_path: Path, closing: str) -> None:
    path = tmp_path / "a"
    path.write_bytes(IMAGES[0])
    code = f"""
        import os, sys, time, numpy as np
        from headrace._engine.decoder import Decoder, File, Task
        room = np.zeros((64, 70, 90, 3), np.uint8)
        decoder = Decoder(2, read_delay_ms=200)
        work = decoder.submit(
            [Task(File(os.fsencode(sys.argv[1])), b"", (0,) * 5, one.ctypes.data, one.size)
             for one in room],
            room,
        )
        time.sleep(0.3)
        {closing}
        print("ends", room.any())
    """
    assert processes.run(code, path) == "ends True\n"


def test_too_many_unfinished_works_are_refused(tmp_path: Path) -> None:
    decoder, room = Decoder(1, read_delay_ms=300), np.zeros(CROP_BYTES, np.uint8)
    tasks = slow(1, room, tmp_path / "a")
    works: list[Work] = []
    with pytest.raises(LimitError, match="4096 works wait"):
        works.extend(decoder.submit(tasks) for _ in range(4500))  # some may have finished
    assert len(works) >= 4096
    works.pop().close()
    decoder.submit(tasks).close()
    decoder.close()


def test_an_engine_with_a_decoder_is_refused_in_a_forked_child(decoder: Decoder) -> None:
    room = np.zeros(CROP_BYTES, np.uint8)
    work = decoder.submit([task(IMAGES[0], CROP, NO_KEY, room)])
    child = os.fork()
    if child == 0:
        status = 0
        for use in (
            lambda: decoder.submit([]),
            lambda: work.wait(0),
            Decoder,
        ):
            try:
                use()
            except hr.errors.ForkedError:
                status += 1
        work.close()
        decoder.close()
        os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert work.wait(60)
    np.testing.assert_array_equal(room, alone(IMAGES[0], CROP))
