"""Functions and classes that are recognised by their code: those that only make an image RGB, and
classes that do what torchvision's ToTensor does, but leave tensors unchanged.
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
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


def makes_rgb(op: Any) -> bool:
    """Whether it is a function whose whole work is that of Pillow's ``convert("RGB")``, or an
    object whose call is, as a class ToRGB's.

    Its compiled code is compared with that of functions which do this: the same instructions, the
    same attributes and constants, in whatever file, under whatever names. Such code asks for
    nothing but its argument, no global name and no variable of a function around it, so that
    nothing else can change what it does. Code that the compiler writes otherwise is not recognised,
    and the function runs in Python.
    """
    if type(op) is FunctionType:
        return _told(op.__code__) in _MAKING_RGB
    # Python looks for it in the class alone, never in the object.
    call = inspect.getattr_static(type(op), "__call__", None)
    return type(call) is FunctionType and _told(call.__code__, 2) in _MAKING_RGB_BY_CALL


def is_to_tensor(op: Any) -> bool:
    """Whether an object of another class does what torchvision's ToTensor does with an image, and
    returns a tensor as it is: the MaybeToTensor that many programs have a copy of.

    The class has to be ToTensor's child, with no more than a call of its own, whose compiled code
    is that of one of the forms below; and the names in it have to be what they are there.
    """
    kind = type(op)
    parent = getattr(sys.modules.get("torchvision.transforms"), "ToTensor", None)
    if kind.__bases__ != (parent,) or op.__dict__ or vars(kind).keys() - _OF_ANY_CLASS:
        return False
    call = vars(kind).get("__call__")
    if type(call) is not FunctionType or _told(call.__code__, 2) not in _LEAVING_TENSORS:
        return False
    around = call.__closure__ or ()  # of super() the class, and else nothing
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
    """All that a function does, for comparison, or None where it is of another kind."""
    if code.co_argcount != arguments or code.co_kwonlyargcount or code.co_flags & _KINDS:
        return None
    handlers: bytes = getattr(code, "co_exceptiontable", b"")  # from Python 3.11 on
    # In a method super() asks for the class around it.
    if code.co_freevars not in ((), ("__class__",)) or code.co_cellvars or handlers:
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


# The forms of a MaybeToTensor's call. They are compiled and never run. Calls of a function of a
# module are compiled otherwise where the module is imported in the file.
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
# What the statement class puts there, and what does not run when an object is called.
_OF_ANY_CLASS = {
    *("__call__", "__init__", "__repr__", "__doc__", "__module__", "__qualname__"),
    *("__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__"),
    *("__firstlineno__", "__static_attributes__", "__parameters__"),
}
