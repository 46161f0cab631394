"""Writes the files that mutate.c and the fuzzer start from: WebP, BMP, GIF, TIFF and lossless JPEG.

python native/ctest/make_testdata.py, with tests/ on PYTHONPATH

Lossless JPEGs are by the libjpeg-turbo 3 that tools/codecs.sh has built; their pixels are those of
``images.pixels`` for the width, height and channels.
"""

from __future__ import annotations

import itertools
import subprocess
import tempfile
from pathlib import Path

import images
import other_formats

EACH, MOST_BYTES = 16, 1500
TO = Path(__file__).with_name("testdata")
ROOT = Path(__file__).resolve().parents[2]

for kind in other_formats.KINDS:
    small = (data for data in other_formats.variants(kind, 8) if len(data) <= MOST_BYTES)
    for number, data in enumerate(itertools.islice(small, EACH)):
        (TO / f"{number:02}.{kind}").write_bytes(data)

# Predictor, colours, rows between restart markers, one scan or one for each component.
LOSSLESS = [
    *((predictor, colour, rows, ()) for predictor in range(1, 8) for colour, rows in
      (("grey", 0), ("rgb", 0), ("rgb", 5))),
    (1, "cmyk", 0, ()), (4, "rgb", 0, ("scans",)), (6, "cmyk", 3, ("scans",)),
]  # fmt: skip
WIDTH, HEIGHT, CHANNELS = 19, 13, {"grey": 1, "rgb": 3, "cmyk": 4}

with tempfile.TemporaryDirectory() as place:
    encode, codecs = Path(place) / "encode", ROOT / ".build/codecs"
    source = ["-I", codecs / "include", ROOT / "tests/encode_jpeg.c", codecs / "lib/libjpeg.a"]
    subprocess.run(["gcc", "-O1", *source, "-o", encode], check=True)
    for predictor, colour, rows, scans in LOSSLESS:
        factors = ",".join(["1x1"] * CHANNELS[colour])
        command = [encode, WIDTH, HEIGHT, colour, 100, factors, rows * WIDTH]
        made = subprocess.run(
            [*map(str, command), "lossless", str(predictor), *scans],
            input=images.pixels(WIDTH, HEIGHT, CHANNELS[colour]).tobytes(),
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        name = "-".join(
            ["lossless", str(predictor), colour, *(["restart"] if rows else []), *scans]
        )
        (TO / f"{name}.jpg").write_bytes(made)
