"""README's programs, run unchanged in a folder with the photographs that they name."""

from __future__ import annotations

import re
from pathlib import Path

import forking
import images

README = Path(__file__).parents[2] / "README.md"
PROGRAMS = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BODY = re.compile(r"^( +)\.\.\.$", re.MULTILINE)


def test_the_readmes_programs_run_unchanged(tmp_path: Path, forked: forking.Parent) -> None:
    images.plain_tree(tmp_path / "photos" / "train")
    programs = PROGRAMS.findall(README.read_text())
    assert len(programs) == 2
    for program in programs:
        looking = "print(images.dtype, images.shape[1:], labels.dtype)"
        code = "import os, sys\nos.chdir(sys.argv[1])\n" + BODY.sub(rf"\1{looking}", program)
        said = set(forked.run(code, tmp_path, timeout=240).splitlines())
        assert said == {"torch.float32 torch.Size([3, 224, 224]) torch.int64"}
