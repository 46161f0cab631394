"""What a program does to the values of a tensor that it does not have yet, as plain data.

Views (``permute``, ``x[None]``) and arithmetic with numbers (``x * 2 - 1``) need shape and dtype
alone. torch does them itself once the values are there, one image's like the other's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Step(NamedTuple):
    """A method of torch.Tensor, and what it is called with; "stack" is ``torch.stack`` of rows.

    Attributes:
        name: of the method.
        arguments: numbers, dtypes, and lists and slices of them; of "stack" the shape of a row's
            memory, and the steps of each row.
        named: the same by name.
    """

    name: str
    arguments: tuple[Any, ...]
    named: tuple[tuple[str, Any], ...] = ()

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """The step's result."""
        if self.name == "stack":
            shape, steps = self.arguments
            rows = tensor.view(-1, *shape)
            return _stack([*rows], steps) if steps else rows
        made: torch.Tensor = getattr(tensor, self.name)(*self.arguments, **dict(self.named))
        return made


class Laid(NamedTuple):
    """How values that lie one behind the other become those of a tensor.

    Attributes:
        shape: of the values as they are made.
        dtype: of them.
        steps: what is done to them then.
        stride: of the result.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    steps: tuple[Step, ...]
    stride: tuple[int, ...]


def done(steps: tuple[Step, ...], made: torch.Tensor) -> torch.Tensor:
    """The values behind all steps."""
    for step in steps:
        made = Step(*step).of(made)
    return made


def _stack(rows: list[torch.Tensor], steps: tuple[Step, ...]) -> torch.Tensor:
    first = done(steps, rows[0])
    made = torch.empty((len(rows), *first.shape), dtype=first.dtype)
    made[0] = first
    for place in range(1, len(rows)):
        made[place] = done(steps, rows[place])
    return made


# Those that give another view of the same memory; others give memory of their own.
_VIEWS = {
    *("permute", "transpose", "swapaxes", "swapdims", "movedim", "moveaxis"),
    *("unsqueeze", "squeeze", "view", "__getitem__"),
}
_OF_CONTIGUOUS = {"reshape", "flatten"}  # views of what is contiguous; of others nobody knows
# These give the tensor itself where it is so already.
_ITSELF = {"contiguous", "float", "to"}
_ARITHMETIC = {
    *("add", "sub", "mul", "div", "true_divide", "neg", "clamp"),
    *("__add__", "__sub__", "__mul__", "__truediv__", "__neg__"),
    *("__radd__", "__rsub__", "__rmul__"),
}
_COPIES = {"clone", "flip"}
# By the methods that change the tensor itself, those that give the same values.
IN_PLACE = {
    **{f"{name}_": name for name in ("add", "sub", "mul", "div", "true_divide", "neg", "clamp")},
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__itruediv__": "div",
}


def _functions() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for name in (*_VIEWS, *_OF_CONTIGUOUS, *_ITSELF, *_ARITHMETIC, *_COPIES):
        for owner in (torch, torch.Tensor):
            if (function := getattr(owner, name, None)) is not None:
                found[function] = name
    for name, same in IN_PLACE.items():
        for owner in (torch, torch.Tensor):
            if (function := getattr(owner, name, None)) is not None:
                found[function] = same
                changing.add(function)
    return found


changing: set[Any] = set()  # the functions of IN_PLACE
_NAMES = _functions()


class Found(NamedTuple):
    """What a call gives.

    Attributes:
        steps: of it; empty where it gives the tensor itself.
        form: shape, dtype and stride of its result.
        views: it is a view of the tensor.
    """

    steps: tuple[Step, ...]
    form: tuple[tuple[int, ...], torch.dtype, tuple[int, ...]]
    views: bool


def found_in(tensor: torch.Tensor, func: Any, args: Any, kwargs: Any) -> Found | None:
    """What a function of torch's does to the first of its arguments; None: it needs values.

    Args:
        tensor: of which shape, dtype and stride are known.
    """
    name = _NAMES.get(func) if len(args) and args[0] is tensor else None
    if name is None or not tensor.numel():
        return None
    index = name == "__getitem__"
    arguments = tuple(_plain(value, index) for value in args[1:])
    named = tuple((key, _plain(value, index)) for key, value in kwargs.items())
    if any(value is _NOT_PLAIN for value in (*arguments, *(value for _, value in named))):
        return None
    before = (tuple(tensor.shape), tensor.dtype, tuple(tensor.stride()))
    dtypes = not named and all(isinstance(value, torch.dtype) for value in arguments)
    if name in _ITSELF and not dtypes:
        return None
    if name in _OF_CONTIGUOUS and not tensor.is_contiguous():
        return None
    step = Step(name, arguments, named)
    try:
        known = torch.empty_strided(before[0], before[2], dtype=before[1], device="meta")
        result = step.of(known)
    except Exception:
        return None  # as torch says it of values
    form = (tuple(result.shape), result.dtype, tuple(result.stride()))
    if not result.numel():
        return None
    if name in _ITSELF and form == before:
        return Found((), form, False)
    steps: tuple[Step, ...] = (step,)
    if name in _ARITHMETIC and form[1] != before[1]:
        # Of bytes with a float: torch's default dtype, which may be another one by then.
        steps = (Step("to", (form[1],)), step)
    return Found(steps, form, name in _OF_CONTIGUOUS or (name in _VIEWS and _is_view(arguments)))


class _NotPlain:
    """Stands for what is no plain data."""


_NOT_PLAIN = _NotPlain()


def _plain(value: Any, index: bool) -> Any:
    """A copy of what is plain data, and _NOT_PLAIN of anything else."""
    if value is None or value is Ellipsis or type(value) is int:
        return value
    if type(value) is float or isinstance(value, bool | torch.dtype):
        return _NOT_PLAIN if index else value
    if type(value) is slice:
        bounds = (value.start, value.stop, value.step)
        known = all(bound is None or type(bound) is int for bound in bounds)
        return value if known else _NOT_PLAIN
    if type(value) in (list, tuple, torch.Size):
        made = [_plain(one, index) for one in value]
        if any(one is _NOT_PLAIN for one in made):
            return _NOT_PLAIN
        return made if type(value) is list else tuple(made)
    return _NOT_PLAIN


def _is_view(arguments: tuple[Any, ...]) -> bool:
    """Whether an index is none of lists, which take values out."""
    return not any(
        isinstance(value, list)
        or (isinstance(value, tuple) and any(isinstance(one, list | tuple) for one in value))
        for value in arguments
    )
