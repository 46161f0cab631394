"""``headrace run``: runs a program as Python does, with Headrace's loaders in place of torch's.

A new Python takes this process's place and gets the program's own command line. So its arguments,
``sys.path``, ``__main__``, exit status, signals and tracebacks are Python's own. The change comes
through the environment. So it reaches every Python that the program starts in turn: spawned
workers, torchrun's ranks, Lightning's.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace import _startup
from headrace.errors import UnsupportedError

FOLDER = str(Path(_startup.__file__).absolute().parent)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Returns an environment in which Python starts with ``headrace._startup.sitecustomize``."""
    own = given.get("PYTHONPATH")
    others = [path for path in own.split(os.pathsep) if path != FOLDER] if own else []
    path = os.pathsep.join([FOLDER, *others])
    return {**given, "PYTHONPATH": path, "HEADRACE_RUN": sys.prefix}


def run(program: list[str]) -> None:
    """Turns this process into Python running a program; returns only by an error.

    Args:
        program: the words that follow ``python`` on a command line.

    Raises:
        UnsupportedError: this Python was told to start without its environment or its ``site``.
    """
    for flag, option in (("ignore_environment", "-E or -I"), ("no_site", "-S")):
        if getattr(sys.flags, flag):
            raise UnsupportedError(f"python {option} ignores what headrace run sets up")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *_options(), *program], environment(os.environ))


def _options() -> list[str]:
    """Returns the options that this Python got before ``headrace``, such as -u or -W error."""
    own = len(sys.orig_argv) - len(sys.argv[1:])
    options = sys.orig_argv[1:own]
    if sys.orig_argv[own:] != sys.argv[1:] or not options:
        return []
    return options[:-2] if options[-2:-1] == ["-m"] else options[:-1]
