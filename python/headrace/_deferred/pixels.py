"""Makes the pixels of deferred images at once, in the process that recorded them."""

from __future__ import annotations

import io
import json
import operator
from collections.abc import Callable
from ctypes import c_char
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import PIL.Image
import torch
import torch.utils.data

from headrace._deferred import drawn, limits, recording
from headrace._deferred.altering import Altering
from headrace._deferred.chain import Chain, Form, config
from headrace._deferred.source import bytes_of, encoded_pixels
from headrace._engine import _lib, abi
from headrace._torch.failures import joined
from headrace._torch.foreign import limits_of_decoded
from headrace.errors import ChangedError, HeadraceError, LimitError

# An op, or the beginning before the first op, and the image that it made.
Step = tuple[Any, PIL.Image.Image]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def note(what: str = "") -> Altering | None:
    """Notes in the recording, if there is one, that something needs pixels.

    Returns:
        how the pixels are to be altered; None: they stay the image's own.
    """
    found = recording.current()
    return None if found is None else found.note(f"{what} needs the pixels" if what else "")


def asked(what: str = "") -> Altering | None:
    """As ``note``, for code that may have to wait.

    Raises:
        ValuesNeeded: a collate function has to wait for pixels.
    """
    found = recording.current()
    if found is not None:
        found.refuse()
    return note(what)


