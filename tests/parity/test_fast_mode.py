"""mode="fast": how far its pixels may differ from exact ones, and that they are as reproducible.

The figures for photographs are measured by bench/fidelity.py and stated in docs/exactness.md; here
are bounds that hold for each of these pictures.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import headrace as hr
import images

FILTERS = ["bilinear", "bicubic", "box", "hamming", "lanczos"]


def psnr(a: NDArray[np.uint8], b: NDArray[np.uint8]) -> float:
    difference = a.astype(np.float64) - b
    return float(10 * np.log10(255**2 / max(np.square(difference).mean(), 1e-9)))


def photographs() -> dict[str, bytes]:
    from sklearn import datasets

    folder = Path(datasets.__file__).parent / "images"
    return {name: (folder / f"{name}.jpg").read_bytes() for name in ("china", "flower")}


@pytest.mark.parametrize("interpolation", FILTERS)
def test_where_no_dct_scaling_applies_a_pixel_is_off_by_two_at_most(interpolation: str) -> None:
    random = np.random.default_rng(1)
    for name, data in (photographs() | images.every_jpeg(211, 157)).items():
        height, width = hr.functional.decode(data).shape[:2]
        for _ in range(4):
            h, w = int(random.integers(40, height + 1)), int(random.integers(40, width + 1))
            top, left = int(random.integers(height - h + 1)), int(random.integers(width - w + 1))
            # Reduced by less than half on at least one axis, and some enlarged.
            size = (int(h * random.uniform(0.51, 1.6)), int(w * random.uniform(0.3, 1.6)))
            box = (top, left, h, w, size, interpolation)
            exact = hr.functional.resized_crop(data, *box)
            fast = hr.functional.resized_crop(data, *box, mode="fast")
            assert abs(fast.astype(int) - exact).max() <= 2, (name, box)
            assert psnr(fast, exact) > 60, (name, box)


@pytest.mark.parametrize("reduction", [2, 4, 8])
def test_photographs_decoded_at_a_fraction_keep_30_decibels(reduction: int) -> None:
    random = np.random.default_rng(reduction)
    for name, data in photographs().items():
        height, width = hr.functional.decode(data).shape[:2]
        for _ in range(10):
            size = (int(random.integers(24, height // reduction)), 30)
            h = int(size[0] * reduction * random.uniform(1, 1.2))
            w = int(size[1] * reduction * random.uniform(1, 1.2))
            h, w = min(h, height), min(w, width)
            top, left = int(random.integers(height - h + 1)), int(random.integers(width - w + 1))
            exact = hr.functional.resized_crop(data, top, left, h, w, size)
            fast = hr.functional.resized_crop(data, top, left, h, w, size, mode="fast")
            assert psnr(fast, exact) > 30, (name, top, left, h, w, size)
            assert not np.array_equal(fast, exact), "nothing was left out"


def ramp(horizontal: bool) -> bytes:
    """A slope of 0.4 a pixel: a shift by a tenth of a pixel of the result shows in the mean."""
    import io

    line = np.linspace(20, 230, 525, dtype=np.float64)
    plane = np.tile(line, (525, 1))
    plane = plane if horizontal else plane.T
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, plane.shape)
    out = io.BytesIO()
    Image.fromarray(np.rint(plane + noise).astype(np.uint8)).convert("RGB").save(
        out, "JPEG", quality=100, subsampling=0
    )
    return out.getvalue()


@pytest.mark.parametrize("horizontal", [True, False], ids=["along rows", "along columns"])
@pytest.mark.parametrize("reduction", [2, 4, 8])
def test_a_crop_that_begins_inside_a_reduced_pixel_shifts_nothing(
    reduction: int, horizontal: bool
) -> None:
    data = ramp(horizontal)
    for offset in range(reduction + 1):
        for flip in (False, True):
            box = (101 + offset, 101 + offset, 34 * reduction + 3, 34 * reduction + 3, 34)
            exact = hr.functional.resized_crop(data, *box, hflip=flip).astype(np.float64)
            fast = hr.functional.resized_crop(data, *box, hflip=flip, mode="fast")
            # Neighbouring pixels of the result differ by 0.4 * reduction.
            assert abs((fast - exact).mean()) < 0.04 * reduction, (offset, flip)


def test_a_crop_at_exactly_libjpegs_scale_is_libjpegs_reduced_image() -> None:
    import io

    for name, data in images.every_jpeg(128, 96).items():
        if "cmyk" in name or "ycck" in name or name.endswith(("411", "410", "422", "440")):
            continue  # Pillow's draft mode upsamples these differently, or not at all
        image = Image.open(io.BytesIO(data))
        image.draft(image.mode, (64, 48))
        found = hr.functional.resized_crop(data, 0, 0, 96, 128, (48, 64), mode="fast")
        assert np.array_equal(found, np.asarray(image.convert("RGB"))), name


def test_nearest_takes_its_pixels_from_the_full_size_image() -> None:
    data = images.jpeg(256, 192)
    box = (3, 5, 160, 200, (20, 25), "nearest")
    exact = hr.functional.resized_crop(data, *box)
    assert np.array_equal(hr.functional.resized_crop(data, *box, mode="fast"), exact)


def test_pngs_and_decodes_without_resize_are_exact_in_fast_mode_too() -> None:
    for data in (images.every_png(70, 50) | images.every_jpeg(70, 50)).values():
        fast = hr.functional.decode(data, mode="fast")
        assert np.array_equal(fast, hr.functional.decode(data))


def test_the_loader_gives_the_functions_pixels_with_and_without_seek_points(
    tmp_path: Path,
) -> None:
    files = {f"a/{name}.jpg": data for name, data in images.every_jpeg(300, 260).items()}
    folder = images.write_tree(tmp_path / "folder", files)
    steps = [
        {"name": "Crop", "top": 13, "left": 21, "height": 200, "width": 270},
        {"name": "Resize", "size": [40, 50], "interpolation": "bilinear"},
    ]
    hr.pack(folder, tmp_path / "seek.hr")
    hr.pack(folder, tmp_path / "plain.hr", seek=False)
    assert hr.Dataset(tmp_path / "seek.hr").info["seek_bytes"] > 0
    for source in ("folder", "seek.hr", "plain.hr"):
        with hr.Loader(
            tmp_path / source,
            len(files),
            transform=steps,
            dtype="uint8",
            mode="fast",
            layout="NHWC",
            output="numpy",
        ) as loader:
            [(batch, _)] = list(loader)
        for name, image in zip(sorted(files), batch, strict=True):
            expected = hr.functional.resized_crop(
                files[name], 13, 21, 200, 270, (40, 50), mode="fast"
            )
            assert np.array_equal(image, expected), (source, name)


PROGRAM = """
import sys, hashlib
sys.path.insert(0, sys.argv[1])
import headrace as hr, images
found = hashlib.sha256()
for name, data in images.every_jpeg(230, 190).items():
    for size in ((20, 22), (41, 50), (90, 100), (200, 260)):
        for kind in ("bilinear", "bicubic", "lanczos", "box"):
            found.update(hr.functional.resized_crop(data, 5, 7, 180, 215, size, kind, mode="fast"))
print(found.hexdigest())
"""


@pytest.mark.slow
def test_fast_pixels_do_not_depend_on_the_instruction_set() -> None:
    answers = set()
    # The first variable is ours, the second is libjpeg-turbo's own switch.
    for setting in ({}, {"HEADRACE_SIMD": "scalar"}, {"JSIMD_FORCENONE": "1"}):
        answers.add(
            subprocess.run(
                [sys.executable, "-c", PROGRAM, str(Path(images.__file__).parent)],
                env=os.environ | setting,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
    assert len(answers) == 1
