"""Functions that are told by their code: those that make an image RGB, and do nothing else."""

from __future__ import annotations

import dis
import inspect
from types import CodeType, FunctionType
from typing import Any

# What counts for how it is called and what it returns; that it stands within another one does not.
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def makes_rgb(function: Any) -> bool:
    """Whether it is a function whose whole work is that of Pillow's ``convert("RGB")``.

    Its compiled code is compared with that of functions which do this: the same instructions, the
    same attributes and constants, in whatever file, under whatever names. Such code asks for
    nothing but its argument, no global name and no variable of a function around it, so that
    nothing else can change what it does. Code that the compiler writes otherwise is not recognised,
    and the function runs in Python.
    """
    return type(function) is FunctionType and _told(function.__code__) in _MAKING_RGB


def _told(code: CodeType) -> Any:
    """All that a function does, for comparison, or None where it is of another kind."""
    if code.co_argcount != 1 or code.co_kwonlyargcount or code.co_flags & _KINDS:
        return None
    handlers: bytes = getattr(code, "co_exceptiontable", b"")  # from Python 3.11 on
    if code.co_freevars or code.co_cellvars or handlers:
        return None
    told: list[tuple[Any, ...]] = []
    for step in dis.get_instructions(code):
        if step.opcode in dis.hasconst:  # its place moves where there is a docstring
            told.append((step.opname, type(step.argval), step.argval))
        elif step.opcode in dis.hasname:  # the number may say more than the name
            told.append((step.opname, step.arg, step.argval))
        else:
            told.append((step.opname, step.arg))
    return tuple(told)


def _reassigned(image: Any) -> Any:
    if image.mode != "RGB":
        image = image.convert("RGB")
    return image


def _returned(image: Any) -> Any:
    if image.mode != "RGB":
        return image.convert("RGB")
    return image


_MAKING_RGB = {
    _told(function.__code__)
    for function in (
        lambda image: image.convert("RGB"),
        lambda image: image.convert("RGB") if image.mode != "RGB" else image,
        lambda image: image if image.mode == "RGB" else image.convert("RGB"),
        _reassigned,
        _returned,
    )
} - {None}
