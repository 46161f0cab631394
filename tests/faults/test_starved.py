"""Too few threads or too little address space: fewer threads and a warning, or an error with
numbers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
import images
import processes
from timing import eventually

ACTS = ("epoch", "loaders", "samples", "verify", "pack", "decode", "tasks")
# The acts that are not slow do with threads and memory all that the slow ones do.
SOME_FIRST = [
    *ACTS[:1],
    *(pytest.param(act, marks=pytest.mark.slow) for act in ACTS[1:-2]),
    *ACTS[-2:],
]
BOTH_NUMBERS = re.compile(r"\b\d+ .*\(\d+ (bytes of address space )?are allowed\)")
GROUPS = Path("/sys/fs/cgroup/pids")


class Server:
    """tests/starved.py, which forks a child for each request."""

    def __init__(self, source: Path) -> None:
        self._source = source
        self._process = subprocess.Popen(
            [sys.executable, str(processes.HERE / "starved.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, act: str, kind: str = "", limit: int = 0, **more: Any) -> dict[str, Any]:
        request = {
            "act": act,
            "kind": kind,
            "limit": limit,
            "group": "",
            "threads": 4,
            "late": False,
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(
            json.dumps(request | {"source": str(self._source)} | more),
            file=self._process.stdin,
            flush=True,
        )
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    root = Path("/tmp") / f"starved-{os.getpid()}"  # the user without rights has to read it
    root.mkdir(mode=0o755)
    try:
        hr.pack(images.plain_tree(root / "photos", 20, 2), root / "packed.hr")
        (root / "made").mkdir()
        (root / "made").chmod(0o777)  # the folder into which that user packs
        server = Server(root / "packed.hr")
        yield server
        server.close()
    finally:
        shutil.rmtree(root)


@pytest.fixture(scope="module")
def plenty(server: Server) -> dict[str, str]:
    """The result of each act without limits."""
    found = {act: server.ask(act) for act in ACTS}
    assert [found[act] for act in ACTS if "result" not in found[act]] == []
    assert [found[act]["warnings"] for act in ACTS] == [[]] * len(ACTS)
    return {act: found[act]["result"] for act in ACTS}


def outcome(answer: dict[str, Any], expected: str, error: str) -> str:
    """Names the outcome of an act under a limit, and asserts that it is an allowed one."""
    assert answer["status"] == 0, answer
    if "result" in answer:
        assert answer["result"] == expected, answer
        assert len(answer["warnings"]) <= 1, answer
        return "fewer" if answer["warnings"] else "whole"
    if answer["error"] in ("MemoryError", "ImportError"):  # Python's own error, before the engine's
        return "Python"
    # CPython's own error where its C code runs out of memory silently; the package has no such
    # code.
    if (answer["error"], answer["text"]) == ("SystemError", "error return without exception set"):
        return "Python"
    # And its own error where it lists a package's folder to import a module.
    if answer["error"] == "OSError" and re.match(r"\[Errno 12\].*/headrace/_\w+'$", answer["text"]):
        return "Python"
    assert answer["error"] == error, answer
    assert BOTH_NUMBERS.search(answer["text"]), answer
    return "refused"


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["from the start", "while the engine runs"])
@pytest.mark.parametrize("act", SOME_FIRST)
def test_no_process_is_aborted_with_any_limit_of_address_space(
    server: Server, plenty: dict[str, str], act: str, late: bool
) -> None:
    limits = [0, 10, 150, 700, *range(1500, 1680, 30), 1750, 2000, 2400, 3000, 20_000]
    found = [
        outcome(server.ask(act, "space", limit << 20, late=late), plenty[act], "MemoryShortError")
        for limit in limits
    ]
    if not late:
        assert found[0] in ("refused", "Python"), found
    assert found[-1] == "whole", found


def threads_are_swept(server: Server, plenty: dict[str, str], act: str, **request: Any) -> None:
    """Limits from one thread up: refused, then fewer threads, then all of them, and never an
    abort."""
    limits = [1, 5, 11, *range(12, 26, 2), 32, 48, 72, 500]

    def under(limit: int) -> str:
        return outcome(server.ask(act, limit=limit, **request), plenty[act], "LimitError")

    found = [under(limit) for limit in limits]
    assert found[-1] == "whole", found
    if not request["late"]:
        assert found[0] == "refused", found
    if act in ("epoch", "pack", "samples") and "fewer" not in found:  # between two of the limits
        whole = found.index("whole")
        between = [under(limit) for limit in range(limits[whole - 1] + 1, limits[whole])]
        assert "fewer" in between, (found, between)
    assert found == sorted(found, key=["refused", "fewer", "whole"].index), found


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["from the start", "while the engine runs"])
@pytest.mark.parametrize("act", ["epoch", "pack"])
def test_no_process_is_aborted_with_any_limit_of_a_users_threads(
    server: Server, plenty: dict[str, str], act: str, late: bool
) -> None:
    if os.getuid() != 0:
        pytest.skip("another user, who has no other process, needs root")
    threads_are_swept(server, plenty, act, kind="user", late=late)


@pytest.fixture
def group() -> Iterator[Path]:
    """A cgroup of its own with a limit of threads."""
    place = GROUPS / f"starved-{os.getpid()}"
    try:
        place.mkdir()
    except OSError as error:
        pytest.skip(f"a cgroup of the pids controller needs root and version 1: {error}")
    yield place
    assert eventually(lambda: not (place / "cgroup.procs").read_text())
    place.rmdir()


@pytest.mark.slow
@pytest.mark.parametrize("late", [False, True], ids=["from the start", "while the engine runs"])
@pytest.mark.parametrize("act", SOME_FIRST)
def test_no_process_is_aborted_with_any_limit_of_a_cgroups_threads(
    server: Server, plenty: dict[str, str], group: Path, act: str, late: bool
) -> None:
    threads_are_swept(server, plenty, act, kind="group", group=str(group), late=late)


def test_fewer_threads_give_one_warning_with_both_numbers(
    server: Server, plenty: dict[str, str], group: Path
) -> None:
    answer = server.ask("loaders", "group", 60, group=str(group), threads=8)
    assert answer["result"] == server.ask("loaders", threads=8)["result"]
    (warning,) = answer["warnings"]
    found = re.fullmatch(
        r"headrace: (\d+) threads work where 8 were to: for all of them the engine needs (\d+) "
        r"threads \((\d+) are allowed\): pids\.max of (.*) is 60, and \d+ run there",
        warning,
    )
    assert found is not None, warning
    assert int(found[1]) < 8
    assert int(found[2]) > 60 > int(found[3])
    assert found[4] == str(group)


def test_the_error_for_a_library_that_cannot_be_mapped_says_how_much_it_needs() -> None:
    code = """
        import resource
        from pathlib import Path
        import headrace as hr, headrace.functional, array
        from headrace import errors
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 20),) * 2)
        try:
            hr.functional.decode(b"no image")
        except errors.MemoryShortError as error:
            print(error)
    """
    found = processes.run(code)
    assert re.search(r"needs \d+ bytes of address space more \(\d+ are allowed\)", found), found
