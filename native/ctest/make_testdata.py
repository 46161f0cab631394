"""Writes the WebP, BMP, GIF and TIFF files that mutate.c and the fuzzer start from.

python native/ctest/make_testdata.py, with tests/ on PYTHONPATH
"""

from __future__ import annotations

import itertools
from pathlib import Path

import other_formats

EACH, MOST_BYTES = 16, 1500
TO = Path(__file__).with_name("testdata")

for kind in other_formats.KINDS:
    small = (data for data in other_formats.variants(kind, 8) if len(data) <= MOST_BYTES)
    for number, data in enumerate(itertools.islice(small, EACH)):
        (TO / f"{number:02}.{kind}").write_bytes(data)
