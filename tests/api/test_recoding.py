"""Packing that rewrites images: `resize` and `quality` lose, `baseline` does not."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import functional

import headrace as hr
import timing
from headrace import errors
from images import SAMPLINGS, every_jpeg, every_png, jpeg, members, plain_tree, png, write_tree

ORIENTATION = 0x0112


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def rgb(data: bytes) -> NDArray[np.uint8]:
    return np.asarray(opened(data).convert("RGB"))


def packed(tmp_path: Path, files: dict[str, bytes], **options: Any) -> dict[str, bytes]:
    """The packed bytes of each file: the members of the shards, by key."""
    write_tree(tmp_path / "source", {f"class/{name}": data for name, data in files.items()})
    hr.pack(tmp_path / "source", tmp_path / "p", **options)
    assert hr.verify(tmp_path / "p", decode=True)["ok"]
    return members(tmp_path / "p")


def as_pillow(data: bytes, resize: int | None, quality: int) -> bytes:
    """The same image by torchvision's Resize and Pillow's encoder."""
    image = opened(data).convert("RGB")
    if resize is not None:
        image = functional.resize(image, [resize])
    values = np.asarray(image)
    if (values == values[:, :, :1]).all():
        image = Image.fromarray(values[:, :, 0])
    out = io.BytesIO()
    image.save(out, "JPEG", quality=quality)
    return out.getvalue()


# ---- resize and quality ----


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
@pytest.mark.parametrize(("resize", "quality"), [(48, None), (31, 60), (None, 35), (70, 100)])
def test_reencoded_images_equal_those_that_pillow_resizes_and_encodes(
    tmp_path: Path, resize: int | None, quality: int | None
) -> None:
    files = {f"{name}.jpg": data for name, data in every_jpeg(131, 87).items()}
    files |= {f"{name}.png": data for name, data in every_png(77, 90).items()}
    made = packed(tmp_path, files, resize=resize, quality=quality)
    assert len(made) == len(files)
    for name, data in files.items():
        new = made[name.replace(".png", ".jpg")]
        image, wanted = opened(new), as_pillow(data, resize, quality or 90)
        assert (image.format, image.info.get("progressive")) == ("JPEG", None), name
        assert image.quantization == opened(wanted).quantization, name
        assert np.array_equal(rgb(new), rgb(wanted)), name
        with hr.Dataset(tmp_path / "p") as dataset:
            [facts] = [
                facts
                for facts in map(dataset.facts, range(len(dataset)))
                if facts["key"] == f"class/{name.rsplit('.', 1)[0]}"
            ]
        assert (facts["width"], facts["height"]) == image.size, name
        assert (facts["codec"], facts["process"]) == ("jpeg", "baseline"), name
        assert facts["sampling"] == ("4:2:0" if image.mode == "RGB" else "grey"), name


def test_images_that_are_small_enough_keep_their_bytes(tmp_path: Path) -> None:
    files = {
        "exact.jpg": jpeg(64, 100),
        "small.jpg": jpeg(63, 500, flags=("progressive",)),
        "png.jpg": png(64, 64, 2),
        "large.jpg": jpeg(65, 65),
    }
    made = packed(tmp_path, files, resize=64, quality=50)
    assert {name for name in files if made[name] != files[name]} == {"large.jpg"}
    with hr.Dataset(tmp_path / "p") as dataset:
        assert (dataset.info["lossy"], dataset.info["reencoded"]) == ("resize 64, quality 50", 1)


def test_a_dataset_whose_images_all_keep_their_bytes_is_not_called_lossy(
    folder: Path, tmp_path: Path
) -> None:
    made = hr.pack(folder, tmp_path / "a", resize=5000)
    plain = hr.pack(folder, tmp_path / "b")
    assert "lossy" not in made
    assert made["fingerprint"] == plain["fingerprint"]


def test_faulty_images_keep_their_bytes_and_verdict(tmp_path: Path) -> None:
    whole, progressive = jpeg(200, 200), jpeg(200, 200, flags=("progressive",))
    files = {
        "cut.jpg": whole[: len(whole) // 2],
        "cut-progressive.jpg": progressive[: len(progressive) // 2],
        "empty.jpg": b"",
        "no-eoi.jpg": progressive[:-2],
        "text.jpg": b"this is no image",
        "whole.jpg": whole,
    }
    made = packed(tmp_path, files, resize=50, baseline=True)
    assert {name for name in files if made[name] != files[name]} == {"whole.jpg"}
    with hr.Dataset(tmp_path / "p") as dataset:
        verdicts = [dataset.facts(index)["verdict"] for index in range(len(dataset))]
    assert verdicts == ["truncated", "truncated", "truncated", "warnings", "bad", "good"]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_stays_and_the_pixels_are_not_turned(
    tmp_path: Path, orientation: int
) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    exif[0x010E] = "a description"
    source = io.BytesIO()
    opened(jpeg(120, 80)).save(source, "JPEG", quality=95, exif=exif)
    made = packed(tmp_path, {"a.jpg": source.getvalue()}, resize=40)["a.jpg"]
    image = opened(made)
    assert image.size == (60, 40)
    assert image.getexif().get(ORIENTATION, 1) == orientation
    assert set(image.getexif()) <= {ORIENTATION}
    with hr.Dataset(tmp_path / "p") as dataset:
        assert dataset.facts(0)["orientation"] == (orientation if orientation > 1 else 0)


def test_reencoding_gives_the_same_files_for_any_number_of_threads(
    folder: Path, tmp_path: Path
) -> None:
    for threads in (1, 2, 8):
        hr.pack(folder, tmp_path / str(threads), resize=24, num_threads=threads, shard_size="20KB")
    names = sorted(path.name for path in (tmp_path / "1").iterdir())
    assert len(names) > 4
    for name in names:
        files = {(tmp_path / str(threads) / name).read_bytes() for threads in (1, 2, 8)}
        assert len(files) == 1, name


@pytest.mark.parametrize(
    ("name", "value", "range_"),
    [
        ("resize", 0, "1 to 65500"),
        ("resize", -1, "1 to 65500"),
        ("resize", 65501, "1 to 65500"),
        ("quality", 0, "1 to 100"),
        ("quality", 101, "1 to 100"),
    ],
)
def test_impossible_sizes_and_qualities_are_refused_by_name(
    folder: Path, tmp_path: Path, name: str, value: int, range_: str
) -> None:
    wanted = re.escape(f"{name}={value}: an int from {range_} was expected")
    with pytest.raises(errors.ArgumentError, match=wanted):
        hr.pack(folder, tmp_path / "p", **{name: value})  # type: ignore[arg-type]
    assert not (tmp_path / "p").exists()


# ---- baseline ----


def test_baseline_files_have_the_pixels_of_the_progressive_ones(tmp_path: Path) -> None:
    files = {}
    for width, height in [(1, 1), (17, 9), (131, 87)]:
        for name, data in every_jpeg(width, height).items():
            files[f"{name}-{width}.jpg"] = data
        for colour in ("grey", "rgb", "cmyk", "ycck"):
            for flag in ("progressive", "arithmetic"):
                data = jpeg(width, height, "4:4:4", colour=colour, flags=(flag,))
                files[f"{colour}-{flag}-{width}.jpg"] = data
        for sampling in SAMPLINGS:
            data = jpeg(width, height, sampling, flags=("arithmetic",))
            files[f"arithmetic-{sampling.replace(':', '')}-{width}.jpg"] = data
    made = packed(tmp_path, files, baseline=True)
    converted = 0
    for name, data in files.items():
        if "progressive" in name or "arithmetic" in name:
            converted += 1
            assert made[name] != data, name
            assert opened(made[name]).info.get("progressive") is None, name
            assert opened(made[name]).mode == opened(data).mode, name
            assert np.array_equal(rgb(made[name]), rgb(data)), name
            assert np.array_equal(hr.functional.decode(made[name]), rgb(data)), name
        else:
            assert made[name] == data, name
    with hr.Dataset(tmp_path / "p") as dataset:
        assert dataset.info["to_baseline"] == converted
        assert dataset.info["counts"]["process"] == {"baseline": len(files)}
        assert not dataset.info["lossy"]


def test_baseline_keeps_all_metadata(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ORIENTATION] = 8
    exif[0x010E] = "a description"
    profile = bytes(range(256)) * 600  # two APP2 segments and more
    source = io.BytesIO()
    opened(jpeg(120, 80)).save(
        source,
        "JPEG",
        progressive=True,
        exif=exif,
        icc_profile=profile,
        comment=b"said",
        dpi=(7, 9),
    )
    made = packed(tmp_path, {"a.jpg": source.getvalue()}, baseline=True)["a.jpg"]
    old, new = opened(source.getvalue()).info, opened(made).info
    assert old.pop("progressive")
    assert old.pop("progression")
    assert new == old
    assert new["icc_profile"] == profile
    with hr.Dataset(tmp_path / "p") as dataset:
        assert dataset.facts(0)["orientation"] == 8


def test_a_progressive_file_with_very_many_markers_is_made_baseline_quickly(
    tmp_path: Path,
) -> None:
    """For each further marker libjpeg would walk over all that it has saved."""
    plain = jpeg(64, 48, flags=("progressive",))
    marked = plain[:20] + b"\xff\xfe\0\3x" * 300_000 + plain[20:]
    folder = write_tree(tmp_path / "source", {"class/a.jpg": marked})

    def pack() -> float:
        began = time.process_time()
        hr.pack(folder, tmp_path / "p", baseline=True, overwrite=True, num_threads=1)
        return time.process_time() - began

    timing.within(5, pack)
    [made] = members(tmp_path / "p").values()
    assert made[: 20 + 5 * 300_000] == marked[: 20 + 5 * 300_000]
    assert b"\xff\xc2" not in made[20 + 5 * 300_000 :]
    assert np.array_equal(rgb(made), rgb(plain))


def test_an_incomplete_progressive_file_stays_unchanged(tmp_path: Path) -> None:
    data = jpeg(160, 120, flags=("progressive",))
    scans = [at for at in range(len(data) - 1) if data[at : at + 2] == b"\xff\xda"]
    incomplete = data[: scans[-1]] + b"\xff\xd9"  # its pixels depend on block smoothing
    made = packed(tmp_path, {"a.jpg": incomplete, "b.jpg": data}, baseline=True)
    assert made["a.jpg"] == incomplete
    assert made["b.jpg"] != data


# ---- what the command line says ----


def told(*arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_the_command_line_says_in_words_what_was_lost(tmp_path: Path) -> None:
    source = plain_tree(tmp_path / "source", 6, 2)
    write_tree(source, {"class0/p.jpg": jpeg(20, 20, flags=("progressive",))})
    told_ = told("pack", source, tmp_path / "p", "--resize", 32, "--baseline")
    assert "the packed images will not be the originals" in " ".join(told_.stderr.split())
    for text in (told_.stdout, told("info", tmp_path / "p").stdout):
        words = " ".join(text.split())
        assert "LOSSY: 6 of 7 images were re-encoded (resize 32, quality 90)" in words
        assert "1 progressive or arithmetic-coded file became baseline" in words
    info = json.loads(told("info", tmp_path / "p", "--json").stdout)
    assert (info["reencoded"], info["to_baseline"]) == (6, 1)
    assert "LOSSY" not in told("pack", source, tmp_path / "q").stdout
