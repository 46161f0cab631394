"""A decoded image is Pillow's convert("RGB"), byte for byte."""

from __future__ import annotations

import io

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
def test_what_stands_behind_the_end_marker_is_nobodys_and_only_the_marker_may_be_cut(
    progressive: bool,
) -> None:
    """Pillow refuses a JPEG without its whole end marker; all its pixels are there, and ours."""
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


def test_a_type_is_known_by_its_content_whatever_the_file_is_called(tmp_path) -> None:
    disguised = images.png(40, 30, 2)
    images.write_tree(tmp_path, {"a/photo.JPEG": disguised, "a/scan.png": images.jpeg(40, 30)})
    dataset = hr.Dataset(tmp_path)
    assert np.array_equal(dataset[0].image, pillow(disguised))
    assert np.array_equal(dataset[1].image, pillow(images.jpeg(40, 30)))


def test_png_pixels_that_their_checksum_contradicts_are_refused_though_pillow_gives_them() -> None:
    whole = images.png(64, 48, 2)
    place = whole.index(b"IDAT")
    end = place + 4 + int.from_bytes(whole[place - 4 : place], "big")
    damaged = whole[:end] + bytes([whole[end] ^ 1]) + whole[end + 1 :]
    assert np.array_equal(pillow(damaged), pillow(whole))
    with pytest.raises(hr.errors.BadImageError, match="IDAT does not match its checksum"):
        hr.functional.decode(damaged)
