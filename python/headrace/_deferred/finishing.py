"""Records torchvision's functions that make a tensor of an image and finish its values.

What they record is the form in which the engine writes the image: its type, its scale, the
normalization and the boxes that are erased. A call is recorded if the engine makes the same bytes
for its arguments; otherwise the function does what it always does, with the tensor's values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import PIL.Image
import torch

from headrace._deferred import numeric, operators, pixels, recording
from headrace._deferred.chain import Form, Op
from headrace._deferred.image import DeferredImage, native_chain
from headrace._deferred.parts import Part
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED, Handler
from headrace._deferred.tensor import PendingTensor, pending
from headrace._deferred.tensorfunctions import part_of, whole


def to_tensor(found: Recording, original: Any, pic: Any) -> Any:
    chain = native_chain(pic)
    if chain is None or torch.get_default_dtype() != torch.float32:  # to_tensor gives that
        return NOT_RECORDED
    return pending(chain, Form("float32", channels=chain.channels), pic.place)


def pil_to_tensor(found: Recording, original: Any, pic: Any) -> Any:
    chain = native_chain(pic)
    if chain is None:
        return NOT_RECORDED
    return pending(chain, Form("uint8", channels=chain.channels), pic.place)


def to_pil_image(found: Recording, original: Any, pic: Any, mode: Any = None) -> Any:
    """``to_pil_image`` of a tensor of one image.

    torchvision multiplies by 255 what was divided by 255 before, so the image has the bytes that
    the chain gives.
    """
    part = part_of(pic)
    form = Form() if part is None else part.form
    if part is None or part.chain.finished or form.normalize:
        return NOT_RECORDED
    known = form.dtype == "uint8" or (form.dtype == "float32" and form.scale == "div")
    made = "RGB" if form.channels == 3 else "L"
    if not known or made != part.chain.mode or mode not in (None, made):
        return NOT_RECORDED
    chain = part.chain.then(Op("", _as_image, anew=True), part.chain.size)
    image = DeferredImage(chain._replace(header=None), place=part.place)
    image.info = {}
    return image


def _as_image(value: Any) -> Any:
    """The replay. It gets a tensor if the ops before it were done to a tensor."""
    if not isinstance(value, torch.Tensor):
        return value
    rows = value.permute(1, 2, 0).contiguous().numpy()
    return PIL.Image.fromarray(rows[:, :, 0] if rows.shape[2] == 1 else rows)


def _scaling(scale: str, scales: Callable[[tuple[Any, ...]], bool]) -> Handler:
    """The handler of a function that makes numbers from 0 to 1 of bytes.

    Args:
        scale: "div" or "mul", as ``Form.scale``.
        scales: whether the function scales, with the arguments that follow the dtype.
    """

    def handler(
        found: Recording, original: Any, image: Any, dtype: Any = torch.float, *more: Any
    ) -> Any:
        if dtype != torch.float32 or not scales(more):
            return NOT_RECORDED
        parts = _in_form(image, partial(_scaled, scale))
        if parts is None:
            return NOT_RECORDED
        return PendingTensor(parts, image.form[0], torch.float32, image.stacked)

    return handler


def _scaled(scale: str, form: Form) -> Form | None:
    if form != Form(channels=form.channels):
        return None
    return form._replace(dtype="float32", scale=scale)


def _in_form(value: Any, change: Callable[[Form], Form | None]) -> tuple[Part, ...] | None:
    """The images of a tensor, or of a stack, each in its new form; None if one has no such form."""
    parts = value.parts if isinstance(value, PendingTensor) else ()
    made = []
    for part in map(operators.before_a_stack, parts):
        form = change(part.form) if isinstance(part, Part) else None
        if form is None or not isinstance(part, Part):
            return None
        made.append(part._replace(form=form, place=recording.place_of(part.place)))
    return tuple(made) or None


always = _scaling("div", lambda more: not more)
v2_always = _scaling("mul", lambda more: not more)
asked = _scaling("mul", lambda more: more == (True,))


def erase(
    found: Recording,
    original: Any,
    image: Any,
    i: Any,
    j: Any,
    h: Any,
    w: Any,
    v: Any,
    inplace: bool = False,
) -> Any:
    """Replaces a box of the finished values by one number, or by one for each channel."""
    part = part_of(image)
    if part is None or inplace or part.form.dtype != "float32":
        return NOT_RECORDED
    if v is image:  # RandomErasing found no box, and replaces the image by itself
        return pending(part.chain, part.form, part.place)
    colour = v.flatten().tolist() if type(v) is torch.Tensor and v.numel() <= 3 else []
    shaped = colour and v.shape in ((), (1, 1, 1), (part.form.channels, 1, 1))
    if not shaped or not all(numeric.within(one, -1e6, 1e6) for one in colour):
        return NOT_RECORDED
    if not whole(i, j, h, w) or min(i, j) < 0 or min(h, w) < 1:
        return NOT_RECORDED
    if part.chain.finished.count("Erase") >= _MOST_ERASED:
        return NOT_RECORDED
    box = {"i": i, "j": j, "h": h, "w": w, "v": colour if len(colour) > 1 else colour[0]}
    text = json.dumps({"name": "Erase", **box})
    finished: tuple[str, ...] = ("Erase",)
    if part.form.normalize:
        text, finished = f"{part.form.normalize},{text}", ("Normalize", "Erase")
    made = Op(text, partial(_erased, original, part.form, (i, j, h, w, v)), finished)
    # The op now has the normalization of the form, because the box is erased after that.
    form = part.form._replace(normalize="")
    return pending(part.chain.then(made, part.chain.size), form, part.place)


_MOST_ERASED = 8  # boxes of an image; the engine takes 32, and a Compose may add some


def _erased(original: Any, form: Form, box: tuple[Any, ...], value: Any) -> Any:
    return original(pixels.finished(value, form), *box)


def normalize(
    found: Recording, original: Any, tensor: Any, mean: Any, std: Any, inplace: bool = False
) -> Any:
    parts = _in_form(tensor, partial(_normalized, mean, std))
    if parts is None or any("Normalize" in part.chain.finished for part in parts):
        return NOT_RECORDED if inplace else _by_operators(tensor, mean, std)
    if not inplace:
        return PendingTensor(parts, *tensor.form, tensor.stacked)
    if "shared" in tensor.__dict__:  # its views would have to change, too
        return NOT_RECORDED
    tensor.parts = parts
    return tensor


def _by_operators(tensor: Any, mean: Any, std: Any) -> Any:
    """``normalize`` by torch's operators, which can be recorded after other operators."""
    if not isinstance(tensor, PendingTensor) or tensor.ndim < 3 or not tensor.is_floating_point():
        return NOT_RECORDED
    numbers = []
    for values in (mean, std):
        try:
            made = torch.as_tensor(values, dtype=tensor.dtype, device="cpu")
        except Exception:  # torchvision meets it as well
            return NOT_RECORDED
        made = made.view(-1, 1, 1) if made.ndim == 1 else made
        if not _fits(made.shape, tensor.shape):
            return NOT_RECORDED  # torchvision works in place, and raises
        numbers.append(made)
    if not numbers[1].all() or numbers[0].requires_grad or numbers[1].requires_grad:
        return NOT_RECORDED
    return tensor.sub(numbers[0]).div(numbers[1])


