"""What ``headrace.transforms`` says of itself in help, signatures and type hints."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import subprocess
import sys
import typing

import pytest

import headrace as hr
from headrace import transforms as t

GENERATED = [name for name in t.__all__ if name not in ("Native", "Schedule", "Views")]


@pytest.mark.parametrize("name", GENERATED)
def test_help_describes_every_argument_every_exception_and_the_transforms_origin(name: str) -> None:
    kind = getattr(t, name)
    said = inspect.getdoc(kind) or ""
    first, *_ = said.splitlines()
    assert first.endswith(".")
    before, raises, source = said.partition("\nRaises:\n    ArgumentError: ")
    assert raises
    assert said.count("Raises:") == 1
    assert source.splitlines()[-1].startswith("Source: ``")
    for field in dataclasses.fields(kind):
        assert f"\n    {field.name}: " in before.partition("\nArgs:")[2]
    assert pydoc.render_doc(kind, renderer=pydoc.plaintext).count("when the loader is made") == 1


@pytest.mark.parametrize("name", t.__all__)
def test_each_transform_names_the_public_module_as_its_module(name: str) -> None:
    assert getattr(t, name).__module__ == "headrace.transforms"


@pytest.mark.parametrize("name", GENERATED)
def test_type_hints_can_be_resolved_by_other_modules(name: str) -> None:
    kind = getattr(t, name)
    fields = {field.name for field in dataclasses.fields(kind)}
    assert typing.get_type_hints(kind).keys() == fields


def test_transforms_work_without_docstrings() -> None:
    program = "from headrace import transforms as t; print(t.Resize(3).to_dict())"
    said = subprocess.run(
        [sys.executable, "-OO", "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said == f"{hr.transforms.Resize(3).to_dict()}\n"
