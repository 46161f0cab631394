"""What decodes images as tensors: torchvision's ``read_image``, ``decode_image``, ``decode_jpeg``.

JPEG files alone: of those torchvision's values are Pillow's. Of PNG files with transparency it
makes other channels.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from headrace._deferred import header, opening
from headrace._deferred.chain import Chain, Form
from headrace._deferred.image import Opened
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED, Handler
from headrace._deferred.tensor import pending

# What torchvision's modes leave as it is, by the file's own: its grey of colours is libjpeg's.
_KEPT = {"UNCHANGED": ("L", "RGB"), "RGB": ("L", "RGB"), "GRAY": ("L",)}


def _read_image(
    found: Recording, original: Any, path: Any, mode: Any = "UNCHANGED", upright: Any = False
) -> Any:
    return _decoded(found, path, mode, upright)


def _decode_image(
    found: Recording, original: Any, given: Any, mode: Any = "UNCHANGED", upright: Any = False
) -> Any:
    return _decoded(found, given, mode, upright)


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
    return _decoded(found, given, mode, upright)


def _decoded(found: Recording, given: Any, mode: Any, upright: Any) -> Any:
    kept = _KEPT.get(str(getattr(mode, "name", mode)).upper(), ())
    if upright or not kept:
        return NOT_RECORDED
    opened: Any
    if type(given) is torch.Tensor:
        if given.dtype != torch.uint8 or given.dim() != 1 or given.device.type != "cpu":
            return NOT_RECORDED
        data = bytes(given.numpy())
        opened = (data, header.read(data))
    elif isinstance(given, str | os.PathLike):
        opened = opening.opened_file(found, os.fspath(given), -1) or (None, None)
    else:
        return NOT_RECORDED
    source, head = opened
    if head is None or head.format != "JPEG" or head.mode not in kept:
        return NOT_RECORDED
    found.opened = True
    # torchvision warns of these functions, and so it does here.
    getattr(sys.modules["torchvision.io.image"], "_warn_deprecated", lambda: None)()
    chain = Chain(source, head.mode, head.mode, head.size, (), None, Opened(source, ""))
    unchanged = head.mode == "L" and str(getattr(mode, "name", mode)).upper() != "RGB"
    chain = chain.in_grey() if unchanged else chain.in_colours()
    return pending(chain, Form(channels=chain.channels))


FUNCTIONS: dict[str, dict[str, Handler]] = {
    "torchvision.io.image": {
        "decode_image": _decode_image,
        "decode_jpeg": _decode_jpeg,
        "read_image": _read_image,
    },
}
