"""Fixtures for the tests of stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import buckets
from remote.stores import Store

Storage = dict[str, str | bool]


@pytest.fixture
def store(root: Path) -> Iterator[Store]:
    """A store that serves the folder of the test's module."""
    made = Store(root)
    yield made
    made.end()


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    """The folder in which the server keeps the objects of the bucket "photos"."""
    folder = tmp_path / "buckets" / "photos"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def storage(bucket: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    buckets.set_keys(monkeypatch)
    with buckets.serving(bucket.parent) as options:
        yield options
