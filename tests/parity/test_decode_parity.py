"""A decoded image is Pillow's convert("RGB"), byte for byte."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headrace as hr
import images

# One pixel, one row, one column, less than an MCU, edges inside an MCU, whole MCUs.
SIZES = [(1, 1), (2, 1), (1, 9), (7, 5), (17, 33), (64, 48), (131, 67)]


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_kind_of_jpeg_decodes_to_pillows_bytes(size: tuple[int, int]) -> None:
    differing = [
        name
        for name, data in images.every_jpeg(*size).items()
        if not np.array_equal(hr.functional.decode(data), pillow(data))
    ]
    assert differing == []


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_every_kind_of_png_decodes_to_pillows_bytes(size: tuple[int, int]) -> None:
    differing = [
        name
        for name, data in images.every_png(*size).items()
        if not np.array_equal(hr.functional.decode(data), pillow(data))
    ]
    assert differing == []


@pytest.mark.parametrize("progressive", [False, True])
def test_bytes_after_the_end_marker_are_ignored_and_only_the_marker_may_be_missing(
    progressive: bool,
) -> None:
    """Pillow refuses a JPEG without its whole end marker, although all of its pixels are there."""
    photo, file = Image.fromarray(pillow(images.jpeg(64, 48))), io.BytesIO()
    photo.save(file, "JPEG", progressive=progressive)
    whole = file.getvalue()
    pixels = pillow(whole)
    for more in (b"junk", bytes(100), b"\xff\xd8\xff", whole):
        assert np.array_equal(hr.functional.decode(whole + more), pixels)
        assert np.array_equal(pillow(whole + more), pixels)
    for cut in (1, 2):
        with pytest.raises(OSError, match="truncated"):
            pillow(whole[:-cut])
        assert np.array_equal(hr.functional.decode(whole[:-cut]), pixels)
    for cut in (3, 10, 100):
        with pytest.raises(OSError, match="truncated"):
            pillow(whole[:-cut])
        with pytest.raises(hr.errors.TruncatedError):
            hr.functional.decode(whole[:-cut])
    png = images.png(64, 48, 2)
    for other in (png + b"junk", png[:-1], png[:-12]):  # IEND has 12 bytes
        assert np.array_equal(hr.functional.decode(other), pillow(png))
        assert np.array_equal(pillow(other), pillow(png))


def _opens(decode: Callable[[bytes], np.ndarray], data: bytes) -> bool:
    """Whether it decodes. Pixels of undamaged files are compared in other tests."""
    try:
        decode(data)
    except (OSError, hr.errors.BadImageError, hr.errors.TruncatedError):
        return False
    return True


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:0", "4:1:1"])
@pytest.mark.parametrize("restart", [0, 3])
def test_a_jpeg_damaged_anywhere_after_its_header_is_refused_if_pillow_refuses_it(
    sampling: str, restart: int
) -> None:
    """Also after its last pixel, up to which the decoder of a crop need not read."""
    whole = images.jpeg(70, 50, sampling, restart=restart)
    scan = whole.index(b"\xff\xda") + 14
    places = [*range(scan, len(whole) - 14, 37), *range(len(whole) - 24, len(whole) - 14)]
    damaged = [
        whole[:at] + b"\xff" + bytes([marker]) + whole[at + 2 :]
        for at in places
        for marker in (0xD8, 0xDA, 0xC0, 0xE1, 0x8B, 0x01, 0xD3)
    ]
    # In these nothing is missing; some are refused all the same.
    for more in (b"\xff\xd8", b"\xff\x8b", b"\xff\xda\0\2", b"\xff\x01", b"\0junk", b"\xff" * 9):
        damaged.append(whole[:-2] + more + whole[-2:])
    refused = [not _opens(pillow, data) for data in damaged]
    assert 20 < sum(refused) < len(damaged) - 20
    assert [not _opens(hr.functional.decode, data) for data in damaged] == refused
    for data, bad in zip(damaged, refused, strict=True):
        if not bad:
            assert np.array_equal(hr.functional.decode(data), pillow(data))


def test_a_jpeg_damaged_after_its_last_pixel_has_one_verdict_in_a_folder_and_packed(
    tmp_path: Path,
) -> None:
    """A crop that stops before the last row does not see the damage in a folder."""
    whole = images.jpeg(64, 48)
    folder = images.write_tree(tmp_path, {"c/a.jpg": whole[:-2] + b"\xff\xd8" + whole[-2:]})
    with hr.Dataset(folder) as dataset, pytest.raises(hr.errors.BadImageError, match="two SOI"):
        dataset[0]
    top = hr.functional.resized_crop((folder / "c/a.jpg").read_bytes(), 0, 0, 16, 64, (16, 64))
    assert np.array_equal(top, pillow(whole)[:16])
    hr.pack(folder, tmp_path / "d.hr")
    with hr.Dataset(tmp_path / "d.hr") as dataset, pytest.raises(hr.errors.BadImageError):
        dataset[0]


def test_a_palette_before_the_header_of_a_png_is_ignored() -> None:
    """As in Pillow; of two headers the last one counts."""
    file = images.png(40, 30, 3)
    size = 8 + 25
    palette = file[size : size + 12 + 768]
    assert palette[4:8] == b"PLTE"
    moved = file[:8] + palette + file[8:size] + file[size + len(palette) :]
    with pytest.raises(hr.errors.BadImageError, match="palette colours without PLTE"):
        hr.functional.decode(moved)
    twice = images.png(40, 30, 2)
    twice = twice[:8] + images.png(7, 5, 0)[8:33] + twice[8:]
    assert np.array_equal(hr.functional.decode(twice), pillow(twice))


def test_a_files_type_is_known_by_its_content_whatever_its_name(tmp_path) -> None:
    disguised = images.png(40, 30, 2)
    images.write_tree(tmp_path, {"a/photo.JPEG": disguised, "a/scan.png": images.jpeg(40, 30)})
    dataset = hr.Dataset(tmp_path)
    assert np.array_equal(dataset[0].image, pillow(disguised))
    assert np.array_equal(dataset[1].image, pillow(images.jpeg(40, 30)))


def test_a_png_with_a_wrong_checksum_of_its_pixels_is_refused_although_pillow_reads_it() -> None:
    whole = images.png(64, 48, 2)
    place = whole.index(b"IDAT")
    end = place + 4 + int.from_bytes(whole[place - 4 : place], "big")
    damaged = whole[:end] + bytes([whole[end] ^ 1]) + whole[end + 1 :]
    assert np.array_equal(pillow(damaged), pillow(whole))
    with pytest.raises(hr.errors.BadImageError, match="IDAT does not match its checksum"):
        hr.functional.decode(damaged)
