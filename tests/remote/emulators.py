"""Servers that speak Google's and Azure's protocols: fake-gcs-server and Azurite."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

import pytest

BUILD = Path(__file__).parents[2] / ".build"
BUCKET = "photos"
# The account that every Azurite has, whose key its documentation publishes.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

Storage = dict[str, str | bool]


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def _running(command: list[str], port: int) -> Iterator[None]:
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ}
    ) as server:
        try:
            for _ in range(1500):
                assert server.poll() is None, f"{command[0]} ended"
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                time.sleep(0.02)
            else:
                raise AssertionError(f"{command[0]} did not begin to listen")
            yield
        finally:
            server.kill()


def _ask(port: int, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as there:
        there.request(method, path, body, headers)
        answer = there.getresponse()
        assert answer.status in (200, 201), answer.read()


@contextlib.contextmanager
def google(_: pytest.MonkeyPatch) -> Iterator[tuple[str, Storage]]:
    """The address of an empty bucket, and the argument ``storage`` for it."""
    program = BUILD / "bin" / "fake-gcs-server"
    if not program.is_file():
        pytest.skip("fake-gcs-server is not built (make emulators builds it)")
    port = _port()
    host = f"127.0.0.1:{port}"
    command = [str(program), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", host, "-external-url", f"http://{host}"]
    with _running(command, port):
        made = json.dumps({"name": BUCKET}).encode()
        kind = {"Content-Type": "application/json"}
        _ask(port, "POST", "/storage/v1/b?project=tests", made, kind)
        yield f"gs://{BUCKET}", {"endpoint": f"http://{host}", "anonymous": True}


@contextlib.contextmanager
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Storage]]:
    """The address of an empty container, and the argument ``storage`` for it."""
    program = BUILD / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists() or shutil.which("node") is None:
        pytest.skip("Azurite is not installed (make emulators installs it)")
    port = _port()
    command = [str(program), "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    command += ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck"]
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", ACCOUNT)
    monkeypatch.setenv("AZURE_STORAGE_KEY", KEY)
    with _running(command, port):
        path = f"/{ACCOUNT}/{BUCKET}"
        said = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        lines = "".join(f"{name}:{value}\n" for name, value in said.items())
        text = "PUT" + "\n" * 12 + lines + f"/{ACCOUNT}{path}\nrestype:container"
        digest = hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)
        signature = base64.b64encode(digest).decode()
        said |= {"Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
        _ask(port, "PUT", f"{path}?restype=container", b"", said)
        yield f"az://{BUCKET}", {"endpoint": f"http://127.0.0.1:{port}", "path_style": True}


EMULATORS = {"google": google, "azure": azure}
