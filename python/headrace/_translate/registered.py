"""What a program says its own transforms equal: ``hr.register`` and ``__headrace__``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from headrace._engine import arguments
from headrace.errors import one_line

_METHOD = "__headrace__"
_functions: dict[type, Callable[[Any], Sequence[Any]]] = {}


class Unclear(Exception):
    """What a program says of a transform cannot be used; the text is a clause that says why."""


def register(cls: type, fn: Callable[[Any], Sequence[Any]] | None) -> None:
    """Registers known transforms that equal your own transform class; the engine runs those.

        hr.register(TwoStepPreset, lambda preset: [preset.augment, v1.ToTensor()])

    Instead, a class of your own may have a method ``__headrace__(self)`` that returns the same
    list. ``headrace.DataLoader`` and ``headrace.from_torchvision`` use it wherever they find such
    an object: as the whole transform, in a Compose, in a group. They do not check that it is
    equal. They ask again for each epoch, so the list may depend on attributes that change.

    A registration does not cover subclasses, because a subclass may do anything: register it, or
    give it a ``__headrace__`` of its own. It also does not cover objects with a replaced method or
    a hook. If a class has both, the registration is used. It also has priority over what Headrace
    knows of torchvision's classes.

    If the list cannot be used, or something in it is not known, the object itself runs in Python,
    and the warning (or with ``strict=True`` the error) says so.

    Args:
        cls: the class. Its subclasses are not covered.
        fn: a function that is called with an object of the class. It returns a list of transforms
            that together give the same image: torchvision's, timm's, registered ones, or
            ``headrace.transforms``. ``headrace.transforms.Normalize``, ``RandomErasing`` and the
            like make the image a float32 tensor, as in ``headrace.Loader``. None removes the
            registration.

    Raises:
        ArgumentError: ``cls`` is not a class, or ``fn`` cannot be called.
    """
    if not isinstance(cls, type):
        raise arguments.refuse_type("cls", cls, "a class")
    if fn is None:
        _functions.pop(cls, None)
        return
    if not callable(fn):
        raise arguments.refuse_type("fn", fn, "a function of an object that returns a list")
    _functions[cls] = fn


def kinds() -> list[type]:
    """Returns the classes that are registered."""
    return [*_functions]


def is_spoken_of(op: Any) -> bool:
    """Whether the program says what an object's class, or a parent of the class, equals."""
    return type(op) in _functions or hasattr(type(op), _METHOD)


def is_akin(kind: type) -> bool:
    """Whether the program says what a class, or one of its parents, equals."""
    return hasattr(kind, _METHOD) or any(parent in _functions for parent in kind.__mro__)


def equal_of(op: Any) -> list[Any]:
    """Returns what the program says an object equals.

    Raises:
        Unclear: it is not a list, the call failed, or the class only inherits the method.
    """
    kind = type(op)
    function, asked = _functions.get(kind), "the function that is registered for it"
    if function is None:
        # If the parent's word were used, the child's own forward would be ignored.
        if _METHOD not in vars(kind):
            parent = next(base for base in kind.__mro__ if _METHOD in vars(base))
            raise Unclear(
                f"it has {_METHOD} from {parent.__name__} alone, and a subclass may do anything"
            )
        function, asked = getattr(kind, _METHOD), f"its {_METHOD}"
    try:
        found: Any = function(op)
    except Exception as failure:  # a program's own code may raise anything
        said = one_line(f"{type(failure).__name__}: {failure}")
        raise Unclear(f"{asked} raised {said}") from failure
    # A list with more attributes, such as a Translation with its dtype, is refused, because they
    # would be lost.
    if type(found) not in (list, tuple):
        raise Unclear(f"{asked} gave {arguments.shown(found)} (expected a list of transforms)")
    return list(found)
