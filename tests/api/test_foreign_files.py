"""Files of an image folder that Pillow reads and the engine does not, and Pillow's switches."""

from __future__ import annotations

import io
import itertools
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import pytest
import torch
from PIL import Image, ImageFile
from torch.utils import data
from torchvision import datasets
from torchvision import transforms as tv
from torchvision.transforms.functional import pil_to_tensor

import headrace as hr
import images
from headrace import errors

STEPS = [tv.Resize((24, 24)), tv.CenterCrop(16), tv.ToTensor()]
DRAWN = [tv.RandomResizedCrop(16), tv.RandomHorizontalFlip(), tv.ToTensor()]


@pytest.fixture(autouse=True)
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "headrace.DataLoader: Pillow decodes")
        yield


def encoded(kind: str, seed: int = 0, mode: str = "RGB", **options: Any) -> bytes:
    """One of many images of different sizes and pixels, in one of Pillow's formats."""
    rng = np.random.default_rng(seed)
    height, width = 30 + seed % 7, 40 + seed % 5
    image = Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).convert(mode)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def mixed() -> dict[str, bytes]:
    """A folder with files of each of Pillow's formats, with their own extension and another one."""
    return {
        "a/00.jpg": encoded("JPEG", 0),
        "a/01.webp": encoded("AVIF", 1),
        "a/02.jpg": encoded("JPEG2000", 2),
        "a/03.png": encoded("PNG", 3),
        "a/04.jpg": encoded("JPEG2000", 4, "L"),
        "a/05.bmp": encoded("JPEG2000", 5),
        "a/06.jpg": encoded("JPEG", 6),
        "b/07.tif": encoded("TIFF", 7, "I;16"),
        "b/08.png": encoded("TIFF", 8, "I;16"),
        "b/09.jpg": encoded("JPEG", 9, "CMYK"),
        "b/10.jpg": encoded("TIFF", 10, "1", compression="packbits"),
        "b/11.jpg": encoded("WEBP", 11),
        "b/12.jpg": encoded("JPEG", 12),
        "b/13.jpg": encoded("GIF", 13),
        "b/14.jpeg": encoded("AVIF", 14),
        "b/15.png": encoded("PNG", 15, "LA"),
        "b/16.bmp": encoded("BMP", 16),
    }


FOREIGN = 8


def folder(root: Path, files: dict[str, bytes], steps: list[Any]) -> datasets.ImageFolder:
    images.write_tree(root, files)
    return datasets.ImageFolder(str(root), tv.Compose(steps))


def same(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, torch.Tensor):
        return mine.dtype == theirs.dtype and mine.equal(theirs)
    pairs = itertools.zip_longest(mine, theirs)
    return type(mine) is type(theirs) and all(same(a, b) for a, b in pairs)


def torchs(dataset: Any, *arguments: Any, **options: Any) -> list[Any]:
    return list(data.DataLoader(dataset, *arguments, **options))


# ---- the same batches as torch's loader --------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 5, 17])
@pytest.mark.parametrize("workers", [0, 2])
def test_a_folder_with_files_of_other_formats_gives_torchs_batches_and_stays_native(
    tmp_path: Path, size: int, workers: int
) -> None:
    photos = folder(tmp_path, mixed(), STEPS)
    loader = hr.DataLoader(photos, size, num_workers=workers)
    expected = torchs(photos, size)
    for epoch in (1, 2, 3):
        assert same(list(loader), expected)
        assert loader.stats()["pillow_files"] == FOREIGN
        assert loader.stats()["pillow_images"] >= epoch * FOREIGN
        assert loader.state_dict()["epoch"] == epoch
    [whole] = list(hr.DataLoader(photos, 34, sampler=[*range(17), *range(17)]))
    assert same(whole, torchs(photos, 34, sampler=[*range(17), *range(17)])[0])


def doubled(image: torch.Tensor) -> torch.Tensor:
    return image * 2


