"""Records torchvision's functions of tensors, v2's kernels and v1's, on pending tensors.

v2 calls a kernel for each kind of value. So these functions get the images, wherever they are in a
sample. torchvision's own code moves the boxes, points and masks beside them, with the same
parameters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import PIL.Image

from headrace._deferred import numeric, pixels
from headrace._deferred.arriving import kind_of, wrapped
from headrace._deferred.chain import Form, Op
from headrace._deferred.curing import FLOATS
from headrace._deferred.image import DeferredImage, native_chain
from headrace._deferred.methods import LARGEST
from headrace._deferred.parts import Part
from headrace._deferred.recording import Recording
from headrace._deferred.switches import NOT_RECORDED, Handler
from headrace._deferred.tensor import PendingTensor, pending
from headrace._translate import tensors
from headrace._translate.values import name_of


def part_of(value: Any) -> Part | None:
    """The image of a pending tensor that is one image."""
    if not isinstance(value, PendingTensor) or value.stacked:
        return None
    (part,) = value.parts
    return part if isinstance(part, Part) and not part.chain.full else None


def _moved(value: Any) -> Part | None:
    """As ``part_of``, for a tensor whose pixels can still be moved."""
    part = part_of(value)
    return None if part is None or part.chain.finished else part


def _then(
    part: Part, sides: tuple[int, int], function: Callable[[Any], Any], **op: Any
) -> PendingTensor:
    """The tensor with a further op.

    Args:
        sides: the width and height after the op.
        function: does the same to a tensor.
    """
    replay = pixels.of_tensors(function)
    return pending(part.chain.then(Op(json.dumps(op), replay), sides), part.form, part.place)


def whole(*values: Any) -> bool:
    """Whether all are integers that the engine accepts as places and sides."""
    return all(type(value) is int and abs(value) <= LARGEST for value in values)


def _flip(name: str) -> Handler:
    def handler(found: Recording, original: Any, image: Any) -> Any:
        part = _moved(image)
        if part is None:
            return NOT_RECORDED
        return _then(part, part.chain.size, original, name=name, p=1.0)

    return handler


def _crop(
    found: Recording, original: Any, image: Any, top: Any, left: Any, height: Any, width: Any
) -> Any:
    part = _moved(image)
    corner: Any = [*map(numeric.whole, (top, left, height, width))]
    if part is None or not whole(*corner) or min(corner[2:]) < 1:
        return NOT_RECORDED
    top, left, height, width = corner
    columns, rows = part.chain.size
    inside = top >= 0 and left >= 0 and top + height <= rows and left + width <= columns
    if not inside and part.form.normalize:  # the 0 around a normalized image is not black
        return NOT_RECORDED
    box = {"top": top, "left": left, "height": height, "width": width}
    view = partial(original, top=top, left=left, height=height, width=width)
    made = _then(part, (width, height), view, name="Crop", **box)
    return image.seen_as(made, view) if inside else made


def _center_crop(found: Recording, original: Any, image: Any, output_size: Any) -> Any:
    part = _moved(image)
    sides = list(output_size) if isinstance(output_size, list | tuple) else [output_size]
    sides = sides * 2 if len(sides) == 1 else sides
    if part is None or len(sides) != 2 or not whole(*sides) or min(sides) < 1:
        return NOT_RECORDED
    height, width = sides
    columns, rows = part.chain.size
    if part.form.normalize and (height > rows or width > columns):
        return NOT_RECORDED
    view = partial(original, output_size=sides)
    made = _then(part, (width, height), view, name="CenterCrop", size=sides)
    inside = height <= rows and width <= columns
    return image.seen_as(made, view) if inside else made


def _resize(
    found: Recording,
    original: Any,
    image: Any,
    size: Any,
    interpolation: Any = "bilinear",
    max_size: Any = None,
    antialias: Any = True,
) -> Any:
    part = part_of(image)
    if part is None or part.form != Form() or not antialias:
        return NOT_RECORDED
    name = name_of(interpolation)
    if not tensors.in_whole_numbers(name):
        return NOT_RECORDED
    columns, rows = part.chain.size
    geometry = sys.modules["torchvision.transforms.v2.functional._geometry"]
    height, width = geometry._compute_resized_output_size((rows, columns), size, max_size)
    if (height, width) == (rows, columns):
        return image
    if not whole(height, width) or min(height, width) < 1:
        return NOT_RECORDED
    op = {"size": [height, width], "interpolation": f"tensor-{name}"}
    resized = partial(original, size=[height, width], interpolation=interpolation, antialias=True)
    return _then(part, (width, height), resized, name="Resize", **op)


def _resized_in_floats(
    found: Recording,
    original: Any,
    img: Any,
    size: Any,
    interpolation: Any = "bilinear",
    antialias: Any = True,
) -> Any:
    """v1's resize. It needs values, because it computes in floats, and the reason says so."""
    if not isinstance(img, PendingTensor):
        return NOT_RECORDED
    before = dict(found.reasons)
    made = original(img, size, interpolation, antialias)
    for reason in [one for one in found.reasons if one not in before]:
        del found.reasons[reason]
        text = reason.text.replace("needs the pixels", FLOATS)
        found.reasons[reason._replace(text=text)] = None
    return made


