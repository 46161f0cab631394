"""Pillow's warning of a palette with half transparent colours, where a conversion is recorded."""

from __future__ import annotations

import re
import warnings
from typing import Any

import PIL.Image

from headrace._deferred.chain import Chain
from headrace._deferred.source import beginning
from headrace._torch import trailing

_TEXT = "Palette images with Transparency expressed in bytes should be converted to RGBA images"
_ONE_COLOUR = re.compile(rb"^\xff*\x00\xff*$")  # PIL.PngImagePlugin: it is no bytes to Pillow
_FIRST = 4096  # bytes of a file; a palette of 256 colours takes 780


def warn_of(chain: Chain) -> None:
    """Warns as ``convert`` does of a PNG with a palette, once for all as Python counts it.

    Raises:
        UserWarning: where warnings are errors.
    """
    if chain.header is None or chain.header.kind != "PNG":
        return
    alpha = _alpha(beginning(chain.source, _FIRST))
    if alpha is None:  # more stands before the pixels than was read
        told: Any = chain.header.image.info.get("transparency")
        alpha = told if isinstance(told, bytes) else b""
    if not alpha or _ONE_COLOUR.match(alpha):
        return
    # In Pillow's name, as filters and Python's own list of what was said go by it.
    said = vars(PIL.Image).setdefault("__warningregistry__", {})
    line = PIL.Image.Image.convert.__code__.co_firstlineno
    warnings.warn_explicit(_TEXT, UserWarning, PIL.Image.__file__, line, "PIL.Image", said)


def _alpha(data: bytes) -> bytes | None:
    """The alpha of a PNG's colours; b"": it has none. None: the bytes do not reach so far."""
    for name, begin, end in trailing.chunks(data):
        if len(name) < 4:
            break
        if name == b"IDAT":
            return b""
        if name == b"tRNS":
            return data[begin:end] if end <= len(data) else None
    return None
