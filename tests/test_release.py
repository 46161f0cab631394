"""What `make release` makes of a tree and when it refuses: tools/release.py on made trees."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import headrace

ROOT = Path(__file__).parents[1]
TOOL = ROOT / "tools/release.py"
CHANGELOG = """# Changelog

## Unreleased

- Not yet.

## 1.2.3 - 2026-11-23

### Added

- This.

## 1.2.2 - 2026-10-01

- That.
"""


def git(root: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=tester", "-c", "user.email=tester@localhost"]
    subprocess.run(["git", "-C", str(root), *identity, *arguments], check=True, capture_output=True)


def release(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "--root", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True)


def wheel(dist: Path, libjpeg: str | None) -> int:
    """Writes a wheel of version 1.2.3 with a library that names its libjpeg-turbo; returns its
    size."""
    said = b"" if libjpeg is None else f"libjpeg-turbo {libjpeg}, zlib 1.3.1, ...".encode()
    path = dist / "headrace-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("headrace/libheadrace.so", b"\x7fELF\0" + said + b"\0")
    return path.stat().st_size


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed project of version 1.2.3."""
    package = tmp_path / "python/headrace"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "All")
    return tmp_path


def test_datasets_name_the_packages_version_as_their_writer() -> None:
    package = (ROOT / "python/headrace/__init__.py").read_text()
    manifest = (ROOT / "internal/catalog/manifest.go").read_text()
    [version] = re.findall(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    assert re.findall(r'CreatedBy = "headrace (.+)"', manifest) == [version]


def test_a_committed_tree_with_a_changelog_section_of_its_version_can_be_released(
    tree: Path,
) -> None:
    answer = release(tree, "check")
    assert (answer.returncode, answer.stdout) == (0, "1.2.3\n")


@pytest.mark.parametrize("changed", ["CHANGELOG.md", "new.py"])
def test_a_tree_with_uncommitted_changes_is_refused_with_the_files_name(
    tree: Path, changed: str
) -> None:
    with (tree / changed).open("a") as file:
        file.write("more\n")
    answer = release(tree, "check")
    assert answer.returncode != 0
    assert changed in answer.stderr


@pytest.mark.parametrize(
    "changelog",
    [
        CHANGELOG.replace("1.2.3", "1.2.4"),
        CHANGELOG.replace("1.2.3", "1.2.30"),
        CHANGELOG.replace("1.2.3 - 2026-11-23", "1.2.3"),
        CHANGELOG.replace("### Added\n\n- This.\n", ""),
    ],
)
def test_a_version_without_a_dated_section_with_content_is_refused(
    tree: Path, changelog: str
) -> None:
    (tree / "CHANGELOG.md").write_text(changelog)
    git(tree, "commit", "--quiet", "-a", "-m", "Changelog")
    answer = release(tree, "check")
    assert answer.returncode != 0
    assert "CHANGELOG.md" in answer.stderr
    assert "1.2.3" in answer.stderr


def test_release_notes_have_version_files_changes_and_correct_checksums(
    tree: Path,
) -> None:
    dist = tree / "dist"
    dist.mkdir()
    size = wheel(dist, "3.1.0")
    (dist / "headrace-1.2.3.tar.gz").write_bytes(b"source")
    assert release(tree, "finish", str(dist)).returncode == 0
    page = (dist / "NOTES.md").read_text()
    assert page.startswith("# Headrace 1.2.3\n")
    assert "pip install './headrace-1.2.3-py3-none-any.whl[torch]'" in page
    assert f"`headrace-1.2.3-py3-none-any.whl`, {size} bytes" in page
    assert (dist / "SHA256SUMS").read_text() in page
    assert page.endswith("## Changes\n\n### Added\n\n- This.\n")
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=dist, capture_output=True, text=True
    )
    assert checked.returncode == 0
    assert checked.stdout.count(": OK") == 2


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("2.1.5", "has libjpeg-turbo 2.1.5 (expected 3.1.0 or newer"),
        ("3.0.90", "has libjpeg-turbo 3.0.90 (expected 3.1.0 or newer"),
        (None, "holds no library that names its libjpeg-turbo"),
    ],
)
def test_a_wheel_with_an_older_libjpeg_turbo_is_refused(
    tree: Path, version: str | None, said: str
) -> None:
    dist = tree / "dist"
    dist.mkdir()
    wheel(dist, version)
    (dist / "headrace-1.2.3.tar.gz").write_bytes(b"source")
    answer = release(tree, "finish", str(dist))
    assert answer.returncode != 0
    assert said in answer.stderr
    assert not (dist / "SHA256SUMS").exists()
    for newer in ("3.1.1", "3.10.0", "4.0.0"):
        wheel(dist, newer)
        assert release(tree, "finish", str(dist)).returncode == 0


def test_the_installed_library_names_its_libjpeg_turbo_as_a_release_expects_it() -> None:
    library = Path(headrace.__file__).with_name("libheadrace.so").read_bytes()
    assert re.search(rb"libjpeg-turbo \d+\.\d+\.\d+, zlib ", library)


@pytest.mark.parametrize("extra", [None, "headrace-1.2.2.tar.gz"])
def test_a_folder_without_exactly_the_versions_two_packages_is_refused(
    tree: Path, extra: str | None
) -> None:
    dist = tree / "dist"
    dist.mkdir()
    wheel(dist, "3.1.0")
    if extra is not None:
        (dist / extra).write_bytes(b"source")
    answer = release(tree, "finish", str(dist))
    assert answer.returncode != 0
    assert "expected one wheel and one source distribution of 1.2.3" in answer.stderr
    assert not (dist / "SHA256SUMS").exists()
