"""Finds whether torch's operators can wait for a tensor's values, and the form of their results.

Views, conversions of dtype and arithmetic with numbers need only shape and dtype. torch itself says
what each returns, for a tensor without memory. If it raises, or may, the operator gets values at
once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

import numpy as np
import torch

from headrace._deferred import numeric
from headrace._deferred.opnames import (
    ARITHMETIC,
    BOUNDED,
    COMPARED,
    COMPUTED,
    CONVERSIONS,
    FORMED,
    KEEPING,
    LAYOUTS,
    NAMED,
    TAKEN,
)
from headrace._deferred.parts import Constant, TensorOp, called

# Without narrower floats, for which torch rounds more than once in an operator.
_COUNTED = {torch.uint8, torch.int32, torch.int64, torch.float32, torch.float64}
_FLOATS = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_LARGEST = (1 << 31) - 1  # larger numbers may be errors
# How many times more values a result may have. An operator that needs much memory runs, or fails,
# at once.
_MOST_TIMES = 64
_MOST_CONSTANT = 64  # the most values of a tensor as argument, and the most numbers of an index

# Shape, dtype and strides; None as strides: it is contiguous.
Layout = tuple[tuple[int, ...], torch.dtype, tuple[int, ...] | None]


class _NotPlainError(Exception):
    """An argument is not one of numbers, dtypes, slices and small tensors."""


# What ``ops_of`` found: by the operator, the layout of the tensor, and the arguments.
_known: dict[Any, tuple[TensorOp, ...] | None] = {}
_forms: dict[Any, tuple[TensorOp, ...] | None] = {}  # the same for any numbers as arguments
_MOST_KNOWN = 4096


def ops_of(
    name: str, layout: Layout, arguments: tuple[Any, ...], named: dict[str, Any]
) -> tuple[TensorOp, ...] | None:
    """The operators that do what a method does to a tensor of this layout.

    Returns:
        the operators, with the forms of their results; an empty tuple: the method returns the
        tensor itself. None: values are needed.
    """
    if name in TAKEN:
        arguments = tuple(_narrowed(one, layout[0]) for one in arguments)
    try:
        plain = tuple(map(_plain, _kinds(name), arguments))
        plain_named = tuple((key, _plain(name, value)) for key, value in named.items())
    except _NotPlainError:
        return None
    key = (name, layout, torch.get_default_dtype(), _key(plain), _key(plain_named))
    try:
        return _known[key]
    except KeyError:
        pass
    if len(_known) >= _MOST_KNOWN:
        _known.clear()
        _forms.clear()
    # A program may draw a number, which then differs each time. The form of the result does not.
    form = (*key[:3], *map(_kind, plain)) if name in TAKEN and not named else key
    try:
        found = _forms[form]
    except KeyError:  # another thread may clear it at any time
        found = _forms[form] = _found(name, layout, plain, plain_named)
    if found and form is not key:
        found = (*found[:-1], found[-1]._replace(arguments=plain))
    _known[key] = found
    return found


def _narrowed(value: Any, shape: tuple[int, ...]) -> Any:
    """A tensor without the dimensions along which its values are repeated, as by ``expand_as``.

    An operator repeats them itself.
    """
    if type(value) is not torch.Tensor or value.shape != shape or 0 not in value.stride():
        return value
    for dim, stride in enumerate(value.stride()):
        value = value.narrow(dim, 0, 1) if stride == 0 else value
    return value


def _kinds(name: str) -> Iterable[str]:
    """For each argument of an operator, the operator by whose rules the argument is checked."""
    return ("__getitem__", "mul") if name == "__setitem__" else repeat(name)


def _plain(name: str, value: Any, inside: bool = False) -> Any:
    """An argument as plain data; ``inside``: it is an element of a tuple.

    Raises:
        _NotPlainError: it is something else.
    """
    kind = type(value)
    if kind is int:
        return value
    if kind is torch.memory_format and name in FORMED:
        return value
    # torch treats NumPy's numbers as Python's, except the narrow ones.
    if (number := numeric.whole(value)) is not None:
        return number
    if name in LAYOUTS:
        # A tuple inside an index is a list of places, which tensors without memory do not check.
        if name == "__getitem__" and kind is tuple and not inside:
            return tuple(_plain(name, one, True) for one in value)
        if name == "index_select" and kind is torch.Tensor:
            return _constant(value)
        if name != "__getitem__" and kind in (tuple, list, torch.Size):
            return tuple(_plain(name, one) for one in value)
        if name == "__getitem__":
            if value is None or value is Ellipsis:
                return value
            if (numbers := listed(value)) is not None:
                return numbers
            if kind is slice:
                bounds = (value.start, value.stop, value.step)
                whole = [bound if bound is None else numeric.whole(bound) for bound in bounds]
                if [one is None for one in whole] == [bound is None for bound in bounds]:
                    return slice(*whole)
    elif name in CONVERSIONS:
        if kind is torch.dtype:
            return value
    elif kind in (float, np.float64):
        return float(value)
    elif kind is torch.Tensor:
        return _constant(value)
    raise _NotPlainError


def listed(value: Any) -> list[int] | None:
    """The numbers of an index that is a list or a tensor of integers; None: it is neither."""
    if type(value) is torch.Tensor and value.dtype == torch.int64 and value.dim() == 1:
        if value.device.type != "cpu" or len(value) > _MOST_CONSTANT:
            return None
        return value.tolist()
    short = type(value) is list and len(value) <= _MOST_CONSTANT
    return list(value) if short and all(type(one) is int for one in value) else None


def _constant(value: torch.Tensor) -> Constant:
    if (
        value.layout != torch.strided
        or value.device.type != "cpu"
        or value.numel() > _MOST_CONSTANT
        or not value.numel()
        or value.requires_grad
        or value.dtype not in _COUNTED
        or value.is_neg()
    ):
        raise _NotPlainError
    return Constant(value.contiguous().numpy().tobytes(), value.dtype, tuple(value.shape))


def _key(value: Any) -> Any:
    """A key that tells plain data apart, even 0.0 from -0.0."""
    kind = type(value)
    if kind is float:
        return float, value.hex()
    if kind is slice:
        return slice, value.start, value.stop, value.step
    if kind is list:
        return list, *value
    return tuple(map(_key, value)) if kind is tuple else value


def _kind(value: Any) -> Any:
    """What the form of an operator's result depends on, of a number or a constant."""
    if type(value) is Constant:
        return Constant, value.dtype, value.shape
    return value if type(value) is int and abs(value) > _LARGEST else type(value)


