"""JPEG XL, which Pillow reads only with the plugin pillow-jxl-plugin, through ``pack``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pillow_jxl  # noqa: F401  (registers the plugin)
import pytest
from frameworks_support import FOLDER
from PIL import Image

import headrace as hr
from images import write_tree

CODESTREAM, CONTAINER = b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n"


def encoded(image: Image.Image, **options: Any) -> bytes:
    into = io.BytesIO()
    image.save(into, "JXL", **options)
    return into.getvalue()


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """Photographs and noise in each mode and form that Pillow writes."""
    rng = np.random.default_rng(7)
    noise = Image.fromarray(rng.integers(0, 256, (37, 41, 4), np.uint8))
    paths = sorted(FOLDER.rglob("*.jpg"))
    with Image.open(paths[0]) as first:
        photograph = first.convert("RGB")
    with Image.open(paths[1]) as second:
        transcoded = encoded(second, lossless_jpeg=True)  # a JPEG that can be restored
    return {
        "a/lossy.jxl": encoded(photograph),
        "a/rgb.jxl": encoded(noise.convert("RGB"), lossless=True),
        "a/rgba.jxl": encoded(noise, lossless=True, use_container=True),
        "b/grey.jxl": encoded(noise.convert("L"), lossless=True),
        "b/jpeg.jxl": transcoded,
        "b/named.jpg": encoded(noise.convert("RGB"), quality=80),
    }


def test_jpeg_xl_images_are_packed_with_the_pixels_of_pillows_plugin(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    assert {data[:2] for data in files.values()} == {CODESTREAM, CONTAINER[:2]}
    write_tree(tmp_path / "in", files)
    made = hr.pack(tmp_path / "in", tmp_path / "out", num_threads=2)
    assert (made["rows"], made["through_pillow"]) == (len(files), len(files))
    assert made["faults"]["total"] == 0
    with hr.Dataset(tmp_path / "out") as dataset:
        for index, name in enumerate(sorted(files)):
            with Image.open(io.BytesIO(files[name])) as image:
                assert image.format == "JXL"
                wanted = np.asarray(image.convert("RGB"))
            assert np.array_equal(dataset[index].image, wanted), name


def test_a_file_that_the_jpeg_xl_plugin_refuses_is_a_fault_and_the_others_are_packed(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    cut = {f"c/{n}.jxl": data[: len(data) // 2] for n, data in enumerate(files.values())}
    write_tree(tmp_path / "in", files | cut)
    made = hr.pack(tmp_path / "in", tmp_path / "out", num_threads=2)
    assert (made["rows"], made["through_pillow"]) == (2 * len(files), len(files))
    for found in made["faults"]["listed"]:
        assert "JPEG XL" in found["reason"]
        assert "nor does Pillow read it: " in found["reason"]
    assert made["faults"]["total"] == len(cut)
