"""Gives Pillow's warning of half-transparent colours in a palette when a conversion is recorded."""

from __future__ import annotations

import re
import warnings
from typing import Any

import PIL.Image

from headrace._deferred.chain import Chain
from headrace._deferred.source import beginning
from headrace._torch import trailing

_TEXT = "Palette images with Transparency expressed in bytes should be converted to RGBA images"
_ONE_COLOUR = re.compile(rb"^\xff*\x00\xff*$")  # one transparent colour (PIL.PngImagePlugin)
_FIRST = 4096  # how many bytes of a file are read; a palette of 256 colours takes 780


def warn_of(chain: Chain) -> None:
    """Warns as ``convert`` does for a PNG with a palette; Python shows the warning once.

    Raises:
        UserWarning: warnings are errors.
    """
    if chain.header is None or chain.header.kind != "PNG":
        return
    alpha = _alpha(beginning(chain.source, _FIRST))
    if alpha is None:  # more stands before the pixels than was read
        told: Any = chain.header.image.info.get("transparency")
        alpha = told if isinstance(told, bytes) else b""
    if not alpha or _ONE_COLOUR.match(alpha):
        return
    # In the name of Pillow's module, by which filters go, and Python's record of past warnings.
    said = vars(PIL.Image).setdefault("__warningregistry__", {})
    line = PIL.Image.Image.convert.__code__.co_firstlineno
    warnings.warn_explicit(_TEXT, UserWarning, PIL.Image.__file__, line, "PIL.Image", said)


def _alpha(data: bytes) -> bytes | None:
    """The alpha values of a PNG's palette; b"": it has none. None: ``data`` ends too early."""
    for name, begin, end in trailing.chunks(data):
        if len(name) < 4:
            break
        if name == b"IDAT":
            return b""
        if name == b"tRNS":
            return data[begin:end] if end <= len(data) else None
    return None
