"""Hostile WebP, BMP, GIF and TIFF files: truncated anywhere, with false sizes, or endless."""

from __future__ import annotations

import itertools
import struct
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import damage
import headrace as hr
import images
import other_formats
import timing
import versions
from headrace import errors

KINDS = other_formats.KINDS
REFUSALS = (errors.BadImageError, errors.TruncatedError, errors.UnsupportedError)


def good(kind: str, count: int, seed: int = 11) -> list[bytes]:
    """Files of different kinds that decode, each of a few hundred bytes."""
    found = (
        data
        for data in other_formats.variants(kind, seed)
        if 200 < len(data) < 1500 and not isinstance(damage.ours(data), Exception)
    )
    return list(itertools.islice(found, count))


@pytest.mark.parametrize("kind", [versions.BMP, *(kind for kind in KINDS if kind != "bmp")])
def test_a_file_truncated_at_any_byte_is_refused_or_has_pillows_pixels(kind: str) -> None:
    said = 0
    for data in good(kind, 12):
        for length in range(len(data)):
            we = damage.ours(data[:length])
            if isinstance(we, Exception):
                assert isinstance(we, REFUSALS), (length, we)
                truncated = isinstance(we, errors.TruncatedError)
                said += truncated
                if truncated and we.offset is not None:
                    assert we.offset <= length
                continue
            they = damage.pillows(data[:length])
            assert isinstance(they, np.ndarray), (length, they)
            assert np.array_equal(we, they), length
    assert said > 1000  # most of them, with this message


@pytest.mark.filterwarnings("ignore:.*are damaged or unsupported images")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_truncated_at_any_byte_is_an_error_of_its_sample_in_a_loader(
    kind: str, tmp_path: Path
) -> None:
    """Every sample is delivered or named, also after a bad one."""
    (data,) = good(kind, 1, seed=12)
    with hr.Writer(tmp_path / "set") as writer:
        for length in range(1, len(data) + 1):
            writer.add(data[:length], label=length)
    steps, delivered, named = [hr.transforms.Resize((5, 4))], [], []
    with hr.Loader(hr.Dataset(tmp_path / "set"), 1, transform=steps, shuffle=False) as loader:
        iteration = iter(loader)
        while True:
            try:
                _, labels = next(iteration)
            except StopIteration:
                break
            except REFUSALS as failure:
                named.append(failure.record + 1)
            else:
                delivered += labels.tolist()
    assert sorted(delivered + named) == list(range(1, len(data) + 1))
    assert len(data) in delivered


def claiming(kind: str, width: int, height: int) -> bytes:
    """A header with that size, and almost no data."""
    if kind == "webp":  # lossless, whose sides have 14 bits
        body = b"\x2f" + struct.pack("<I", width - 1 | height - 1 << 14) + bytes(20)
        chunk = b"VP8L" + struct.pack("<I", len(body)) + body + b"\0"
        return b"RIFF" + struct.pack("<I", 4 + len(chunk)) + b"WEBP" + chunk
    if kind == "bmp":
        head = struct.pack("<IiiHHIIIIII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
        return b"BM" + struct.pack("<IHHI", 0, 0, 0, 54) + head + bytes(30)
    if kind == "gif":
        screen = struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6)
        frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)
        return b"GIF89a" + screen + frame + b"\x02\x02\x44\x01\x00;"
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, [8] * 3), 259: (3, [8]),
            262: (3, [2]), 277: (3, [3]), 278: (4, [height]), 279: (4, [20])}  # fmt: skip
    return other_formats.tiff_of(tags, [zlib.compress(bytes(40))], "<")


@pytest.mark.parametrize("kind", KINDS)
def test_a_header_that_claims_too_many_pixels_is_a_limit_error_at_every_entry_point(
    kind: str, tmp_path: Path
) -> None:
    data = claiming(kind, 16_000, 16_000)
    with pytest.raises(errors.LimitError, match=r"16000 x 16000 pixels.*max_pixels is"):
        hr.functional.decode(data)
    with pytest.raises(errors.LimitError, match="max_pixels is"):
        hr.functional.resized_crop(data, 0, 0, 4, 4, (4, 4))
    folder = images.write_tree(tmp_path / "in", {"c/a.png": data})
    made = hr.pack(folder, tmp_path / "out")
    assert [fault["verdict"] for fault in made["faults"]["listed"]] == ["limit"]
    steps = [hr.transforms.Resize((4, 4))]
    for place in (folder, tmp_path / "out"):
        with (
            hr.Loader(hr.Dataset(place), transform=steps) as loader,
            pytest.raises(errors.LimitError, match="max_pixels is"),
        ):
            next(iter(loader))


