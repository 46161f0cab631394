"""What a release needs besides its build: may it be made, its notes, its checksums.

python tools/release.py check           # prints the version, or says why there can be no release
python tools/release.py finish dist     # NOTES.md and SHA256SUMS beside what was built
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import zipfile
from pathlib import Path

# How the library states its version (native/decode/inspect.c), and the oldest that a wheel may
# have.
LIBJPEG = re.compile(rb"libjpeg-turbo (\d+)\.(\d+)\.(\d+), zlib ")
LEAST_LIBJPEG = (3, 1, 0)
VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


def version(root: Path) -> str:
    found = VERSION.search((root / "python/headrace/__init__.py").read_text())
    if found is None:
        raise SystemExit('release: python/headrace/__init__.py has no line __version__ = "..."')
    return found[1]


def notes(root: Path, wanted: str) -> str:
    """Returns the section of ``wanted`` in CHANGELOG.md, without its heading."""
    sections = re.split(r"^## ", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]
    for section in sections:
        heading, _, body = section.partition("\n")
        if re.fullmatch(rf"\[?{re.escape(wanted)}\]? - \d{{4}}-\d\d-\d\d", heading.strip()):
            if not body.strip():
                raise SystemExit(f"release: CHANGELOG.md says nothing about {wanted}")
            return body.strip() + "\n"
    raise SystemExit(
        f"release: CHANGELOG.md has no section of the version; expected '## {wanted} - YYYY-MM-DD'"
    )


def check(root: Path) -> str:
    """Returns the version that may be released, from a tree without uncommitted changes."""
    wanted = version(root)
    notes(root, wanted)
    git = ["git", "-C", str(root), "status", "--porcelain"]
    changed = subprocess.run(git, check=True, capture_output=True, text=True).stdout
    if changed:
        raise SystemExit(f"release: the tree is not as committed:\n{changed.rstrip()}")
    return wanted


def check_libjpeg(wheel: Path) -> None:
    """Refuses a wheel with an older libjpeg-turbo than is promised.

    If the build had no cargo to fetch the source, the library is the system's.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith("/libheadrace.so")]
        found = [LIBJPEG.search(archive.read(name)) for name in names]
    if len(found) != 1 or found[0] is None:
        raise SystemExit(f"release: {wheel.name} holds no library that names its libjpeg-turbo")
    linked = tuple(int(part) for part in found[0].groups())
    if linked < LEAST_LIBJPEG:
        have, least = (".".join(map(str, each)) for each in (linked, LEAST_LIBJPEG))
        raise SystemExit(
            f"release: {wheel.name} has libjpeg-turbo {have} (expected {least} or newer, which "
            "tools/codecs.sh builds)"
        )


def finish(root: Path, directory: Path) -> None:
    """Writes the notes, and the checksums of all packages in ``directory``."""
    wanted = version(root)
    packages = sorted([*directory.glob("*.whl"), *directory.glob("*.tar.gz")])
    kinds = [path.suffix for path in packages if f"-{wanted}" in path.name]
    if sorted(kinds) != [".gz", ".whl"] or len(packages) != 2:
        names = ", ".join(path.name for path in packages) or "nothing"
        raise SystemExit(
            f"release: expected one wheel and one source distribution of {wanted} in {directory}, "
            f"found {names}"
        )
    check_libjpeg(next(path for path in packages if path.suffix == ".whl"))
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in packages]
    (directory / "SHA256SUMS").write_text("".join(sums))
    (directory / "NOTES.md").write_text(page(wanted, packages, sums, notes(root, wanted)))


def page(wanted: str, packages: list[Path], sums: list[str], changes: str) -> str:
    """Returns the page of a release: what to install, what the files must be, what is new."""
    wheel = next(path.name for path in packages if path.suffix == ".whl")
    files = "".join(f"- `{path.name}`, {path.stat().st_size:,} bytes\n" for path in packages)
    return (
        f"# Headrace {wanted}\n\n    pip install './{wheel}[torch]'\n\n{files}\n"
        f"## SHA-256\n\n```\n{''.join(sums)}```\n\n## Changes\n\n{changes}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    steps = parser.add_subparsers(dest="step", required=True)
    steps.add_parser("check", help="print the version, or say why there can be no release")
    steps.add_parser("finish", help="write notes and checksums").add_argument("dist", type=Path)
    options = parser.parse_args()
    if options.step == "check":
        print(check(options.root))
    else:
        finish(options.root, options.dist)


if __name__ == "__main__":
    main()
