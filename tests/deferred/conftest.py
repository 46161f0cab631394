"""With HEADRACE_AT_ONCE=1 these tests compare all that is made late with what is made at once.

`make test-frameworks` runs them so.
"""

from __future__ import annotations

import os

import pytest

from deferred.at_once import AtOnce, compare_all


@pytest.fixture(autouse=os.environ.get("HEADRACE_AT_ONCE") == "1")
def at_once(monkeypatch: pytest.MonkeyPatch) -> AtOnce:
    return compare_all(monkeypatch)
