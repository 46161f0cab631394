"""A web server of the tests' own, with ranges, versions and faults: a store on loopback."""

from __future__ import annotations

import contextlib
import hashlib
import re
import socket
import struct
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

# A fault decides what happens to a request in place of the right answer, which would be these
# bytes, from that offset, of that many in all. It returns True if it has answered, or bytes to be
# sent instead.
Fault = Callable[["Answering", bytes, int, int], bool | bytes]


class Answering(BaseHTTPRequestHandler):
    """GET and HEAD of files, with Range and If-Match as RFC 9110 says."""

    protocol_version = "HTTP/1.1"
    server: Store
    # Head and body are two writes, which Nagle's algorithm would separate by 40 ms.
    disable_nagle_algorithm = True

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = self.server.root / unquote(urlsplit(self.path).path).lstrip("/")
        if not path.is_file():
            self.refuse(404)
            return
        whole = path.read_bytes()
        version = f'"{hashlib.sha256(whole).hexdigest()[:16]}"'
        if self.headers.get("If-Match", version) != version:
            self.refuse(412)
            return
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(found[1]), int(found[2])) if found else (0, len(whole) - 1)
        body = whole[first : last + 1]
        with self.server.lock:
            self.server.requests.append((self.command, self.path, first, len(body)))
            fault = self.server.fault
        answered = fault is not None and fault(self, body, first, len(whole))
        if isinstance(answered, bytes):
            body = answered
        elif answered:
            return
        self.send_response(206 if found else 200)
        if found:
            self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{len(whole)}")
        self.send_header("ETag", version)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def cut(self, body: bytes, length: int, first: int, whole: int) -> None:
        """Sends fewer bytes than announced, and ends the connection."""
        self.send_response(206)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Range", f"bytes {first}-{first + len(body) - 1}/{whole}")
        self.end_headers()
        self.wfile.write(body[:length])
        self.close_connection = True

    def reset(self) -> None:
        """Ends the connection like a machine that has lost its state."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass

    def finish(self) -> None:
        with contextlib.suppress(OSError):  # the connection was reset
            super().finish()


class Store(ThreadingHTTPServer):
    """The files below a folder.

    Attributes:
        requests: what was asked for: method, path with query, first byte, bytes.
        fault: what happens to requests; None means that they are answered.
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.root = root
        self.requests: list[tuple[str, str, int, int]] = []
        self.connections: set[socket.socket] = set()
        self.fault: Fault | None = None
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no error of the test."""

    def get_request(self) -> tuple[socket.socket, object]:
        made = super().get_request()
        self.connections.add(made[0])
        return made

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self.connections.discard(request)
        super().shutdown_request(request)

    def end(self) -> None:
        self.shutdown()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()
        self._thread.join()


class Silent:
    """A server that accepts connections and never answers, or whose answer never ends.

    Attributes:
        asked: set when a client has sent something.
        endpoint: its address.
    """

    def __init__(self, dribbles: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.endpoint = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked, self._over = threading.Event(), threading.Event()
        self._dribbles = dribbles
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            self.asked.set()
            if self._dribbles:
                connection.sendall(b"HTTP/1.1 206 Partial Content\r\nX-Slow: ")
            while not self._over.wait(1):  # a byte a second
                if self._dribbles:
                    connection.sendall(b".")

    def end(self) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