def _found(
    name: str, layout: Layout, arguments: tuple[Any, ...], named: tuple[tuple[str, Any], ...]
) -> tuple[TensorOp, ...] | None:
    arithmetic, computed = name in ARITHMETIC.values(), name in COMPUTED
    shape, dtype, stride = layout
    if not _as_expected(name, arguments, named):
        return None
    if name in ("__getitem__", "__setitem__") and not _is_inside(arguments[0], shape):
        return None
    if name == "index_select" and not _selects(shape, *arguments, **dict(named)):
        return None
    known = torch.empty(shape, dtype=dtype, device="meta")
    if stride is not None:
        in_rows = known.stride()
        known = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
        if computed and 1 in shape and known.stride() != in_rows:
            return None  # torch gives dimensions of length one other strides than with memory
    try:
        given = [_without_memory(one) for one in arguments]
        result = called(name, known, given, named)
        if name == "__setitem__":
            torch.zeros((), dtype=dtype, device="cpu")[...] = _number_in(given[1])
        if computed and _of_one(name, layout, arguments, named) != result.dtype:
            return None
    except Exception:
        return None  # torch raises it again, with values
    if result is known:
        return ()
    made = TensorOp(
        name,
        arguments,
        named,
        result._is_view(),
        computed or name in KEEPING,
        tuple(result.shape),
        result.dtype,
        tuple(result.stride()),
        result.is_contiguous(),
    )
    if not 0 < result.numel() <= _MOST_TIMES * known.numel():
        return None
    if made.pointwise and (made.view or made.shape != shape):
        return None
    if name in COMPARED or name in BOUNDED:
        # For integers and a fraction torch uses its default dtype, which may have changed when the
        # values are made.
        whole = all(type(value) is int for value in (*arguments, *(value for _, value in named)))
        known_type = dtype in _COUNTED and (dtype in _FLOATS or whole)
        wanted = torch.bool if name in COMPARED else dtype
        return (made,) if known_type and made.dtype == wanted else None
    if made.dtype == dtype:
        return (made,) if not arithmetic or dtype in _COUNTED else None
    if not arithmetic:
        return (made,) if _converts(dtype, made.dtype) else None
    if made.dtype not in _COUNTED or not _converts(dtype, made.dtype):
        return None
    # For integers and a fraction torch uses its default dtype, which may have changed when the
    # values are made. So the conversion to the present one is recorded first.
    before = ops_of("to", layout, (made.dtype,), {})
    behind = before and _found(name, (shape, made.dtype, before[0].stride), arguments, named)
    return before + behind if before and behind and behind[0].dtype == made.dtype else None


