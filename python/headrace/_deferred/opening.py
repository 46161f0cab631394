"""Replaces ``PIL.Image.open`` and ``fromarray``, and functions of torch's that ask no subclass."""

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

_PATHS = (str, bytes, os.PathLike)  # once: a union is made anew each time
_OF_PATHS = (sys.getfilesystemencoding(), sys.getfilesystemencodeerrors())

_POOLS = ("apply_async", "_map_async", "imap", "imap_unordered")  # methods of multiprocessing's


def switch() -> None:
    """Has them give deferred images while a dataset's code runs."""
    # What a program has put there is left alone; within a wrapper that says so is Pillow's.
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
    """Work for a pool, the second argument. Not of processes, whose functions are pickled."""
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
    is_path = isinstance(fp, _PATHS)
    goes_back = not is_path  # an object that Pillow leaves behind the header:
    behind: int | None = None  # there; None: Pillow has to say
    if is_path:
        name = os.fspath(fp)
        opened = opened_file(found, name, -1)
    elif type(fp) is io.BufferedReader and type(fp.raw) is io.FileIO:
        # Only real files: a member of an archive has a name as well, but other bytes.
        opened = opened_file(found, fp.name, fp.fileno())
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
        # What is not there needs no pixels: Pillow raises, and the program may take another file.
        if not is_path or os.path.exists(name):
            altering = found.note(text)
        # Pillow has its word on what was read of an object, too.
        try:
            made = original(fp, mode, formats)
        except PIL.UnidentifiedImageError:
            found.say_instead(text, text.replace(OTHER_KIND, NO_IMAGE))
            raise
        found.foreign.append((os.fsencode(name) if isinstance(name, str | bytes) else b"", text))
        if altering is not None:
            altering.in_place(made)
        return made
    if goes_back and hasattr(fp, "closed") and image.format != "WEBP":
        image.opened_from = fp  # of a WebP Pillow has read all by now
    if found.eager_open:
        image.materialise()
    return image


def _deferred(
    opened: tuple[Any, Header] | None, name: Any, formats: Any
) -> tuple[DeferredImage | None, str]:
    """What stands for a file; or None, and why Pillow has to open it."""
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
    """The bytes of any object that reads, as a member of an archive: from its beginning, as Pillow.

    Returns:
        what Pillow is to read in its place; the bytes, or None where they are too many or cannot be
        read to their end, which Pillow may not ask for; and whether the object can go back.
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
    except Exception:  # Pillow meets it, or never reads so far
        return fp, None, False
    return fp, data, True


def _moved_on(fp: Any, image: DeferredImage, behind: int | None) -> bool:
    """Leaves an object where Pillow would, behind the header; false where Pillow refuses it."""
    try:
        if behind is None:
            file: Any = image.chain and image.chain.header
            file.image  # noqa: B018  # opened now
            behind = file.behind
        fp.seek(behind)
    except Exception:  # which the program is to meet in its own call
        return False
    return True


# Pillow's modes that the engine makes RGB of as Pillow's convert("RGB") does.
_DECODED = ("1", "L", "P", "LA", "RGB", "RGBA", "CMYK")


ORIENTATION = 274  # of EXIF


def _told_by_pillow(file: Opened | None) -> Header | None:
    """The header of a BMP, GIF or TIFF; None where Pillow raises, or can go on to other frames."""
    try:
        image: Any = file and file.image
    except Exception:  # which the program is to meet in its own call
        return None
    known = image and image.format in ("BMP", "GIF", "TIFF") and image.mode in _DECODED
    if not known or getattr(image, "is_animated", False):
        return None
    if image.format == "TIFF" and image.tag_v2.get(ORIENTATION, 1) != 1:
        return None  # Pillow turns it while it loads, and has no orientation then
    return image.format, image.mode, image.size


def opened_file(found: Recording, name: Any, descriptor: int) -> tuple[Any, Header] | None:
    if type(name) is str:
        path = name.encode(*_OF_PATHS)  # os.fsencode, in a third of its time
    else:
        path = os.fsencode(name) if isinstance(name, str | bytes) else b""
    try:
        if not path.startswith(b"/"):
            # Not abspath, which takes ".." away: behind a link it leads to another folder.
            path = os.path.join(os.getcwdb(), path)
        # Its own position in the file, and its own time to be closed.
        opens = path if descriptor < 0 else b"/proc/self/fd/%d" % descriptor
        if descriptor >= 0 and not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        opened = source.opened(path, opens)
    except OSError:
        return None  # which Pillow says in its own words
    if opened is not None:
        if isinstance(name, int):  # open(number): no path leads to it
            opened[0].data = opened[0].read()
        found.files.append(opened[0])
    return opened


def _shown(name: Any) -> str:
    if not name or not isinstance(name, str | bytes):
        return "an image in memory"
    return arguments.printable(name)


def opened_bytes(data: bytes | None) -> tuple[tuple[bytes, Header] | None, int | None]:
    """The bytes with their header, as far as it is read here, and where it ends."""
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
