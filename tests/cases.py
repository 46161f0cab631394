"""How many cases a test draws: some in ``make test``, which has minutes, all in ``make test-slow``.

``conftest.py`` marks the tests of a module that imports this, by which ``make test-slow`` finds
them.
"""

from __future__ import annotations

import os


def some(count: int, of: int) -> int:
    """That many of all cases, or all of them if HEADRACE_CASES is ``all``."""
    return of if os.environ.get("HEADRACE_CASES") == "all" else count