def _as_expected(name: str, arguments: tuple[Any, ...], named: tuple[tuple[str, Any], ...]) -> bool:
    """Whether the arguments are such that the operator is known to need no values."""
    if name in FORMED:
        kinds = [*map(type, arguments), *(type(value) for _, value in named)]
        keys = {key for key, _ in named}
        if name != "to":
            return not arguments and keys <= {"memory_format"}
        return bool(kinds) and len({*kinds}) == len(kinds) and keys <= {"dtype", "memory_format"}
    if name in LAYOUTS:
        return all(key in NAMED for key, _ in named)
    if name in CONVERSIONS or name == "abs":
        return not arguments and not named
    if name == "__setitem__":
        # If the index has a list, tensors without memory do not check shape and dtype of the value.
        index = arguments[0] if arguments else None
        lists = [one for one in (index if type(index) is tuple else (index,)) if type(one) is list]
        return not named and len(arguments) == 2 and not lists
    given = (*arguments, *(value for _, value in named))
    if name in COMPARED or name == "clamp":
        numbers = all(type(value) in (int, float) for value in given)
        bounds = all(key in ("min", "max") for key, _ in named) and len(given) <= 2
        return numbers and (bounds if name == "clamp" else not named and len(arguments) == 1)
    return not named and len(arguments) == (name != "neg")


def _is_inside(index: Any, shape: tuple[int, ...]) -> bool:
    """Whether the numbers of a list in an index are known to lie within its axis.

    Tensors without memory do not check that. The index may have one list at most, and no numbers
    beside it: with these, the axis of the list may come first in the result.
    """
    parts = index if type(index) is tuple else (index,)
    lists = [place for place, one in enumerate(parts) if type(one) is list]
    if not lists:
        return True
    (place, *more), before = lists, parts[: lists[0]]
    if more or any(one is None or type(one) is int for one in parts):
        return False
    axis = len(shape) - len(parts) + place if Ellipsis in before else place
    numbers = parts[place]
    inside = 0 <= axis < len(shape) and parts.count(Ellipsis) <= 1 and numbers
    return bool(inside) and all(-shape[axis] <= one < shape[axis] for one in numbers)


def _selects(shape: tuple[int, ...], dim: Any = None, index: Any = None, **more: Any) -> bool:
    """Whether the places that ``index_select`` gets lie within the axis. None may be negative."""
    if more or type(dim) is not int or type(index) is not Constant or len(index.shape) != 1:
        return False
    if index.dtype not in (torch.int32, torch.int64) or not -len(shape) <= dim < len(shape):
        return False
    return all(0 <= one < shape[dim] for one in index.tensor().tolist())


def _number_in(value: Any) -> Any:
    """A number that is assigned to elements; for a tensor 0, because its values are converted."""
    return value if type(value) in (int, float) else 0


def _without_memory(value: Any) -> Any:
    if type(value) is not Constant:
        return value
    tensor = value.tensor()
    return tensor.to("meta") if tensor.dim() else tensor


def _of_one(
    name: str, layout: Layout, arguments: tuple[Any, ...], named: tuple[tuple[str, Any], ...]
) -> torch.dtype:
    """The dtype of arithmetic's result, tried with one value, so that too large numbers raise."""
    one = torch.ones((1,) * len(layout[0]), dtype=layout[1], device="cpu")
    given = [value.tensor() if type(value) is Constant else value for value in arguments]
    return called(name, one, given, named).dtype


def _converts(before: torch.dtype, behind: torch.dtype) -> bool:
    """Whether a conversion is defined for all values: that of fractions to integers is not."""
    if torch.bool in (before, behind):
        return True
    if before in _FLOATS:
        return behind in _FLOATS
    return before == torch.uint8 or behind in (torch.float32, torch.float64, torch.int64)
