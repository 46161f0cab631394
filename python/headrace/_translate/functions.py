"""Recognises functions and classes by their code: those that only convert an image to RGB, and
classes that do what torchvision's ToTensor does, but leave tensors unchanged.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
from types import CodeType, FunctionType
from typing import Any

# The flags that matter for how code is called and what it returns. Being nested in other code does
# not matter.
_KINDS = (
    inspect.CO_VARARGS
    | inspect.CO_VARKEYWORDS
    | inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)


def makes_rgb(op: Any) -> bool:
    """Whether it is a function that only does what Pillow's ``convert("RGB")`` does, or an object
    whose call is such a function, like an object of a class ToRGB.

    Its compiled code is compared with that of functions which do this: it has the same
    instructions, attributes and constants, in whatever file and under whatever names. Such code
    uses nothing but its argument, no global name and no variable of an enclosing function, so
    nothing else can change what it does. Code that the compiler writes differently is not
    recognised, and the function runs in Python.
    """
    if type(op) is FunctionType:
        return _told(op.__code__) in _MAKING_RGB
    # Python looks for __call__ in the class alone, never in the object.
    call = inspect.getattr_static(type(op), "__call__", None)
    return type(call) is FunctionType and _told(call.__code__, 2) in _MAKING_RGB_BY_CALL


def is_to_tensor(op: Any) -> bool:
    """Whether an object of another class does what torchvision's ToTensor does with an image, and
    returns a tensor as it is: the MaybeToTensor that many programs have a copy of.

    The class has to be a child of ToTensor that adds only a call, whose compiled code equals one of
    the forms below. The names in the code have to stand for the same things as there.
    """
    kind = type(op)
    parent = getattr(sys.modules.get("torchvision.transforms"), "ToTensor", None)
    if kind.__bases__ != (parent,) or op.__dict__ or vars(kind).keys() - _OF_ANY_CLASS:
        return False
    call = vars(kind).get("__call__")
    if type(call) is not FunctionType or _told(call.__code__, 2) not in _LEAVING_TENSORS:
        return False
    around = call.__closure__ or ()  # for super() the class, otherwise nothing
    if any(cell.cell_contents is not kind for cell in around):
        return False
    meant = {
        "torch": sys.modules.get("torch"),
        "F": sys.modules.get("torchvision.transforms.functional"),
        "isinstance": isinstance,
        "super": super,
    }
    return all(
        call.__globals__.get(name, getattr(builtins, name, None)) is meant[name]
        for name in meant.keys() & set(call.__code__.co_names)
    )


def _told(code: CodeType, arguments: int = 1) -> Any:
    """Returns everything that a function does, for comparison; None if it is of another kind."""
    if code.co_argcount != arguments or code.co_kwonlyargcount or code.co_flags & _KINDS:
        return None
    handlers: bytes = getattr(code, "co_exceptiontable", b"")  # from Python 3.11 on
    # In a method, super() uses the class around it.
    if code.co_freevars not in ((), ("__class__",)) or code.co_cellvars or handlers:
        return None
    told: list[tuple[Any, ...]] = []
    for step in dis.get_instructions(code):
        if step.opcode in dis.hasconst:  # its number depends on whether there is a docstring
            told.append((step.opname, type(step.argval), step.argval))
        elif step.opcode in dis.hasname:  # the number may contain more than the name
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


def _reassigned_by_call(self: Any, image: Any) -> Any:
    if image.mode != "RGB":
        image = image.convert("RGB")
    return image


def _returned_by_call(self: Any, image: Any) -> Any:
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
_MAKING_RGB_BY_CALL = {
    _told(function.__code__, 2)
    for function in (
        lambda self, image: image.convert("RGB"),
        lambda self, image: image.convert("RGB") if image.mode != "RGB" else image,
        lambda self, image: image if image.mode == "RGB" else image.convert("RGB"),
        _reassigned_by_call,
        _returned_by_call,
    )
} - {None}


# The forms of the call of a MaybeToTensor. They are compiled and never run. Calls of a module's
# function are compiled differently if the file imports the module.
_FORMS = """{imported}
class MaybeToTensor(ToTensor):
    def __call__(self, pic):
        if isinstance(pic, torch.Tensor):
            return pic
        return {made}
"""


def _form(imported: str, made: str) -> Any:
    code = compile(_FORMS.format(imported=imported, made=made), __file__, "exec")
    while code.co_name != "__call__":
        code = next(inner for inner in code.co_consts if isinstance(inner, CodeType))
    return _told(code, 2)


_LEAVING_TENSORS = {
    _form("", "super().__call__(pic)"),
    _form("", "F.to_tensor(pic)"),
    _form("import torchvision.transforms.functional as F", "F.to_tensor(pic)"),
} - {None}
# Names that the class statement adds, and names that do not run when an object is called.
_OF_ANY_CLASS = {
    *("__call__", "__init__", "__repr__", "__doc__", "__module__", "__qualname__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
    *("__firstlineno__", "__static_attributes__", "__parameters__"),
}
