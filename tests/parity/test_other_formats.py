"""WebP, BMP, GIF and TIFF equal Pillow's convert("RGB") in every byte, whole and in windows."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tifffile
from PIL import Image
from torchvision import datasets
from torchvision import transforms as tv

import damage
import headrace as hr
import images
import other_formats
import versions
from headrace import errors

COUNT = 400
REFUSALS = (errors.BadImageError, errors.TruncatedError, errors.UnsupportedError)


@versions.since_pillow_13  # Pillow 13 reads a BMP's jumps, and a kind of TIFF, differently from 12
@pytest.mark.parametrize("kind", other_formats.KINDS)
def test_each_variant_equals_pillows_image_or_is_unsupported_by_name(kind: str) -> None:
    chance, same, unsupported = random.Random(1), 0, 0
    for number, data in enumerate(itertools.islice(other_formats.variants(kind, 1), COUNT)):
        we, they = damage.ours(data), damage.pillows(data)
        if isinstance(we, errors.UnsupportedError):
            unsupported += 1
            continue
        if isinstance(we, Exception) or isinstance(they, Exception):
            assert isinstance(we, Exception), (number, they)
            assert isinstance(they, Exception), (number, we)
            continue
        assert np.array_equal(we, they), number
        same += 1
        height, width = they.shape[:2]
        x, y = chance.randrange(width), chance.randrange(height)
        w, h = chance.randrange(1, width - x + 1), chance.randrange(1, height - y + 1)
        window = hr.functional.resized_crop(data, y, x, h, w, (h, w))
        assert np.array_equal(window, they[y : y + h, x : x + w]), (number, x, y, w, h)
    # Kinds that are not read are among the variants, to check that they are named.
    assert same > 0.55 * COUNT
    assert unsupported < 0.4 * COUNT
    assert (unsupported > 0) == (kind in ("bmp", "tiff"))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_adobe_deflate"])
def test_a_tiff_with_an_orientation_is_turned_as_by_pillow_whole_and_in_windows(
    compression: str | None, orientation: int
) -> None:
    chance = random.Random(orientation)
    for mode in ("RGB", "L", "1", "P", "CMYK", "RGBA"):
        picture = Image.fromarray(images.pixels(13, 9, 4, seed=orientation)).convert(mode)
        file = io.BytesIO()
        picture.save(file, "TIFF", compression=compression, tiffinfo={274: orientation, 278: 4})
        expected = np.asarray(Image.open(file).convert("RGB"))
        assert expected.shape[:2] == ((9, 13) if orientation < 5 else (13, 9))
        data = file.getvalue()
        assert np.array_equal(hr.functional.decode(data), expected)
        for _ in range(20):
            x, y = chance.randrange(expected.shape[1]), chance.randrange(expected.shape[0])
            w = chance.randrange(1, expected.shape[1] - x + 1)
            h = chance.randrange(1, expected.shape[0] - y + 1)
            window = hr.functional.resized_crop(data, y, x, h, w, (h, w))
            assert np.array_equal(window, expected[y : y + h, x : x + w])


def tiff_layouts() -> Iterator[tuple[str, bytes]]:
    """8-bit images by tifffile, the writer used for microscopes and satellites."""
    rgb, grey = images.pixels(50, 37, 3), images.pixels(50, 37, 3)[..., 0]
    rgba = np.concatenate([rgb, np.full((37, 50, 1), 200, np.uint8)], -1)
    for planar in ("contig", "separate"):
        for name, pixels in (("rgb", rgb), ("rgba", rgba)):
            stored = (
                pixels if planar == "contig" else np.ascontiguousarray(pixels.transpose(2, 0, 1))
            )
            for form in ({"rowsperstrip": 5}, {"rowsperstrip": 37}, {"tile": (16, 32)}):
                for compression in (None, "zlib"):
                    extra = {"extrasamples": ["unassalpha"]} if name == "rgba" else {}
                    yield f"{name} {planar} {form} {compression}", written(
                        stored, photometric="rgb", planarconfig=planar, compression=compression,
                        **form, **extra,
                    )  # fmt: skip
    for photometric in ("minisblack", "miniswhite"):
        for form in ({"rowsperstrip": 5}, {"tile": (16, 16)}):
            yield f"{photometric} {form}", written(grey, photometric=photometric, **form)
    yield "big-endian", written(rgb, byteorder=">", photometric="rgb", rowsperstrip=7)
    yield "BigTIFF", written(rgb, bigtiff=True, photometric="rgb")


def written(pixels: np.ndarray, **options: object) -> bytes:
    file = io.BytesIO()
    byteorder, bigtiff = options.pop("byteorder", "<"), options.pop("bigtiff", False)
    with tifffile.TiffWriter(file, byteorder=byteorder, bigtiff=bigtiff) as writer:
        writer.write(pixels, metadata=None, **options)
    return file.getvalue()


def test_tifffiles_images_equal_pillows_natively_or_through_pillow_for_that_sample_alone(
    tmp_path: Path,
) -> None:
    """Strips are native, with separate planes too; tiles and BigTIFF go through Pillow, and are
    counted."""
    kinds = [
        (name, data)
        for name, data in tiff_layouts()
        if not isinstance(damage.pillows(data), Exception)
    ]
    assert len(kinds) > 20
    (tmp_path / "a").mkdir()
    left = 0
    for number, (name, data) in enumerate(kinds):
        (tmp_path / f"a/{number:02}.tif").write_bytes(data)
        we = damage.ours(data)
        foreign = "tile" in name or name == "BigTIFF"
        assert isinstance(we, errors.UnsupportedError) == foreign, (name, we)
        left += foreign
    photos = datasets.ImageFolder(str(tmp_path), tv.ToTensor())
    loader = hr.DataLoader(photos, len(kinds))
    with pytest.warns(UserWarning, match="Pillow"):
        [(pixels, _)] = list(loader)
    for number, (name, _) in enumerate(kinds):
        assert pixels[number].equal(photos[number][0]), name
    assert loader.stats()["pillow_files"] == left


def test_the_first_frame_of_an_animation_is_placed_as_by_pillow() -> None:
    chance = random.Random(2)
    for _ in range(60):
        data = other_formats.placed_webp(chance)
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert np.array_equal(hr.functional.decode(data), expected)
        height, width = expected.shape[:2]
        x, y = chance.randrange(width), chance.randrange(height)
        window = hr.functional.resized_crop(data, y, x, 1, 1, (1, 1))
        assert np.array_equal(window, expected[y : y + 1, x : x + 1])


def test_a_frame_placed_on_black_is_resized_and_padded_as_by_pillow(tmp_path: Path) -> None:
    """A resize before a padding is stored beside the decoded image, and not in its place."""
    chance, opened = random.Random(3), []
    (tmp_path / "class").mkdir()
    for number in range(30):
        data = other_formats.placed_webp(chance)
        (tmp_path / "class" / f"{number:02}.webp").write_bytes(data)
        opened.append(Image.open(io.BytesIO(data)).convert("RGB"))
    loader = hr.Loader(
        hr.Dataset(tmp_path),
        len(opened),
        transform=[hr.transforms.Resize((40, 31)), hr.transforms.Pad(3)],
        shuffle=False,
        dtype="uint8",
    )
    with loader:
        (batch,) = loader
    for found, image in zip(np.asarray(batch[0]), opened, strict=True):
        small = np.asarray(image.resize((31, 40), Image.Resampling.BILINEAR))
        expected = np.pad(small, ((3, 3), (3, 3), (0, 0)))
        assert np.array_equal(found.transpose(1, 2, 0), expected)


@pytest.mark.parametrize("kind", other_formats.KINDS)
def test_a_file_cut_at_any_byte_has_pillows_pixels_or_is_refused_as_by_pillow(kind: str) -> None:
    files = itertools.islice(other_formats.variants(kind, 3), 60)
    data = next(
        file
        for file in files
        if 300 < len(file) < 2000 and not isinstance(damage.ours(file), Exception)
    )
    for length in range(len(data)):
        we, they = damage.ours(data[:length]), damage.pillows(data[:length])
        assert isinstance(we, Exception) or np.array_equal(we, they), length
        if isinstance(we, Exception):
            assert isinstance(we, REFUSALS), length
            assert isinstance(they, Exception) or kind == "tiff", length


def test_a_folder_of_such_files_stays_native_and_gives_torchs_batches(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for kind, suffix in zip(other_formats.KINDS, (".webp", ".bmp", ".jpg", ".tif"), strict=True):
        good = (
            f for f in other_formats.variants(kind, 4) if not isinstance(damage.ours(f), Exception)
        )
        for number, data in enumerate(itertools.islice(good, 5)):
            (tmp_path / f"a/{kind}{number}{suffix}").write_bytes(data)
    steps = tv.Compose([tv.Resize((24, 24)), tv.ToTensor()])
    photos = datasets.ImageFolder(str(tmp_path), steps)
    loader = hr.DataLoader(photos, 20, strict=True)
    [(pixels, _)] = list(loader)
    assert loader.stats()["pillow_files"] == 0
    for number in range(20):
        assert pixels[number].equal(photos[number][0]), photos.samples[number]
