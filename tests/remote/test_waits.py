"""Ctrl-C and ``timeout=`` end every kind of wait for a server that never answers."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import headrace as hr
import images
from headrace import errors
from headrace._command.cli import app
from processes import in_mount_namespace, interrupted, run, start
from remote import buckets
from remote.conftest import Storage
from remote.stores import Answering, Silent, Store
from timing import PATIENCE_S, eventually, within

TIMEOUT = 0.4
NO_ANSWER = r"(http://127\.0\.0\.1|s3://)\S+: .*gave no answer within 0\.4 s"


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("waits") / "photos", 20)


@pytest.fixture(params=["silent", "dribbling"])
def server(request: pytest.FixtureRequest) -> Iterator[Silent]:
    made = Silent(dribbles=request.param == "dribbling")
    yield made
    made.end()


def of(endpoint: str) -> dict[str, Any]:
    return {"endpoint": endpoint, "path_style": True, "anonymous": True}


# Everything that waits for a store; its arguments are the store, photographs on disk, and a place
# where nothing is.
Waiting = Callable[[str, Path, Path], object]
WAITING: dict[str, Waiting] = {
    "a dataset": lambda to, _, __: hr.Dataset(f"{to}/x.hr", timeout=TIMEOUT),
    "an index": lambda to, _, at: hr.index(f"{to}/x.tar", at, timeout=TIMEOUT),
    "packing from": lambda to, _, at: hr.pack(f"{to}/x.tar", at, timeout=TIMEOUT),
    "packing to": lambda to, photos, _: hr.pack(
        photos, "s3://b/x.hr", storage=of(to), timeout=TIMEOUT
    ),
    "packing to, sample by sample": lambda to, photos, _: hr.pack(
        [(next(photos.rglob("*.jpg")).read_bytes(), 0)],
        "s3://b/x.hr",
        storage=of(to),
        timeout=TIMEOUT,
    ),
    "a writer": lambda to, _, __: hr.Writer("s3://b/x.hr", storage=of(to), timeout=TIMEOUT),
    "a list": lambda to, _, at: hr.index("s3://b/x/*.tar", at, storage=of(to), timeout=TIMEOUT),
    "verifying": lambda to, _, __: hr.verify(f"{to}/x.hr", timeout=TIMEOUT),
    "a plan": lambda to, _, __: hr.plan(f"{to}/x.hr", rate=1, timeout=TIMEOUT),
    "the doctor": lambda to, _, __: hr.doctor(f"{to}/x.hr", timeout=TIMEOUT),
    "a loader": lambda to, _, __: hr.Loader(f"{to}/x.hr", 1, timeout=TIMEOUT),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("what", WAITING)
def test_a_timeout_ends_every_wait(server: Silent, photos: Path, tmp_path: Path, what: str) -> None:
    numbers = iter(range(10))

    def attempt() -> float:
        began = time.monotonic()
        with pytest.raises(errors.WaitTimeoutError, match=NO_ANSWER):
            WAITING[what](server.endpoint, photos, tmp_path / f"{next(numbers)}.hr")
        return time.monotonic() - began

    within(TIMEOUT + 1, attempt)


COMMANDS = {
    "info": ["info", "URL"],
    "verify": ["verify", "URL"],
    "view": ["view", "URL", "PLACE.png"],
    "bench": ["bench", "URL"],
    "doctor": ["doctor", "URL"],
    "plan": ["plan", "URL", "--rate", "1"],
    "index": ["index", "URL.tar", "--out", "PLACE.hr"],
    "pack": ["pack", "URL.tar", "PLACE.hr"],
}


@pytest.mark.every(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_takes_a_timeout(tmp_path: Path, command: str) -> None:
    server = Silent()
    try:
        url, place = f"{server.endpoint}/x", str(tmp_path / "place")
        words = [word.replace("URL", url).replace("PLACE", place) for word in COMMANDS[command]]

        def attempt() -> float:
            began = time.monotonic()
            done = CliRunner().invoke(app, [*words, "--timeout", str(TIMEOUT)])
            assert isinstance(done.exception, errors.WaitTimeoutError), done.output
            return time.monotonic() - began

        within(TIMEOUT + 1, attempt)
    finally:
        server.end()


def test_a_sample_that_does_not_come_is_a_timeout_error(photos: Path, tmp_path: Path) -> None:
    hr.pack(photos, tmp_path / "train.hr")
    store, over = Store(tmp_path), threading.Event()

    def silent(answering: Answering, body: bytes, *_: object) -> bool:
        if ".tar" not in answering.path or len(body) == 1:
            return False
        over.wait(60)
        answering.reset()
        return True

    store.fault = silent
    try:
        with hr.Dataset(store.url("train.hr"), timeout=TIMEOUT) as dataset:
            for read in (dataset.read, dataset.__getitem__):

                def attempt(read: Callable[[int], object] = read) -> float:
                    began = time.monotonic()
                    with pytest.raises(errors.WaitTimeoutError, match=NO_ANSWER):
                        read(3)
                    return time.monotonic() - began

                within(TIMEOUT + 1, attempt)
    finally:
        over.set()
        store.end()


# Waits as it is told, without a timeout.
PROGRAM = """
    import io, sys
    import headrace as hr
    from headrace._command import cli
    what, to, photos, place = sys.argv[1:]
    storage = {"endpoint": to, "path_style": True, "anonymous": True}

    def command(*words):
        sys.argv, sys.stderr = ["headrace", *words], io.StringIO()
        try:
            cli.main()
        except SystemExit as end:
            if end.code == 130:
                raise KeyboardInterrupt
            raise

    def writer():
        with hr.Writer("s3://b/x.hr", storage=storage) as made:
            made.add(b"", 0)

    try:
        {
            "a dataset": lambda: hr.Dataset(to + "/x.hr"),
            "an index": lambda: hr.index(to + "/x.tar", place),
            "packing from": lambda: hr.pack(to + "/x.tar", place),
            "packing to": lambda: hr.pack(photos, "s3://b/x.hr", storage=storage),
            "a writer": writer,
            "verifying": lambda: hr.verify(to + "/x.hr"),
            "a loader": lambda: hr.Loader(to + "/x.hr", 1),
            "headrace info": lambda: command("info", to + "/x.hr"),
            "headrace index": lambda: command("index", to + "/x.tar", "--out", place),
        }[what]()
    except KeyboardInterrupt:
        print("interrupted")
