"""Replaces ``PIL.Image.open``, ``fromarray``, and torch's functions that bypass subclasses."""

from __future__ import annotations

import io
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import PIL.Image
import torch

from headrace._deferred import header, recording, source, switches, tensor, whole
from headrace._deferred.behind import Opened
from headrace._deferred.chain import Chain
from headrace._deferred.curing import (
    NO_IMAGE,
    NOT_WHOLE,
    OTHER_ARRAY,
    OTHER_FORMAT,
    OTHER_KIND,
    OWN_THREAD,
    TOO_LARGE,
)
from headrace._deferred.header import Header
from headrace._deferred.image import DeferredImage
from headrace._deferred.limits import MAX_RECORD_BYTES
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED
from headrace._engine import arguments
from headrace._translate import replaced

_PATHS = (str, bytes, os.PathLike)  # a union in its place would be made anew for each image
_OF_PATHS = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())

_POOLS = ("apply_async", "_map_async", "imap", "imap_unordered")  # of multiprocessing.pool.Pool


def switch() -> None:
    """Has these functions return deferred images while a dataset's code runs."""
    # A function that the program put in its place is left alone. Inside a wrapper made with
    # functools.wraps is Pillow's own.
    own: Any = getattr(PIL.Image.open, "__wrapped__", PIL.Image.open)
    if not replaced.is_replaced(own):
        switches.add(own, _open, elsewhere=OWN_THREAD)
    switches.add(ThreadPoolExecutor.submit, _given_to_a_thread)
    if "multiprocessing.pool" in sys.modules:
        for name in _POOLS:
            switches.add(
                vars(sys.modules["multiprocessing.pool"].Pool).get(name), _given_to_a_thread
            )
    if not replaced.is_replaced(PIL.Image.fromarray):
        switches.add(PIL.Image.fromarray, _from_array)
    switches.put_everywhere(tensor.OWN_TO_DLPACK, tensor.to_dlpack)
    switches.add(torch.utils.swap_tensors, tensor.swap)
    switches.add(torch.nn.Parameter.__new__, tensor.parameter)


def _given_to_a_thread(found: Recording, original: Any, *arguments: Any, **named: Any) -> Any:
    """Wraps the function that a pool of threads gets. A pool of processes would pickle it."""
    pools = sys.modules.get("multiprocessing.pool")
    pool, *rest = arguments
    if rest and (
        type(pool) is ThreadPoolExecutor or (pools and isinstance(pool, pools.ThreadPool))
    ):
        rest[0] = recording.for_another_thread(found, rest[0])
    return original(pool, *rest, **named)


def _open(
    found: Recording, original: Any, fp: Any, mode: Any = "r", formats: Any = None
) -> PIL.Image.Image:
    if mode != "r" or not (formats is None or isinstance(formats, list | tuple)):
        return NOT_RECORDED  # type: ignore[no-any-return]  # Pillow refuses them
    found.opened = True
    if found.transforms.replaced_method:
        made: PIL.Image.Image = original(fp, mode, formats)
        altering = found.note(replaced.said(found.transforms.replaced_method))
        if altering is not None:
            altering.in_place(made)
        return made
    name: Any = ""
    file: Any = ""  # the path that is counted if Pillow has to read the file
    is_path = isinstance(fp, _PATHS)
    goes_back = not is_path  # whether it is an object, which Pillow leaves behind the header
    behind: int | None = None  # that offset; None: Pillow has to say
    if is_path:
        name = file = os.fspath(fp)
        opened = opened_file(found, name, -1)
    elif type(fp) is io.BufferedReader and type(fp.raw) is io.FileIO:
        # Only real files: a member of an archive has a name as well, but other bytes.
        file = fp.name
        opened = opened_file(found, file, fp.fileno())
        behind = None if opened is None else header.behind(fp.fileno())
    elif type(fp) is io.BytesIO:
        opened, behind = opened_bytes(fp.getvalue())
    else:
        fp, data, goes_back = _read_whole(fp)
        opened, behind = opened_bytes(data)
    image, why = _deferred(opened, name, formats)
    if image is not None and found.asked is None and not whole.is_whole(image):
        image, why = None, NOT_WHOLE
    if image is None or (goes_back and not _moved_on(fp, image, behind)):
        altering, text = None, f"{_shown(name or getattr(fp, 'name', None))} {why}"
        # Not for a missing file: Pillow raises, and the program may take another file.
        if not is_path or os.path.exists(name):
            altering = found.note(text)
        # `fp` may hold what was read from an object, so Pillow gets the same bytes.
        try:
            made = original(fp, mode, formats)
        except PIL.UnidentifiedImageError:
            found.say_instead(text, text.replace(OTHER_KIND, NO_IMAGE))
            raise
        found.foreign.append((os.fsencode(file) if isinstance(file, str | bytes) else b"", text))
        if altering is not None:
            altering.in_place(made)
        return made
    if goes_back and hasattr(fp, "closed") and image.format != "WEBP":
        image.opened_from = fp  # not for a WebP, of which Pillow has read everything by now
    if found.eager_open:
        image.materialise()
    return image


