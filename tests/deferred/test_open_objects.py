"""Images that a program opens from file-like objects: members of archives, streams."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torchvision.transforms as tv
from PIL import Image
from torch.utils import data

import headrace as hr
import images
from deferred.test_own_code import Opens, compared, equal
from headrace._deferred import opening
from headrace.errors import UnsupportedError

SMALL = tv.Compose([tv.Resize((32, 32)), tv.ToTensor()])
COUNT = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images as files, gzip files, and members of a zip and of a tar; a directory named like
    one."""
    root = tmp_path_factory.mktemp("objects")
    kinds = [("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp"), ("GIF", "gif"), ("TIFF", "tif")]
    with (
        zipfile.ZipFile(root / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        tarfile.open(root / "all.tar", "w") as tar,
    ):
        for number in range(COUNT):
            kind, ending = kinds[number % len(kinds)]
            path = root / f"{number}.{ending}"
            Image.fromarray(images.pixels(60 + number, 50, seed=number)).save(path, kind)
            os.utime(path, (1e9, 1e9))
            archive.write(path, path.name)
            tar.add(path, path.name)
            Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes()))
    return root


def paths_of(root: Path) -> list[str]:
    return sorted(
        str(path) for path in root.iterdir() if path.name[0].isdigit() and path.suffix != ".gz"
    )


class Bytes(io.BytesIO):
    pass


class ReadsOnly:
    """Can only be read once, as the response of an HTTP library."""

    def __init__(self, content: bytes) -> None:
        self.read = io.BytesIO(content).read


def of_zip(path: str) -> Any:
    return zipfile.ZipFile(Path(path).parent / "all.zip").open(Path(path).name)


def of_tar(path: str) -> Any:
    return tarfile.open(Path(path).parent / "all.tar").extractfile(Path(path).name)


def spooled(path: str) -> Any:
    file = tempfile.SpooledTemporaryFile()  # noqa: SIM115
    file.write(Path(path).read_bytes())  # and stays at its end
    return file


OBJECTS: dict[str, Callable[[str], Any]] = {
    "zip": of_zip,
    "tar": of_tar,
    "gzip": lambda path: gzip.open(f"{path}.gz"),  # noqa: SIM115
    "fsspec": lambda path: fsspec.open(path).open(),
    "spooled": spooled,
    "a subclass of BytesIO": lambda path: Bytes(Path(path).read_bytes()),
    "unbuffered": lambda path: open(path, "rb", buffering=0),  # noqa: SIM115
    "reads only": lambda path: ReadsOnly(Path(path).read_bytes()),
    "bytes": lambda path: io.BytesIO(Path(path).read_bytes()),
    "a file": lambda path: open(path, "rb"),  # noqa: SIM115
}


def closed(file: Any) -> None:
    getattr(file, "close", lambda: None)()


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("what", OBJECTS)
@pytest.mark.every(3)
def test_an_image_from_a_file_like_object_is_native(root: Path, what: str, workers: int) -> None:
    def made(path: str, index: int) -> Any:
        file = OBJECTS[what](path)
        image = SMALL(Image.open(file).convert("RGB"))
        closed(file)
        return image, index

    dataset = Opens(paths_of(root), made)
    compared(dataset, num_workers=workers)
    assert hr.DataLoader(dataset).explain().native


@pytest.mark.parametrize("what", [name for name in OBJECTS if name != "reads only"])
def test_the_position_of_an_object_is_where_pillow_leaves_it_after_the_header(
    root: Path, what: str
) -> None:
    def made(path: str, index: int) -> Any:
        file = OBJECTS[what](path)
        with Image.open(file) as image:
            found = image.size, file.tell(), file.read(5)
        closed(file)
        return found

    compared(Opens(paths_of(root), made), strict=False, collate_fn=list)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_buffer_may_be_reused_as_soon_as_its_image_was_loaded(root: Path, workers: int) -> None:
    buffer, pixels = io.BytesIO(), np.zeros((30, 40, 3), np.uint8)

    def made(path: str, index: int) -> Any:
        views = []
        for other in (path, paths_of(root)[0]):
            buffer.seek(0)
            buffer.truncate()
            buffer.write(Path(other).read_bytes())
            image = Image.open(buffer).convert("RGB")
            buffer.getbuffer()[:] = bytes(len(buffer.getvalue()))
            pixels[:] = index
            given = Image.fromarray(pixels)
            pixels[:] = 255
            views += [SMALL(image), SMALL(given)]
        return views

    compared(Opens(paths_of(root), made), num_workers=workers)


def test_only_the_formats_that_open_is_given_are_accepted(root: Path) -> None:
    def made(path: str, index: int) -> Any:
        return SMALL(
            Image.open(path, formats=["png", "jpeg", "webp", "gif", "tiff"]).convert("RGB")
        )

    compared(Opens(paths_of(root), made))
    with pytest.raises(OSError, match="cannot identify image file"):
        compared(
            Opens(paths_of(root), lambda path, index: SMALL(Image.open(path, formats=["PNG"]))),
            expected=[],
        )


WITH_A_REASON: dict[str, Callable[[str], Any]] = {
    "beyond Image.MAX_IMAGE_PIXELS": lambda path: Image.open(path),
    "beyond the bytes that are read": lambda path: Image.open(gzip.open(f"{path}.gz")),  # noqa: SIM115
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("what", WITH_A_REASON)
def test_an_image_left_to_pillow_has_a_reason_and_is_an_error_with_strict(
    root: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 2000 if "MAX" in what else None)
    monkeypatch.setattr(opening, "MAX_RECORD_BYTES", 50)
    opens = WITH_A_REASON[what]
    dataset = Opens(paths_of(root), lambda path, index: SMALL(opens(path).convert("RGB")))
    compared(dataset, strict=False)
    loader = hr.DataLoader(dataset, 2)
    (reason,) = {text for text, _ in loader.explain().reasons}
    assert ("MAX_IMAGE_PIXELS is 2000" in reason) == ("MAX" in what)
    with pytest.raises(UnsupportedError, match="strict=True"):
        list(hr.DataLoader(dataset, 2, strict=True))


def test_an_object_that_cannot_be_read_to_its_end_is_left_to_pillow(root: Path) -> None:
    """Pillow reads the header of a gzip file without its checksum, and an image in one piece."""

    def made(path: str, index: int) -> Any:
        content = Path(f"{path}.gz").read_bytes()[:-8] + b"8 others"
        try:
            return SMALL(Image.open(gzip.open(io.BytesIO(content))).convert("RGB"))
        except OSError as failure:
            return type(failure).__name__

    dataset = Opens(paths_of(root), made)
    assert equal(
        list(hr.DataLoader(dataset, None)), list(data.DataLoader(dataset, batch_size=None))
    )
