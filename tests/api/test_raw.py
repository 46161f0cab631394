"""Datasets of decoded pixels (`pack --raw`), and the binary PPM and PGM files they consist of."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import functional

import headrace as hr
from headrace import errors
from images import every_jpeg, every_png, jpeg, members, pixels, plain_tree, write_tree

ORIENTATION = 0x0112


def rgb(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def ppm(header: bytes, image: NDArray[np.uint8]) -> bytes:
    return header + image.tobytes()


# ---- files ----

HEADERS = [
    b"P6 37 23 255 ",
    b"P6\n37 23\n255\n",
    b"P6\t37\v23\f255\r",
    b"P6\n# a comment\n37 23\n# 12 14\n255\n",
    b"P6 37#inside of the line\n 23 255\n",
    b"P6 3#inside of a number\r7 23 255 ",
    b"P6 0000000037 023 255 ",
]


@pytest.mark.parametrize("header", HEADERS)
def test_every_header_that_pillow_reads_gives_its_pixels(header: bytes) -> None:
    colour = ppm(header, pixels(37, 23, 3))
    grey = ppm(header.replace(b"P6", b"P5"), pixels(37, 23, 1))
    for data in (colour, grey, colour + b"behind the pixels"):
        expected = rgb(data)
        assert np.array_equal(hr.functional.decode(data), expected)
        whole = Image.fromarray(expected)
        for box in [(0, 0, 23, 37), (22, 36, 1, 1), (3, 5, 11, 13), (0, 27, 23, 10)]:
            wanted = np.asarray(functional.resized_crop(whole, *box, [9, 14]))
            assert np.array_equal(hr.functional.resized_crop(data, *box, (9, 14)), wanted), box


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"P6 2 1 255 rgbrg", errors.TruncatedError),
        (b"P6 2 1 255", errors.TruncatedError),
        (b"P6 2", errors.TruncatedError),
        (b"P6 0 1 255 ", errors.BadImageError),
        (b"P6 -2 1 255 rgbrgb", errors.BadImageError),
        (b"P6 2 1 0 rgbrgb", errors.BadImageError),
        (b"P6 2 1 99999 rgbrgb", errors.BadImageError),
        (b"P6 00000000002 1 255 rgbrgb", errors.BadImageError),
        (b"P6 99999 99999 255 rgb", errors.LimitError),
        (b"P6 4294967297 1 255 rgb", errors.LimitError),
        (b"P6 9999999999 9999999999 255 rgb", errors.LimitError),
        (b"P6 2 1 65535 rrggbbrrggbb", errors.UnsupportedError),
        (b"P3 1 1 255 1 2 3", errors.UnsupportedError),
    ],
)
def test_a_bad_header_or_too_few_bytes_are_an_error(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        hr.functional.decode(data)


# ---- datasets ----


def packed(tmp_path: Path, files: dict[str, bytes], **options: Any) -> dict[str, bytes]:
    write_tree(tmp_path / "source", {f"class/{name}": data for name, data in files.items()})
    hr.pack(tmp_path / "source", tmp_path / "p", raw=True, **options)
    assert hr.verify(tmp_path / "p", decode=True)["ok"]
    return members(tmp_path / "p")


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize("resize", [None, 48])
def test_raw_members_are_ppm_of_the_decoded_pixels(tmp_path: Path, resize: int | None) -> None:
    files = {f"{name}.jpg": data for name, data in every_jpeg(131, 87).items()}
    files |= {f"{name}.png": data for name, data in every_png(77, 40).items()}
    made = packed(tmp_path, files, resize=resize)
    assert len(made) == len(files)
    for name, data in files.items():
        expected = Image.open(io.BytesIO(data)).convert("RGB")
        if resize is not None and min(expected.size) > resize:
            expected = functional.resize(expected, [resize])
        member = made[name.rsplit(".", 1)[0] + ".ppm"]
        width, height = expected.size
        assert member == ppm(b"P6\n%d %d\n255\n" % (width, height), np.asarray(expected)), name
    with hr.Dataset(tmp_path / "p") as dataset:
        info = dataset.info
        assert info["counts"]["codec"] == {"ppm": len(files)}
        assert info["counts"]["process"] == {"raw": len(files)}
        assert info["raw"] == {
            "images": len(files),
            "bytes": sum(map(len, made.values())),
            "from_bytes": sum(map(len, files.values())),
        }
        large = sum(name.endswith(".jpg") for name in files)  # the PNGs are 40 pixels high
        wanted = ("resize 48, raw", large) if resize else ("", 0)
        assert (info["lossy"], info["reencoded"]) == wanted
        assert np.array_equal(dataset[0].image, rgb(made[sorted(made)[0]]))


def test_a_loader_gives_the_batches_of_the_original_files(tmp_path: Path) -> None:
    packed(tmp_path, {f"{n}.jpg": d for n, d in every_jpeg(150, 110).items()})
    steps = [hr.transforms.RandomResizedCrop(40), hr.transforms.RandomHorizontalFlip()]
    batches = []
    for source in (tmp_path / "source", tmp_path / "p"):
        with hr.Loader(source, 7, shuffle=True, seed=4, transform=steps, output="numpy") as loader:
            batches.append([np.array(images) for images, _ in loader])
    assert all(np.array_equal(a, b) for a, b in zip(*batches, strict=True))


def test_faulty_images_keep_their_bytes(tmp_path: Path) -> None:
    whole = jpeg(120, 90)
    made = packed(tmp_path, {"cut.jpg": whole[: len(whole) // 2], "no.jpg": b"no image"})
    assert made == {"cut.jpg": whole[: len(whole) // 2], "no.jpg": b"no image"}
    with hr.Dataset(tmp_path / "p") as dataset:
        assert "raw" not in dataset.info


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_of_raw_images_stays_known(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    source = io.BytesIO()
    Image.open(io.BytesIO(jpeg(60, 40))).save(source, "JPEG", exif=exif)
    [member] = packed(tmp_path, {"a.jpg": source.getvalue()}).values()
    assert np.array_equal(rgb(member), rgb(source.getvalue()))
    with hr.Dataset(tmp_path / "p") as dataset:
        assert dataset.facts(0)["orientation"] == (orientation if orientation > 1 else 0)


def test_webdataset_reads_raw_members(tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset")
    files = {f"{n}.jpg": d for n, d in every_jpeg(50, 40).items() if n != "arithmetic-420"}
    packed(tmp_path, files)
    shards = [str(path) for path in sorted((tmp_path / "p").glob("*.tar"))]
    found = {
        sample["__key__"].removeprefix("class/"): sample["ppm"]
        for sample in wds.WebDataset(shards, shardshuffle=False).decode("rgb8")
    }
    assert {f"{name}.jpg" for name in found} == set(files)
    for name, image in found.items():
        assert np.array_equal(image, rgb(files[f"{name}.jpg"])), name


@pytest.mark.parametrize(
    "option", [{"quality": 80}, {"baseline": True}], ids=lambda o: next(iter(o))
)
def test_raw_is_refused_together_with_options_for_jpegs(
    folder: Path, tmp_path: Path, option: dict[str, Any]
) -> None:
    with pytest.raises(errors.ArgumentError, match="raw goes with resize alone"):
        hr.pack(folder, tmp_path / "p", raw=True, **option)
    assert not (tmp_path / "p").exists()


def test_the_command_line_says_how_much_larger_a_raw_dataset_is(tmp_path: Path) -> None:
    source = plain_tree(tmp_path / "source", 6, 2)

    def told(*arguments: Any) -> str:
        command = [sys.executable, "-m", "headrace", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    first = told("pack", source, tmp_path / "p", "--raw")
    info = json.loads(told("info", tmp_path / "p", "--json"))
    assert info["raw"]["from_bytes"] == sum(p.stat().st_size for p in source.glob("*/*.jpg"))
    ratio = info["raw"]["bytes"] / info["raw"]["from_bytes"]
    for text in (first, told("info", tmp_path / "p")):
        words = " ".join(text.split())
        assert "6 images are stored as pixels" in words
        assert f"{ratio:.2f} times the bytes of the files they came from" in words
        assert "LOSSY" not in words
