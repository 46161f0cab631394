"""Cuts the photographs that scikit-image and scikit-learn ship into a few thousand JPEG files.

The files have the size, weight and chroma samplings of ImageNet's training photographs (median
187,000 pixels, about 110 kB, 76 % 4:4:4, 20 % 4:2:0, some grey), so that the demo and the
benchmarks do ordinary work without a download. There is one class folder for each subject. Every
file is a pure function of its number. This program knows nothing of Headrace.
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
import shutil
import statistics
import sys
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

# (class, the package's file). Two views of one motorcycle make one class.
SUBJECTS = [
    ("astronaut", "astronaut.png"),
    ("brick", "brick.png"),
    ("cat", "chelsea.png"),
    ("coffee", "coffee.png"),
    ("flower", "flower.jpg"),
    ("galaxies", "hubble_deep_field.jpg"),
    ("grass", "grass.png"),
    ("gravel", "gravel.png"),
    ("motorcycle", "motorcycle_left.png"),
    ("motorcycle", "motorcycle_right.png"),
    ("rocket", "rocket.jpg"),
    ("temple", "china.jpg"),
]
# The sizes of ImageNet: the long side of most images is 500, and some are larger.
SIZES = [(500, 375)] * 9 + [(375, 500)] * 3 + [(500, 333)] * 3
SIZES += [(333, 500), (500, 400), (400, 400), (640, 480), (800, 600)]
# Pillow's `subsampling` for a file, in ImageNet's shares; None is a grey file.
SAMPLINGS: list[tuple[int | None, float]] = [(0, 0.76), (2, 0.20), (1, 0.02), (None, 0.02)]
QUALITIES = [91, 93, 95, 96]


@functools.cache
def shipped(name: str) -> Image.Image:
    """Returns one photograph as its package installed it."""
    import skimage
    import sklearn

    for folder in (
        Path(skimage.__file__).parent / "data",
        Path(sklearn.__file__).parent / "datasets" / "images",
    ):
        if (folder / name).exists():
            return Image.open(folder / name).convert("RGB")
    raise SystemExit(f"demo_photographs: neither scikit-image nor scikit-learn ships {name} here.")


def cut(task: tuple[int, str]) -> tuple[int, int, int]:
    """Writes file number `task[0]` below `task[1]`; returns its pixels, bytes and sampling."""
    number, folder = task
    random = np.random.default_rng([2012, number])
    subject, name = SUBJECTS[number % len(SUBJECTS)]
    photograph = shipped(name)

    width, height = SIZES[random.integers(len(SIZES))]
    # This is a window of the target's shape, between half of what fits and all of it.
    fits = min(photograph.width / width, photograph.height / height) * random.uniform(0.7, 1.0)
    w, h = int(width * fits), int(height * fits)
    left = int(random.integers(photograph.width - w + 1))
    top = int(random.integers(photograph.height - h + 1))
    picture = photograph.crop((left, top, left + w, top + h)).resize(
        (width, height), Image.Resampling.LANCZOS
    )
    if random.random() < 0.5:
        picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    picture = ImageEnhance.Brightness(picture).enhance(random.uniform(0.8, 1.2))
    picture = ImageEnhance.Color(picture).enhance(random.uniform(0.7, 1.3))

    kind = int(random.choice(len(SAMPLINGS), p=[share for _, share in SAMPLINGS]))
    subsampling = SAMPLINGS[kind][0]
    # This adds sensor noise: enlarged windows would be smoother than photographs, and cheaper to
    # decode.
    grain = random.standard_normal((height, width, 3), dtype=np.float32)
    grain = 1.5 * grain + 3.0 * grain[::-1, :, :1]  # mostly brightness, a little colour
    picture = Image.fromarray(np.clip(np.asarray(picture) + grain, 0, 255).astype(np.uint8))

    path = Path(folder) / subject / f"{subject}_{number:05d}.jpg"
    options = {} if subsampling is None else {"subsampling": subsampling}
    if subsampling is None:
        picture = picture.convert("L")
    picture.save(path, "JPEG", quality=int(random.choice(QUALITIES)), **options)
    return width * height, path.stat().st_size, kind


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=3000)
    arguments = parser.parse_args()
    folder: Path = arguments.folder

    present = sum(1 for _ in folder.glob("*/*.jpg"))
    if present == arguments.count:
        print(f"{folder} already holds {present} photographs.")
        return

    # The folder is made beside its place and renamed, so that an interrupted run leaves no
    # half-filled folder.
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    for subject, _ in SUBJECTS:
        (part / subject).mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        facts = pool.map(
            cut, [(number, str(part)) for number in range(arguments.count)], chunksize=32
        )
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)

    pixels, sizes, kinds = zip(*facts, strict=True)
    shares = ", ".join(
        f"{100 * kinds.count(kind) / len(kinds):.0f} % {label}"
        for kind, label in enumerate(("4:4:4", "4:2:0", "4:2:2", "grey"))
    )
    print(
        f"Cut {len(sizes):,} photographs out of those that two packages ship: {folder}, median "
        f"{statistics.median(pixels):,.0f} pixels, mean {statistics.mean(sizes) / 1000:,.0f} kB, "
        f"{shares}."
    )


if __name__ == "__main__":
    sys.exit(main())
