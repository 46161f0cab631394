"""A process that has imported the modules of whole-program tests, and forks one child for each.

An interpreter that imports torch takes three seconds of a processor. One that is forked from
another, which has imported it and has not used Headrace yet, takes none and is as good as just
started: it has its own arguments, output and end. What a test says of starting, importing and
environment variables needs an interpreter of its own: ``processes.start``.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from types import CodeType

import pytest

HERE = Path(__file__).parent
PRELOADED = ("headrace.loader", "headrace.torch", "torch")


class Forked:
    """A running program, with those methods of subprocess.Popen that tests use."""

    def __init__(self, parent: socket.socket, code: str, arguments: list[str]) -> None:
        request = json.dumps([textwrap.dedent(code), arguments]).encode()
        ends = [os.pipe() for _ in range(3)]  # its output, its errors, and its PID and status
        self._out, self._err, self._told = (os.fdopen(mine) for mine, _ in ends)
        socket.send_fds(parent, [len(request).to_bytes(4, "little")], [there for _, there in ends])
        parent.sendall(request)
        for _, there in ends:
            os.close(there)
        self.pid = int(self._told.readline())
        self.returncode: int | None = None

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Its output and errors once all who hold them have ended; those that are None stay
        open."""
        killed: list[bool] = []
        late = threading.Timer(timeout, lambda: (killed.append(True), self.kill()))
        late.start()
        said: list[str] = []
        errors = threading.Thread(target=lambda: said.append(self._err.read()))
        errors.start()
        with self._out, self._err, self._told:
            out = self._out.read()
            errors.join()
            self.returncode = int(self._told.read())
        late.cancel()
        late.join()
        if killed:
            pytest.fail(f"still running after {timeout} s\n{out}\n{said[0]}")
        return out, said[0]


class Parent:
    """Starts that process; it ends with `close`, or with the process that started it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"import forking; exec(forking.serve({theirs.fileno()}))"],
            stdout=subprocess.DEVNULL,  # not a terminal, so that each child buffers as in a pipe
            env={**os.environ, "PYTHONPATH": path, "PYTHONFAULTHANDLER": ""},
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        assert self._socket.recv(1) == b"+"

    def start(self, code: str, *arguments: object) -> Forked:
        """Starts `code` with `arguments` as sys.argv[1:]; tests/ is importable there."""
        return Forked(self._socket, code, [str(one) for one in arguments])

    def run(self, code: str, *arguments: object, timeout: float = 60) -> str:
        """The output of `code`, which must end with status 0 in time."""
        process = self.start(code, *arguments)
        out, err = process.communicate(timeout)
        assert process.returncode == 0, f"status {process.returncode}\n{out}\n{err}"
        return out

    def close(self) -> None:
        self._socket.close()
        self._process.wait(30)


def serve(number: int) -> CodeType:
    """Returns in each child with the code to run in __main__; never in the parent."""
    for name in PRELOADED:
        importlib.import_module(name)
    with open("/proc/self/maps") as maps:
        assert "libheadrace" not in maps.read()
    del sys.modules["forking"]  # a program that imports this module gets its own copy
    # A child that ends does not look at frozen objects, which would copy every page that holds
    # them.
    gc.collect()
    gc.freeze()
    tests = socket.socket(fileno=number)
    tests.send(b"+")
    while True:
        size, given, *_ = socket.recv_fds(tests, 4, 3)
        if not size:
            os._exit(0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        request = b""
        while len(request) < int.from_bytes(size, "little"):
            request += tests.recv(1 << 20)
        if os.fork() == 0:
            tests.close()
            return _program(given, *json.loads(request))
        for one in given:
            os.close(one)


def _program(given: list[int], code: str, arguments: list[str]) -> CodeType:
    """Forks once more: the first child stays and reports the second one's PID, and its status at
    its end."""
    out, err, told = given
    child = os.fork()
    if child:
        os.close(out)
        os.close(err)
        os.write(told, f"{child}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(told, str(status).encode())
        os._exit(0)
    os.dup2(out, 1)
    os.dup2(err, 2)
    for one in given:
        os.close(one)
    sys.argv[1:] = arguments
    return compile(code, "<string>", "exec")
