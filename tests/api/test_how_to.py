"""The programs of docs/how-to.md, run unchanged beside the photographs that they name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import forking
import images

PAGE = Path(__file__).parents[2] / "docs" / "how-to.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROGRAMS = {
    title: program
    for title, section in SECTION.findall(PAGE.read_text())
    for program in PROGRAM.findall(section)
}
SAYS = {
    "Change one line": "torch.Size([24, 3, 224, 224]) torch.Size([24])",
    "Datasets with code of their own": "['image']  native",
    "Several views of a sample": "2 6 torch.Size([8, 3, 96, 96])",
    "Mixing": "torch.Size([8, 3, 224, 224]) torch.Size([8, 3]) torch.float32",
    "Labels that move": "torch.Size([4, 3, 224, 224])",
    "Which samples": "torch.Size([4, 3, 64, 64])",
    "Your own transforms": "torch.Size([8, 3, 224, 224])",
    "Without PyTorch": "ndarray (8, 224, 224, 3)",
    "Resume": "",
    "What limits a training": "training ",
    "Bad files": "[]",
}


def test_every_program_of_the_how_to_page_is_run_in_this_file() -> None:
    assert set(PROGRAMS) == set(SAYS)


@pytest.mark.slow
@pytest.mark.parametrize("title", PROGRAMS)
def test_a_program_of_the_how_to_page_runs_unchanged(
    title: str, tmp_path: Path, forked: forking.Parent
) -> None:
    for part in ("train", "val"):
        images.plain_tree(tmp_path / "photos" / part)
    # A diagnosis of 15 seconds would show no more.
    program = PROGRAMS[title].replace(
        "hr.doctor(loader, step)", "hr.doctor(loader, step, seconds=1)"
    )
    said = forked.run(f"import os, sys\nos.chdir(sys.argv[1])\n{program}", tmp_path, timeout=240)
    assert SAYS[title] in said
