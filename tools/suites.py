"""Runs other projects' tests of loaders with torch's loader, and with Headrace's in its place.

    tools/suites.sh SOURCES [NAME ...]

SOURCES is a folder of the projects' repositories as `git clone` makes them: accelerate, lightning
(pytorch-lightning), data (torchdata) and pytorch, each near the version that is installed. Missing
ones are left out. It prints for each suite how many tests pass, and which of those that pass with
torch's loader do not pass with Headrace's. It exits with 1 if there are any.

As a plugin of pytest (`-p suites`), this module puts Headrace's loader in place.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

SUITES = {
    "torch": ("pytorch/test", ["test_dataloader.py"]),
    "accelerate": ("accelerate", ["tests/test_data_loader.py"]),
    "lightning": (
        "lightning/tests/tests_pytorch",
        ["trainer/test_dataloaders.py", "utilities/test_data.py"],
    ),
    "fabric": ("lightning/tests/tests_fabric", ["utilities/test_data.py"]),
    "torchdata": (
        "data/test/stateful_dataloader",
        ["test_sampler.py", "test_state_dict.py"],
    ),
    # PyTorch's test_dataloader.py, in the copy that torchdata keeps for its loader.
    "torchdata's copy of torch's": ("data/test/stateful_dataloader", ["test_dataloader.py"]),
}
SWAPPED = "HEADRACE_SUITES"


def outcomes(folder: Path, files: list[str], *, swapped: bool) -> dict[str, str]:
    """Returns the outcome of each test: passed, failed or skipped."""
    here = Path(__file__).resolve().parent
    given = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    given = [str(Path(part).resolve()) for part in given]
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        options = ["-q", "-p", "suites", "-p", "no:cacheprovider", "--timeout", "120"]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(here), *above(folder), *given]),
            SWAPPED: str(int(swapped)),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", *options, f"--junitxml={report}", *files]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if not report.exists():
            raise SystemExit(done.stdout[-3000:] + done.stderr[-3000:])
        root = ElementTree.parse(report).getroot()
    found = {}
    for case in root.iter("testcase"):
        kinds = {part.tag for part in case}
        word = "skipped" if "skipped" in kinds else "failed" if kinds - {"system-out"} else "passed"
        found[f"{case.get('classname')}::{case.get('name')}"] = word
    return found


def above(folder: Path) -> list[str]:
    """Where a suite imports its own packages from: tests_pytorch, test.stateful_dataloader."""
    return [str(folder), str(folder.parent), str(folder.parent.parent)]


def main(sources: Path, names: list[str]) -> int:
    """Prints a table, and then the differences."""
    lines, differences = [], []
    for name, (place, files) in SUITES.items():
        folder = sources.resolve() / place
        if (names and name not in names) or not folder.is_dir():
            continue
        with_torch = outcomes(folder, files, swapped=False)
        with_headrace = outcomes(folder, files, swapped=True)
        passed = [test for test, word in with_torch.items() if word == "passed"]
        lost = [test for test in passed if with_headrace.get(test) != "passed"]
        lines.append(
            f"{name}: {len(passed)} pass with torch, {len(passed) - len(lost)} of them here"
        )
        differences += [f"{name}: {test}: {with_headrace.get(test, 'missing')}" for test in lost]
        print(lines[-1], flush=True)
    print("\n".join(differences))
    return int(bool(differences) or not lines)


# ---- the plugin ----------------------------------------------------------------------------------


def pytest_configure(config: Any) -> None:
    """This runs before any test's module is imported, and before any framework."""
    if os.environ.get(SWAPPED) == "1":
        import torch.utils.data
        import torchdata.stateful_dataloader  # noqa: F401  # a class over torch's own loader

        import headrace

        torch.utils.data.DataLoader = headrace.DataLoader  # type: ignore[misc]
        torch.utils.data.dataloader.DataLoader = headrace.DataLoader  # type: ignore[misc]


def pytest_itemcollected(item: Any) -> None:
    """This replaces the name of torchdata's loader in its tests; torchdata itself keeps its own."""
    if os.environ.get(SWAPPED) == "1" and "stateful_dataloader" in str(item.path):
        from torchdata.stateful_dataloader import StatefulDataLoader

        for name, value in list(vars(item.module).items()):
            if value is StatefulDataLoader:
                setattr(item.module, name, _Stateful)


class _Stateful:
    """Headrace's loader with torchdata's states, which it has if their step is given."""

    def __new__(cls, *given: Any, **words: Any) -> Any:
        import headrace

        return headrace.DataLoader(*given, **{"snapshot_every_n_steps": 1, **words})

    def __class_getitem__(cls, _item: Any) -> Any:
        return cls


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
