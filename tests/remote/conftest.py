"""What tests of stores share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.stores import Store


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    """A store that shows the folder of the test's module."""
    made = Store(root)
    yield made
    made.end()
