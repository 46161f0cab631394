"""WebP, BMP, GIF and TIFF are Pillow's convert("RGB"), byte for byte, whole and in windows."""

from __future__ import annotations

import io
import itertools
import random
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torchvision import datasets
from torchvision import transforms as tv

import damage
import headrace as hr
import other_formats
from headrace import errors

COUNT = 400
REFUSALS = (errors.BadImageError, errors.TruncatedError, errors.UnsupportedError)


@pytest.mark.parametrize("kind", other_formats.KINDS)
def test_each_variant_is_pillows_or_unsupported_by_name(kind: str) -> None:
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
    # Kinds that are not read are a part of them, so as to be named: of TIFF a third.
    assert same > 0.55 * COUNT
    assert unsupported < 0.4 * COUNT
    assert (unsupported > 0) == (kind in ("bmp", "tiff"))


def test_the_first_frame_of_an_animation_lies_where_pillow_has_it() -> None:
    chance = random.Random(2)
    for _ in range(60):
        data = other_formats.placed_webp(chance)
        expected = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        assert np.array_equal(hr.functional.decode(data), expected)
        height, width = expected.shape[:2]
        x, y = chance.randrange(width), chance.randrange(height)
        window = hr.functional.resized_crop(data, y, x, 1, 1, (1, 1))
        assert np.array_equal(window, expected[y : y + 1, x : x + 1])


def test_a_frame_that_lies_on_black_is_resized_and_padded_as_pillow_does_it(tmp_path: Path) -> None:
    """What is resized for a padding is kept beside what was decoded, and not in its place."""
    chance, images = random.Random(3), []
    (tmp_path / "class").mkdir()
    for number in range(30):
        data = other_formats.placed_webp(chance)
        (tmp_path / "class" / f"{number:02}.webp").write_bytes(data)
        images.append(Image.open(io.BytesIO(data)).convert("RGB"))
    loader = hr.Loader(
        hr.Dataset(tmp_path),
        len(images),
        transform=[hr.transforms.Resize((40, 31)), hr.transforms.Pad(3)],
        shuffle=False,
        dtype="uint8",
    )
    with loader:
        (batch,) = loader
    for found, image in zip(np.asarray(batch[0]), images, strict=True):
        small = np.asarray(image.resize((31, 40), Image.Resampling.BILINEAR))
        expected = np.pad(small, ((3, 3), (3, 3), (0, 0)))
        assert np.array_equal(found.transpose(1, 2, 0), expected)


@pytest.mark.parametrize("kind", other_formats.KINDS)
def test_a_file_cut_at_any_byte_has_pillows_pixels_or_is_refused_as_there(kind: str) -> None:
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
