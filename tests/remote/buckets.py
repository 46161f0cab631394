"""versitygw, a real S3 server that checks signatures, and a proxy before it that fails."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import http.client
import os
import random
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

PROGRAM = Path(__file__).parents[2] / ".build" / "bin" / "versitygw"
ACCESS, SECRET = "an-access-key", "a-secret-key"


def set_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets the server's keys in the environment, and removes those of the user who runs the
    tests."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[dict[str, str | bool]]:
    """Serves a folder's subfolders as buckets; yields the argument ``storage`` for them."""
    program = PROGRAM if PROGRAM.is_file() else shutil.which("versitygw")
    if program is None:
        pytest.skip("versitygw is not built (make stores builds it)")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    keys = {"ROOT_ACCESS_KEY": ACCESS, "ROOT_SECRET_KEY": SECRET}
    command = [str(program), "--port", address, "--quiet", "posix", str(folder)]
    with subprocess.Popen(command, env={**os.environ, **keys}) as server:
        try:
            _wait_for(address, server)
            yield {"endpoint": f"http://{address}", "path_style": True, "region": "us-east-1"}
        finally:
            server.kill()


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    host, port = address.split(":")
    for _ in range(1500):
        assert server.poll() is None, "versitygw ended"
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("versitygw did not begin to listen")


class _Passing(BaseHTTPRequestHandler):
    """Passes a request on, or fails it."""

    protocol_version = "HTTP/1.1"
    server: Failing
    disable_nagle_algorithm = True

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        how = self.server.draw()
        if how == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if how == "refuse":
            self.send_response(503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with contextlib.closing(http.client.HTTPConnection(self.server.to, timeout=60)) as there:
            there.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":
                    there.putheader(name, value)
            there.endheaders(body or None)
            answer = there.getresponse()
            found = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                    self.send_header(name, value)
            length = str(len(found))
            if self.command == "HEAD":
                length = answer.getheader("Content-Length", "0")
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(found)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass

    def log_message(self, *_: object) -> None:
        pass

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # the connection was reset
            super().finish()


class Failing(ThreadingHTTPServer):
    """A proxy that fails a tenth of the requests: half by 503, half by a reset connection.

    Attributes:
        failed: how many failed.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, storage: dict[str, str | bool], seed: int) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.to = str(storage["endpoint"]).removeprefix("http://")
        self.storage = {**storage, "endpoint": f"http://127.0.0.1:{self.server_address[1]}"}
        self.failed = 0
        self._random, self._lock = random.Random(seed), threading.Lock()
        self._connections: set[socket.socket] = set()

    def draw(self) -> str:
        with self._lock:
            if self._random.random() >= 0.1:
                return "pass"
            self.failed += 1
            return self._random.choice(["reset", "refuse"])

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no error of the test."""

    def get_request(self) -> tuple[socket.socket, Any]:
        made = super().get_request()
        self._connections.add(made[0])
        return made

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self._connections.discard(request)
        super().shutdown_request(request)

    @contextlib.contextmanager
    def running(self) -> Iterator[dict[str, str | bool]]:
        thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield self.storage
        finally:
            self.shutdown()
            for connection in list(self._connections):
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.server_close()
            thread.join()


class Falling(Failing):
    """A proxy that passes requests on until it is told to fall silent.

    Attributes:
        silent: set by the test.
        asked: set when a request came since.
    """

    def __init__(self, storage: dict[str, str | bool]) -> None:
        super().__init__(storage, 0)
        self.silent, self.asked, self.over = (threading.Event() for _ in range(3))

    def draw(self) -> str:
        if not self.silent.is_set():
            return "pass"
        self.asked.set()
        self.over.wait(60)
        return "reset"


def put(storage: dict[str, str | bool], path: str, content: bytes) -> None:
    """Stores an object by one signed request (AWS Signature Version 4), so that it has an ETag."""
    host = str(storage["endpoint"]).removeprefix("http://")
    now = datetime.now(timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    digest = hashlib.sha256(content).hexdigest()
    signed = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": stamp}
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    request = "\n".join(["PUT", quote(path), "", lines, names, digest])
    scope = f"{day}/{storage['region']}/s3/aws4_request"
    text = "\n".join(
        ["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(request.encode()).hexdigest()]
    )
    key = f"AWS4{SECRET}".encode()
    for part in (*scope.split("/"), text):
        key = hmac.digest(key, part.encode(), "sha256")
    credential = f"Credential={ACCESS}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    authorization = f"AWS4-HMAC-SHA256 {credential}"
    with contextlib.closing(http.client.HTTPConnection(host, timeout=60)) as there:
        there.request("PUT", quote(path), content, {**signed, "Authorization": authorization})
        answer = there.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
