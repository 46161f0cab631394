"""Images that Pillow decodes and the engine does not: ``pack`` stores their pixels without loss."""

from __future__ import annotations

import functools
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
import images
from headrace import errors, functional
from headrace import transforms as t
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


def test_a_folder_is_packed_with_pillows_pixels_and_such_images_are_counted(tmp_path: Path) -> None:
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


def test_images_in_containers_are_packed_through_pillow_too(tmp_path: Path) -> None:
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


def test_a_file_that_pillow_refuses_too_is_kept_with_both_reasons(tmp_path: Path) -> None:
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


def test_without_through_pillow_such_files_keep_their_bytes(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", foreign())
    made = hr.pack(tmp_path / "in", tmp_path / "out", through_pillow=False)
    assert "through_pillow" not in made
    assert made["faults"]["total"] == len(foreign())
    with pytest.raises(errors.UnsupportedError):
        hr.pack(tmp_path / "in", tmp_path / "x", through_pillow=False, on_fault="raise")


def test_the_command_line_says_how_many_images_went_through_pillow(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", foreign() | native())
    told = [sys.executable, "-m", "headrace", "pack", str(tmp_path / "in"), str(tmp_path / "out")]
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    assert "5 images that the engine does not decode went through Pillow" in " ".join(
        done.stdout.split()
    )


@pytest.mark.slow
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


def read_by_pillow(folder: Path, code: str) -> None:
    """Puts a package PIL before Pillow on the path, for processes started from here on. Its code
    runs in Pillow's place, or changes it."""
    write_tree(folder, {"PIL/__init__.py": code.encode()})


REAL = """
import importlib, os, sys
sys.path.remove({folder!r})
del sys.modules["PIL"]
importlib.import_module("PIL")
from PIL import Image
opened = Image.open
def guarded(file, *rest):
    if b"crash" in file.getvalue():
        {what}
    return opened(file, *rest)
Image.open = guarded
"""


def marked(data: bytes) -> bytes:
    """The same AVIF with a box that no reader uses."""
    return data + (13).to_bytes(4, "big") + b"freecrash"


def test_without_pillow_the_reason_says_that_pillow_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "in", {"a/1.webp": encoded("AVIF", 1), "a/2.png": encoded("PNG", 2)})
    read_by_pillow(tmp_path / "none", "raise ImportError")
    monkeypatch.syspath_prepend(str(tmp_path / "none"))
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert (made["rows"], made.get("through_pillow", 0)) == (2, 0)
    (found,) = made["faults"]["listed"]
    assert found["verdict"] == "unsupported"
    assert "AVIF is not read" in found["reason"]
    assert "Pillow, which may read it, is not installed" in found["reason"]


@pytest.mark.parametrize("what", ["os.abort()", "os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_file_that_ends_pillows_process_is_a_fault_and_the_others_are_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    files = {f"a/{n}.webp": encoded("AVIF", n) for n in range(8)}
    for name in ("a/2.webp", "a/5.webp"):
        files[name] = marked(files[name])
    write_tree(tmp_path / "in", files)
    folder = str(tmp_path / "guard")
    read_by_pillow(tmp_path / "guard", REAL.format(folder=folder, what=what))
    monkeypatch.syspath_prepend(folder)
    before = children()
    made = hr.pack(tmp_path / "in", tmp_path / "out", num_threads=2)
    assert (made["rows"], made["through_pillow"]) == (8, 6)
    assert [Path(found["file"]).name for found in made["faults"]["listed"]] == ["2.webp", "5.webp"]
    for found in made["faults"]["listed"]:
        assert "nor does Pillow read it: its process ended" in found["reason"]
    with hr.Dataset(tmp_path / "out") as dataset:
        for index, name in enumerate(sorted(files)):
            data = bytes(dataset.read(index))
            if name in ("a/2.webp", "a/5.webp"):
                assert data == files[name]
            else:
                assert np.array_equal(rgb(data), rgb(files[name])), name
    assert children() <= before


NAMES = {
    "AVIF is not read": encoded("AVIF", 1),
    "JPEG 2000 is not read": encoded("JPEG2000", 1),
    "JPEG 2000 codestream is not read": encoded("JPEG2000", 1, no_jp2=True),
    "JPEG XL is not read": b"\0\0\0\x0cJXL \r\n\x87\n" + bytes(40),
    "JPEG XL codestream is not read": b"\xff\x0a" + bytes(40),
    "TIFF with a number of bits a sample of 16": encoded("TIFF", 1, "I;16"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_loader_names_the_format_that_it_does_not_read(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path / "in", {"a/1.jpg": NAMES[name], "a/2.png": encoded("PNG", 2)})
    steps = [t.Resize((8, 8))]
    with (
        hr.Loader(hr.Dataset(tmp_path / "in"), transform=steps) as loader,
        pytest.raises(errors.UnsupportedError, match=name),
    ):
        list(loader)


@pytest.mark.parametrize(
    ("colour_type", "mode"), [(0, "I;16"), (2, "RGB"), (4, "RGBA"), (6, "RGBA")]
)
def test_a_png_of_16_bits_keeps_its_bytes_and_is_decoded_as_by_pillow(
    tmp_path: Path, colour_type: int, mode: str
) -> None:
    data = images.png(31, 23, colour_type, 16)
    assert Image.open(io.BytesIO(data)).mode == mode
    write_tree(tmp_path / "in", {"a/1.png": data})
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert "through_pillow" not in made
    with hr.Dataset(tmp_path / "out") as dataset:
        assert bytes(dataset.read(0)) == data
        assert np.array_equal(dataset[0].image, rgb(data))


def test_a_folder_of_files_that_only_pillow_reads_is_packed_with_their_own_names(
    tmp_path: Path,
) -> None:
    files = {
        "a/1.avif": encoded("AVIF", 1),
        "a/2.JP2": encoded("JPEG2000", 2),
        "a/3.avif": encoded("AVIF", 3),
        "a/3.png": encoded("PNG", 3),
        "b/4.avif": encoded("AVIF", 4),
    }
    write_tree(tmp_path / "in", files)
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert (made["rows"], made["classes"], made["through_pillow"]) == (4, 2, 3)
    with hr.Dataset(tmp_path / "out") as dataset:
        assert [dataset.facts(n)["key"] for n in range(4)] == ["a/1", "a/2", "a/3", "b/4"]
        assert [dataset.facts(n)["label"] for n in range(4)] == [0, 0, 0, 1]
        for index, name in enumerate(("a/1.avif", "a/2.JP2", "a/3.png", "b/4.avif")):
            assert np.array_equal(rgb(bytes(dataset.read(index))), rgb(files[name])), name
    # As in torchvision's ImageFolder, and so in the loader: class b without any file.
    with pytest.raises(errors.EmptyDatasetError, match="no valid file for the classes b"):
        hr.Dataset(tmp_path / "in")
    with pytest.raises(errors.EmptyDatasetError, match="no valid file for the classes b"):
        hr.pack(tmp_path / "in", tmp_path / "x", through_pillow=False)


PLUGIN = """
from PIL import Image, ImageFile

class Squares(ImageFile.ImageFile):
    format = "SQUARES"
    def _open(self):
        self._mode, self._size = "RGB", (4, 3)
        self.tile = [("raw", (0, 0) + self.size, 6, ("RGB", 0, 1))]

def knows(prefix):
    return prefix.startswith(b"SQUARE")

def register():
    Image.register_open("SQUARES", Squares, knows)
    Image.register_extension("SQUARES", ".jxl")
"""


@pytest.mark.parametrize("named", [True, False])
def test_a_plugin_that_the_program_has_registered_decodes_in_pack(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plugins like pillow_heif or one for JPEG XL; also one whose check of the first bytes is a
    lambda, beside a plugin that is a partial."""
    write_tree(tmp_path / "plugins", {"squares_plugin.py": PLUGIN.encode()})
    monkeypatch.syspath_prepend(str(tmp_path / "plugins"))
    import squares_plugin  # type: ignore[import-not-found]

    monkeypatch.setattr(Image, "OPEN", Image.OPEN.copy())
    monkeypatch.setattr(Image, "ID", Image.ID.copy())
    monkeypatch.setattr(Image, "EXTENSION", Image.EXTENSION.copy())
    squares_plugin.register()
    if not named:
        knows = squares_plugin.knows
        Image.register_open("SQUARES", squares_plugin.Squares, lambda prefix: knows(prefix))
        Image.register_open("PARTIAL", functools.partial(squares_plugin.Squares), lambda _: False)
    pixels = images.pixels(4, 3)
    squares = b"SQUARE" + pixels.tobytes()
    write_tree(tmp_path / "in", {"a/1.jxl": squares})
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert (made["through_pillow"], made["faults"]["total"]) == (1, 0)
    with hr.Dataset(tmp_path / "out") as dataset:
        assert np.array_equal(dataset[0].image, pixels)


@pytest.mark.parametrize("kind", ["TGA", "PCX", "SGI", "ICO", "DDS", "PPM"])
def test_any_other_format_that_pillow_opens_is_packed_with_its_pixels(
    tmp_path: Path, kind: str
) -> None:
    """Also a format that only a plugin of Pillow's tells from noise, and a PPM as text (P3)."""
    data = encoded(kind, 1) if kind != "PPM" else b"P3 2 1 255 9 8 7 6 5 4"
    write_tree(tmp_path / "in", {"a/1.png": data, "a/2.png": b"no image at all" * 9})
    made = hr.pack(tmp_path / "in", tmp_path / "out")
    assert made["through_pillow"] == 1
    (found,) = made["faults"]["listed"]
    assert (found["verdict"], Path(found["file"]).name) == ("bad", "2.png")
    assert found["reason"].endswith("nor any other known type of image")
    with hr.Dataset(tmp_path / "out") as dataset:
        assert np.array_equal(dataset[0].image, rgb(data))


def pair(seed: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 256, (20 + seed, 31, 3), np.uint8)
    return first, first.repeat(2, 0).repeat(2, 1)


def file(kind: str, pixels: NDArray[np.uint8], **options: Any) -> bytes:
    into = io.BytesIO()
    Image.fromarray(pixels).save(into, kind, **options)
    return into.getvalue()


def test_a_second_image_that_only_pillow_reads_is_packed_like_a_first_one(tmp_path: Path) -> None:
    kinds = ("AVIF", "JPEG2000", "PNG")
    low = {f"{n}.webp": file(kinds[n % 3], pair(n)[0]) for n in range(6)}
    high = {f"{n}.jpg": file(kinds[n // 2], pair(n)[1]) for n in range(6)}
    write_tree(tmp_path / "low", low)
    write_tree(tmp_path / "high", high)
    pairs = hr.Dataset.from_pairs(tmp_path / "low", tmp_path / "high")
    given: dict[str, Any] = {"transform": [t.CenterCrop((12, 14))], "dtype": "uint8"}
    given |= {"labels": {"target": t.Image(scale=2)}, "layout": "NHWC", "batch_size": 6}
    with (
        hr.Loader(hr.Dataset.from_pairs(tmp_path / "low", tmp_path / "high"), **given) as loader,
        pytest.raises(errors.UnsupportedError, match="is not read"),
    ):
        list(loader)
    made = hr.pack(pairs, tmp_path / "out", num_threads=2)
    of = sum(not data.startswith(b"\x89PNG") for data in [*low.values(), *high.values()])
    assert (made["through_pillow"], made["faults"]["total"], of) == (of, 0, 8)
    assert "warnings" not in made
    with hr.Dataset(tmp_path / "out") as dataset:
        for n in range(6):
            stored = dataset.facts(n)["fields"]["target"]
            assert np.array_equal(rgb(stored), rgb(high[f"{n}.jpg"])), n
            assert stored == high[f"{n}.jpg"] or stored.startswith(b"\x89PNG")
        with hr.Loader(dataset, **given) as loader:
            ((firsts, _, moved),) = list(loader)
        for n in range(6):
            first, second = rgb(low[f"{n}.webp"]), rgb(high[f"{n}.jpg"])
            seen = functional.resized_crop(file("PNG", first), *middle(first, 12, 14), (12, 14))
            assert np.array_equal(firsts[n], seen)
            top, left, height, width = (2 * each for each in middle(first, 12, 14))
            assert np.array_equal(moved["target"][n], second[top:, left:][:height, :width])


def middle(image: NDArray[np.uint8], height: int, width: int) -> tuple[int, int, int, int]:
    """Where torchvision's CenterCrop lies."""
    top, left = (round((image.shape[k] - side) / 2) for k, side in enumerate((height, width)))
    return top, left, height, width


def test_a_second_image_that_nobody_reads_keeps_its_bytes_and_is_warned_of(tmp_path: Path) -> None:
    broken = file("JPEG2000", pair(1)[1])[:60]
    write_tree(tmp_path / "low", {f"{n}.png": file("PNG", pair(n)[0]) for n in range(3)})
    write_tree(tmp_path / "high", {f"{n}.png": file("AVIF", pair(n)[1]) for n in range(3)})
    write_tree(tmp_path / "high", {"1.png": broken})
    pairs = hr.Dataset.from_pairs(tmp_path / "low", tmp_path / "high")
    made = hr.pack(pairs, tmp_path / "out")
    assert made["through_pillow"] == 2
    (told,) = made["warnings"]
    assert "further images of 1 samples are read by nobody" in told
    assert "the first one of 1: JPEG 2000 is not read" in told
    with hr.Dataset(tmp_path / "out") as dataset:
        assert dataset.facts(1)["fields"]["target"] == broken
    with pytest.raises(errors.UnsupportedError, match="a further image: JPEG 2000 is not read"):
        hr.pack(pairs, tmp_path / "x", on_fault="raise")
    made = hr.pack(pairs, tmp_path / "same", through_pillow=False)
    assert "through_pillow" not in made
    with hr.Dataset(tmp_path / "same") as dataset:
        assert dataset.facts(0)["fields"]["target"] == file("AVIF", pair(0)[1])
