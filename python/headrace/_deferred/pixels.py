"""The pixels of deferred images in the process that recorded them, when somebody asks for them."""

from __future__ import annotations

import io
from ctypes import c_char
from typing import Any

import PIL.Image

from headrace._deferred import recording
from headrace._deferred.chain import Chain, Form, config
from headrace._deferred.recording import MadeInPython
from headrace._deferred.source import encoded_pixels
from headrace._engine import _lib, abi
from headrace.errors import HeadraceError


def note(what: str = "") -> None:
    """Remembers in the recording, where there is one, that something needs pixels."""
    if (found := recording.current()) is not None:
        found.note(f"{what} needs the pixels" if what else "")


def image_of(chain: Chain, what: str = "") -> PIL.Image.Image:
    """What Pillow would have made of the file and of what was done to it since.

    Raises:
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
        MadeInPython: the engine was to draw, and this process has none.
    """
    found = recording.current()
    if found is not None and found.waits:
        raise MadeInPython
    note(what)
    if chain.native and (found is None or found.engine):
        size, data = decoded(chain, Form(layout="NHWC", channels=chain.channels))
        return PIL.Image.frombytes(chain.mode, size, data)
    if chain.drawn:
        raise MadeInPython
    with recording.paused():
        return _with_pillow(chain)


def decoded(chain: Chain, form: Form, mode: str = "exact") -> tuple[tuple[int, int], bytes]:
    """Width and height, and the values of a chain in a form, by the engine in this thread.

    Raises:
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
    """
    source = chain.source
    data = source if isinstance(source, bytes) else source.read()
    seed, epoch, sample, draw, view = chain.key or (0,) * 5
    key = f',"seed":{seed},"epoch":{epoch},"sample":{sample},"draw":{draw},"view":{view}}}'
    text = config(chain, form, mode)[:-1] + key
    try:
        return _decoded(data, text)
    except HeadraceError:
        # Pillow reads more kinds of files, or says in its own words what is wrong with this one.
        return _decoded(read_by_pillow(data), text)


def read_by_pillow(data: bytes) -> bytes:
    """An encoded image as Pillow decodes it, in a format that the engine takes.

    Raises:
        OSError, PIL.UnidentifiedImageError: Pillow cannot.
    """
    with recording.paused():
        image = PIL.Image.open(io.BytesIO(data)).convert("RGB")
    return encoded_pixels(*image.size, image.tobytes())


def _decoded(data: bytes, text: str) -> tuple[tuple[int, int], bytes]:
    encoded, image = text.encode(), abi.Image()
    told = (data, len(data), encoded, len(encoded))
    _lib.call("hr_decode", *told, None, 0, image)
    made = bytearray(image.bytes)
    _lib.call("hr_decode", *told, (c_char * len(made)).from_buffer(made), len(made), image)
    return (image.width, image.height), bytes(made)


def _with_pillow(chain: Chain) -> PIL.Image.Image:
    source = chain.source
    data = source if isinstance(source, bytes) else source.read()
    image: Any = PIL.Image.open(io.BytesIO(data))
    steps = chain.steps
    if chain.drafts:
        assert steps[0].replay is not None
        image, steps = steps[0].replay(image), steps[1:]
    if chain.native:
        image = image.convert("RGB")  # which the steps begin with
    image.load()
    for step in steps:
        assert step.replay is not None
        image = step.replay(image)
    return PIL.Image.Image._new(image, image.im)