def _fits(shape: torch.Size, into: torch.Size) -> bool:
    """Whether values of one shape can be broadcast to another one, which then stays the same."""
    spread: Any = torch.broadcast_shapes
    try:
        return bool(spread(shape, into) == into)
    except RuntimeError:
        return False


def _normalized(mean: Any, std: Any, form: Form) -> Form | None:
    op = form.dtype == "float32" and _normalization(mean, std, form.channels)
    return form._replace(normalize=op) if op and not form.normalize else None


def _normalization(mean: Any, std: Any, channels: int) -> str:
    """The engine's op for a normalization; "" if it has none."""
    sides = []
    for values in (mean, std):
        listed = values.tolist() if hasattr(values, "tolist") else values
        listed = [listed] if isinstance(listed, int | float) else list(listed)
        if len(listed) not in (1, channels) or not all(isinstance(v, int | float) for v in listed):
            return ""
        sides.append([float(value) for value in listed] * (channels // len(listed)))
    if 0.0 in sides[1]:
        return ""
    return json.dumps({"name": "Normalize", "mean": sides[0], "std": sides[1]})


def of_its_class(handler: Handler) -> Handler:
    """The handler of a function that keeps its argument's class.

    v2's functions for values of any class do, and so does v1's ``erase``. Kernels and v1's other
    functions return plain tensors.
    """

    def handled(found: Recording, original: Any, image: Any, *more: Any) -> Any:
        made = handler(found, original, image, *more)
        return made.of_kind(type(image)) if isinstance(made, PendingTensor) else made

    return handled
