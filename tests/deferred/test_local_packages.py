"""Packages of a program with the name of a library: ``datasets``, as in DETR's repository."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torch.utils import data

import headrace as hr
from deferred.test_own_code import equal, paths

__all__ = ["paths"]  # a fixture

PROGRAM = """
import torch
from PIL import Image

class Photos(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = Image.open(self.paths[index]).convert("RGB")
        return torch.tensor(image.getpixel((3, 3)))  # here

class Made(Photos):
    def __getitem__(self, index):
        return torch.tensor(Image.new("RGB", (8, 8), (index, 0, 0)).getpixel((3, 3)))
"""


@pytest.fixture(params=["datasets", "test"])
def program(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModuleType]:
    """A module of the program in a package of that name."""
    name = request.param
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text("from .photos import Photos as DatasetInfo\n")
    (tmp_path / name / "photos.py").write_text(PROGRAM)
    for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module(f"{name}.photos")
    for loaded in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[loaded]


@pytest.mark.skipif(
    os.environ.get("HEADRACE_AT_ONCE") == "1",
    reason="what makes deferrals at once (at_once.py) stands between the program and the engine",
)
def test_a_reason_names_the_programs_line_if_its_package_has_the_name_of_a_library(
    program: Any, paths: list[str]
) -> None:
    with contextlib.closing(hr.DataLoader(program.Photos(paths), 4)) as loader:
        (reason,) = loader.explain().reasons
        assert equal([*loader], [*data.DataLoader(program.Photos(paths), 4)])
    line = PROGRAM.split("\n").index("        return torch.tensor(image.getpixel((3, 3)))  # here")
    assert str(reason.place) == f"{program.__file__}:{line + 1}"


def test_a_dataset_in_a_package_with_the_name_of_a_library_may_have_images(
    program: Any, paths: list[str], tmp_path: Path
) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with contextlib.closing(hr.DataLoader(program.Made(paths), 4)) as loader:
            assert loader.state_dict()["version"]
            assert len([*loader]) == 3
    assert any("opens no image" in str(one.message) for one in said)
