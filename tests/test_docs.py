"""The documentation names only what exists: tests, files, pages and commands."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from headrace._command.cli import app

ROOT = Path(__file__).parents[1]
TABLE_ROW = re.compile(r"^\|(?!-)(.+)\|$")
QUOTED = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def python_tests() -> dict[str, set[str]]:
    """The names of the tests in each file, by its path below tests/."""
    found = {}
    for path in (ROOT / "tests").rglob("test_*.py"):
        functions = ast.walk(ast.parse(path.read_text()))
        names = {node.name for node in functions if isinstance(node, ast.FunctionDef)}
        found[str(path.relative_to(ROOT / "tests"))] = {n for n in names if n.startswith("test_")}
    return found


def go_tests() -> set[str]:
    return {
        name
        for path in ROOT.rglob("*_test.go")
        for name in re.findall(r"^func ((?:Test|Fuzz)\w+)\(", path.read_text(), re.MULTILINE)
    }


PYTHON, GO = python_tests(), go_tests()


def named(text: str) -> list[str]:
    """The tests that a text names: each a file, a function or a package."""
    last_file, found = "", []
    for quoted in QUOTED.findall(text):
        path, _, function = quoted.removeprefix("tests/").partition("::")
        if function:
            last_file = path or last_file
            found.append(f"{last_file}::{function}")
        elif path.endswith(".py"):
            last_file = path
            found.append(path)
        elif re.fullmatch(r"(test_|Test|Fuzz)\w+", path) or re.match(r"(tests|internal)/", quoted):
            found.append(path)
    return found


def exists(name: str) -> bool:
    path, _, function = name.partition("::")
    if function:
        return function in PYTHON.get(path, set())
    if path.endswith(".py"):
        places = (ROOT / path, *(ROOT / "tests").glob(f"*/{path}"))
        return bool(PYTHON.get(path)) or any(place.is_file() for place in places)
    if path.startswith("test_"):
        return any(path in names for names in PYTHON.values())
    if path.startswith(("Test", "Fuzz")):
        return path in GO
    return (ROOT / path).exists() or (ROOT / "tests" / path).exists()


def rows(document: str) -> list[tuple[str, str]]:
    """The rows of tables with a column of tests: the claim, and the text of that column."""
    found, column = [], None
    for line in (ROOT / "docs" / document).read_text().splitlines():
        row = TABLE_ROW.match(line)
        if row is None:
            column = column if line.startswith("|-") else None
            continue
        cells = [cell.strip() for cell in row[1].split("|")]
        if column is None:
            column = cells.index("test") if "test" in cells else -1
        elif column >= 0:
            found.append((cells[0], cells[column]))
    return found


@pytest.mark.parametrize("document", PAGES)
def test_every_test_that_a_page_names_exists(document: str) -> None:
    names = named((ROOT / "docs" / document).read_text())
    assert [name for name in names if not exists(name)] == []


def test_every_promise_names_a_test() -> None:
    claims = rows("promises.md")
    assert len(claims) > 20
    assert [claim for claim, tests in claims if not named(tests)] == []


def marked_slow() -> set[str]:
    """The tests that `make test` leaves out, named as on a page."""
    found = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and any(
                ast.unparse(decorator) == "pytest.mark.slow" for decorator in node.decorator_list
            ):
                found.add(f"{path.relative_to(ROOT / 'tests')}::{node.name}")
    return found


def test_every_promise_has_a_test_in_make_test() -> None:
    slow = marked_slow()
    assert slow
    claims = [(claim, named(tests)) for claim, tests in rows("promises.md")]
    assert [claim for claim, tests in claims if tests and slow.issuperset(tests)] == []


def test_every_limit_in_a_table_with_tests_names_a_test() -> None:
    claims = rows("limits.md")
    assert claims
    assert [claim for claim, tests in claims if not named(tests) and tests != "the same"] == []


def test_every_command_that_the_documentation_names_exists() -> None:
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    text = (ROOT / "README.md").read_text()
    [listed] = re.findall(r"On the command line: (.+?); `headrace --help`", text, re.DOTALL)
    assert {name.removeprefix("headrace ") for name in QUOTED.findall(listed)} == commands
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]:
        used = set(
            re.findall(r"\bheadrace (pack|[a-z]+)(?= [A-Za-z-/]*[/.-]|`| SRC)", page.read_text())
        )
        assert used <= commands, page.name


def test_continuous_integration_runs_the_tests_that_make_test_leaves_out() -> None:
    commands = re.findall(r"^make (.+)$", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    targets = {word for command in commands for word in command.split()}
    assert targets >= {"test", "test-slow", "stress", "hostile", "test-frameworks"}
    makefile = (ROOT / "Makefile").read_text()
    left_out = re.findall(r'-m "not (\w+)"', makefile)
    [slow] = re.findall(r'^test-slow:(?:.*\n)+?.*-m "(.+?)"', makefile, re.MULTILINE)
    assert {*left_out, "some_cases"} == set(slow.split(" or "))


def test_every_key_that_the_engine_takes_is_on_the_page_of_configurations() -> None:
    page = QUOTED.findall((ROOT / "docs/c-abi.md").read_text())
    listed = {word for quoted in page for word in re.findall(r"\w+", quoted)}
    for folder, types in {
        "capi": "loaderConfig samplerConfig partConfig labelConfig datasetConfig sourceConfig "
        "pairsConfig containerConfig",
        "internal/limits": "Limits",
        "internal/catalog": "ArrayConfig ArraySource MemoryConfig Stretch ChunkConfig TilesConfig",
        "internal/scan": "Locations Texts LocationsField",
    }.items():
        text = "\n".join(path.read_text() for path in sorted((ROOT / folder).glob("*.go")))
        for name in types.split():
            struct = rf"^type {name} struct {{\n(.*?)^}}"
            [fields] = re.findall(struct, text, re.DOTALL | re.MULTILINE)
            keys = set(re.findall(r'json:"(\w+)', fields))
            assert keys, name
            assert sorted(keys - listed) == [], name


def test_lists_of_a_folders_files_have_each_file_exactly_once() -> None:
    for page in ("bench/README.md", "examples/README.md", "tests/README.md", "tools/README.md"):
        lines = (ROOT / page).read_text().splitlines()
        first = [row[1].split("|")[0] for row in map(TABLE_ROW.match, lines) if row]
        names = [name for cell in first for name in QUOTED.findall(cell)]
        assert len(names) > 5, page
        assert len(names) == len(set(names)), page
        assert [name for name in names if not ((ROOT / page).parent / name).exists()] == []


def test_every_module_and_folder_of_the_tests_and_benchmarks_is_listed() -> None:
    for folder in ("tests", "bench"):
        text = (ROOT / folder / "README.md").read_text()
        listed = {name.removesuffix("/") for name in QUOTED.findall(text)}
        tracked = {
            path.name
            for path in (ROOT / folder).iterdir()
            if path.suffix in (".py", ".c") or any(path.glob("*.py")) or any(path.glob("*.go"))
        }
        assert sorted(tracked - listed) == [], folder


def test_every_link_and_picture_of_the_documentation_leads_to_a_file() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    missing = []
    for page in pages:
        for target in LINK.findall(page.read_text()):
            parts = urlsplit(target)
            if not parts.scheme and not (page.parent / parts.path).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")
    assert len(pages) > 10
    assert missing == []


def test_every_page_is_in_the_index_and_in_the_sites_navigation_once() -> None:
    linked = LINK.findall((ROOT / "docs/README.md").read_text())
    listed = re.findall(r'= "([\w-]+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(set(linked) - {"charts/headline.svg"}) == [p for p in PAGES if p != "README.md"]
    assert sorted(listed) == PAGES
