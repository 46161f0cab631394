"""The programs of examples/ over containers, run as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import images
import tables

webdataset = pytest.importorskip("webdataset")

EXAMPLES = Path(__file__).parents[2] / "examples"
COUNT = 20


def said_by(program: str, *arguments: Any) -> str:
    command = [sys.executable, str(EXAMPLES / program), *map(str, arguments), "--batch-size", "6"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return done.stdout


def check_epochs(said: str) -> None:
    epochs = re.findall(r"epoch (\d): (\d+) samples, loss (\d+\.\d+)", said)
    assert [(epoch, count) for epoch, count, _ in epochs] == [("0", str(COUNT)), ("1", str(COUNT))]
    assert all(0 < float(loss) < 10 for *_, loss in epochs)


@pytest.mark.parametrize("indexed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_the_example_trains_on_webdataset_tars(indexed: bool, tmp_path: Path) -> None:
    for shard in range(2):
        with webdataset.TarWriter(str(tmp_path / f"train-{shard:06d}.tar")) as writer:
            for i in range(shard * COUNT // 2, (shard + 1) * COUNT // 2):
                writer.write({"__key__": f"k{i}", "jpg": images.jpeg(80, 70, seed=i), "cls": i % 4})
    source = f"{tmp_path}/train-{{000000..000001}}.tar"
    if indexed:
        index = str(tmp_path / "train.hr")
        command = [sys.executable, "-m", "headrace", "index", source, "--out", index]
        subprocess.run(command, capture_output=True, timeout=240, check=True)
        source = index
    said = said_by("webdataset_tars.py", source)
    assert f"{COUNT} samples of 4 classes, the first k0" in said
    check_epochs(said)


@pytest.mark.parametrize("saved", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_example_trains_on_a_hugging_face_table(saved: bool, tmp_path: Path) -> None:
    photographs = [images.jpeg(80, 70, seed=i) for i in range(COUNT)]
    table = tables.table(photographs, [i % 3 for i in range(COUNT)], ["cat", "dog", "emu"])
    source: Any = f"{tmp_path}/data/train-*.parquet"
    if saved:
        source = tables.save(tmp_path / "saved", [table])
    else:
        tables.parquet(tmp_path / "data", [table])
    said = said_by("huggingface_table.py", source)
    assert f"{COUNT} images of the classes cat, dog, emu" in said
    check_epochs(said)
