"""Lossless JPEG (SOF3) with 8 bits has Pillow's pixels, which are those that were encoded."""

from __future__ import annotations

import io
import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import cases
import damage
import headrace as hr
import images
from headrace import errors

FIXTURES = Path(__file__).parents[2] / "native/ctest/testdata"
NAMES = sorted(path.name for path in FIXTURES.glob("lossless-*.jpg"))
DRAWS = cases.some(500, of=1500)
WIDTH, HEIGHT = 19, 13  # as native/ctest/make_testdata.py writes them


def read(name: str) -> bytes:
    return (FIXTURES / name).read_bytes()


@pytest.fixture(autouse=True)
def _needs_libjpeg_turbo_3() -> None:
    """Skips with an older libjpeg-turbo, which a build may use and which decodes no lossless
    JPEG."""
    try:
        hr.functional.decode(read("lossless-1-grey.jpg"))
    except errors.UnsupportedError as error:
        if "SOF3" not in str(error):  # libjpeg-turbo 2's answer, by error.c
            raise
        pytest.skip("linked with libjpeg-turbo 2")


def pillow(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def test_the_files_have_every_predictor_in_grey_and_in_colour() -> None:
    found = {re.match(r"lossless-(\d)-(\w+)", name).groups() for name in NAMES}  # type: ignore[union-attr]
    assert found >= {(str(p), colour) for p in range(1, 8) for colour in ("grey", "rgb")}


@pytest.mark.parametrize("name", NAMES)
def test_a_lossless_jpeg_equals_pillows_as_a_whole_and_in_windows(name: str) -> None:
    data = read(name)
    expected = pillow(data)
    assert np.array_equal(hr.functional.decode(data), expected)
    if "cmyk" not in name:
        stored = images.pixels(WIDTH, HEIGHT, 1 if "grey" in name else 3)
        assert np.array_equal(expected, np.broadcast_to(stored, expected.shape))
    chance = random.Random(name)
    for _ in range(30):
        x, y = chance.randrange(WIDTH), chance.randrange(HEIGHT)
        w, h = chance.randrange(1, WIDTH - x + 1), chance.randrange(1, HEIGHT - y + 1)
        window = hr.functional.resized_crop(data, y, x, h, w, (h, w))
        assert np.array_equal(window, expected[y : y + h, x : x + w]), (x, y, w, h)


@pytest.mark.parametrize("name", NAMES)
def test_a_lossless_jpeg_cut_anywhere_is_truncated(name: str) -> None:
    data = read(name)
    alone = "scans" not in name
    for length in range(len(data)):
        if alone and length == len(data) - 2:
            continue  # all pixels are there, as in any JPEG without its end marker
        try:
            hr.functional.decode(data[:length])
        except errors.TruncatedError:
            continue
        # The last code ended before the last byte, which is only padding.
        assert alone, length
        assert length >= len(data) - 3, length


def test_damaged_lossless_jpegs_have_pillows_verdict_and_pixels_but_for_known_reasons() -> None:
    chance, unknown, same = random.Random(1), [], 0
    files = [read(name) for name in NAMES]
    for number in range(DRAWS):
        data = chance.choice(files)
        data = damage.damage_once(chance, data, damage.segments(data))
        if len(data) < 16:
            continue
        why = damage.difference("jpeg", data)
        same += why == ""
        if why is None:
            unknown.append((number, damage.ours(data), damage.pillows(data)))
    assert unknown == []
    assert same > 0.85 * DRAWS


def test_a_packed_lossless_jpeg_is_listed_as_lossless_and_gives_its_pixels(tmp_path: Path) -> None:
    data = read("lossless-6-rgb.jpg")
    folder = images.write_tree(tmp_path / "folder", {"c/a.jpg": data})
    hr.pack(folder, tmp_path / "d")
    crop = [hr.transforms.CenterCrop((HEIGHT, WIDTH))]
    with hr.Loader(tmp_path / "d", 1, transform=crop, output="numpy") as loader:
        [batch] = list(loader)
        pixels = np.rint(np.asarray(batch[0])[0].transpose(1, 2, 0) * 255).astype(
            np.uint8
        )  # scaled to 0 to 1
        del batch
        assert np.array_equal(pixels, pillow(data))
    with hr.Dataset(tmp_path / "d") as dataset:
        assert dataset.facts(0)["process"] == "lossless"


def with_scans(name: str, count: int) -> bytes:
    """The first scans of a file with one scan for each component, and an end marker."""
    data = read(name)
    starts = [match.start() for match in re.finditer(b"\xff\xda", data)]
    return data[: starts[count]] + b"\xff\xd9"


@pytest.mark.parametrize("count", [1, 2])
def test_a_lossless_jpeg_without_all_of_its_components_is_bad(count: int) -> None:
    data = with_scans("lossless-4-rgb-scans.jpg", count)
    with pytest.raises(OSError, match=r"."):
        pillow(data)
    with pytest.raises(errors.BadImageError, match="scans have not all components"):
        hr.functional.decode(data)


def test_eight_samples_of_a_lossless_jpeg_count_as_one_block_of_max_scan_blocks() -> None:
    data = read("lossless-4-rgb-scans.jpg")
    blocks = 3 * -(-WIDTH * HEIGHT // 8)
    hr.functional.decode(data, limits={"max_scan_blocks": blocks})
    with pytest.raises(errors.LimitError, match=f"there are {blocks} blocks to decode"):
        hr.functional.decode(data, limits={"max_scan_blocks": blocks - 1})


def test_a_lossless_jpeg_of_several_scans_needs_memory_for_all_samples_at_once() -> None:
    data = bytearray(read("lossless-4-rgb-scans.jpg"))
    frame = data.index(b"\xff\xc3")
    data[frame + 5 : frame + 9] = struct.pack(">HH", 9000, 9000)
    with pytest.raises(errors.LimitError, match=r"needs 243\d{6} bytes .* max_decoder_bytes"):
        hr.functional.decode(bytes(data), limits={"max_decoder_bytes": 200_000_000})