@pytest.mark.parametrize("steps", [[tv.Resize(20), tv.ToTensor()], [*STEPS, doubled], []])
def test_samples_made_one_by_one_of_such_a_folder_equal_torchs(
    tmp_path: Path, steps: list[Any]
) -> None:
    photos = folder(tmp_path, mixed(), steps)

    def collate(samples: list[Any]) -> list[Any]:
        return [
            (image if isinstance(image, torch.Tensor) else pil_to_tensor(image), torch.tensor(n))
            for image, n in samples
        ]

    warnings.filterwarnings("ignore", ".*in Python threads")
    loader = hr.DataLoader(photos, 5, collate_fn=collate)
    assert same([list(loader), list(loader)], [torchs(photos, 5, collate_fn=collate)] * 2)
    assert loader.stats() == {"pillow_images": 2 * FOREIGN, "pillow_files": FOREIGN}


def test_a_custom_collate_function_gets_pillows_samples_at_their_positions(tmp_path: Path) -> None:
    photos = folder(tmp_path, mixed(), STEPS)

    def collate(samples: list[Any]) -> list[Any]:
        return [torch.stack([image for image, _ in samples]), [label for _, label in samples]]

    for batch, other in zip(
        hr.DataLoader(photos, 6, collate_fn=collate), torchs(photos, 6), strict=True
    ):
        assert batch[0].equal(other[0])
        assert batch[1] == other[1].tolist()


def twins(tmp_path: Path) -> tuple[datasets.ImageFolder, datasets.ImageFolder]:
    """Folders with the same pixels: PNGs, and every third a lossless JPEG 2000 in place of a
    PNG."""
    for n in range(20):
        (tmp_path / "png/a").mkdir(parents=True, exist_ok=True)
        (tmp_path / "others/a").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"png/a/{n:02}.png").write_bytes(encoded("PNG", n))
        kind, name = ("JPEG2000", f"{n:02}.ppm" if n % 2 else f"{n:02}.png")
        if n % 3:
            kind, name = "PNG", f"{n:02}.png"
        (tmp_path / f"others/a/{name}").write_bytes(encoded(kind, n))
    found = [datasets.ImageFolder(str(tmp_path / n), tv.Compose(DRAWN)) for n in ("png", "others")]
    for photos in found:
        photos.samples = [(path, n) for n, (path, _) in enumerate(photos.samples)]
    return found[0], found[1]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_draws_order_and_state_do_not_depend_on_which_decoder_is_used(
    tmp_path: Path, workers: int
) -> None:
    native, others = twins(tmp_path)

    def loader(photos: Any) -> Any:
        return hr.DataLoader(
            photos, 6, seed=9, num_workers=workers, sampler=[*range(20), 3, 3, 0, 19, 3]
        )

    expected = [*loader(native)]
    first = loader(others)
    assert same([*first], expected)
    for stop in range(5):
        begun = loader(others)
        found = [*itertools.islice(begun, stop)]
        state = begun.state_dict()
        resumed = loader(others)
        resumed.load_state_dict(state)
        assert same([*found, *resumed], expected)
    assert same([*itertools.islice(loader(others), 2)], expected[:2])


def test_shuffled_epochs_leave_torchs_generator_in_the_same_state_as_native_ones(
    tmp_path: Path,
) -> None:
    native, others = twins(tmp_path)
    found = []
    for photos in (native, others):
        torch.manual_seed(4)
        loader = hr.DataLoader(photos, 6, shuffle=True)
        found.append([[*loader], [*loader], [torch.get_rng_state()]])
    assert same(found[1], found[0])


def test_each_of_several_simultaneous_iterators_has_pillows_samples(tmp_path: Path) -> None:
    photos = folder(tmp_path, mixed(), STEPS)
    loader, expected = hr.DataLoader(photos, 4), torchs(photos, 4)
    first, second = zip(*zip(loader, loader, strict=True), strict=True)
    assert same([*first], expected)
    assert same([*second], expected)


def test_a_folder_of_mostly_unsupported_extensions_is_read_by_its_own_code(
    tmp_path: Path,
) -> None:
    files = {f"a/{n}.ppm": encoded("AVIF", n) for n in range(3)} | {"a/4.jpg": encoded("JPEG")}
    photos = folder(tmp_path, files, STEPS)
    with pytest.warns(
        UserWarning, match=r"\d\.ppm is not a JPEG, PNG, WebP, BMP, GIF or TIFF of a common"
    ):
        assert same(list(hr.DataLoader(photos, 2)), torchs(photos, 2))
    with pytest.raises(hr.HeadraceError, match=r"0\.ppm"):
        list(hr.DataLoader(photos, 2, strict=True))


