"""Images that would take a decoder long are refused by what their headers say."""

from __future__ import annotations

import re
import time
import zlib
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
import images
import slow_images
import timing
from headrace import errors

MAX_PIXELS, MAX_SCAN_BLOCKS = 89_478_485, 67_108_864  # docs/limits.md


def scans(jpeg: bytes) -> list[tuple[list[int], int]]:
    """Components of each scan, and how many coefficients of a block the scan has."""
    found, at = [], 2
    while (at := jpeg.find(b"\xff\xda", at)) >= 0:
        count = jpeg[at + 4]
        components = [jpeg[at + 5 + 2 * i] for i in range(count)]
        first, last = jpeg[at + 5 + 2 * count], jpeg[at + 6 + 2 * count]
        found.append((components, last - first + 1))
        at += 2
    return found


def work(jpeg: bytes) -> int:
    """Blocks that all scans visit, or coefficients if a file is arithmetic-coded. The sides must be
    whole MCUs, so that a scan of one component has no fewer blocks."""
    frame = next(at for at in range(len(jpeg)) if re.match(b"\xff[\xc0-\xc2\xc9\xca]", jpeg[at:]))
    height, width = (int.from_bytes(jpeg[frame + i : frame + i + 2], "big") for i in (5, 7))
    factors = {
        jpeg[at]: (jpeg[at + 1] >> 4, jpeg[at + 1] & 15)
        for at in range(frame + 10, frame + 10 + 3 * jpeg[frame + 9], 3)
    }
    h, v = (max(f[axis] for f in factors.values()) for axis in (0, 1))
    assert width % (8 * h) == height % (8 * v) == 0
    mcus = width // (8 * h) * (height // (8 * v))
    arithmetic = jpeg[frame + 1] in (0xC9, 0xCA)
    return sum(
        mcus
        * sum(factors[c][0] * factors[c][1] for c in components)
        * (coefficients if arithmetic else 1)
        for components, coefficients in scans(jpeg)
    )


