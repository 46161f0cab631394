"""Files that end too early are called truncated whatever the decoder says; and files too long."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import numpy as np
import pytest

import headrace as hr
import images
from headrace import errors


def split_idat(png: bytes, parts: int) -> bytes:
    """The same PNG with its image data divided into that many IDAT chunks."""
    at = png.index(b"IDAT") - 4
    size = int.from_bytes(png[at : at + 4], "big")
    body = png[at + 8 : at + 8 + size]
    step = -(-size // parts)
    chunks = b""
    for start in range(0, size, step):
        part = b"IDAT" + body[start : start + step]
        chunks += (len(part) - 4).to_bytes(4, "big") + part + zlib.crc32(part).to_bytes(4, "big")
    return png[:at] + chunks + png[at + 12 + size :]


# Each with how many bytes may be missing at its end without losing a pixel: the end marker and
# padding bits; zlib's end of block and checksum, the chunk's checksum and IEND. The arithmetic
# decoder reads ahead.
FILES = {
    "baseline": (lambda: images.jpeg(24, 18), 3),
    "restart markers": (lambda: images.jpeg(24, 18, restart=2), 3),
    "grey": (lambda: images.jpeg(24, 18, colour="grey"), 3),
    "cmyk": (lambda: images.jpeg(9, 16, colour="cmyk"), 3),
    "progressive": (lambda: images.jpeg(24, 18, flags=("progressive",)), 3),
    "arithmetic": (lambda: images.jpeg(24, 18, flags=("arithmetic",)), 0),
    "progressive arithmetic": (
        lambda: images.jpeg(24, 18, flags=("arithmetic", "progressive")),
        0,
    ),
    "png": (lambda: images.png(9, 7, 2), 22),
    "png of several IDATs": (lambda: split_idat(images.png(9, 7, 2), 5), 22),
    "interlaced palette": (lambda: images.png(9, 7, 3, 4, interlaced=True), 22),
    "ppm": (lambda: b"P6 # hello\n9 7\n255\n" + images.pixels(9, 7).tobytes(), 0),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_at_any_byte_is_called_truncated_with_its_number_of_bytes(name: str) -> None:
    make, spare = FILES[name]
    whole = make()
    pixels = hr.functional.decode(whole)
    for length in range(len(whole)):
        refused, found = None, None
        try:
            found = hr.functional.decode(whole[:length])
        except errors.TruncatedError as error:
            refused = error
        if refused is not None:
            assert re.search(rf"bad: the file is truncated.*found {length}\b", str(refused))
            assert refused.offset == length
        else:
            assert np.array_equal(found, pixels), length
            assert length >= len(whole) - spare


def test_the_error_of_a_truncated_file_names_segment_or_chunk_and_expected_bytes() -> None:
    def sentence(data: bytes) -> str:
        with pytest.raises(errors.TruncatedError) as caught:
            hr.functional.decode(data)
        return str(caught.value)

    jpeg, png = images.jpeg(40, 30), images.png(20, 10, 3)
    tables, palette = jpeg.index(b"\xff\xc4"), png.index(b"PLTE") - 4
    size = int.from_bytes(jpeg[tables + 2 : tables + 4], "big")
    assert sentence(jpeg[: tables + 9]).endswith(
        f"truncated in segment DHT (expected at least {tables + 2 + size} bytes,"
        f" found {tables + 9})"
    )
    assert sentence(png[: palette + 100]).endswith(
        f"truncated in chunk PLTE (expected at least {palette + 12 + 768} bytes,"
        f" found {palette + 100})"
    )
    assert "in row 2 of 2 rows of MCUs" in sentence(jpeg[:-20])
    progressive = images.jpeg(40, 30, flags=("progressive",))
    assert re.search(r"in scan \d+, row \d of \d", sentence(progressive[:-20]))
    last = progressive.rindex(b"\xff\xc4")
    assert "after scan 9" in sentence(progressive[:last])


@pytest.mark.parametrize("name", ["cut.jpg", "cut-progressive.jpg", "cut.png", "empty.jpg"])
def test_a_truncated_file_gives_the_same_message_at_every_entry_point(
    name: str, tmp_path: Path
) -> None:
    data = {
        "cut.jpg": images.jpeg(40, 30)[:200],
        "cut-progressive.jpg": images.jpeg(40, 30, flags=("progressive",))[:-100],
        "cut.png": images.png(20, 10, 2)[:100],
        "empty.jpg": b"",
    }[name]
    folder = images.write_tree(tmp_path / "folder", {f"c/{name}": data})
    with pytest.raises(errors.TruncatedError) as caught:
        hr.functional.decode(data)
    clause = str(caught.value).partition("bad: ")[2]
    assert clause.startswith("the file is truncated")

    made = hr.pack(folder, tmp_path / "d.hr")
    hr.index(folder, index_dir=tmp_path / "index")
    [fault] = made["faults"]["listed"]
    assert (fault["verdict"], fault["reason"]) == ("truncated", clause)
    [known] = hr.verify(tmp_path / "d.hr")["known"]
    assert (known["found"], known["text"]) == ("truncated", clause)
    writer = hr.Writer(tmp_path / "w.hr")
    writer.add(data, 0)
    with pytest.warns(UserWarning, match="the file is truncated"):
        [listed] = writer.finish()["faults"]["listed"]
    assert (listed["verdict"], listed["reason"]) == ("truncated", clause)

    def read_one(dataset: hr.Dataset) -> None:
        steps = [hr.transforms.Resize((8, 8))]
        with hr.Loader(dataset, transform=steps, output="numpy") as loader:
            next(iter(loader))

    for settings in (
        {"path": folder},
        {"path": folder, "index_dir": tmp_path / "index"},
        {"path": tmp_path / "d.hr"},
        {"path": tmp_path / "w.hr"},
    ):
        with hr.Dataset(**settings) as dataset:
            for look in (lambda d: d[0].image, read_one):
                with pytest.raises(errors.TruncatedError) as caught:
                    look(dataset)
                assert str(caught.value).endswith(clause)


def test_other_damage_keeps_its_own_message() -> None:
    jpeg, png = images.jpeg(40, 30), images.png(20, 10, 2)
    tables, scan = jpeg.index(b"\xff\xc4"), jpeg.index(b"\xff\xda")
    damaged = {
        "Bogus Huffman table definition": jpeg[: tables + 5] + b"\xff" * 8 + jpeg[tables + 13 :],
        "Bogus marker length": jpeg[: scan + 2] + b"\0\3" + jpeg[scan + 4 :],
        "IEND comes before any image data": png[:33] + png[-12:],
        "two SOI": jpeg[:2] + jpeg[:2] + jpeg[2:],
    }
    for words, data in damaged.items():
        with pytest.raises(errors.BadImageError, match=words) as caught:
            hr.functional.decode(data)
        assert "truncated" not in str(caught.value)


def test_a_file_over_the_record_limit_is_the_same_limit_error_in_place_and_packed(
    tmp_path: Path,
) -> None:
    folder = images.write_tree(tmp_path / "folder", {"c/a.jpg": images.jpeg(96, 72)})
    size = (folder / "c/a.jpg").stat().st_size
    hr.pack(folder, tmp_path / "d.hr")
    hr.index(folder, index_dir=tmp_path / "index")
    sets = ({"path": folder}, {"path": folder, "index_dir": tmp_path / "index"})
    for settings in (*sets, {"path": tmp_path / "d.hr"}):
        with hr.Dataset(**settings, limits={"max_record_bytes": size}) as dataset:
            assert dataset[0].image.shape == (72, 96, 3)
        with hr.Dataset(**settings, limits={"max_record_bytes": size - 1}) as dataset:
            said = rf"unsupported: the record has {size} bytes, max_record_bytes is {size - 1}$"
            with pytest.raises(errors.LimitError, match=said):
                dataset[0]
            steps = [hr.transforms.Resize((8, 8))]
            with (
                pytest.raises(errors.LimitError, match=said),
                hr.Loader(dataset, transform=steps, output="numpy") as loader,
            ):
                next(iter(loader))
