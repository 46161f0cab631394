"""What commands print, and their progress bars."""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from headrace._command import summary
from headrace._engine import scanning
from headrace.errors import SystemFailure, one_line
from headrace.writing import KEPT

err = Console(stderr=True)
# The status that a shell reports for a program that SIGPIPE ended.
SIGPIPE = 128 + signal.SIGPIPE


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate, faults = task.finished_speed or task.speed, task.fields.get("faults")
        text = f"{rate:,.0f} images/s" if rate else ""
        return Text(f"{text}, {faults} faulty" if faults else text)


@contextmanager
def bar(doing: str, quiet: bool) -> Iterator[Callable[[int, int, int, int], None]]:
    """A progress bar on stderr, which stays free for pipes where the output is JSON."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal) as progress:
        task = progress.add_task(doing, total=None)

        def show(done: int, total: int, bytes_: int, faults: int) -> None:
            known = total if total >= 0 else None
            scan = scanning.so_far() if known is None else ""
            progress.update(
                task, description=scan or doing, completed=done, total=known, faults=faults
            )

        yield show


@contextmanager
def complaining() -> Iterator[None]:
    """Prints warnings as sentences, after everything else."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    texts = [str(warning.message) for warning in said]
    complain([text for text in texts if KEPT not in text])  # made() lists those images


def say(text: str) -> None:
    """Prints at once, so that an output that cannot be written is noticed here and not at exit."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # the reader has seen enough, as head does
        sys.exit(SIGPIPE)
    except OSError as error:
        discard()
        raise SystemFailure(f"the output cannot be written: {error.strerror}") from None


def discard() -> None:
    """Discards what is still buffered, because writing it would fail once more at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def result(found: dict[str, Any], as_json: bool) -> None:
    """Prints what a command found, as JSON or as lines."""
    if as_json:
        say(json.dumps(found, indent=2))
    else:
        say("\n".join([*summary.lines(found), *summary.recoding(found)]))


def complain(lines: list[str]) -> None:
    """Prints lines to stderr."""
    # This does not go through rich, which would wrap the lines and take brackets in a path for
    # markup.
    for line in lines:
        print(one_line(line), file=sys.stderr)


def made(found: dict[str, Any], as_json: bool) -> None:
    """Prints what a new dataset consists of, and which of its images are faulty."""
    result(found, as_json)
    if not as_json:
        total = found["faults"]["total"]
        kept = f"{summary.counted(total, 'faulty image')}, {KEPT}:"
        complain(summary.fault_lines(found["faults"], kept))