"""
PROGRAMS = (
    *("a dataset", "an index", "packing from", "packing to", "a writer", "verifying", "a loader"),
    *("headrace info", "headrace index"),
)


@pytest.mark.every(3)
@pytest.mark.parametrize("what", PROGRAMS)
def test_an_interrupt_ends_every_wait(photos: Path, tmp_path: Path, what: str) -> None:
    def attempt() -> float:
        # A server that sends a byte at a time is as bad as a silent one, and harder to interrupt.
        server = Silent(dribbles=True)
        try:
            program = start(PROGRAM, what, server.endpoint, photos, tmp_path / "place.hr")
            return interrupted(program, server.asked)
        finally:
            server.end()

    within(1.0, attempt)
    assert not (tmp_path / "place.hr").exists()


@contextlib.contextmanager
def silent_names(tmp_path: Path) -> Iterator[tuple[tuple[str, ...], threading.Event]]:
    """A prefix for programs whose host names are looked up at a server that never answers; and
    whether it was asked."""
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.77\noptions timeout:30 attempts:5\n")
    prefix = in_mount_namespace(f"mount --bind {resolver} /etc/resolv.conf")
    asked = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as names:
        try:
            names.bind(("127.0.0.77", 53))
        except OSError as failure:
            pytest.skip(f"no server of names can be had here: {failure}")

        def listen() -> None:
            with contextlib.suppress(OSError):
                names.recv(512)
                asked.set()

        threading.Thread(target=listen, daemon=True).start()
        yield prefix, asked


@pytest.mark.parametrize("what", ["a dataset", "an index", "packing to", "headrace info"])
def test_an_interrupt_ends_the_wait_for_a_name_that_is_never_found(
    photos: Path, tmp_path: Path, what: str
) -> None:
    def attempt() -> float:
        with silent_names(tmp_path) as (prefix, asked):
            told = (what, "http://photographs.example", photos, tmp_path / "place.hr")
            return interrupted(start(PROGRAM, *told, prefix=prefix), asked)

    within(1.0, attempt)


def test_a_timeout_ends_the_wait_for_a_name_that_is_never_found(tmp_path: Path) -> None:
    code = """
        import sys, time
        import headrace as hr
        url, place = sys.argv[1:]
        for call in (lambda: hr.Dataset(url, timeout=0.4), lambda: hr.verify(url, timeout=0.4),
                     lambda: hr.index(url + ".tar", place, timeout=0.4)):
            began = time.monotonic()
            try:
                call()
            except hr.errors.WaitTimeoutError:
                print(time.monotonic() - began)
    """

    def attempt() -> float:
        with silent_names(tmp_path) as (prefix, _):
            url = "http://photographs.example/x.hr"
            took = run(code, url, tmp_path / "place.hr", prefix=prefix).split()
        assert len(took) == 3
        return max(map(float, took))

    within(TIMEOUT + 1, attempt)


UPLOADING = """
import sys
import headrace as hr