def _to_image(found: Recording, original: Any, inpt: Any) -> Any:
    """``to_image``, as v2's ToImage calls it, for a PIL image or a tensor."""
    chain = native_chain(inpt)
    tensor = inpt
    if chain is not None:
        tensor = pending(chain, Form(channels=chain.channels), inpt.place)
    return NOT_RECORDED if part_of(tensor) is None else tensor.of_kind(image_kind())


def _image(found: Recording, original: Any, cls: Any, data: Any) -> Any:
    """``tv_tensors.Image(data)``."""
    if cls is not sys.modules["torchvision.tv_tensors"].Image:
        return NOT_RECORDED
    return _to_image(found, original, data)


def _pad(
    found: Recording,
    original: Any,
    image: Any,
    padding: Any,
    fill: Any = None,
    padding_mode: Any = "constant",
) -> Any:
    part = part_of(image)
    sides = list(padding) if isinstance(padding, list | tuple) else [padding]
    sides = (sides * 4)[:4] if len(sides) in (1, 2) else sides  # left, top, right, bottom
    values = list(fill) if isinstance(fill, list | tuple) else [0 if fill is None else fill]
    if part is None or part.form != Form() or padding_mode != "constant":
        return NOT_RECORDED
    if len(sides) != 4 or not whole(*sides) or min(sides) < 0 or len(values) not in (1, 3):
        return NOT_RECORDED
    if not all(isinstance(v, int | float) and 0 <= v <= 255 and v == int(v) for v in values):
        return NOT_RECORDED
    width, height = part.chain.size
    both = (sides[0] + width + sides[2], sides[1] + height + sides[3])
    if max(both) > LARGEST:
        return NOT_RECORDED
    colour = [int(v) for v in values] * (3 // len(values))
    padded = partial(original, padding=sides, fill=[float(v) for v in colour])
    return _then(part, both, padded, name="Pad", padding=sides, fill=colour)


def _permute(found: Recording, original: Any, image: Any, permutation: Any) -> Any:
    """Permutes the channels of a tensor, or of a PIL image."""
    listed = permutation.tolist() if hasattr(permutation, "tolist") else permutation
    order = list(listed) if isinstance(listed, list | tuple) else []
    if sorted(order) != [0, 1, 2]:
        return NOT_RECORDED
    op = {"name": "PermuteChannels", "permutation": order}
    part, chain = part_of(image), native_chain(image)
    if part is not None:
        permuted = partial(original, permutation=order)
        whole = part.form == Form()
        return _then(part, part.chain.size, permuted, **op) if whole else NOT_RECORDED
    if chain is None or chain.full or chain.mode != "RGB":
        return NOT_RECORDED
    made = Op(json.dumps(op), partial(original, permutation=permutation), anew=True)
    return image.then(chain.then(made, chain.size), anew=True)


# ---- functions that look up the exact class of a value -------------------------------------------


def _to_dtype(found: Recording, original: Any, self: Any, inpt: Any, params: Any) -> Any:
    """``v2.ToDtype`` with a dtype for each class."""
    if not isinstance(inpt, PendingTensor) or not isinstance(self.dtype, dict):
        return NOT_RECORDED
    if inpt.plain not in self.dtype:
        return NOT_RECORDED
    dtype = self.dtype[inpt.plain]
    functional = sys.modules["torchvision.transforms.v2.functional"]
    if dtype is None:
        return inpt
    return self._call_kernel(functional.to_dtype, inpt, dtype=dtype, scale=self.scale)


def _fill_of(found: Recording, original: Any, fill_dict: Any, inpt_type: Any) -> Any:
    """The ``fill`` of v2's transforms, which may differ by class."""
    if issubclass(inpt_type, PendingTensor):
        return original(fill_dict, inpt_type.plain)
    if issubclass(inpt_type, DeferredImage):
        return original(fill_dict, PIL.Image.Image)
    return NOT_RECORDED


def _wrap(found: Recording, original: Any, wrappee: Any, like: Any) -> Any:
    """``tv_tensors.wrap``.

    Some versions of torchvision, such as 0.26, do not ask a class for its own ``wrap``. They would
    give a kernel's result, which has values, the class of pending tensors.
    """
    return wrapped(type(like), wrappee, like) if isinstance(like, PendingTensor) else NOT_RECORDED


def image_kind() -> Any:
    """The class of pending tensors that become a tv_tensors.Image."""
    return kind_of(sys.modules["torchvision.tv_tensors"].Image)


# The handlers, by module as in functions.FUNCTIONS.
KERNELS: dict[str, dict[str, Handler]] = {
    "torchvision.tv_tensors": {"wrap": _wrap},
    "torchvision.tv_tensors._image": {"Image.__new__": _image},
    "torchvision.transforms._functional_tensor": {"resize": _resized_in_floats},
    "torchvision.transforms.v2.functional._type_conversion": {"to_image": _to_image},
    "torchvision.transforms.v2.functional._geometry": {
        "center_crop_image": _center_crop,
        "crop_image": _crop,
        "horizontal_flip_image": _flip("RandomHorizontalFlip"),
        "pad_image": _pad,
        "resize_image": _resize,
        "vertical_flip_image": _flip("RandomVerticalFlip"),
    },
    "torchvision.transforms.v2.functional._color": {
        "_permute_channels_image_pil": _permute,
        "permute_channels_image": _permute,
    },
    "torchvision.transforms.v2._misc": {"ToDtype.transform": _to_dtype},
    "torchvision.transforms.v2._utils": {"_get_fill": _fill_of},
}
