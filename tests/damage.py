"""Randomly damaged files, the results of Headrace and Pillow for each, and why they differ if so.

``parity/test_verdicts.py`` needs a reason for every difference; ``bench/verdicts.py`` counts them.
"""

from __future__ import annotations

import functools
import io
import itertools
import random
import re
import struct
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, PngImagePlugin

import headrace as hr
import images
import other_formats
from headrace import errors

FORMATS = ("jpeg", "png", "ppm", *other_formats.KINDS)
MAX_PIXELS = 1_000_000  # a damaged header may claim anything; both refuse a larger image

Answer = NDArray[np.uint8] | Exception


def ours(data: bytes) -> Answer:
    try:
        return hr.functional.decode(data, limits={"max_pixels": MAX_PIXELS})
    except errors.InternalError:
        raise
    except errors.HeadraceError as error:
        return error


def pillows(data: bytes) -> Answer:
    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = MAX_PIXELS // 2  # beyond twice the limit it is an error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        return error
    finally:
        Image.MAX_IMAGE_PIXELS = before


# ---- files ---------------------------------------------------------------------------------------


def _with_metadata(kind: str) -> bytes:
    file, photo = io.BytesIO(), Image.fromarray(images.pixels(37, 29))
    if kind == "JPEG":
        photo.save(file, kind, icc_profile=bytes(100), comment=b"said", dpi=(72, 72))
    else:
        texts = PngImagePlugin.PngInfo()
        texts.add_text("a", "b" * 50)
        texts.add_itxt("c", "d")
        texts.add_text("e", "f" * 300, zip=True)
        photo.save(file, kind, pnginfo=texts, icc_profile=bytes(100), gamma=0.45, dpi=(72, 72))
    return file.getvalue()


def whole(kind: str) -> list[bytes]:
    """Files of every kind of this format."""
    if kind == "jpeg":
        return [*images.every_jpeg(37, 29).values(), _with_metadata("JPEG")]
    if kind == "png":
        return [*images.every_png(37, 29).values(), _with_metadata("PNG")]
    if kind in other_formats.KINDS:
        found = (
            data for data in other_formats.variants(kind, 5) if isinstance(ours(data), np.ndarray)
        )
        return list(itertools.islice(found, 60))
    colours = images.pixels(37, 29).tobytes()
    return [b"P6\n37 29\n255\n" + colours, b"P5 # grey\n37 29 255 " + colours[: 37 * 29]]


def segments(data: bytes) -> list[tuple[int, int]]:
    """First byte of each marker segment of a JPEG, and the byte after its end."""
    found, at = [], 2
    while at + 4 <= len(data):
        if data[at] != 0xFF or data[at + 1] == 0xFF:
            at += 1
        elif data[at + 1] < 0xC0 or 0xD0 <= data[at + 1] <= 0xD9:
            at += 2
        else:
            end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
            found.append((at, min(end, len(data))))
            at = max(end, at + 4)
    return found


def chunks(data: bytes) -> list[tuple[int, int]]:
    """The same for a PNG's chunks, as far as they are complete."""
    found, at = [], 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if end > len(data):
            break
        found.append((at, end))
        at = end
    return found


# ---- damage --------------------------------------------------------------------------------------

MARKERS = b"\xd0\xd3\xd7\xd8\xd9\xda\xc0\xc2\xc4\xdb\xdd\xe1\xfe"
KINDS = ("bit", "byte", "extreme", "cut", "delete", "repeat", "copy", "marker", "insert", "append")
PART_KINDS = ("drop part", "double part", "swap parts")


def damage_once(chance: random.Random, data: bytes, parts: list[tuple[int, int]]) -> bytes:
    kind = chance.choice(KINDS + PART_KINDS)
    # Headers are short and matter most.
    at = chance.randrange(min(len(data), 700) if chance.random() < 0.5 else len(data))
    run, made = chance.randrange(1, 41), bytearray(data)
    if kind == "bit":
        made[at] ^= 1 << chance.randrange(8)
    elif kind == "byte":
        made[at] = chance.randrange(256)
    elif kind == "extreme":
        made[at] = chance.choice(b"\x00\x01\x7f\x80\xfe\xff")
    elif kind == "cut":
        del made[at + 1 :]
    elif kind == "delete":
        del made[at : at + run]
    elif kind == "repeat":
        made[at:at] = made[at : at + run]
    elif kind == "copy":
        start = chance.randrange(len(made))
        made[at : at + run] = made[start : start + run]
    elif kind == "marker":
        made[at : at + 2] = bytes([0xFF, chance.choice(MARKERS)])
    elif kind in ("insert", "append"):
        place = at if kind == "insert" else len(made)
        made[place:place] = chance.randbytes(run)
    elif parts:
        (first, end), (other, other_end) = sorted(chance.choices(parts, k=2))
        if kind == "drop part":
            del made[first:end]
        elif kind == "double part":
            made[end:end] = made[first:end]
        elif end <= other:
            made[first:other_end] = made[other:other_end] + made[end:other] + made[first:end]
    return bytes(made)


def _mended(png: bytes) -> bytes:
    """The file with correct checksums, so that the damage gets past them."""
    made = bytearray(png)
    for first, end in chunks(png):
        made[end - 4 : end] = struct.pack(">I", zlib.crc32(made[first + 4 : end - 4]))
    return bytes(made)


def damaged(kind: str, seed: int) -> Iterator[bytes]:
    """An endless stream of damaged files."""
    chance, files = random.Random(seed), whole(kind)
    while True:
        data = chance.choice(files)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            parts = {"jpeg": segments, "png": chunks}.get(kind, lambda _: [])(data)
            if len(data) > 8:
                data = damage_once(chance, data, parts)
        if kind == "png" and chance.random() < 0.6:
            data = _mended(data)
        yield data


