"""A picture of what a model would see: augmented samples in rows, with their labels."""

from __future__ import annotations

import io
import math
import os
from pathlib import Path
from typing import Any

from headrace._engine import arguments
from headrace._transforms.multiview import Views
from headrace.dataset import Dataset
from headrace.errors import ArgumentError, HeadraceError, SystemFailure
from headrace.loader import Loader

_CAPTION = 14  # pixels below each sample: one line of Pillow's own bitmap font
_GAP = 4


def contact_sheet(
    source: Any,
    picture: str | os.PathLike[str],
    count: int,
    size: int,
    seed: int,
    views: int = 1,
    **how: Any,
) -> None:
    """Writes a PNG of ``count`` shuffled samples, cropped at random to ``size`` and flipped.

    ``views`` such images of each sample stand side by side. ``how`` describes the source, as
    ``Dataset`` takes it.

    Raises:
        ArgumentError: an argument is impossible; the sentence names it.
        SystemFailure: the picture cannot be written.
        HeadraceError: Pillow is not installed, or a ``Loader`` raises it.
    """
    count = arguments.integer("count", count, 1)
    size = arguments.integer("size", size, 1)
    recipe = [
        {"name": "RandomResizedCrop", "size": size},
        {"name": "RandomHorizontalFlip"},
    ]
    several = Views(recipe, repeat=arguments.integer("views", views, 1))
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise HeadraceError("a contact sheet needs Pillow: pip install pillow") from None
    # Both are checked before the work and not after it.
    folder, suffix = Path(picture).parent, Path(picture).suffix
    if suffix.lower() not in ("", ".png"):
        raise ArgumentError(f"{picture}: the sheet is a PNG (expected a name ending in .png)")
    if not folder.is_dir():
        raise SystemFailure(f"{picture}: there is no folder {folder} to write it to")
    with Dataset(source, **how) as dataset:
        loader = Loader(
            dataset,
            min(count, len(dataset)),
            shuffle=True,
            seed=seed,
            transform=several,
            dtype="uint8",
            layout="NHWC",
            output="numpy",
            prefetch=1,
            timeout=how.get("timeout"),
        )
        with loader:
            images, labels = next(iter(loader))
        classes = dataset.classes
    count = len(labels)
    columns = math.ceil(math.sqrt(count * 1.5 / len(several)))
    rows = math.ceil(count / columns)
    width, height = len(several) * size + _GAP, size + _GAP + _CAPTION
    sheet = Image.new("RGB", (columns * width + _GAP, rows * height + _GAP), "white")
    draw = ImageDraw.Draw(sheet)
    for number, label in enumerate(labels.tolist()):
        row, column = divmod(number, columns)
        left, top = column * width + _GAP, row * height + _GAP
        for place, view in enumerate(images):
            sheet.paste(Image.fromarray(view[number]), (left + place * size, top))
        text = classes[label] if 0 <= label < len(classes) else str(label)
        room = len(several) * size // 6  # the bitmap font is 6 pixels wide
        draw.text((left, top + size + 1), text[:room], fill="black")
    encoded = io.BytesIO()
    sheet.save(encoded, "PNG")
    try:
        # It writes the bytes and not the buffer: if a buffer with an export is freed as garbage,
        # Python 3.12.1 crashes.
        _write(Path(picture), encoded.getvalue())
    except OSError as error:
        failure = SystemFailure(f"{picture}: cannot be written: {error.strerror}")
        failure.file = failure.filename = str(picture)
        failure.errno = error.errno
        raise failure from None


def _write(picture: Path, data: bytes) -> None:
    """Writes all of it or nothing: if the disk is full, the former picture stays."""
    place = picture.resolve()  # a link stays a link
    if place.exists() and not place.is_file():  # a pipe, a terminal
        place.write_bytes(data)
        return
    partial = place.with_name(f".{place.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(data)
        partial.replace(place)
    finally:
        partial.unlink(missing_ok=True)
