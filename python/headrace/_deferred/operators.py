"""Records torch's operators on pending tensors.

The engine does an operator's work if that costs it nothing, such as a flip. All other operators are
kept until the values are there.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import torch

from headrace._deferred import opnames, pixels, tensorops
from headrace._deferred.chain import Form, Op
from headrace._deferred.parts import (
    AnyPart,
    Derived,
    OnePart,
    Part,
    Stacked,
    TensorOp,
    called,
    form_of,
)

# The engine's flips, by the axis of (channels, height, width) along which they flip.
_FLIPS = {
    1: '{"name":"RandomVerticalFlip","p":1.0}',
    2: '{"name":"RandomHorizontalFlip","p":1.0}',
}
_NAMED_FLIPS = {"flipud": [0], "fliplr": [1]}


def ops_on(
    part: OnePart, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[TensorOp, ...] | None:
    """As ``tensorops.ops_of``, for an image or a stack."""
    stride = part.last.stride if isinstance(part, Derived) else None
    return tensorops.ops_of(name, (*part.described(), stride), arguments, named)


def behind(part: OnePart, ops: tuple[TensorOp, ...]) -> Derived:
    """The image or the stack with further operators."""
    return (part if isinstance(part, Derived) else Derived(part, ())).then(ops)


def by_the_engine(
    part: OnePart, name: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> Part | None:
    """The result of an operator, as an image (a copy), if the engine can make it as it decodes."""
    if name == "div":
        return _fractions(part, arguments) if not named else None
    if not isinstance(part, Part) or part.chain.finished or part.chain.full:
        return None  # the engine moves no pixels after ops on finished values
    if name == "__getitem__":
        return _in_order(part, _order(arguments[0]))
    if name == "index_select" and not named and len(arguments) == 2:
        channels = type(arguments[0]) is int and arguments[0] in (0, -3)
        return _in_order(part, (channels and tensorops.listed(arguments[1])) or [])
    axes = _NAMED_FLIPS.get(name) or (name == "flip" and _axes(arguments, named))
    if not axes:
        return None
    if axes == [0]:
        return _in_order(part, [2, 1, 0])
    if not {*axes} <= {*_FLIPS} or len({*axes}) < len(axes):
        return None
    turned = Op(",".join(map(_FLIPS.__getitem__, axes)), _replay(torch.flip, dims=axes))
    return part._replace(chain=part.chain.then(turned, part.chain.size))


def _fractions(part: OnePart, arguments: Any) -> Part | None:
    """The image with its bytes divided by 255; None: the engine cannot do that here."""
    if len(arguments) != 1 or type(arguments[0]) not in (int, float) or arguments[0] != 255:
        return None
    leaf = part.leaf
    if isinstance(leaf, Stacked) or leaf.form != Form(channels=leaf.form.channels):
        return None
    if not isinstance(part, Derived):
        floats = torch.get_default_dtype() == torch.float32
    else:
        made = [op.name in opnames.CONVERSIONS and op.dtype for op in part.ops]
        floats = made == [torch.float32]
    form = leaf.form._replace(dtype="float32", scale="div")
    return leaf._replace(form=form) if floats else None


def _in_order(part: Part, order: list[int]) -> Part | None:
    """The image with its three channels in another order; None: the engine cannot do that here."""
    if part.form.channels != 3 or part.form.normalize or sorted(order) != [0, 1, 2]:
        return None
    text = json.dumps({"name": "PermuteChannels", "permutation": order})
    ordered = Op(text, _replay(torch.Tensor.__getitem__, order))
    return part._replace(chain=part.chain.then(ordered, part.chain.size))


def _order(index: Any) -> list[int]:
    """The channels that an index asks for; empty if it asks for anything else."""
    if type(index) is not tuple:
        index = (index,)
    listed = tensorops.listed(index[0]) if index else None
    if listed is None or len(index) > 3 or not all(map(_is_all, index[1:])):
        return []
    return [one + 3 if one < 0 else one for one in listed]


def _is_all(index: Any) -> bool:
    """Whether an index is ``:`` or ``...``. It does not use ``==``, which arrays do by element."""
    if index is Ellipsis:
        return True
    return type(index) is slice and index.start is index.stop is index.step is None


def _axes(arguments: tuple[Any, ...], named: dict[str, Any]) -> list[int]:
    """The axes of a ``flip``, as axes of (channels, height, width) in ascending order.

    Empty: they are not known.
    """
    given = arguments or (named.get("dims"),)
    if len(given) == 1 and isinstance(given[0], list | tuple):
        given = tuple(given[0])
    if (arguments and named) or not all(type(one) is int and -3 <= one < 3 for one in given):
        return []
    return sorted(one % 3 for one in given)


def _replay(function: Any, *arguments: Any, **named: Any) -> Any:
    return pixels.of_tensors(partial(_of, function, arguments, named))


def _of(function: Any, arguments: Any, named: Any, tensor: torch.Tensor) -> Any:
    return function(tensor, *arguments, **named)


# ---- operators on stacks -------------------------------------------------------------------------


def of_each(
    parts: tuple[AnyPart, ...], name: str, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[AnyPart, ...] | None:
    """What a pointwise operator makes of a stack's images.

    Returns:
        the new images. ``parts`` itself: the operator returns the stack itself. None: values are
        needed.
    """
    if name == "contiguous" and not (arguments or named):
        return parts  # a stack is contiguous
    images = [part for part in parts if not isinstance(part, torch.Tensor)]
    # Images without axes are numbers, for which torch has other rules of dtypes.
    if name not in opnames.POINTWISE or not images or not shape_of(images[0]):
        return None
    made: list[AnyPart] = list(parts)
    known: dict[Any, tuple[TensorOp, ...] | None] = {}
    # Tensors that have values come last: the work on them is lost if an image needs values.
    order = sorted(range(len(parts)), key=lambda place: isinstance(parts[place], torch.Tensor))
    for place in order:
        given = _row_of(arguments, place, parts)
        if given is None:
            return None
        row = _of_row(parts[place], name, given, named, known if given is arguments else {})
        if row is None:
            return None
        made[place] = row
    if len({*map(form_of, made)}) > 1 or shape_of(made[0]) != shape_of(parts[0]):
        return None
    same = all(one is other for one, other in zip(made, parts, strict=True))
    return parts if same else tuple(made)


def rows_of(parts: list[AnyPart]) -> list[AnyPart] | None:
    """The rows of which ``torch.stack`` makes what ``torch.cat`` makes of these parts.

    They are the images of stacks, and images without their first axis of length one. None: the
    first axis of an image has another length.
    """
    rows: list[AnyPart] = []
    for part in parts:
        if isinstance(part, Stacked):
            rows += part.parts
            continue
        if isinstance(part, torch.Tensor) and part.dim() > 1:
            rows += part
            continue
        if isinstance(part, torch.Tensor) or len(shape_of(part)) < 2 or shape_of(part)[0] != 1:
            return None
        if (inside := _before_an_axis(part)) is not None:
            rows.append(inside)
            continue
        ops = ops_on(part, "__getitem__", (0,), {})
        if not ops:
            return None
        rows.append(behind(part, ops))
    return rows


_AXES = (("unsqueeze", (0,), ()), ("unsqueeze", (), (("dim", 0),)), ("__getitem__", (None,), ()))


def _before_an_axis(part: Part | Derived) -> OnePart | None:
    """The image before the last operator, if that gave it a first axis; else None."""
    views = part.views if isinstance(part, Derived) else ()
    if not views or (views[-1].name, views[-1].arguments, views[-1].named) not in _AXES:
        return None
    assert isinstance(part, Derived), "it has views"
    if len(views) > 1 or not isinstance(part.memory, Part | Stacked):
        return Derived(part.memory, views[:-1])
    return part.memory


def before_a_stack(part: AnyPart) -> AnyPart:
    """For a view of one of a stack's images, the image by itself; else the part."""
    if not isinstance(part, Derived) or not isinstance(part.memory, Stacked):
        return part
    if len(part.views) != 1:
        return part
    name, given, named = part.views[0].name, part.views[0].arguments, part.views[0].named
    number = given[-1] if given else None
    by_number = (name == "select" and given[:-1] == (0,)) or name == "__getitem__"
    if not by_number or named or type(number) is not int:
        return part
    return part.memory.parts[number]