# ---- differences ---------------------------------------------------------------------------------


def _scans(data: bytes) -> tuple[list[bytes], bool]:
    """Bodies of the scan headers before the end marker, and whether there is an end marker."""
    found, at = [], 2
    while (at := data.find(b"\xff", at)) >= 0 and at + 4 <= len(data):
        marker = data[at + 1]
        if marker == 0xD9:
            return found, True
        if marker == 0xFF:
            at += 1
        elif marker < 0xC0 or 0xD0 <= marker <= 0xD8:
            at += 2
        else:
            end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
            if marker == 0xDA:
                found.append(data[at + 4 : end])
            at = max(end, at + 4)
    return found, at >= 0 and data[at : at + 2] == b"\xff\xd9"


def _incomplete(data: bytes) -> bool:
    """Whether a progressive JPEG's scans leave the last bit of a coefficient out."""
    frame = re.search(rb"\xff[\xc2\xca]..\x08....(.)", data, re.DOTALL)
    if frame is None:
        return False
    at, places = frame.end(), {}
    for number in range(frame[1][0]):
        places |= {(data[at + 3 * number], k): None for k in range(64)}
    for body in _scans(data)[0]:
        if len(body) != 4 + 2 * body[0]:
            continue
        first, last, bits = body[-3:]
        for component in body[1:-3:2]:
            for k in range(first, min(last, 63) + 1):
                places[component, k] = bits & 15
    return any(bit != 0 for bit in places.values())


@functools.cache
def has_old_libjpeg() -> bool:
    """Whether the engine is linked with a libjpeg-turbo below 3, which decodes no lossless JPEG.

    It smooths over missing scans differently from the one in Pillow's wheel.
    """
    lossless = Path(__file__).parents[1] / "native/ctest/testdata/lossless-1-grey.jpg"
    try:
        hr.functional.decode(lossless.read_bytes())
    except errors.UnsupportedError:
        return True
    return False


def _reason_of_jpeg(data: bytes, we: Answer, they: Answer) -> str | None:
    if isinstance(we, Exception):
        # Without any scan before it Pillow would have no pixels either.
        cut = "the file is truncated in segment" in str(we)
        return "we: cut in a segment behind a scan" if cut else None
    if isinstance(they, Exception):
        if "truncated" in str(they) and not _scans(data)[1]:
            return "Pillow: no end marker"
        scan = data.index(b"\xff\xda")
        parts = [(0, 2), *(part for part in segments(data) if part[0] < scan), (scan, scan)]
        between = b"".join(data[a[1] : b[0] + 1] for a, b in itertools.pairwise(parts))
        unread = isinstance(they, Image.UnidentifiedImageError)
        none = re.search(b"\xff[\x01-\xbf]", between)
        return "Pillow: a marker that is none between segments" if unread and none else None
    excused = has_old_libjpeg() and _incomplete(data)
    return "pixels: progressive, incomplete" if excused else None


def _reason_of_png(data: bytes, we: Answer, they: Answer) -> str | None:
    if isinstance(we, Exception):
        for words, reason in (
            ("IDAT does not match its checksum", "we: checksum of IDAT"),
            ("palette colours without PLTE", "we: no palette"),
            ("compression method", "we: no such method"),
            ("image data ends before the last row", "we: rows missing"),
            ("image data without IHDR", "we: image data before the header"),
        ):
            if words in str(we):
                return reason
        twice = "IHDR says" in str(we) and data.count(b"IHDR") > 1
        return "we: a second header that is none" if twice else None
    if not isinstance(they, Exception):
        return None
    if re.search("Truncated File Read|broken PNG file", str(they)):
        return "Pillow: cut or damaged behind the last row"
    ancillary = re.search(r"chunk|compress|MAX_TEXT|APNG", str(they))
    identified = not isinstance(they, Image.UnidentifiedImageError)
    small = any(data[a + 4 : a + 8] in (b"iCCP", b"fdAT", b"fcTL") for a, _ in chunks(data))
    return "Pillow: a chunk without pixels" if (ancillary and identified) or small else None


def _reason_of_tiff(data: bytes, we: Answer, they: Answer) -> str | None:
    if isinstance(we, Exception):
        said = re.search(
            "values of field|in its directory|in strip|ends too early|lengths of strips", str(we)
        )
        return "we: a field or a strip is cut that Pillow does without" if said else None
    if isinstance(they, Image.UnidentifiedImageError):
        return "Pillow: a field without pixels"
    refused = isinstance(they, OSError) and "decoder error" in str(they)
    return "Pillow: libtiff refuses the strips" if refused else None


def reason(kind: str, data: bytes, we: Answer, they: Answer) -> str | None:
    """The reason why two answers differ; None if it is not known."""
    if kind == "jpeg":
        return _reason_of_jpeg(data, we, they)
    if kind == "png":
        return _reason_of_png(data, we, they)
    if kind in other_formats.KINDS and isinstance(we, errors.UnsupportedError):
        return "we: a kind that is not read"
    if kind == "tiff":
        return _reason_of_tiff(data, we, they)
    if isinstance(they, Exception):
        return None
    if isinstance(we, errors.UnsupportedError):
        return "we: another largest value, or another kind of Netpbm"
    return "we: a number with a sign" if "is no number" in str(we) else None


def difference(kind: str, data: bytes) -> str | None:
    """ "" if both give the same pixels or none, else the reason, or None if it is not known."""
    we, they = ours(data), pillows(data)
    if isinstance(we, Exception) and isinstance(they, Exception):
        return ""
    given = not isinstance(we, Exception) and not isinstance(they, Exception)
    if given and np.array_equal(we, they):
        return ""
    return reason(kind, data, we, they)
