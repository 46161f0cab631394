"""Images that a dataset decodes with torchvision.io become pending tensors of bytes."""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.dlpack
import torchvision.io
from PIL import Image
from torch.utils import data
from torch.utils.dlpack import to_dlpack
from torchvision.io import ImageReadMode
from torchvision.transforms import v2

import headrace as hr
import images
import other_formats
import sayings
from deferred.test_own_code import Opens, compared

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:headrace.DataLoader")


DECODED: dict[str, Callable[[str], Any]] = {
    "a path": torchvision.io.read_image,
    "RGB": lambda path: torchvision.io.read_image(path, ImageReadMode.RGB),
    "named": lambda path: torchvision.io.decode_image(path, mode="RGB"),
    "bytes": lambda path: torchvision.io.decode_image(torchvision.io.read_file(path)),
    "a JPEG": lambda path: torchvision.io.decode_jpeg(torchvision.io.read_file(path)),
}


@pytest.mark.parametrize("how", DECODED)
@pytest.mark.parametrize("end", ["bytes", "resized"])
def test_images_decoded_by_torchvision_io_have_its_bytes(
    tmp_path: Path, how: str, end: str
) -> None:
    files = [images.jpeg(50, 44, seed=1), images.jpeg(60, 41, colour="grey", seed=2)]
    files.append(images.jpeg(47, 53, "4:4:4", flags=("progressive",)))
    for number, file in enumerate(files):
        (tmp_path / f"{number}.jpg").write_bytes(file)
        os.utime(tmp_path / f"{number}.jpg", (1e9, 1e9))
    resized = v2.Compose([v2.Resize((31, 30)), v2.ToDtype(torch.float32, scale=True)])
    ends: dict[str, Any] = {"bytes": lambda image: image, "resized": resized}
    opens = Opens(
        [str(tmp_path / f"{number}.jpg") for number in range(len(files))],
        lambda path, index: (ends[end](DECODED[how](path)), index),
    )
    strict = end == "bytes" or how in ("RGB", "named")  # one channel is resized in Python
    compared(opens, strict=strict, batch_size=None)


class Encoded(data.Dataset[Any]):
    """Files in memory, each decoded in every mode by a function of torchvision's."""

    def __init__(self, decode: Callable[..., Any], files: list[bytes]) -> None:
        modes = (ImageReadMode.UNCHANGED, ImageReadMode.RGB, ImageReadMode.GRAY)
        self.decode, self.work = decode, [(file, mode) for file in files for mode in modes]

    def __len__(self) -> int:
        return len(self.work)

    def __getitem__(self, index: int) -> Any:
        file, mode = self.work[index]
        try:
            return self.decode(torch.frombuffer(bytearray(file), dtype=torch.uint8), mode)
        except RuntimeError as failure:
            return str(failure)


def as_pillow(file: bytes) -> bool:
    """Whether torchvision decodes a file of colours to Pillow's pixels."""
    found = torchvision.io.decode_jpeg(
        torch.frombuffer(bytearray(file), dtype=torch.uint8), ImageReadMode.RGB
    )
    wanted = np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))
    return np.array_equal(found.permute(1, 2, 0).numpy(), wanted)


def files_of(kind: str) -> list[bytes]:
    if kind == "webp":
        return list(islice(other_formats.variants("webp", 4), 60))
    if kind == "jpeg":
        every = images.every_jpeg(31, 20)
        # Wheels of torchvision bring their own libjpeg-turbo. Some of them are older than 3.0,
        # which does not smooth the chroma of 4:4:0.
        tall = [name for name in every if "-440" in name]
        if not all(map(as_pillow, (every[name] for name in tall))):
            every = {name: file for name, file in every.items() if name not in tall}
        return list(every.values())
    # torchvision leaves memory uninitialised after the packed indices of a palette image.
    packed = re.compile("type3-[124]bit")
    return [file for name, file in images.every_png(31, 20).items() if not packed.match(name)]


@pytest.mark.parametrize("kind", ["png", "webp", "jpeg"])
def test_files_of_every_kind_are_decoded_as_torchvision_decodes_them(kind: str) -> None:
    for function in (f"decode_{kind}", "decode_image", "decode_png"):
        every = Encoded(getattr(torchvision.io, function), files_of(kind))
        compared(every, strict=False, batch_size=None)


def test_common_pngs_and_webps_are_native() -> None:
    webp = io.BytesIO()
    Image.fromarray(images.pixels(30, 20)).save(webp, "WEBP")
    png = images.png(30, 20, 2)
    for decode, file in (("decode_png", png), ("decode_webp", webp.getvalue())):
        every = Encoded(getattr(torchvision.io, decode), [file])
        every.work = every.work[:2]
        compared(every, batch_size=None)


EXPORTS: dict[str, Callable[[Any], Any]] = {
    "to_dlpack": lambda image: torch.from_dlpack(torch.utils.dlpack.to_dlpack(image)),
    "to_dlpack, bound early": lambda image: torch.from_dlpack(to_dlpack(image)),
    "torch.to_dlpack": lambda image: torch.from_dlpack(torch.to_dlpack(image)),
    "from_dlpack": torch.from_dlpack,
    "NumPy's": np.from_dlpack,
}


@pytest.mark.parametrize("how", EXPORTS)
def test_a_pending_tensor_is_exported_with_its_values(how: str) -> None:
    export, file = EXPORTS[how], images.jpeg(31, 20)
    every = Encoded(lambda *given: export(torchvision.io.decode_image(*given)), [file])
    compared(every, strict=False, batch_size=None)


def test_other_functions_of_torchvision_io_run_in_torchvision(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(images.png(30, 20, 2))
    (tmp_path / "1.jpg").write_bytes(images.jpeg(30, 20))
    ways = [
        lambda path: torchvision.io.read_image(str(tmp_path / "0.png"), ImageReadMode.GRAY),
        lambda path: torchvision.io.read_image(path, apply_exif_orientation=True),
    ]
    for way in ways:
        opens = Opens([str(tmp_path / "1.jpg")] * 2, lambda path, index, way=way: way(path))
        compared(opens, strict=False)


def test_a_bad_file_raises_torchvision_ios_error(tmp_path: Path) -> None:
    path = tmp_path / "bad.jpg"
    path.write_bytes(images.jpeg(60, 50)[:300])
    opens = Opens([str(path)], lambda path, index: torchvision.io.read_image(path))
    with pytest.raises(RuntimeError) as expected:
        list(data.DataLoader(opens))
    with contextlib.closing(hr.DataLoader(opens)) as loader, pytest.raises(RuntimeError) as found:
        list(loader)
    assert sayings.own(found.value) == str(expected.value)