def all_in_rows(parts: list[AnyPart]) -> bool:
    """Whether each part is contiguous."""
    return {*map(type, parts)} == {Part} or all(map(_in_rows, parts))


def _in_rows(part: AnyPart) -> bool:
    if isinstance(part, torch.Tensor):
        return part.is_contiguous()
    return not isinstance(part, Derived) or part.last.contiguous


def stack_in_rows(parts: list[AnyPart]) -> bool:
    """Whether torch's stack of these is contiguous: it may take over the strides of its tensors."""
    rows = []
    for part in parts:
        shape, dtype = form_of(part)
        row = torch.empty(shape, dtype=dtype, device="meta")
        stride = part.last.stride if isinstance(part, Derived) else None
        if isinstance(part, torch.Tensor):
            stride = part.stride()
        if stride is not None:
            row = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        rows.append(row)
    return torch.stack(rows).is_contiguous()


def _row_of(arguments: tuple[Any, ...], place: int, parts: Any) -> tuple[Any, ...] | None:
    """An operator's arguments for one image of a stack; None: they do not fit."""
    axes, given = 1 + len(shape_of(parts[0])), []
    for one in arguments:
        row = one
        if isinstance(one, torch.Tensor):
            if type(one) is not torch.Tensor or one.dim() > axes:
                return None
            if one.dim() == axes:
                if len(one) not in (1, len(parts)):
                    return None
                row = one[place if len(one) > 1 else 0]
        given.append(row)
    return tuple(given) if any(map(_differ, given, arguments)) else arguments


def _differ(one: Any, other: Any) -> bool:
    return one is not other


def _of_row(
    part: AnyPart,
    name: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
    known: dict[Any, tuple[TensorOp, ...] | None],
) -> AnyPart | None:
    """What an operator makes of one image of a stack.

    Args:
        known: by the layouts of images, the operators that were found for them before.
    """
    if isinstance(part, torch.Tensor):
        try:
            return called(name, part, arguments, named)
        except Exception:
            return None  # torch raises it again, with values
    made = by_the_engine(part, name, arguments, named)
    if made is not None:
        return made
    if isinstance(part, Stacked) and not any(isinstance(one, torch.Tensor) for one in arguments):
        inside = of_each(part.parts, name, arguments, named)
        if inside is not None:
            return part if inside is part.parts else Stacked(inside)
    layout = (*part.described(), part.last.stride if isinstance(part, Derived) else None)
    if layout not in known:
        known[layout] = tensorops.ops_of(name, layout, arguments, named)
    ops = known[layout]
    if not ops:
        return None if ops is None else part
    return behind(part, ops)


def shape_of(part: AnyPart) -> tuple[int, ...]:
    """The shape of a part."""
    return form_of(part)[0]