KINDS = {
    "baseline": lambda: images.jpeg(96, 64),
    "restart markers": lambda: images.jpeg(96, 64, "4:4:4", restart=2),
    "cmyk": lambda: images.jpeg(96, 64, colour="cmyk"),
    "progressive": lambda: images.jpeg(96, 64, flags=("progressive",)),
    "progressive 4:1:1": lambda: images.jpeg(96, 64, "4:1:1", flags=("progressive",)),
    "progressive grey": lambda: images.jpeg(96, 64, colour="grey", flags=("progressive",)),
    "arithmetic": lambda: images.jpeg(96, 64, flags=("arithmetic",)),
    "progressive arithmetic": lambda: images.jpeg(96, 64, flags=("arithmetic", "progressive")),
    "empty scans": lambda: slow_images.empty_scans(96, 64),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_limit_of_scans_is_exact_to_one_block(kind: str) -> None:
    data = KINDS[kind]()
    blocks = work(data)
    hr.functional.decode(data, limits={"max_scan_blocks": blocks})
    with pytest.raises(errors.LimitError) as caught:
        hr.functional.decode(data, limits={"max_scan_blocks": blocks - 1})
    assert re.search(
        rf"unsupported: with scan {len(scans(data))} there are {blocks} [a-z -]+ to decode,"
        rf" max_scan_blocks is {blocks - 1}$",
        str(caught.value),
    )


@pytest.mark.parametrize("colour", ["grey", "ycc", "rgb", "cmyk", "ycck"])
@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:0"])
def test_usual_progressive_files_of_the_largest_image_stay_below_the_limit(
    colour: str, sampling: str
) -> None:
    """With libjpeg's script, and half of the limit left for other encoders."""
    small = images.jpeg(96, 64, sampling, colour=colour, flags=("progressive",))
    assert len(scans(small)) >= 6
    assert work(small) * MAX_PIXELS / (96 * 64) < MAX_SCAN_BLOCKS * 0.51


@pytest.fixture
def arithmetic_of_25_megapixels() -> bytes:
    """One scan of 75 million coefficients in a kilobyte."""
    whole = slow_images.arithmetic(5000, 5000)
    return whole[:1000] + b"\xff\xd9"


def test_every_entry_point_refuses_such_an_image_by_default(
    arithmetic_of_25_megapixels: bytes, tmp_path: Path
) -> None:
    data = arithmetic_of_25_megapixels
    said = (
        "with scan 1 there are 75000000 arithmetic-coded coefficients to decode,"
        f" max_scan_blocks is {MAX_SCAN_BLOCKS}"
    )
    crop = (data, 0, 0, 8, 8, (8, 8))
    for refuse in (hr.functional.decode, lambda d: hr.functional.resized_crop(*crop)):
        with pytest.raises(errors.LimitError, match=said):
            refuse(data)

    folder = images.write_tree(tmp_path / "folder", {"c/a.jpg": data})
    for name, settings in {
        "d": {},
        "baseline": {"baseline": True},
        "small": {"resize": 50},
    }.items():
        made = hr.pack(folder, tmp_path / f"{name}.hr", **settings)
        [fault] = made["faults"]["listed"]
        assert (fault["verdict"], fault["reason"]) == ("limit", said)
    hr.index(folder, index_dir=tmp_path / "index")
    found = hr.verify(tmp_path / "d.hr", decode=True)
    assert found["ok"]
    assert [known["text"] for known in found["known"]] == [said]
    writer = hr.Writer(tmp_path / "w.hr")
    writer.add(data, 0)
    with pytest.warns(UserWarning, match="max_scan_blocks"):
        writer.finish()

    for settings in (
        {"path": folder},
        {"path": folder, "index_dir": tmp_path / "index"},
        {"path": tmp_path / "d.hr"},
        {"path": tmp_path / "w.hr"},
    ):
        with hr.Dataset(**settings) as dataset:
            with pytest.raises(errors.LimitError, match=said):
                dataset[0]
            steps = [hr.transforms.RandomResizedCrop(8)]
            with (
                pytest.raises(errors.LimitError, match=said),
                hr.Loader(dataset, transform=steps, output="numpy") as loader,
            ):
                next(iter(loader))


def test_a_dataset_may_raise_the_limit(tmp_path: Path) -> None:
    data = images.jpeg(96, 64, flags=("progressive",))
    folder = images.write_tree(tmp_path / "folder", {"c/a.jpg": data})
    limits = {"max_scan_blocks": work(data) - 1}
    with hr.Dataset(folder, limits=limits) as dataset, pytest.raises(errors.LimitError):
        dataset[0]
    limits["max_scan_blocks"] += 1
    with hr.Dataset(folder, limits=limits) as dataset:
        assert np.array_equal(dataset[0].image, hr.functional.decode(data))


def test_too_much_memory_for_coefficients_and_rows_is_refused_before_image_data_is_read() -> None:
    """The file has no image data, and would be truncated if they had been read."""
    whole = slow_images.empty_scans(1016, 1016, scans=2)
    header = whole[: whole.index(b"\xff\xda") + 14]
    coefficients, rows = 3 * 128 * 127**2, 32 * 1016 * 4
    for limit in (coefficients - 1, coefficients + rows - 1):
        with pytest.raises(
            errors.LimitError, match=rf"needs \d+ bytes of memory, max_decoder_bytes is {limit}"
        ):
            hr.functional.decode(header, limits={"max_decoder_bytes": limit})
    with pytest.raises(errors.TruncatedError):
        hr.functional.decode(header, limits={"max_decoder_bytes": coefficients + rows + (1 << 20)})


@pytest.mark.parametrize("idat", [1 << 30, 1000])
def test_image_data_longer_than_its_rows_can_need_is_a_limit_error(idat: int) -> None:
    """Empty stored blocks, and at the end one with the row."""
    row = bytes(9)
    room = 2 * len(row) + (1 << 20)
    last = b"\1" + len(row).to_bytes(2, "little") + (0xFFFF - len(row)).to_bytes(2, "little") + row
    stream = b"\x78\x01" + b"\0\0\0\xff\xff" * ((room - 2 - len(last)) // 5)
    fits = slow_images.png(1, 1, idat=idat, data=stream + last)
    assert np.array_equal(hr.functional.decode(fits), np.zeros((1, 1, 3), np.uint8))
    over = slow_images.png(1, 1, idat=idat, data=stream + b"\0\0\0\xff\xff" + last)
    with pytest.raises(errors.LimitError) as caught:
        hr.functional.decode(over)
    assert f"{room} bytes of image data are not enough for {len(row)} bytes of rows" in str(
        caught.value
    )


def test_bytes_after_the_end_of_a_pngs_stream_are_not_counted() -> None:
    stream = zlib.compress(bytes(9))
    data = slow_images.png(1, 1, data=stream + bytes(2 << 20))
    assert hr.functional.decode(data).shape == (1, 1, 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_images.EVERY)
def test_a_quarter_of_a_megapixel_of_the_slowest_files_takes_two_seconds_at_most(name: str) -> None:
    """Measured times are in docs/limits.md; this only shows that no file hangs."""
    data = slow_images.EVERY[name](512)

    def decode() -> float:
        began = time.process_time()
        assert hr.functional.decode(data).size == 512 * 512 * 3
        return time.process_time() - began

    timing.within(2, decode)
