"""Many repetitions of a thing for the price of one start: a process that forks itself.

A program imports this, which imports what it needs and does not use Headrace yet.
`repeat.children(n)` then returns n times, each time in a fresh child; there the program goes on
as if it had just been started, and ends as it likes. The parent never leaves that call, and
prints a line of JSON for each child: its status, and how long it took to end after `mark()`.
"""

from __future__ import annotations

import json
import os
import signal
import time
from typing import NamedTuple

import headrace.loader  # noqa: F401 - so that no child has to import it

DEADLINE_S = 30.0
_marks = -1


def times(usually: int) -> int:
    """How often a thing is repeated: as ``make stress`` says, or as ``make test`` has time for."""
    return int(os.environ.get("HEADRACE_REPETITIONS", usually))


class Ending(NamedTuple):
    status: int  # as in subprocess: negative for a signal, -99 for a hang
    seconds: float  # from mark() to the end


def mark() -> None:
    """Marks the moment from which on the process should end."""
    os.write(_marks, f"{time.monotonic()}\n".encode())


def children(count: int) -> int:
    """Returns in each of `count` children, which run one after the other; never in the parent."""
    global _marks
    with open("/proc/self/maps") as maps:
        assert "libheadrace" not in maps.read()
    for number in range(count):
        mine, _marks = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(mine)
            return number
        os.close(_marks)
        print(json.dumps(_ended(child, mine)), flush=True)
    os._exit(0)


def _ended(child: int, marks: int) -> Ending:
    begun = time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done or time.monotonic() - begun > DEADLINE_S:
            break
        time.sleep(0.002)
    ended = time.monotonic()
    if not done:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return Ending(-99, ended - begun)
    with os.fdopen(marks) as said:
        times = said.read().split()
    return Ending(os.waitstatus_to_exitcode(status), ended - float(times[-1]) if times else -1.0)


def endings(out: str) -> list[Ending]:
    """The endings that the parent printed."""
    return [Ending(*json.loads(line)) for line in out.splitlines()]
