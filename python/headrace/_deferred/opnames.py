"""Which of torch's functions are recorded for pending tensors: the names of their methods."""

from __future__ import annotations

from typing import Any

import torch

# Names of methods, each with the name of the one that does the same and is recorded.
ARITHMETIC = {
    **{name: name for name in ("add", "sub", "mul", "div", "neg", "__rsub__")},
    **{f"__{name}__": name for name in ("add", "sub", "mul", "neg")},
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "true_divide": "div",
    "negative": "neg",
    "__truediv__": "div",
    "__radd__": "add",
    "__rmul__": "mul",
    "rsub": "__rsub__",  # a function of torch, and no method
}
TAKEN = {*ARITHMETIC.values()} - {"neg"}  # these take a number, or a small tensor
# Comparisons with a number, whose results are booleans.
_COMPARISONS = {
    **{name: name for name in ("gt", "ge", "lt", "le", "eq", "ne")},
    **{f"__{name}__": name for name in ("gt", "ge", "lt", "le", "eq", "ne")},
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "not_equal": "ne",
}
COMPARED = {*_COMPARISONS.values()}
_BOUNDS = {"clamp": "clamp", "clip": "clamp", "abs": "abs", "absolute": "abs"}
BOUNDED = {*_BOUNDS.values()}
CONVERSIONS = {"to", "float", "double", "half", "bfloat16", "int", "long", "bool", "byte"}
LAYOUTS = {
    *("permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis"),
    *("unsqueeze", "squeeze", "view", "reshape", "flatten", "__getitem__", "contiguous", "clone"),
    *("select", "narrow", "expand", "repeat", "flip", "fliplr", "flipud", "rot90", "index_select"),
}
FORMED = {"contiguous", "clone", "to"}  # these may have a memory_format
NAMED = {
    *("dim", "dims", "dim0", "dim1", "start_dim", "end_dim", "shape", "size"),
    *("index", "start", "length", "repeats", "k"),
}
RESHAPED = ("unsqueeze", "squeeze", "transpose", "swapaxes", "swapdims")  # also in place
KEEPING = {*CONVERSIONS, "contiguous", "clone"}
COMPUTED = {*ARITHMETIC.values(), *COMPARED, *BOUNDED}
POINTWISE = {*COMPUTED, *KEEPING}


def _names() -> dict[Any, str]:
    same = {**ARITHMETIC, **_COMPARISONS, **_BOUNDS}
    same |= {name: name for name in (*CONVERSIONS, *LAYOUTS)}
    found = {
        getattr(owner, name, None): method
        for name, method in same.items()
        for owner in (torch, torch.Tensor)
    }
    return {function: method for function, method in found.items() if callable(function)}


NAMES = _names()  # the names of the methods, by torch's functions
# For methods that change a tensor in place, the methods that make a new tensor.
IN_PLACE = {
    getattr(torch.Tensor, name): of
    for name, of in (
        *((f"{one}_", one) for one in ("add", "sub", "mul", "div", "neg")),
        *(("subtract_", "sub"), ("multiply_", "mul"), ("divide_", "div"), ("true_divide_", "div")),
        *(("__iadd__", "add"), ("__isub__", "sub"), ("__imul__", "mul"), ("__itruediv__", "div")),
        *(("clamp_", "clamp"), ("clip_", "clamp"), ("abs_", "abs"), ("__setitem__", "__setitem__")),
        *((f"{one}_", one) for one in RESHAPED),
    )
    if hasattr(torch.Tensor, name)
}


# Functions that return several views, with their names, and the place of the axis among the
# arguments after the tensor.
CUTTING = {
    getattr(owner, name): (name, place)
    for owner in (torch, torch.Tensor)
    for name, place in (("unbind", 0), ("chunk", 1), ("split", 1))
}


def cuts_of(
    function: Any, form: tuple[tuple[int, ...], torch.dtype], arguments: Any, named: dict[str, Any]
) -> list[tuple[str, tuple[int, ...]]]:
    """For each view, the method and the arguments that return it; empty: values are needed."""
    name, place = CUTTING[function]
    axis = named.get("dim", arguments[place] if len(arguments) > place else 0)
    numbers = [axis]
    for one in arguments:
        numbers += one if isinstance(one, list | tuple) else [one]
    if {*named} - {"dim"} or any(type(one) is not int for one in numbers):
        return []
    try:
        views = function(torch.empty(form[0], dtype=form[1], device="meta"), *arguments, **named)
    except Exception:
        return []  # torch raises it again, with values
    if name == "unbind":
        return [("select", (axis, number)) for number in range(len(views))]
    found: list[tuple[str, tuple[int, ...]]] = []
    at = 0
    for view in views:
        found.append(("narrow", (axis, at, view.shape[axis])))
        at += view.shape[axis]
    return found


# Attributes and methods that a pending tensor answers without values.
_ATTRIBUTES = (
    *("shape", "dtype", "device", "layout", "ndim", "requires_grad", "is_nested", "is_sparse"),
    *("is_cuda", "is_cpu", "is_quantized", "is_mkldnn", "is_meta", "is_leaf", "grad_fn"),
    *("itemsize", "nbytes"),
)
_QUESTIONS = (
    *("size", "dim", "numel", "nelement", "ndimension", "element_size", "is_floating_point"),
    *("is_complex", "is_signed", "stride", "__len__", "is_pinned", "is_shared", "is_contiguous"),
)
OF_THE_FORM = {
    *(getattr(torch.Tensor, name).__get__ for name in _ATTRIBUTES if hasattr(torch.Tensor, name)),
    *(getattr(torch.Tensor, name) for name in _QUESTIONS),
    torch.is_floating_point,
    torch.is_complex,
    torch.numel,
}
