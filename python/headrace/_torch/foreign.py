"""Has Pillow decode single files of an image folder that the engine does not decode.

torch's loader reads what Pillow reads: AVIF, JPEG 2000, a TIFF of 16 bits, under any file name; and
with ``ImageFile.LOAD_TRUNCATED_IMAGES`` also files that end too early. So Pillow has the last word
on a file that the engine refuses, and on how many pixels are too many. Pillow's pixels go through
the same transforms, natively and with the same draws; only the decoding differs.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headrace.errors import (
    BadFileError,
    BadImageError,
    HeadraceError,
    LimitError,
    TruncatedError,
    UnsupportedError,
)

# The files that the engine decodes, by name and by the first bytes. The engine itself goes by
# content.
_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".tiff")
_BEGINNINGS = (
    *(b"\xff\xd8", b"\x89PNG", b"RIFF", b"GIF8", b"BM", b"II*\0", b"MM\0*"),
    *(b"P5", b"P6"),
)
# After these errors Pillow is asked. Limits other than that of pixels stand, as the engine's own.
REFUSALS = (BadImageError, TruncatedError, UnsupportedError)

# The engine's default limits that depend on an image's pixels (docs/limits.md).
_MAX_PIXELS, _MAX_DECODER_BYTES, _MAX_SCAN_BLOCKS = 89_478_485, 512 << 20, 1 << 26
_ANY_PIXELS = 1 << 48  # a side has at most 2^24
_ANY_BYTES = 1 << 50


def limits(given: Mapping[str, int] | None) -> dict[str, int]:
    """The engine's limits for files that torch's loader would open with Pillow.

    Above ``Image.MAX_IMAGE_PIXELS`` Pillow itself is asked, because it warns there, and refuses
    above twice as many. If a program raises that number, what an image may cost is raised in
    proportion.

    Args:
        given: the limits that the program chose, which are kept.
    """
    chosen = {} if given is None else dict(given)
    most = getattr(sys.modules.get("PIL.Image"), "MAX_IMAGE_PIXELS", _MAX_PIXELS)
    if most is None:
        found = {"max_pixels": _ANY_PIXELS, "max_decoder_bytes": _ANY_BYTES}
        return found | {"max_scan_blocks": _ANY_BYTES} | chosen
    pixels = max(1, int(most))
    found = {"max_pixels": pixels}
    if pixels > _MAX_PIXELS:
        found["max_decoder_bytes"] = _MAX_DECODER_BYTES * pixels // _MAX_PIXELS
        found["max_scan_blocks"] = _MAX_SCAN_BLOCKS * pixels // _MAX_PIXELS
    return found | chosen


def limits_of_decoded(size: int) -> dict[str, int]:
    """Limits that allow an image of ``size`` bytes that Pillow has decoded."""
    held = _MAX_DECODER_BYTES + 8 * size
    return {"max_pixels": _ANY_PIXELS, "max_record_bytes": size, "max_decoder_bytes": held}


def refused(failure: HeadraceError, own_pixels: bool) -> bool:
    """Whether Pillow has to be asked about a failure of the engine.

    Args:
        own_pixels: whether the program itself set how many pixels an image may have.
    """
    if isinstance(failure, LimitError):
        return not own_pixels and "max_pixels is" in failure.reason
    return isinstance(failure, REFUSALS)


def loads_truncated_images() -> bool:
    """Whether the program has set Pillow's ``LOAD_TRUNCATED_IMAGES``."""
    return bool(getattr(sys.modules.get("PIL.ImageFile"), "LOAD_TRUNCATED_IMAGES", False))


def of_another_kind(path: str) -> bool:
    """Whether a file's name is not that of a kind that the engine decodes."""
    return not path.lower().endswith(_EXTENSIONS)


class Foreign:
    """Which samples of a folder Pillow decodes.

    Args:
        paths: the paths of all samples.
        own_pixels: whether the program itself set how many pixels an image may have.

    Attributes:
        rows: by the sample's number, a sentence on why the engine does not decode it. Only
            ``give_up`` takes a sample out of it.
        hopeless: samples that Pillow does not decode either, so that the engine replaces them.
        decoded: how many images Pillow has decoded.
        latest: the number of the last one of them.
    """

    def __init__(self, paths: Sequence[str], own_pixels: bool) -> None:
        self._paths, self._own_pixels = paths, own_pixels
        self.rows = {
            row: f"{path} is of another kind by its name"
            for row, path in enumerate(paths)
            if of_another_kind(path)
        }
        self.hopeless: set[int] = set()
        self.decoded, self.latest = 0, -1
        self._lock = threading.Lock()
        # If one file was not what its name says, the others' first bytes are checked before they
        # are read.
        self._suspicious = False
        self._looked_into: set[int] = set()

    def refused(self, failure: HeadraceError) -> bool:
        """Whether Pillow has to be asked about a failure."""
        return refused(failure, self._own_pixels) or self._is_of_a_directory(failure)

    def _is_of_a_directory(self, failure: HeadraceError) -> bool:
        """Whether a directory is in the place of a file; Python raises an ``OSError`` then."""
        row = failure.record
        return type(failure) is BadFileError and row is not None and os.path.isdir(self._paths[row])

    def take(self, failure: HeadraceError) -> bool:
        """Leaves the sample of a failure to Pillow; False: it was left already, or cannot be."""
        row = failure.record
        if row is None or row in self.rows or row in self.hopeless or not self.refused(failure):
            return False
        self.rows[row] = failure.reason
        self._suspicious = self._suspicious or isinstance(failure, UnsupportedError)
        return True

    def give_up(self, row: int) -> None:
        """Leaves a sample to the engine again, so that the engine replaces it."""
        self.hopeless.add(row)
        self.rows.pop(row, None)

    def among(self, rows: Sequence[int]) -> list[int]:
        """The places, among these samples, of those that Pillow decodes."""
        if self._suspicious:
            self._look_into(rows)
        known = self.rows
        return [place for place, row in enumerate(rows) if row in known] if known else []

    def _look_into(self, rows: Iterable[int]) -> None:
        for row in rows:
            if row in self._looked_into:
                continue
            self._looked_into.add(row)
            try:
                with open(self._paths[row], "rb", buffering=0) as file:
                    begin = file.read(4)
            except OSError:
                continue  # the engine says what is wrong
            if begin and not begin.startswith(_BEGINNINGS) and row not in self.hopeless:
                self.rows.setdefault(row, f"{self._paths[row]} has not the first bytes of one")

    def read(self, row: int) -> tuple[bytearray, dict[str, int], dict[Any, Any]]:
        """An image as torchvision's folder gets it from Pillow.

        It is returned as a PPM, with limits that allow it, and the image's ``info``.

        Raises:
            what Pillow raises.
        """
        from PIL import Image

        with open(self._paths[row], "rb") as file:
            image = Image.open(file).convert("RGB")
        with self._lock:
            self.decoded += 1
            self.latest = row
        data = bytearray(b"P6 %d %d 255\n" % image.size)
        data += image.tobytes()
        return data, limits_of_decoded(len(data)), image.info

    @property
    def news(self) -> tuple[str, int]:
        """A sentence on the latest image that Pillow decoded, and how many such files are known."""
        count = len(self.rows)
        files = "1 file so far" if count == 1 else f"{count:,} files so far"
        return (
            f"Pillow decodes what the engine cannot ({files}), and the rest is native: "
            f"{self.rows.get(self.latest, '')}",
            count,
        )

    def __reduce__(self) -> Any:
        raise TypeError("it belongs to samples that are open in this process")
