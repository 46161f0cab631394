"""Each framework's own released package, over photographs, on the CPU (`make test-frameworks`)."""

from __future__ import annotations

import gc
import importlib.util
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from frameworks_support import EXAMPLES, FOLDER, threads_and_slots

import headrace as hr


@pytest.fixture(autouse=True)
def _empty_world(_runtime_started: None) -> Iterator[None]:
    """The check of tests/conftest.py, for Headrace alone: frameworks keep threads and files."""
    yield
    deadline = time.monotonic() + 5
    while left := threads_and_slots():
        gc.collect()
        if time.monotonic() > deadline:
            pytest.fail(f"the test left {left} behind")
        time.sleep(0.02)


@pytest.fixture(scope="session")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """256 real photographs of 11 classes, packed."""
    destination = tmp_path_factory.mktemp("photographs") / "photographs.hr"
    hr.pack(FOLDER, destination)
    return destination


@pytest.fixture
def example() -> Callable[[str], ModuleType]:
    """A program of examples/, as a module."""

    def load(name: str) -> ModuleType:
        specification = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module

    return load
