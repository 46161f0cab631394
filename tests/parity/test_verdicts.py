"""Where a file's verdict differs from Pillow's, docs/exactness.md gives the reason."""

from __future__ import annotations

import io
import itertools
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image, ImageFile

import damage
import headrace as hr
import images
import slow_images
from headrace import errors


@pytest.mark.parametrize("kind", damage.FORMATS)
def test_damaged_files_have_pillows_verdict_and_pixels_but_for_known_reasons(kind: str) -> None:
    files = list(itertools.islice(damage.damaged(kind, 1), 600))
    found = [damage.difference(kind, data) for data in files]
    assert [at for at, why in enumerate(found) if why is None] == []
    # The damage is mild enough that some files are still read, and few verdicts differ.
    assert sum(not isinstance(damage.pillows(data), Exception) for data in files) > 60
    # For TIFF one in 40 differs: Pillow reads files with much of the directory missing.
    assert sum(why != "" for why in found) < (30 if kind == "tiff" else 15)


def with_chunk(kind: bytes, body: bytes) -> bytes:
    """A PNG with this chunk after its header."""
    png = images.png(20, 10, 2)
    chunk = struct.pack(">I", len(body)) + kind + body
    return png[:33] + chunk + struct.pack(">I", zlib.crc32(kind + body)) + png[33:]


def with_rows(count: int) -> bytes:
    """A PNG of ten rows whose stream properly ends after ``count`` rows."""
    stream = zlib.compress((b"\0" + bytes(60)) * count)
    data = struct.pack(">I", len(stream)) + b"IDAT" + stream
    png = images.png(20, 10, 2)
    return png[:33] + data + struct.pack(">I", zlib.crc32(data[4:])) + png[-12:]


# Files that only Pillow gives pixels of.
ONLY_PILLOW: dict[str, tuple[Callable[[], bytes], type[Exception]]] = {
    "more scans than max_scans": (
        lambda: slow_images.empty_scans(16, 16, scans=101),
        errors.LimitError,
    ),
    "image data much longer than its rows": (
        lambda: slow_images.png(1, 1, data=stored_blocks(300_000)),
        errors.LimitError,
    ),
    "another largest value": (lambda: b"P5 2 1 254 ab", errors.UnsupportedError),
    "another kind of Netpbm": (lambda: b"P3 1 1 255 1 2 3 ", errors.UnsupportedError),
    "a number with a sign": (lambda: b"P5 +2 1 255 ab", errors.BadImageError),
    "rows missing": (lambda: with_rows(5), errors.TruncatedError),
    "checksum of IDAT": (
        lambda: images.png(20, 10, 2)[:-13] + b"\0" + images.png(20, 10, 2)[-12:],
        errors.BadImageError,
    ),
    "no palette": (
        lambda: images.png(20, 10, 3, 1)[:33] + images.png(20, 10, 3, 1)[51:],
        errors.BadImageError,
    ),
}

# Files that only Headrace gives pixels of.
ONLY_HEADRACE: dict[str, Callable[[], bytes]] = {
    "no end marker": lambda: images.jpeg(40, 30)[:-2],
    "a marker that is none between two segments": lambda: (
        images.jpeg(40, 30)[:20] + b"\xff\x01" + images.jpeg(40, 30)[20:]
    ),
    "short gAMA": lambda: with_chunk(b"gAMA", b"\0"),
    "short tRNS of true colour": lambda: with_chunk(b"tRNS", b"\0"),
    "short animation control": lambda: with_chunk(b"acTL", b"\0"),
    "profile of another compression": lambda: with_chunk(b"iCCP", b"a\0\1xx"),
    "frame data before any": lambda: with_chunk(b"fdAT", b"abcd"),
    "a megabyte of compressed text": lambda: with_chunk(
        b"zTXt", b"a\0\0" + zlib.compress(bytes((1 << 20) + 1))
    ),
}


def stored_blocks(count: int) -> bytes:
    """A zlib stream of nine bytes of rows, after ``count`` empty blocks."""
    last = b"\1\x09\0\xf6\xff" + bytes(9) + struct.pack(">I", zlib.adler32(bytes(9)))
    return b"\x78\x01" + b"\0\0\0\xff\xff" * count + last


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("name", ONLY_PILLOW)
def test_files_that_only_pillow_reads_are_refused_with_the_reason(name: str) -> None:
    make, error = ONLY_PILLOW[name]
    data = make()
    assert pillow(data).ndim == 3
    with pytest.raises(error):
        hr.functional.decode(data)


@pytest.mark.parametrize("name", ONLY_HEADRACE)
def test_files_that_only_headrace_reads_have_all_of_their_pixels(name: str) -> None:
    data = ONLY_HEADRACE[name]()
    with pytest.raises((OSError, ValueError)):
        pillow(data)
    plain = images.jpeg(40, 30) if data[:2] == b"\xff\xd8" else images.png(20, 10, 2)
    assert np.array_equal(hr.functional.decode(data), pillow(plain))


def test_truncated_files_stay_errors_also_if_pillow_is_told_to_load_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for data in (images.jpeg(64, 48)[:-300], images.png(20, 10, 2)[:-100]):
        assert pillow(data).ndim == 3
        with pytest.raises(errors.TruncatedError):
            hr.functional.decode(data)


def test_an_image_for_which_pillow_warns_of_a_decompression_bomb_is_refused() -> None:
    """Pillow warns beyond its limit, and refuses beyond twice the limit."""
    data = images.png(100, 100, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image, "MAX_IMAGE_PIXELS", 9_999)
        with pytest.warns(Image.DecompressionBombWarning):
            pillow(data)
    with pytest.raises(errors.LimitError):
        hr.functional.decode(data, limits={"max_pixels": 9_999})
