"""Functions of torch's that ask a tensor for its shape, strides and dtype, and for no values.

Programs make noise, masks and constants of an image's form; the image can wait.
"""

from __future__ import annotations

from typing import Any

import torch

# What these make has the form of their first argument, or its dtype alone.
_LIKE = {
    getattr(torch, f"{name}_like")
    for name in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")
}
_NEW = {getattr(torch.Tensor, f"new_{name}") for name in ("zeros", "ones", "full", "empty")}
_NEW.add(torch.Tensor.new_tensor)
# Methods that take another tensor for its form, and what they are with that form itself.
_AS = {
    torch.Tensor.expand_as: "expand",
    torch.Tensor.reshape_as: "reshape",
    torch.Tensor.view_as: "view",
    torch.Tensor.type_as: "to",
}
FUNCTIONS = {*_LIKE, *_NEW, *_AS, torch.Tensor.type}


def asked(func: Any, args: Any, kwargs: Any) -> Any:
    """What one of the functions gives, of arguments some of which are still to come.

    Returns:
        None: it needs values, or raises.
    """
    one: Any
    one, *others = args or (None,)
    if func in _AS:
        return _as(_AS[func], one, others) if not kwargs else None
    waiting = not any(map(_waits, (*others, *kwargs.values())))
    if not waiting or not _waits(one) or one.plain is not torch.Tensor:
        return None
    if func is torch.Tensor.type:
        return _type(one, *others, **kwargs)
    if func in _NEW:
        return func(torch.empty(0, dtype=one.dtype, device="cpu"), *others, **kwargs)
    shape, dtype = one.described()
    return func(
        torch.empty_strided(shape, one.stride(), dtype=dtype, device="cpu"), *others, **kwargs
    )


def _waits(value: Any) -> bool:
    """Whether a tensor has no values yet."""
    return isinstance(value, torch.Tensor) and "parts" in value.__dict__


def _as(method: str, one: Any, others: list[Any]) -> Any:
    if len(others) != 1 or not isinstance(others[0], torch.Tensor):
        return None
    (other,) = others
    if method != "to":
        return getattr(one, method)(other.size())
    plain = all(x.device.type == "cpu" and x.layout == torch.strided for x in (one, other))
    return one.to(other.dtype) if plain else None


def _type(one: Any, dtype: Any = None, *more: Any, **named: Any) -> Any:
    """``type()``, and a conversion to a dtype, a former class of tensors, or such a one's name."""
    if more or named:
        return None
    if dtype is None:
        return torch.empty(0, dtype=one.dtype, device="cpu").type()
    try:
        made = torch.empty(0, dtype=one.dtype, device="cpu").type(dtype)
    except Exception:
        return None  # which torch raises again
    return one.to(made.dtype) if made.device.type == "cpu" else None
