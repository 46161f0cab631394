"""Tables of what tools/coverage.sh measured: Go, C and Python, by folder, as Markdown.

python tools/coverage_report.py .build/coverage
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULE = re.search(r"^module (\S+)$", (ROOT / "go.mod").read_text(), re.MULTILINE)[1]
# For each place in a file: how many statements or lines it stands for, and whether they ran.
Places = dict[str, dict[str, tuple[int, bool]]]


def merged(parts: list[Places]) -> Places:
    """Returns what ran in any of several measurements."""
    result: Places = defaultdict(dict)
    for part in parts:
        for file, places in part.items():
            for place, (weight, ran) in places.items():
                _, before = result[file].get(place, (weight, False))
                result[file][place] = (weight, ran or before)
    return result


def go_statements(directory: Path) -> Places:
    """Returns the profile of one folder of counters: lines of ``FILE:FROM,TO STATEMENTS COUNT``."""
    profile = directory.with_suffix(".profile")
    command = ["go", "tool", "covdata", "textfmt", f"-i={directory}", f"-o={profile}"]
    subprocess.run(command, check=True, cwd=ROOT)
    places: Places = defaultdict(dict)
    for line in profile.read_text().splitlines()[1:]:
        where, statements, count = line.rsplit(" ", 2)
        name, block = where.removeprefix(f"{MODULE}/").split(":")
        before = places[name].get(block, (0, False))[1]
        places[name][block] = (int(statements), int(count) > 0 or before)
    return places


def c_lines(objects: Path) -> Places:
    """Returns the lines of the project's own C, over all objects that were made from a file."""
    answer = objects.with_suffix(".json")
    command = [sys.executable, "-m", "gcovr", "--root", str(ROOT), "--json", str(answer)]
    command += ["--gcov-ignore-parse-errors=all", "--merge-mode-functions=merge-use-line-min"]
    command += ["--gcov-object-directory", str(objects), str(objects)]
    subprocess.run(command, check=True, cwd=ROOT, stderr=subprocess.DEVNULL)
    places: Places = {}
    for file in json.loads(answer.read_text())["files"]:
        if file["file"].startswith(("/", "..", ".build")):
            continue
        places[file["file"]] = {
            str(line["line_number"]): (1, line["count"] > 0) for line in file["lines"]
        }
    return places


def python_statements(home: Path) -> Places:
    """Returns the statements of the installed package, as files of the source tree."""
    tool = [sys.executable, "-m", "coverage"]
    rc = ["--rcfile", str(home / "coveragerc")]
    subprocess.run([*tool, "combine", *rc, "--quiet", str(home)], check=True)
    answer = home / "python.json"
    subprocess.run([*tool, "json", *rc, "--quiet", "-o", str(answer)], check=True)
    places: Places = {}
    for name, file in json.loads(answer.read_text())["files"].items():
        inside = "python/headrace/" + name.split("site-packages/headrace/")[-1]
        ran = {str(line): (1, True) for line in file["executed_lines"]}
        places[inside] = ran | {str(line): (1, False) for line in file["missing_lines"]}
    return places


def share(places: Places, files: list[str]) -> tuple[int, int]:
    """Returns how many statements ``files`` have, and how many of them ran."""
    found = [place for file in files for place in places.get(file, {}).values()]
    return sum(weight for weight, _ in found), sum(weight for weight, ran in found if ran)


def per_cent(ran: int, count: int) -> str:
    return f"{100 * ran / count:.1f} %" if count else "-"


def table(title: str, unit: Places, system: Places) -> None:
    """Prints every folder of one language, and all of them together."""
    both = merged([unit, system])
    folders: dict[str, list[str]] = defaultdict(list)
    for file in sorted(both):
        folders[str(Path(file).parent)].append(file)
    print(f"\n| {title} | count | tests beside the code | whole-system tests | together |")
    print("|---|---|---|---|---|")
    for name, files in [*sorted(folders.items()), ("**all**", sorted(both))]:
        count = share(both, files)[0]
        shown = name if name.startswith("*") else f"`{name}`"
        measured = (unit, system, both)
        rates = (per_cent(share(p, files)[1], count) if p else "-" for p in measured)
        print(f"| {shown} | {count:,} | {' | '.join(rates)} |")


def least(measured: list[Places], count: int) -> None:
    """Prints the files with the most statements that no test ran."""
    missed = []
    for places in measured:
        for file in places:
            statements, ran = share(places, [file])
            missed.append((statements - ran, statements, file))
    print("\n| file | not run | of |")
    print("|---|---|---|")
    for missing, statements, file in sorted(missed, reverse=True)[:count]:
        print(f"| `{file}` | {missing} | {statements} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("home", type=Path, help="what tools/coverage.sh left")
    home = parser.parse_args().home.resolve()
    go = go_statements(home / "unit"), go_statements(home / "system")
    c = c_lines(home / "objects-unit"), c_lines(home / "objects-system")
    python = {}, python_statements(home)
    table("Go, statements", *go)
    table("C, lines", *c)
    table("Python, statements", *python)
    least([merged([*pair]) for pair in (go, c, python)], 12)


if __name__ == "__main__":
    main()
