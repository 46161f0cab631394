"""Carries out torch's functions that need a pending tensor's shape and dtype, but no values.

They may need its strides, too. Programs make noise, masks and constants in the form of an image,
and the image stays pending then.
"""

from __future__ import annotations

from typing import Any

import torch

# What these return has the form of the first argument, or only its dtype.
_LIKE = {
    getattr(torch, f"{name}_like")
    for name in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")
}
_NEW = {getattr(torch.Tensor, f"new_{name}") for name in ("zeros", "ones", "full", "empty")}
_NEW.add(torch.Tensor.new_tensor)
# Methods that take a form from another tensor, and the methods that take the form itself.
_AS = {
    torch.Tensor.expand_as: "expand",
    torch.Tensor.reshape_as: "reshape",
    torch.Tensor.view_as: "view",
    torch.Tensor.type_as: "to",
}
FUNCTIONS = {*_LIKE, *_NEW, *_AS, torch.Tensor.type}


def asked(func: Any, args: Any, kwargs: Any) -> Any:
    """The result of one of ``FUNCTIONS``, some of whose arguments are pending tensors.

    Returns:
        None: the function needs values, or raises.
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
    """``type()``; with an argument, the conversion to a dtype or to a former class of tensors."""
    if more or named:
        return None
    if dtype is None:
        return torch.empty(0, dtype=one.dtype, device="cpu").type()
    try:
        made = torch.empty(0, dtype=one.dtype, device="cpu").type(dtype)
    except Exception:
        return None  # torch raises it again
    return one.to(made.dtype) if made.device.type == "cpu" else None
