"""Pixels equal those of golden.json (see golden.py): a change in Pillow, torchvision or Headrace is
noticed, and the failure says in which of them.
"""

from __future__ import annotations

import json
from pathlib import Path

import golden
import numpy as np
import PIL
import pytest
import torch
import torchvision

import headrace as hr
import images
import versions

pytestmark = versions.since_pillow_13

STORED = json.loads(golden.FILE.read_text())


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return golden.files()


@pytest.mark.parametrize("name", STORED["cases"])
def test_pixels_equal_the_stored_ones(files: dict[str, bytes], name: str) -> None:
    case = STORED["cases"][name]
    if golden.hash_of(iter([files[name]])) != case["file"]:
        pytest.fail("the encoded file is another: libjpeg's encoder changed, not the pixels")
    for interpolation, stored in case["pixels"].items():
        ours = golden.hash_of(golden.headrace(files[name], interpolation)) == stored
        theirs = golden.hash_of(golden.pillow(files[name], interpolation)) == stored
        versions = f"Pillow {PIL.__version__}, torchvision {torchvision.__version__}"
        assert theirs or not ours, f"{interpolation}: {versions} gives other pixels than stored"
        assert ours or not theirs, f"{interpolation}: Headrace gives other pixels than stored"
        assert ours, f"{interpolation}: both give other pixels than stored"


@pytest.mark.parametrize("name", STORED["cases"])
def test_fast_pixels_equal_the_stored_ones(files: dict[str, bytes], name: str) -> None:
    parts = (p for f in golden.FILTERS for p in golden.headrace(files[name], f, "fast"))
    assert golden.hash_of(parts) == STORED["cases"][name]["fast"]


@pytest.mark.parametrize("scale", golden.FORMS)
def test_normalised_values_equal_the_stored_ones(tmp_path: Path, scale: str) -> None:
    stored = STORED["normalised"][scale]
    assert golden.hash_of(golden.normalised(golden.FORMS[scale])) == stored, "torchvision changed"
    values = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    folder = images.write_tree(tmp_path, {"a/values.ppm": b"P6 16 16 255\n" + values.tobytes()})

    def parts():
        for dtype in ("float32", "float16", "bfloat16"):
            crop = [hr.transforms.CenterCrop(16), hr.transforms.Normalize(golden.MEAN, golden.STD)]
            with hr.Loader(folder, 1, transform=crop, dtype=dtype, scale=scale) as loader:
                [(batch, _)] = list(loader)
            bits = torch.int32 if dtype == "float32" else torch.int16
            yield batch[0].contiguous().view(bits).numpy().tobytes()

    assert golden.hash_of(parts()) == stored, "Headrace changed"
