"""The image sets that are loaded, made once from one image folder and kept below .build/bench.

All of them come from the photographs that every peer can read, so that all do the same work. A
small folder is repeated by hard links until an epoch is long enough that its end slows none of
them.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import multiprocessing
import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

VERSION = 1  # version of what the functions below make
QUALITY = 90
LARGE = (3840, 2160)
SMALL = 64
SAMPLINGS = {"4:4:4": 0, "4:2:0": 2}  # Pillow's `subsampling`


@dataclass(frozen=True)
class ImageSet:
    """An image folder with one folder for each class."""

    name: str
    folder: Path
    images: int
    distinct: int

    @property
    def bytes(self) -> int:
        return sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Photograph:
    path: Path
    kind: str  # the folder of its class


class Sets:
    """Makes the sets of one folder, with at most `most` photographs of it, in `work`."""

    def __init__(self, source: Path, work: Path, most: int, images: int) -> None:
        found = sorted(path for path in source.rglob("*") if path.is_file())
        kept = min(most, len(found))  # evenly over the classes, not the first ones only
        chosen = [found[i * len(found) // kept] for i in range(kept)]
        self.images = images
        with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
            verdicts = pool.map(refusal, chosen, chunksize=16)
        self.left_out = dict(Counter(verdict for verdict in verdicts if verdict))
        self.photographs = [
            Photograph(path, path.relative_to(source).parts[0] if path.parent != source else "all")
            for path, verdict in zip(chosen, verdicts, strict=True)
            if not verdict
        ]
        if not self.photographs:
            raise SystemExit(f"{source} holds no JPEG that every peer can read: {self.left_out}")
        digest = hashlib.sha256(repr((VERSION, images)).encode())
        for photograph in self.photographs:
            status = photograph.path.stat()
            about = (str(photograph.path), status.st_size, status.st_mtime_ns)
            digest.update(repr(about).encode())
        self.work = work / digest.hexdigest()[:16]
        self.work.mkdir(parents=True, exist_ok=True)

    def named(self, name: str) -> ImageSet:
        """Returns the set that a row asks for: "original", "64x64", "3840x2160", or "512 4:2:0"."""
        if name == "original":
            return self.original()
        if name == "64x64":
            return self.small()
        if name == "3840x2160":
            return self.large()
        size, sampling = name.split(" ")
        return self.recoded(None if size == "original" else int(size), sampling)

    def packed(self) -> tuple[Path, Path]:
        """The original set as a folder, and packed beside it; both are in the page cache."""
        import headrace as hr

        folder = self.original().folder
        packed = folder.with_suffix(".gpu.hr")
        if not packed.exists():
            hr.pack(folder, packed)
        read_all([packed, folder])  # packing leaves no shard in the page cache
        return folder, packed

    def original(self) -> ImageSet:
        """Returns the photographs as they are."""
        return self._made("original", self.photographs, self.images, Path.read_bytes)

    def recoded(self, shorter: int | None, sampling: str) -> ImageSet:
        """Encodes again: 4:4:4, 4:2:0 or progressive (4:2:0), with the shorter side `shorter`."""
        name = f"{shorter or 'original'} {sampling}"
        return self._made(name, self.photographs, self.images, Recode(shorter, sampling))

    def small(self) -> ImageSet:
        """Returns the middle squares, 64 x 64."""
        return self._made("64x64", self.photographs, self.images, small)

    def large(self) -> ImageSet:
        """Returns images of 3840 x 2160: photographs laid side by side, so detail is as dense as in
        them."""
        count = max(1, min(24, len(self.photographs)))
        tiles = [photograph.path for photograph in self.photographs]
        chosen = self.photographs[:: max(1, len(self.photographs) // count)][:count]
        return self._made("3840x2160", chosen, 8 * count, Mosaic(tiles))

    def _made(
        self,
        name: str,
        photographs: Sequence[Photograph],
        images: int,
        encode: Callable[[Path], bytes],
    ) -> ImageSet:
        folder = self.work / name.replace(" ", "-").replace(":", "")
        repeats = max(1, math.ceil(images / len(photographs)))
        made = ImageSet(name, folder, repeats * len(photographs), len(photographs))
        if folder.exists():
            return made
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        with multiprocessing.Pool(len(os.sched_getaffinity(0))) as pool:
            paths = [photograph.path for photograph in photographs]
            for number, (photograph, encoded) in enumerate(
                zip(photographs, pool.imap(encode, paths, chunksize=8), strict=True)
            ):
                first = partial / photograph.kind / f"{number:05}.jpg"
                first.parent.mkdir(parents=True, exist_ok=True)
                first.write_bytes(encoded)
                for repeat in range(1, repeats):
                    first.with_stem(f"{first.stem}-{repeat}").hardlink_to(first)
        partial.rename(folder)
        return made


def refusal(path: Path) -> str:
    """Returns why some peer cannot read a file; "" if all can."""
    try:
        with Image.open(path) as image:
            if image.format != "JPEG":
                return f"{image.format}, which not all peers read"
            if image.mode not in ("RGB", "L"):
                return f"{image.mode} JPEG, which not all peers read"
            image.load()
    except Exception as error:
        return f"{type(error).__name__} from Pillow"
    return ""


@dataclass(frozen=True)
class Recode:
    """Encodes a photograph again, at its own size or with another shorter side."""

    shorter: int | None
    sampling: str

    def __call__(self, path: Path) -> bytes:
        image = Image.open(path).convert("RGB")
        if self.shorter is not None:
            scale = self.shorter / min(image.size)
            size = (round(image.width * scale), round(image.height * scale))
            image = image.resize(size, Image.Resampling.LANCZOS)
        progressive = self.sampling == "progressive"
        return encoded(image, SAMPLINGS.get(self.sampling, 2), progressive)


@dataclass(frozen=True)
class Mosaic:
    """Covers a large image with photographs at their own size, beginning with `path`."""

    tiles: Sequence[Path]

    def __call__(self, path: Path) -> bytes:
        rest = random.Random(path.name).sample(self.tiles, len(self.tiles))
        image, top = Image.new("RGB", LARGE), 0
        tiles = itertools.cycle([path, *rest])
        while top < LARGE[1]:
            left, heights = 0, []
            while left < LARGE[0]:
                tile = Image.open(next(tiles)).convert("RGB")
                image.paste(tile, (left, top))
                left += tile.width
                heights.append(tile.height)
            top += min(heights)
        return encoded(image, 2, False)


def small(path: Path) -> bytes:
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    box = (left, top, left + side, top + side)
    return encoded(image.resize((SMALL, SMALL), Image.Resampling.LANCZOS, box), 2, False)


def encoded(image: Image.Image, subsampling: int, progressive: bool) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=QUALITY, subsampling=subsampling, progressive=progressive)
    return buffer.getvalue()


def read_all(paths: Iterable[Path]) -> int:
    """Reads all files below the paths once, so that they are in the page cache; returns their
    bytes."""
    total = 0
    for path in paths:
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file():
                total += len(file.read_bytes())
    return total
