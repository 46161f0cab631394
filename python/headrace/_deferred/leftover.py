"""Has Pillow decode, in threads, the images of a batch that the engine turned out not to decode."""

from __future__ import annotations

import threading

from headrace._deferred import pixels
from headrace._deferred.chain import Chain, Form
from headrace._deferred.source import File
from headrace._epoch import ranks
from headrace._torch.threads import Result, Threads
from headrace.errors import HeadraceError

_MOST_FILES = 1 << 20  # how many names of files are kept, in order to count them


class Pillows:
    """Threads in which Pillow decodes. They start with the first such image.

    Attributes:
        images: how many images Pillow has decoded; repeated ones count again.
        files: how many files those were, as far as they came from files.
        latest: why Pillow decoded the last one.
    """

    def __init__(self) -> None:
        self.images, self.latest = 0, ""
        self._names: set[bytes] = set()
        self._threads: Threads | None = None
        self._lock = threading.Lock()

    @property
    def files(self) -> int:
        return len(self._names)

    def begin(self, chain: Chain, form: Form, mode: str, failure: HeadraceError) -> Result:
        """Has Pillow decode an image. The result is its values as bytes, or what Pillow raises."""
        if self._threads is None:
            self._threads = Threads(ranks.allowed_threads())
        result = Result(self._made, chain, form, mode, str(failure))
        self._threads.submit(result)
        return result

    def _made(self, chain: Chain, form: Form, mode: str, why: str) -> bytes:
        data = pixels.by_pillow(chain, form, mode)
        source = chain.source
        self.count(source.path if isinstance(source, File) else b"", why)
        return data

    def count(self, path: bytes, why: str) -> None:
        """Counts an image that Pillow decodes, and its file if it has one."""
        with self._lock:
            self.images, self.latest = self.images + 1, why
            if path and len(self._names) < _MOST_FILES:
                self._names.add(path)

    @property
    def news(self) -> str:
        """A sentence on the latest image."""
        images = "1 image" if self.images == 1 else f"{self.images:,} images"
        return (
            f"Pillow decodes what the engine cannot ({images} so far, counted by stats()), and "
            f"the rest is native: {self.latest}"
        )

    def close(self) -> None:
        """Ends the threads."""
        if self._threads is not None:
            self._threads.close()
            self._threads = None