def _noted_where_it_fails(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Has the recording note when a function that decodes raises because of a bad file.

    With torch's loader the program would have met that error earlier, where Pillow decodes.
    """

    @wraps(function)
    def made(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            return function(*arguments, **named)
        except (ChangedError, LimitError, MemoryError):
            raise
        except Exception:
            recording.decoding_failed()
            raise

    return made


@_noted_where_it_fails
def image_of(chain: Chain) -> PIL.Image.Image:
    """The image that Pillow would have made of the file and of the ops since.

    Raises:
        OSError, PIL.UnidentifiedImageError: Pillow's error: the file is bad.
    """
    if chain.native and engine_here():
        size, data = decoded(chain, Form(layout="NHWC", channels=chain.channels))
        return PIL.Image.frombytes(chain.mode, size, data)
    steps = _steps()
    _is_made(chain)
    with recording.paused():
        image = _with_pillow(chain, steps=steps)
        return PIL.Image.Image._new(image, image.im)


def info_of(chain: Chain, info: dict[Any, Any]) -> dict[Any, Any]:
    """The ``info`` that Pillow's image has after the ops, if the file's is ``info``.

    Raises:
        OSError, PIL.UnidentifiedImageError: Pillow's error: the file is bad.
    """
    # The replay draws what the engine draws as well, so its draws are undone.
    before = drawn.states() if chain.drawn and engine_here() else None
    try:
        with recording.paused():
            made: dict[Any, Any] = _with_pillow(chain, info).info
            return made
    finally:
        if before is not None:
            drawn.go_back(before)


def engine_here() -> bool:
    """Whether this process may decode natively, also if this thread has no recording."""
    found = recording.current()
    if found is not None:
        return found.engine
    return torch.utils.data.get_worker_info() is None and not _lib.came_by_fork()


@_noted_where_it_fails
def values_of(chain: Chain, form: Form) -> torch.Tensor:
    """The tensor of a chain in a form, as Pillow, torchvision and torch make it without an engine.

    Raises:
        OSError, PIL.UnidentifiedImageError: Pillow's error: the file is bad.
    """
    steps = _steps()
    _is_made(chain)
    with recording.paused():
        return finished(_with_pillow(chain, steps=steps), form)


def finished(value: Any, form: Form) -> torch.Tensor:
    """An image, or the tensor of one, as a tensor in a form."""
    made, dtype = _tensor(value), getattr(torch, form.dtype)
    if made.dtype != dtype:
        made = made.to(dtype)
        made = made.div_(255) if form.scale == "div" else made.mul_(1 / 255)
    if form.normalize:
        op = json.loads(form.normalize)
        both = (torch.tensor(op[name], dtype=dtype, device="cpu") for name in ("mean", "std"))
        mean, std = (numbers[:, None, None] for numbers in both)
        made = made.sub(mean).div_(std)
    return made


@_noted_where_it_fails
def decoded(chain: Chain, form: Form) -> tuple[tuple[int, int], bytes]:
    """Width and height, and the values of a chain in a form, made by the engine in this thread.

    Raises:
        OSError, PIL.UnidentifiedImageError: Pillow's error: the file is bad.
        LimitError: the image meets a limit of the engine's own. It is an ``OSError``, too.
    """
    found, data = recording.current(), bytes_of(chain.source)
    _is_made(chain)
    allowed = limits.now() if found is None else found.limits
    try:
        made = _decoded(data, _config(chain, form, "exact", allowed.text))
        if found is not None:
            found.engine_made = True
        return made
    except HeadraceError as failure:
        if allowed.stand(failure):
            raise joined(failure, OSError()) from None
        # Pillow reads more kinds of files, or says in its own words what is wrong with this one.
        return _by_pillow(data, chain, form, "exact")


def by_pillow(chain: Chain, form: Form, mode: str) -> bytes:
    """The values of a chain in a form, where Pillow decodes the file and the engine does the rest.

    Raises:
        ChangedError: the file is not the one that was opened any more.
        OSError, PIL.UnidentifiedImageError: Pillow's error: the file is bad.
    """
    data = bytes_of(chain.source)
    return _by_pillow(data, chain, form, mode)[1]


def _by_pillow(data: bytes, chain: Chain, form: Form, mode: str) -> tuple[tuple[int, int], bytes]:
    data = read_by_pillow(data)
    allowed = json.dumps(limits_of_decoded(len(data)))
    return _decoded(data, _config(chain, form, mode, allowed))


def _config(chain: Chain, form: Form, mode: str, allowed: str) -> str:
    seed, epoch, sample, draw, view = chain.key or (0,) * 5
    key = f',"seed":{seed},"epoch":{epoch},"sample":{sample},"draw":{draw},"view":{view}}}'
    return config(chain, form, mode, allowed)[:-1] + key


def read_by_pillow(data: bytes) -> bytes:
    """An image as Pillow decodes it, encoded in a format that the engine takes.

    Raises:
        OSError, PIL.UnidentifiedImageError: Pillow cannot decode it.
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


def _tensor(value: Any) -> torch.Tensor:
    """The tensor of a Pillow image; for a tensor, the same values as a plain ``torch.Tensor``."""
    if not isinstance(value, torch.Tensor):
        pixels = torch.from_numpy(np.array(value))
        value = pixels.view(*pixels.shape[:2], -1).permute(2, 0, 1).contiguous()
    plain: torch.Tensor = value.as_subclass(torch.Tensor)
    return plain


def of_tensors(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The replay of a function of tensors, which also takes a Pillow image."""
    return partial(_of_tensor, function)


def _of_tensor(function: Callable[[Any], Any], value: Any) -> Any:
    return function(_tensor(value))


def _is_made(chain: Chain) -> None:
    """Tells the recording that a file is decoded now, so that nobody looks whether it is bad."""
    if (found := recording.current()) is not None:
        found.begun.pop(id(chain.source), None)


def _steps() -> list[Step]:
    """The steps in which Pillow made the sample's last image; without a recording, a new list."""
    found = recording.current()
    return [] if found is None else found.steps


def _with_pillow(
    chain: Chain, info: dict[Any, Any] | None = None, steps: list[Step] | None = None
) -> Any:
    """The image after all ops, or the tensor that an op made of it.

    Args:
        info: what replaces the file's own ``info``; None: nothing does.
        steps: the steps to the last image. Views of one image share their first steps, so these
            are not done again. The list then has the steps to this image.
    """
    steps = [] if steps is None else steps
    known, left = 0, chain.ops[chain.drafts :]
    begins = (chain.source, chain.native, chain.drafts and chain.ops[0])
    if steps and all(map(operator.is_, steps[0][0], begins)):
        while known < min(len(steps) - 1, len(left)) and steps[known + 1][0] is left[known]:
            known += 1
        del steps[known + 1 :]
        image: Any = steps[-1][1].copy()  # a copy, because an op may change it
    else:
        image = PIL.Image.open(io.BytesIO(bytes_of(chain.source)))
        if info is not None:
            image.info = info
        if chain.drafts:
            assert chain.ops[0].replay is not None
            image = chain.ops[0].replay(image)
        if chain.native:
            image = image.convert("RGB")  # the ops begin with that
        image.load()
        steps.clear()
        if left:
            steps.append((begins, image))
            image = image.copy()
    for number, op in enumerate(left[known:], known + 1):
        assert op.replay is not None
        image = op.replay(image)
        if len(steps) == number < len(left) and isinstance(image, PIL.Image.Image):
            steps.append((op, image))
            image = image.copy()  # an op may change it, or return it to the program as it is
    return image
