"""The examples: epoch.c compiled and run, one_import.py and simclr.py run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headrace as hr

PACKAGE = Path(hr.__file__).parent
SOURCE = Path(__file__).parents[2] / "examples" / "epoch.c"


@pytest.fixture(scope="module")
def epoch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("example") / "epoch"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    library = PACKAGE / "libheadrace.so"
    command = ["gcc", *strict, str(SOURCE), f"-I{PACKAGE}", str(library), f"-Wl,-rpath,{PACKAGE}"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def checksum(data: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def test_the_c_example_prints_the_same_batches_as_python(epoch: Path, packed: Path) -> None:
    lines = subprocess.run(
        [epoch, packed, "10"], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    transform = [hr.transforms.RandomResizedCrop(224), hr.transforms.RandomHorizontalFlip()]
    form = {"dtype": "uint8", "layout": "NHWC", "output": "numpy"}
    with hr.Loader(packed, 10, shuffle=True, transform=transform, **form) as loader:
        for line, (images, labels) in zip(lines, loader, strict=True):
            found = re.fullmatch(
                r"batch (\d): (\d+) samples, first label (\d), ([0-9a-f]{16})", line
            )
            assert found is not None, line
            assert int(found[2]) == len(labels)
            assert int(found[3]) == labels[0]
            # FNV in Python is slow: one batch is enough.
            if found[1] == "2":
                assert int(found[4], 16) == checksum(images.tobytes())


def test_the_c_example_prints_what_is_wrong(epoch: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [epoch, tmp_path / "no such"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("epoch: open dataset: ")
    assert "no such" in done.stderr


def test_the_training_loop_with_one_changed_import_trains(folder: Path) -> None:
    program = SOURCE.with_name("one_import.py")
    command = [sys.executable, str(program), str(folder), "--batch-size", "6"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert "RandomResizedCrop(size=64" in done.stdout
    losses = [float(loss) for loss in re.findall(r"epoch \d: loss ([0-9.]+)", done.stdout)]
    assert len(losses) == 2
    assert all(0 < loss < 10 for loss in losses)
    assert done.stderr == ""


@pytest.mark.slow
def test_the_detection_loop_trains_on_boxes_that_moved_with_their_images() -> None:
    program = SOURCE.with_name("detection_training.py")
    # Threads that wait for each other in a loop take minutes where the cores are busy.
    single = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=single,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 4
    assert all(re.fullmatch(r"step \d: loss \d+\.\d{3}, \d+ boxes", line) for line in lines)


@pytest.mark.slow
def test_simclr_trains_on_two_views_that_grow(folder: Path) -> None:
    program = SOURCE.with_name("simclr.py")
    command = [sys.executable, str(program), str(folder), "--batch-size", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    lines = re.findall(r"epoch (\d): \((\d+), \2\) pixels, loss ([0-9.]+)", done.stdout)
    assert [line[:2] for line in lines] == [("0", "64"), ("1", "64"), ("2", "96")]
    assert all(0 < float(loss) < 10 for *_, loss in lines)
    assert done.stderr == ""