def test_strict_leaves_no_file_to_pillow(tmp_path: Path) -> None:
    files = {"a/0.jpg": encoded("JPEG"), "a/1.jpg": encoded("AVIF"), "a/2.jpg": encoded("JPEG")}
    photos = folder(tmp_path, files, STEPS)
    batches = iter(hr.DataLoader(photos, strict=True))
    next(batches)
    with pytest.raises(errors.UnsupportedError, match="AVIF") as caught:
        next(batches)
    assert isinstance(caught.value, OSError)
    assert len(next(batches)[1]) == 1


def test_one_warning_names_files_that_pillow_decodes_and_another_comes_if_there_are_more(
    tmp_path: Path,
) -> None:
    photos = folder(tmp_path, mixed(), STEPS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = hr.DataLoader(photos, 17)
        for _ in range(3):
            list(loader)
    [line] = [str(warning.message) for warning in caught]
    assert f"{FOREIGN} files so far" in line
    assert caught[0].filename == __file__


# ---- bad files ---------------------------------------------------------------------------------


BAD = {
    "no image": (b"no image at all", errors.BadImageError, PIL.UnidentifiedImageError),
    "truncated": (encoded("JPEG", 3)[:-300], errors.TruncatedError, OSError),
    "truncated PNG": (encoded("PNG", 3)[:-3000], errors.TruncatedError, OSError),
    "empty": (b"", errors.TruncatedError, PIL.UnidentifiedImageError),
    "truncated WebP": (encoded("WEBP", 3)[:-300], errors.TruncatedError, OSError),
    "truncated GIF": (encoded("GIF", 3)[:-300], errors.TruncatedError, OSError),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("suffix", [[], [doubled]])
def test_an_error_of_a_file_is_both_pillows_and_headraces_and_the_next_batch_follows(
    tmp_path: Path, name: str, suffix: list[Any]
) -> None:
    content, kind, theirs = BAD[name]
    files = {f"a/{n:02}.jpg": encoded("JPEG", n) for n in range(12)} | {"a/05.jpg": content}
    photos = folder(tmp_path, files, [*STEPS, *suffix])
    warnings.filterwarnings("ignore", ".*in Python threads")
    with pytest.raises(theirs):
        torchs(photos, 4)
    loader = hr.DataLoader(photos, 4)
    for _ in range(2):
        batches = iter(loader)
        assert len(next(batches)[1]) == 4
        with pytest.raises(theirs, match=r"05\.jpg") as caught:
            next(batches)
        failure = caught.value
        assert isinstance(failure, kind)
        assert isinstance(failure, OSError)
        assert (failure.file, failure.record) == (str(tmp_path / "a/05.jpg"), 5)
        again = pickle.loads(pickle.dumps(failure))
        assert type(again) is type(failure)
        assert (str(again), again.file, again.record) == (str(failure), failure.file, 5)
        assert len(next(batches)[1]) == 4
        with pytest.raises(StopIteration):
            next(batches)
    assert loader.stats()["pillow_images"] == 0


def test_a_truncated_file_is_read_only_if_pillow_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {f"a/{n:02}.jpg": encoded("JPEG", n) for n in range(12)}
    files |= {f"a/{n:02}.jpg": files[f"a/{n:02}.jpg"][:-400] for n in (5, 6)}
    files |= {"a/11.png": encoded("PNG", 11)[:-900]}
    photos = folder(tmp_path, files, STEPS)
    for on_error in ("raise", "replace"):
        loader = hr.DataLoader(photos, 4, on_error=on_error)
        for _ in range(2):
            monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
            for _ in range(2):
                assert same(list(loader), torchs(photos, 4))
            monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", False)
            if on_error == "raise":
                with pytest.raises(OSError, match=r"05\.jpg"):
                    list(loader)
            else:
                assert [len(labels) for _, labels in loader] == [4, 4, 4, 1]


def test_on_error_replace_replaces_only_files_that_pillow_cannot_read_either(
    tmp_path: Path,
) -> None:
    files = mixed() | {"a/06.jpg": b"no image", "b/12.jpg": encoded("GIF", 12)[:-300]}
    photos = folder(tmp_path, files, STEPS)
    good = [n for n in range(17) if n not in (6, 12)]
    expected = [photos[n] for n in good]
    loader = hr.DataLoader(photos, 5, on_error="replace")
    for _ in range(3):
        found = [pair for pictures, labels in loader for pair in zip(pictures, labels, strict=True)]
        assert len(found) == 17
        for n, (image, label) in zip(good, expected, strict=True):
            assert found[n][0].equal(image), n
            assert found[n][1] == label
    assert loader.stats()["pillow_files"] == FOREIGN


@pytest.mark.parametrize("suffix", [[], [doubled]])
def test_a_directory_in_place_of_a_file_is_both_pythons_and_headraces_error(
    tmp_path: Path, suffix: list[Any]
) -> None:
    files = {f"a/{n:02}.jpg": encoded("JPEG", n) for n in range(12)}
    photos = folder(tmp_path, files, [*STEPS, *suffix])
    warnings.filterwarnings("ignore", ".*in Python threads")
    (tmp_path / "a/05.jpg").unlink()
    (tmp_path / "a/05.jpg").mkdir()
    with pytest.raises(IsADirectoryError):
        torchs(photos, 4)
    batches = iter(hr.DataLoader(photos, 4))
    next(batches)
    with pytest.raises(IsADirectoryError, match=r"05\.jpg") as caught:
        next(batches)
    assert isinstance(caught.value, errors.BadFileError)
    assert len(next(batches)[1]) == 4
    if not suffix:
        found = [
            label for _, labels in hr.DataLoader(photos, 4, on_error="replace") for label in labels
        ]
        assert len(found) == 12


# ---- how many pixels are too many --------------------------------------------------------------


@pytest.mark.parametrize("suffix", [[], [doubled]])
def test_images_beyond_pillows_pixel_limit_warn_and_beyond_twice_the_limit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: list[Any]
) -> None:
    files = {f"a/{n}.png": images.png(50, 40, 2) for n in range(4)}
    photos = folder(tmp_path, files, [*STEPS, *suffix])
    warnings.filterwarnings("ignore", ".*in Python threads")
    expected = torchs(photos, 2)
    loader = hr.DataLoader(photos, 2)
    for most, outcome in ((2000, "read"), (1999, "warned"), (1000, "warned"), (999, "refused"),
                          (None, "read"), (1 << 40, "read")):  # fmt: skip
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", most)
        if outcome == "read":
            assert same(list(loader), expected)
        elif outcome == "warned":
            with pytest.warns(Image.DecompressionBombWarning) as caught:
                assert same(list(loader), expected)
            assert sum(issubclass(w.category, Image.DecompressionBombWarning) for w in caught) == 4
        else:
            with pytest.raises(Image.DecompressionBombError):
                torchs(photos, 2)
            with pytest.raises(Image.DecompressionBombError, match=r"0\.png") as error:
                list(loader)
            assert isinstance(error.value, errors.LimitError)
            assert type(pickle.loads(pickle.dumps(error.value))) is type(error.value)


def test_the_loaders_own_limits_hold_without_asking_pillow(tmp_path: Path) -> None:
    files = {f"a/{n}.png": images.png(50, 40, 2) for n in range(4)}
    photos = folder(tmp_path, files, STEPS)
    assert same(list(hr.DataLoader(photos, 2, limits={"max_pixels": 2000})), torchs(photos, 2))
    with pytest.raises(errors.LimitError, match="max_pixels is 1999"):
        list(hr.DataLoader(photos, 2, limits={"max_pixels": 1999}))
    with pytest.raises(errors.LimitError, match="max_record_bytes"):
        list(hr.DataLoader(photos, 2, limits={"max_record_bytes": 20}))
    with pytest.raises(hr.HeadraceError, match="max_pixel"):
        hr.DataLoader(photos, 2, limits={"max_pixel": 3})
    with pytest.raises(hr.HeadraceError, match="has its own"):
        hr.DataLoader(hr.Dataset(tmp_path), 2, limits={"max_pixels": 3})
