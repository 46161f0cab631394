"""Shows the progress of scans of containers without an index, as a line on a terminal."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
from collections.abc import Iterator

from headrace._engine import _lib

# A shorter scan gets no line, because it would only flicker.
_FIRST_S = 1.0
_EACH_S = 0.2
_ERASED = "\r\x1b[K"  # erases the line to its end


def so_far() -> str:
    """Says what the scans of this process have read so far; "" if none runs."""
    scan = _lib.info("hr_dataset_info", 0, -1)
    if not scan["of"]:
        return ""
    containers = f"{scan['containers']:,} of {scan['of']:,} containers"
    return f"scanning: {containers}, {scan['samples']:,} samples"


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Shows the progress on standard error meanwhile, if that is a terminal."""
    if not _is_terminal():
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(ended,), name="headrace-scan", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no thread can be started, so nothing is shown
        yield
        return
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no stderr, or it was closed
        return False


def _show(ended: threading.Event) -> None:
    line, wait = "", _FIRST_S
    with contextlib.suppress(OSError, ValueError):  # the terminal is gone
        while not ended.wait(wait):
            wait = _EACH_S
            if found := so_far():
                line = found[: shutil.get_terminal_size().columns - 1]
                sys.stderr.write(_ERASED + line)
                sys.stderr.flush()
        if line:
            sys.stderr.write(_ERASED)
            sys.stderr.flush()
