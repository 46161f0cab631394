"""The modules of the Python package: each in its room, none importing one of a row below."""

from __future__ import annotations

import ast
import graphlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import headrace

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "python/headrace"
MODULE = re.compile(r"`(\w+\.py)`")


class Row(NamedTuple):
    """A row of the list in python/README.md."""

    where: str  # the folder of a room; "" at the top
    purpose: str
    modules: list[str]


def rows() -> list[Row]:
    found = []
    for line in (ROOT / "python/README.md").read_text().splitlines():
        if line.startswith(("| top |", "| `_")):
            where, purpose, modules = (cell.strip() for cell in line.strip("|").split("|"))
            folder = "" if where == "top" else where.strip("`/")
            found.append(Row(folder, purpose, MODULE.findall(modules)))
    return found


def name_of(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(tree: ast.AST, of_the_package: bool) -> Iterator[ast.AST]:
    """All statements, also those in functions.

    In the package's own ``__init__`` those under ``TYPE_CHECKING`` do not count: there it lists the
    public names for type checkers, and it imports them when they are used.
    """
    for child in ast.iter_child_nodes(tree):
        lazily = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not (of_the_package and lazily):
            yield child
            yield from statements(child, of_the_package)


def imports(package: Path) -> dict[str, set[str]]:
    """The modules of a package, and the other modules that each one imports anywhere."""
    paths = {name_of(path, package): path for path in package.rglob("*.py")}
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        imported: set[str] = set()
        for node in statements(ast.parse(path.read_text()), name == package.name):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name}: imports say the whole name"
                members = {f"{node.module}.{alias.name}" for alias in node.names}
                modules = members & paths.keys()
                imported |= modules | ({str(node.module)} if members - modules else set())
        found[name] = imported & paths.keys()
    return found


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of an import circle, or none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_every_module_of_the_package_is_listed_once() -> None:
    listed = [SOURCE / row.where / name for row in rows() for name in row.modules]
    rooms = {SOURCE / row.where / "__init__.py" for row in rows() if row.where}
    assert sorted([*listed, *rooms]) == sorted(SOURCE.rglob("*.py"))


def test_each_room_describes_its_purpose_as_the_list_does() -> None:
    for row in rows():
        if row.where:
            said = ast.get_docstring(ast.parse((SOURCE / row.where / "__init__.py").read_text()))
            assert said is not None
            first = said.splitlines()[0].replace("``", "`").removesuffix(".")
            assert first.lower() == row.purpose.lower()


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    graph = imports(SOURCE)
    assert sum(map(len, graph.values())) > 100  # the package was read
    assert circle(graph) == []


def test_no_module_imports_a_module_of_a_row_below_its_own() -> None:
    level = {
        name_of(SOURCE / row.where / module, SOURCE): number
        for number, row in enumerate(rows())
        for module in row.modules
    }
    wrong = [
        f"{importer} imports {imported}"
        for importer, found in imports(SOURCE).items()
        for imported in found
        if level.get(imported, -1) > level.get(importer, -1)
    ]
    assert wrong == []


def test_former_names_exist_for_pickles_only() -> None:
    former = {name for name in imports(SOURCE) if name.startswith("headrace._former")}
    assert former
    assert [name for name, found in imports(SOURCE).items() if found & former] == []


@pytest.mark.parametrize(
    "imported",
    [
        "from {}.high import f",
        "import {}.high",
        "def f():\n    from {} import high",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from {}.high import f",
    ],
)
def test_an_import_circle_is_found_wherever_a_module_imports(tmp_path: Path, imported: str) -> None:
    package = tmp_path / "made"
    package.mkdir()
    for name, text in (("__init__", ""), ("high", "from made import low"), ("low", "")):
        (package / f"{name}.py").write_text(text)
    assert circle(imports(package)) == []
    (package / "low.py").write_text(imported.format("made"))
    assert set(circle(imports(package))) == {"made.high", "made.low"}


def test_the_wheel_has_every_module_of_the_source_tree_and_no_other() -> None:
    installed = Path(headrace.__file__).parent
    assert installed != SOURCE

    def files(package: Path) -> list[str]:
        found = [*package.rglob("*.py"), *package.rglob("py.typed")]
        return sorted(str(path.relative_to(package)) for path in found)

    assert files(installed) == files(SOURCE)
