"""What the engine does not decode and Pillow does: ``pack`` stores its pixels without loss."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import headrace as hr
from headrace import errors
from images import write_tree


def encoded(kind: str, seed: int, mode: str = "RGB", **options: Any) -> bytes:
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(0, 256, (30 + seed, 41, 3), np.uint8)).convert(mode)
    into = io.BytesIO()
    image.save(into, kind, **options)
    return into.getvalue()


def rgb(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def foreign() -> dict[str, bytes]:
    return {
        "a/1.webp": encoded("AVIF", 1),
        "a/2.jpg": encoded("JPEG2000", 2),
        "b/3.jpg": encoded("JPEG2000", 3, "L"),
        "b/4.tif": encoded("TIFF", 4, "I;16"),
        "b/5.png": encoded("AVIF", 5, "RGBA"),
    }


def native() -> dict[str, bytes]:
    return {"a/0.jpg": encoded("JPEG", 0), "b/6.png": encoded("PNG", 6)}


def children() -> set[str]:
    return set(Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split())


def test_a_folder_is_packed_with_pillows_pixels_and_says_how_many(tmp_path: Path) -> None:
    files = foreign() | native()
    write_tree(tmp_path / "in", files)
    before = children()
    made = hr.pack(tmp_path / "in", tmp_path / "out", num_threads=2)
    assert made["through_pillow"] == len(foreign())
    assert made["faults"]["total"] == 0
    with hr.Dataset(tmp_path / "out") as dataset:
        assert len(dataset) == len(files)
        for index, name in enumerate(sorted(files)):
            data = bytes(dataset.read(index))
            if name in native():
                assert data == files[name], name
            else:
                assert np.array_equal(rgb(data), rgb(files[name])), name
                assert data.startswith(b"\x89PNG"), name
            assert np.array_equal(hr.functional.decode(data), rgb(files[name])), name
    assert hr.verify(tmp_path / "out", decode=True)["ok"]
    assert children() <= before


def test_containers_are_packed_alike(tmp_path: Path) -> None:
    files = foreign() | native()
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for name, data in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    made = hr.pack(tmp_path / "in.tar", tmp_path / "out")
    assert (made["through_pillow"], made["faults"]["total"]) == (len(foreign()), 0)


def test_raw_stores_pillows_pixels_as_pixels(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", foreign())
    made = hr.pack(tmp_path / "in", tmp_path / "out", raw=True)
    assert made["through_pillow"] == made["raw"]["images"] == len(foreign())
    with hr.Dataset(tmp_path / "out") as dataset:
        for index, name in enumerate(sorted(foreign())):
            data = bytes(dataset.read(index))
            assert data.startswith(b"P6")
            assert np.array_equal(rgb(data), rgb(foreign()[name])), name


def test_what_pillow_refuses_too_stays_with_both_reasons(tmp_path: Path) -> None:
    broken = encoded("JPEG2000", 2)[:60]
    write_tree(tmp_path / "in", {"a/1.jpg": broken, "a/2.webp": encoded("AVIF", 2)})
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert made["through_pillow"] == 1
    (found,) = made["faults"]["listed"]
    assert found["verdict"] == "unsupported"
    assert "nor does Pillow read it: " in found["reason"]
    with hr.Dataset(tmp_path / "out") as dataset:
        assert bytes(dataset.read(0)) == broken


def test_more_pixels_than_pillow_allows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "in", {"a/1.webp": encoded("AVIF", 1)})
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert "through_pillow" not in made
    assert "DecompressionBomb" in made["faults"]["listed"][0]["reason"]


def test_without_it_such_files_keep_their_bytes(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", foreign())
    made = hr.pack(tmp_path / "in", tmp_path / "out", through_pillow=False)
    assert "through_pillow" not in made
    assert made["faults"]["total"] == len(foreign())
    with pytest.raises(errors.UnsupportedError):
        hr.pack(tmp_path / "in", tmp_path / "x", through_pillow=False, on_fault="raise")


def test_the_command_says_how_many(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", foreign() | native())
    told = [sys.executable, "-m", "headrace", "pack", str(tmp_path / "in"), str(tmp_path / "out")]
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    assert "5 images that the engine does not decode went through Pillow" in " ".join(
        done.stdout.split()
    )


def test_a_job_that_is_killed_leaves_no_dataset_and_no_process(tmp_path: Path) -> None:
    many = {f"a/{n:04}.webp": encoded("AVIF", n % 9) for n in range(400)}
    write_tree(tmp_path / "in", many)
    code = "import sys, headrace as hr; print(flush=True); hr.pack(sys.argv[1], sys.argv[2])"
    told = [sys.executable, "-c", code, str(tmp_path / "in"), str(tmp_path / "out")]
    job = subprocess.Popen(told, stdout=subprocess.PIPE)
    assert job.stdout is not None
    job.stdout.readline()
    found: list[str] = []
    for _ in range(600):
        tasks = Path(f"/proc/{job.pid}/task").glob("*/children")
        found = [child for task in tasks for child in task.read_text().split()]
        if found:
            break
        time.sleep(0.01)
    assert found
    job.send_signal(signal.SIGKILL)
    job.wait()
    job.stdout.close()
    until = time.monotonic() + 20
    while any(Path(f"/proc/{child}").exists() for child in found):
        assert time.monotonic() < until, json.dumps(found)
        time.sleep(0.05)
    assert not (tmp_path / "out").exists()