def _deferred(
    opened: tuple[Any, Header] | None, name: Any, formats: Any
) -> tuple[DeferredImage | None, str]:
    """The deferred image for a file; or None, and why Pillow has to open the file."""
    file = opened and Opened(opened[0], name)
    head = opened and (opened[1] if opened[1][0] else _told_by_pillow(file))
    if opened is None or file is None or head is None:
        return None, OTHER_KIND
    kind, mode, (width, height) = head
    file.kind = kind
    if formats is not None and kind not in [str(one).upper() for one in formats]:
        return None, f"{OTHER_FORMAT} ({formats})"
    most = PIL.Image.MAX_IMAGE_PIXELS
    if most is not None and width * height > most:  # Pillow warns or refuses
        return None, f"has {width} x {height} pixels, {TOO_LARGE} {most}"
    chain = Chain(opened[0], mode, mode, head[2], (), None, file)
    chain = chain.in_grey() if mode == "L" else chain
    return DeferredImage(chain, kind), OTHER_KIND


def _read_whole(fp: Any) -> tuple[Any, bytes | None, bool]:
    """Reads any object with ``read``, such as a member of an archive, from its beginning.

    Returns:
        what Pillow is to read in its place; the bytes, or None if they are too many or cannot be
        read to their end (Pillow may not read so far); and whether the object can go back.
    """
    try:
        fp.seek(0)
    except (AttributeError, io.UnsupportedOperation):
        fp = io.BytesIO(fp.read())  # as Pillow does
        return fp, fp.getvalue(), False
    parts, left = [], MAX_RECORD_BYTES + 1
    try:
        while left > 0 and (part := fp.read(left)):
            parts.append(part)
            left -= len(part)
        data = b"".join(parts) if left > 0 else None
    except Exception:  # Pillow meets it as well, or never reads so far
        return fp, None, False
    return fp, data, True


def _moved_on(fp: Any, image: DeferredImage, behind: int | None) -> bool:
    """Leaves an object where Pillow would, behind the header; false: Pillow refuses the object."""
    try:
        if behind is None:
            file: Any = image.chain and image.chain.header
            file.image  # noqa: B018  # Pillow opens it now
            behind = file.behind
        fp.seek(behind)
    except Exception:  # the program will meet it in its own call
        return False
    return True


# Pillow's modes of which the engine makes the same RGB as Pillow's convert("RGB").
_DECODED = ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK")


ORIENTATION = 274  # EXIF's tag


def _told_by_pillow(file: Opened | None) -> Header | None:
    """The header of a BMP, GIF or TIFF; None: Pillow raises, or the file has several frames."""
    try:
        image: Any = file and file.image
    except Exception:  # the program will meet it in its own call
        return None
    known = image and image.format in ("BMP", "GIF", "TIFF") and image.mode in _DECODED
    if not known or getattr(image, "is_animated", False):
        return None
    if image.format == "TIFF" and image.tag_v2.get(ORIENTATION, 1) != 1:
        return None  # Pillow turns such an image as it loads it, and takes the tag away
    return image.format, image.mode, image.size


def opened_file(found: Recording, name: Any, descriptor: int) -> tuple[Any, Header] | None:
    if type(name) is str:
        path = name.encode(*_OF_PATHS)  # os.fsencode, in a third of its time
    else:
        path = os.fsencode(name) if isinstance(name, str | bytes) else b""
    try:
        if not path.startswith(b"/"):
            # Not abspath, which resolves "..": after a symbolic link that leads elsewhere.
            path = os.path.join(os.getcwdb(), path)
        # Opened once more, so that it has its own position and is closed at its own time.
        opens = path if descriptor < 0 else b"/proc/self/fd/%d" % descriptor
        if descriptor >= 0 and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        opened = source.opened(path, opens)
    except OSError:
        return None  # Pillow says it in its own words
    if opened is not None:
        if isinstance(name, int):  # it was opened by a descriptor, so no path is known
            opened[0].data = opened[0].read()
        found.files.append(opened[0])
    return opened


def _shown(name: Any) -> str:
    if not name or not isinstance(name, str | bytes):
        return "an image in memory"
    return arguments.printable(name)


def opened_bytes(data: bytes | None) -> tuple[tuple[bytes, Header] | None, int | None]:
    """The bytes with their header, and where that ends; None: Pillow has to be asked."""
    found = None if data is None else header.read(data)
    if data is None or found is None:
        return None, None
    head, behind = found
    return (data, head), behind


def _from_array(found: Recording, original: Any, obj: Any, mode: Any = None) -> PIL.Image.Image:
    found.opened = True
    bytes_of_pixels = type(obj) is np.ndarray and obj.dtype == np.uint8 and obj.size
    made = ""
    if bytes_of_pixels and obj.ndim in (2, 3):
        made = "L" if obj.ndim == 2 else "RGB" if obj.shape[2] == 3 else ""
    method = found.transforms.replaced_method
    if not made or mode not in (None, made) or method:
        altering = found.note(replaced.said(method) if method else OTHER_ARRAY)
        if altering is None:
            return NOT_RECORDED  # type: ignore[no-any-return]
        return altering.of_image(original(obj, mode))
    height, width = obj.shape[:2]
    data = source.encoded_pixels(width, height, obj.tobytes())
    chain = Chain(data, made, made, (width, height), (), None, None)
    return DeferredImage(chain.in_grey() if made == "L" else chain)
