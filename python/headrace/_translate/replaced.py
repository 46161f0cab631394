"""Functions and methods of Pillow and torchvision that the program has replaced by its own.

What these do is the program's business, so neither the engine nor a recording stands in for them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FunctionType
from typing import Any

from headrace._translate.libraries import of_python, package_of

# Their modules contain functions of one another as well.
_LIBRARIES = frozenset(["PIL", "torchvision", "timm", "open_clip", "torch", "numpy"])

# Modules whose functions transforms call. The classes of transforms are checked one by one
# (parts.py).
_FUNCTIONAL = (
    "PIL.ImageOps",
    "torchvision.transforms.functional",
    "torchvision.transforms._functional_pil",
    "torchvision.transforms._functional_tensor",
    "torchvision.transforms.v2.functional",
    "torchvision.transforms.v2.functional._augment",
    "torchvision.transforms.v2.functional._color",
    "torchvision.transforms.v2.functional._geometry",
    "torchvision.transforms.v2.functional._meta",
    "torchvision.transforms.v2.functional._misc",
    "torchvision.transforms.v2.functional._type_conversion",
    "torchvision.transforms.v2.functional._utils",
)
# Methods of PIL.Image.Image. Those that a program adds do not matter.
_METHODS = (
    *("convert", "copy", "crop", "draft", "filter", "load", "paste", "point", "reduce", "resize"),
    *("rotate", "split", "thumbnail", "tobytes", "transform", "transpose"),
)


def is_replaced(function: Any) -> bool:
    """Whether the function in the place of a library's function was written elsewhere.

    Its globals tell where; a wrapper copies the module's name of the function that it wraps.
    """
    if not isinstance(function, FunctionType):
        return False
    home = str(function.__globals__.get("__name__"))
    return package_of(home) not in _LIBRARIES and not of_python(home)


def function() -> str:
    """The name of a function that transforms call and that the program has replaced; "" if none."""
    for module in _FUNCTIONAL:
        names = vars(sys.modules[module]) if module in sys.modules else {}
        if name := _first(names, list(names)):
            return f"{module}.{name}"
    return method()


def method() -> str:
    """The name of a method of Pillow's images that the program has replaced; "" if none."""
    image = getattr(sys.modules.get("PIL.Image"), "Image", None)
    name = "" if image is None else _first(vars(image), _METHODS)
    return name and f"PIL.Image.Image.{name}"


def opening() -> str:
    """The name of the function that opens an image file, if the program has replaced it; otherwise
    ""."""
    names = vars(sys.modules["PIL.Image"]) if "PIL.Image" in sys.modules else {}
    return "PIL.Image.open" if _first(names, ["open"]) else ""


def said(name: str) -> str:
    """Returns the sentence about a replaced function."""
    return f"{name} is a function of the program's own"


def _first(names: Any, wanted: Iterable[str]) -> str:
    """Returns the first of some names that stands for a function of the program."""
    return next((name for name in wanted if is_replaced(names.get(name))), "")