storage = {"endpoint": sys.argv[1], "path_style": True, "region": "us-east-1"}
image = sys.stdin.buffer.read()
try:
    with hr.Writer("s3://photos/train.hr", shard_size="32KiB", storage=storage) as writer:
        while True:
            writer.add(image, 0)
except KeyboardInterrupt:
    print("interrupted")
"""


@contextlib.contextmanager
def uploading(storage: Storage, bucket: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that has uploaded some shards."""
    command = [sys.executable, "-c", UPLOADING, str(storage["endpoint"])]
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as child:
        try:
            assert child.stdin is not None
            child.stdin.write(images.jpeg(64, 64))
            child.stdin.close()
            child.stdin = None
            assert eventually(lambda: (bucket / "train.hr" / "shard-00002.tar").exists())
            yield child
        finally:
            child.kill()


def objects(bucket: Path) -> list[Path]:
    return [path for path in bucket.rglob("*") if path.is_file()]


def test_an_interrupted_upload_leaves_nothing(bucket: Path, storage: Storage) -> None:
    with uploading(storage, bucket) as child:
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=PATIENCE_S) == (b"interrupted\n", b"")
    assert objects(bucket) == []


def test_an_upload_to_a_store_that_fell_silent_can_be_interrupted_and_its_rest_is_named(
    bucket: Path, storage: Storage
) -> None:
    def attempt() -> float:
        falling = buckets.Falling(storage)
        with falling.running() as through, uploading(through, bucket) as child:
            falling.silent.set()
            try:
                assert falling.asked.wait(PATIENCE_S)
                began = time.monotonic()
                child.send_signal(signal.SIGINT)
                out, err = child.communicate(timeout=PATIENCE_S)
                took = time.monotonic() - began
            finally:
                falling.over.set()
        assert out == b"interrupted\n"
        assert b"s3://photos/train.hr: of what was uploaded" in err
        assert b"could not be removed and are left below s3://photos/train.hr, as " in err
        for path in objects(bucket):
            path.unlink()
        return took

    within(1.0, attempt)


def test_an_upload_to_a_store_that_fell_silent_times_out_and_its_rest_is_named(
    photos: Path, bucket: Path, storage: Storage
) -> None:
    def attempt() -> float:
        falling = buckets.Falling(storage)
        with falling.running() as through:
            try:
                with hr.Writer(
                    "s3://photos/late.hr", shard_size="32KiB", storage=through, timeout=TIMEOUT
                ) as writer:
                    image = images.jpeg(64, 64)
                    while not (bucket / "late.hr" / "shard-00001.tar").exists():
                        writer.add(image, 0)
                    falling.silent.set()
                    began = time.monotonic()
                    with pytest.raises(
                        errors.WaitTimeoutError,
                        match=f"{NO_ANSWER}.*are left below s3://photos/late.hr",
                    ):
                        writer.finish()
                    took = time.monotonic() - began
            finally:
                falling.over.set()
        for path in objects(bucket):
            path.unlink()
        return took

    within(TIMEOUT + 1, attempt)


def test_the_doctor_and_a_plan_end_in_time_if_a_store_falls_silent_after_its_index(
    photos: Path, tmp_path: Path
) -> None:
    hr.pack(photos, tmp_path / "train.hr")
    store, heard = Store(tmp_path), threading.Event()
    try:
        with hr.Dataset(store.url("train.hr")) as dataset:
            store.fault = lambda *_: heard.wait(60)
            began = time.monotonic()
            found = hr.doctor(dataset, transform=[{"name": "CenterCrop", "size": 16}], seconds=1)
            assert found.measured["decoding"] is None
            assert "the store of objects gave no image in this time" in found.notes
            with pytest.raises(errors.ArgumentError, match="that was tried can be read"):
                hr.plan(dataset, rate=1)
            assert time.monotonic() - began < 30  # and not a minute for each few samples
    finally:
        heard.set()
        store.end()
