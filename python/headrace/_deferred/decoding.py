"""Replaces torchvision's functions that decode images as tensors: ``read_image`` and the like.

JPEG, PNG and WebP files are recorded if torchvision returns the values that the engine makes: one
channel of grey, or three. Results with transparency or a palette's indices are left to torchvision.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

import torch

from headrace._deferred import opening
from headrace._deferred.behind import Opened, as_draft
from headrace._deferred.chain import Chain, Form
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED, Handler
from headrace._deferred.tensor import pending

# By format and torchvision's mode: the modes of files for which the engine makes the same values.
# libpng makes grey of colours in its own way.
_SAME = {
    ("JPEG", "UNCHANGED"): ("L", "RGB"),
    ("JPEG", "RGB"): ("L", "RGB"),
    ("JPEG", "GRAY"): ("L", "RGB"),
    ("PNG", "UNCHANGED"): ("L", "RGB"),
    ("PNG", "RGB"): ("L", "LA", "P", "RGB", "RGBA"),
    ("PNG", "GRAY"): ("L", "LA"),
    ("WEBP", "UNCHANGED"): ("RGB",),
    ("WEBP", "RGB"): ("RGB", "RGBA"),
}
_ANY = ("JPEG", "PNG", "WEBP")


def _read_image(
    found: Recording, original: Any, path: Any, mode: Any = "UNCHANGED", upright: Any = False
) -> Any:
    return _decoded(found, path, mode, upright, _ANY)


def _decode_image(
    found: Recording, original: Any, given: Any, mode: Any = "UNCHANGED", upright: Any = False
) -> Any:
    return _decoded(found, given, mode, upright, _ANY)


def _decode_jpeg(
    found: Recording,
    original: Any,
    given: Any,
    mode: Any = "UNCHANGED",
    device: Any = "cpu",
    upright: Any = False,
) -> Any:
    if str(device) != "cpu" or not isinstance(given, torch.Tensor):
        return NOT_RECORDED
    return _decoded(found, given, mode, upright, ("JPEG",))


def _decode_png(
    found: Recording, original: Any, given: Any, mode: Any = "UNCHANGED", upright: Any = False
) -> Any:
    if not isinstance(given, torch.Tensor):
        return NOT_RECORDED
    return _decoded(found, given, mode, upright, ("PNG",))


def _decode_webp(found: Recording, original: Any, given: Any, mode: Any = "UNCHANGED") -> Any:
    if not isinstance(given, torch.Tensor):
        return NOT_RECORDED
    return _decoded(found, given, mode, False, ("WEBP",))


def _decoded(
    found: Recording, given: Any, mode: Any, upright: Any, formats: tuple[str, ...]
) -> Any:
    name = str(getattr(mode, "name", mode)).upper()
    if upright or found.eager_open:
        return NOT_RECORDED
    opened: Any
    if type(given) is torch.Tensor:
        if given.dtype != torch.uint8 or given.dim() != 1 or given.device.type != "cpu":
            return NOT_RECORDED
        data = bytes(given.numpy())
        opened = opening.opened_bytes(data)[0] or (None, None)
    elif isinstance(given, str | os.PathLike):
        opened = opening.opened_file(found, os.fspath(given), -1) or (None, None)
    else:
        return NOT_RECORDED
    source, head = opened
    if head is None:
        return NOT_RECORDED
    kind, stored, size = head
    if kind not in formats or stored not in _SAME.get((kind, name), ()):
        return NOT_RECORDED
    found.opened = True
    found.begun[id(source)] = source, found.place
    # Some versions of torchvision warn that these functions are deprecated. So they do here.
    getattr(sys.modules["torchvision.io.image"], "_warn_deprecated", lambda: None)()
    chain = Chain(source, stored, stored, size, (), None, Opened(source, ""))
    if name == "GRAY" and stored == "RGB":  # libjpeg's grey is the luminance in the file
        chain = chain.drafted(size, 1, True, partial(as_draft, "L", size))
    elif name == "GRAY" or (name == "UNCHANGED" and stored == "L"):
        chain = chain.in_grey()
    else:
        chain = chain.in_colours()
    return pending(chain, Form(channels=chain.channels))


FUNCTIONS: dict[str, dict[str, Handler]] = {
    "torchvision.io.image": {
        "decode_image": _decode_image,
        "decode_jpeg": _decode_jpeg,
        "decode_png": _decode_png,
        "decode_webp": _decode_webp,
        "read_image": _read_image,
    },
}
