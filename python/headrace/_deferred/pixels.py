"""The pixels of deferred images in the process that recorded them, when somebody asks for them."""

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

# An op, or what stands before the first one, and what it has made.
Step = tuple[Any, PIL.Image.Image]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def note(what: str = "") -> Altering | None:
    """Remembers in the recording, where there is one, that something needs pixels.

    Returns:
        how they are to be others; None: they are the image's own.
    """
    found = recording.current()
    return None if found is None else found.note(f"{what} needs the pixels" if what else "")


def asked(what: str = "") -> Altering | None:
    """As ``note``, of whoever may have to wait.

    Raises:
        ValuesNeeded: a collate function has to wait for pixels.
    """
    found = recording.current()
    if found is not None:
        found.refuse()
    return note(what)


def _noted_where_it_fails(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that decodes: torch's loader would have met what it raises of a bad file earlier,
    where Pillow decodes.
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
    """What Pillow would have made of the file and of what was done to it since.

    Raises:
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
    """
    if chain.native and engine_here():
        size, data = decoded(chain, Form(layout="NHWC", channels=chain.channels))
        return PIL.Image.frombytes(chain.mode, size, data)
    steps = _steps()
    with recording.paused():
        image = _with_pillow(chain, steps=steps)
        return PIL.Image.Image._new(image, image.im)


def info_of(chain: Chain, info: dict[Any, Any]) -> dict[Any, Any]:
    """What Pillow's image says of itself, if that of the file says this.

    Raises:
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
    """
    # What the engine draws is drawn to no purpose here.
    before = drawn.states() if chain.drawn and engine_here() else None
    try:
        with recording.paused():
            made: dict[Any, Any] = _with_pillow(chain, info).info
            return made
    finally:
        if before is not None:
            drawn.go_back(before)


def engine_here() -> bool:
    """Whether this process may decode natively; threads of the program's own have no recording."""
    found = recording.current()
    if found is not None:
        return found.engine
    return torch.utils.data.get_worker_info() is None and not _lib.came_by_fork()


@_noted_where_it_fails
def values_of(chain: Chain, form: Form) -> torch.Tensor:
    """The tensor of a chain in a form, as Pillow, torchvision and torch make it without an engine.

    Raises:
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
    """
    steps = _steps()
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
    """Width and height, and the values of a chain in a form, by the engine in this thread.

    Raises:
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
        LimitError: it meets a limit of the engine's own. An ``OSError``, too.
    """
    found, data = recording.current(), bytes_of(chain.source)
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
    """The values of a chain in a form, of what Pillow decodes of its file.

    Raises:
        ChangedError: the file is another than the one that was opened.
        OSError, PIL.UnidentifiedImageError: the file is bad, as Pillow says it.
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


def _tensor(value: Any) -> torch.Tensor:
    """The tensor of a Pillow image; of a tensor, the same values as a plain ``torch.Tensor``."""
    if not isinstance(value, torch.Tensor):
        pixels = torch.from_numpy(np.array(value))
        value = pixels.view(*pixels.shape[:2], -1).permute(2, 0, 1).contiguous()
    plain: torch.Tensor = value.as_subclass(torch.Tensor)
    return plain


def of_tensors(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """What replays a function of tensors, of a Pillow image as of its tensor."""
    return partial(_of_tensor, function)


def _of_tensor(function: Callable[[Any], Any], value: Any) -> Any:
    return function(_tensor(value))


def _steps() -> list[Step]:
    """What Pillow has made of the sample's last image; a list of no use without a recording."""
    found = recording.current()
    return [] if found is None else found.steps


def _with_pillow(
    chain: Chain, info: dict[Any, Any] | None = None, steps: list[Step] | None = None
) -> Any:
    """An image, or the tensor that an op made of it.

    Args:
        info: of the file, where it is another than the file's own.
        steps: the images on the way to the last one, which parts of one image have in common; they
            become those on the way to this one.
    """
    steps = [] if steps is None else steps
    known, left = 0, chain.ops[chain.drafts :]
    begins = (chain.source, chain.native, chain.drafts and chain.ops[0])
    if steps and all(map(operator.is_, steps[0][0], begins)):
        while known < min(len(steps) - 1, len(left)) and steps[known + 1][0] is left[known]:
            known += 1
        del steps[known + 1 :]
        image: Any = steps[-1][1].copy()  # which may be changed
    else:
        image = PIL.Image.open(io.BytesIO(bytes_of(chain.source)))
        if info is not None:
            image.info = info
        if chain.drafts:
            assert chain.ops[0].replay is not None
            image = chain.ops[0].replay(image)
        if chain.native:
            image = image.convert("RGB")  # which the ops begin with
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
            image = image.copy()  # an op may change it, or give it to the program as it is
    return image
