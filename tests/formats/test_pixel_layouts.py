"""Modes and axis orders of images stored as pixels: every reader gives Pillow's result."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import chunks
import headrace as hr
import mds

SIZES = [(7, 12), (12, 7), (1, 5), (33, 40)]


def noise(number: int, channels: int) -> np.ndarray:
    height, width = SIZES[number]
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)


def agrees(source: Path, want: list[np.ndarray], folder: Path, **words: Any) -> None:
    """Every reader must give those pixels, with the images' numbers as labels."""
    hr.index(source, folder / "index.hr", **words)
    hr.pack(source, folder / "packed.hr", **words)
    hr.pack(folder / "index.hr", folder / "again.hr")
    assert hr.verify(folder / "index.hr", decode=True)["ok"]
    opened = [(source, words), *((folder / f"{n}.hr", {}) for n in ("index", "packed", "again"))]
    for path, said in opened:
        with hr.Dataset(path, **said) as dataset:
            assert len(dataset) == len(want)
            for number, pixels in enumerate(want):
                sample = dataset[number]
                assert sample.label == number
                assert np.array_equal(sample.image, pixels), (path, number)


MODES = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4}


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("mode", MODES)
def test_pil_pixels_in_mds_equal_pillows_conversion_to_rgb(
    mode: str, compression: str | None, tmp_path: Path
) -> None:
    pictures = [Image.fromarray(noise(i, MODES[mode])) for i in range(len(SIZES))]
    assert {picture.mode for picture in pictures} == {mode}
    name = "shard.00000.mds" + (".zstd" if compression else "")
    source = mds.one(tmp_path / name, "pil", [mds.pil(p) for p in pictures], compression)
    agrees(source, [np.asarray(picture.convert("RGB")) for picture in pictures], tmp_path)


def grey(pixels: np.ndarray) -> np.ndarray:
    return np.repeat(pixels.reshape(*pixels.shape[:2], 1), 3, axis=2)


LAYOUTS: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
    "HW": (1, lambda pixels: pixels),
    "HW1": (1, lambda pixels: pixels[..., None]),
    "1HW": (1, lambda pixels: pixels[None]),
    "HW3": (3, lambda pixels: pixels),
    "3HW": (3, lambda pixels: pixels.transpose(2, 0, 1)),
    "HW4": (4, lambda pixels: pixels),
    "4HW": (4, lambda pixels: pixels.transpose(2, 0, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arrays_in_mds_and_litdata_are_images_in_any_order_of_axes(
    layout: str, tmp_path: Path
) -> None:
    channels, of = LAYOUTS[layout]
    sizes = range(len(SIZES) - 2 if layout in ("1HW", "3HW", "4HW") else len(SIZES))
    pixels = [noise(i, channels) for i in sizes]
    arrays = [np.ascontiguousarray(of(one)) for one in pixels]
    want = [grey(one) if channels == 1 else one[..., :3] for one in pixels]
    stored = [bytes([8, len(a.shape) << 2, *a.shape]) + a.tobytes() for a in arrays]
    (tmp_path / "mds").mkdir()
    agrees(mds.one(tmp_path / "shard.00000.mds", "ndarray", stored), want, tmp_path / "mds")
    for form, order, number in (("numpy", "<", 4), ("tensor", ">", 11), ("tensor", "<", 11)):
        items = []
        for label, a in enumerate(arrays):
            head = struct.pack(f"{order}{2 + a.ndim}I", number, a.ndim, *a.shape)
            items.append(chunks.item(head + a.tobytes(), label, "é"))
        folder = tmp_path / f"{form}{ord(order)}"
        source = chunks.write(folder / "train", [chunks.framed(items, 2)], len(items))
        index = json.loads((source / "index.json").read_text())
        index["config"]["data_format"][0] = form
        (source / "index.json").write_text(json.dumps(index))
        agrees(source, want, folder)


def test_pil_pixels_in_litdata_are_images_framed_or_not(tmp_path: Path) -> None:
    pictures = [Image.fromarray(noise(i, 4)) for i in range(len(SIZES))]
    items = [chunks.item(mds.pil(p), label, "é") for label, p in enumerate(pictures)]
    want = [np.asarray(picture.convert("RGB")) for picture in pictures]
    for name, chunk in (("classic", chunks.classic(items)), ("framed", chunks.framed(items, 3))):
        source = chunks.write(tmp_path / name / "train", [chunk], len(items))
        index = json.loads((source / "index.json").read_text())
        index["config"]["data_format"][0] = "pil"
        (source / "index.json").write_text(json.dumps(index))
        agrees(source, want, tmp_path / name)


def test_palette_indices_without_their_palette_are_refused(tmp_path: Path) -> None:
    mask = Image.fromarray(noise(0, 3)).quantize(5)
    source = mds.one(tmp_path / "shard.00000.mds", "pil", [mds.pil(mask)])
    with pytest.raises(hr.errors.UnsupportedError, match="whose palette was left out"):
        hr.Dataset(source)