@pytest.mark.parametrize("kind", KINDS)
def test_a_false_header_below_the_limit_is_refused_quickly(kind: str) -> None:
    """The header claims 81 million pixels, and data for a few are there."""
    data = claiming(kind, 9_000, 9_000)

    def refuse() -> float:
        began = time.process_time()
        with pytest.raises((*REFUSALS, errors.LimitError)):
            hr.functional.decode(data)
        return time.process_time() - began

    timing.within(1, refuse)


def decodes(data: bytes, limit: int) -> bool:
    """Whether it decodes within that many bytes; if not, the limit must be the reason."""
    try:
        hr.functional.decode(data, limits={"max_decoder_bytes": limit})
    except errors.LimitError as failure:
        return "max_decoder_bytes" not in failure.reason
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_a_decoder_holds_no_more_than_max_decoder_bytes(kind: str) -> None:
    """For each file the smallest limit with which it decodes is found; one byte less is refused."""
    for data in good(kind, 6, seed=13):
        wanted = hr.functional.decode(data)
        low, high = 1, 1 << 24
        while low < high:
            limit = (low + high) // 2
            if decodes(data, limit):
                high = limit
            else:
                low = limit + 1
        found = hr.functional.decode(data, limits={"max_decoder_bytes": low})
        assert np.array_equal(found, wanted)
        assert low >= wanted.shape[0] * wanted.shape[1]


def endless() -> dict[str, bytes]:
    """Files whose data go on long after the last pixel, or contain nothing for long."""
    many = zlib.compress(bytes(400_000_000), 9)
    tags = {256: (4, [40]), 257: (4, [30]), 258: (3, [8] * 3), 259: (3, [8]), 262: (3, [2]),
            277: (3, [3]), 278: (4, [30]), 279: (4, [len(many)])}  # fmt: skip
    screen = b"GIF89a" + struct.pack("<HHBBB", 40, 30, 0x80, 0, 0) + bytes(6)
    frame = b"," + struct.pack("<HHHHB", 0, 0, 40, 30, 0)
    clears = (b"\xff" + b"\x24" * 255) * 40_000  # codes of 3 bits: 4 clears the table
    comments = b"!\xfe" + (b"\xff" + b"x" * 255) * 40_000 + b"\0"
    head = struct.pack("<IiiHHIIIIII", 40, 40, 30, 1, 8, 1, 0, 0, 0, 256, 0)
    runs = b"\0\2\0\0" * 2_500_000  # a delta of zero
    return {
        "a TIFF whose strip inflates to 400 MB": other_formats.tiff_of(tags, [many], "<"),
        "a GIF of ten million bytes that clear the table": screen + frame + b"\2" + clears + b"\0;",
        "a GIF with ten million bytes of comments": screen + comments + frame + b"\2\2\x44\1\0;",
        "a BMP of two million steps of nothing": b"BM" + struct.pack("<IHHI", 0, 0, 0, 1078)
        + head + bytes(1024) + runs,
    }  # fmt: skip


@pytest.mark.every(3)
@pytest.mark.parametrize("name", endless())
def test_endless_data_take_two_seconds_at_most(name: str) -> None:
    data = endless()[name]

    def decode() -> float:
        began = time.process_time()
        we = damage.ours(data)
        assert isinstance(we, REFUSALS) or we.shape == (30, 40, 3)
        return time.process_time() - began

    timing.within(2, decode)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("offset", [8, 200, 2**32 - 1])
def test_a_strip_without_bytes_is_never_read_whatever_its_offset(offset: int, order: int) -> None:
    """A TIFF of LZW codes; 200 is just after the end of the file."""
    entries = {256: 8, 257: 8, 258: 8, 259: 5, 262: 1, 266: order, 273: offset, 277: 1, 278: 8}
    entries[279] = 0  # bytes of the strip
    directory = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries.items())
    data = struct.pack("<2sHIH", b"II", 42, 8, len(entries)) + directory + bytes(4)
    data += bytes(200 - len(data))
    found = damage.ours(data)
    assert isinstance(found, errors.BadImageError | errors.TruncatedError), found
