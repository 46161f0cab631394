"""What a program says that its own transforms equal: ``hr.register`` and ``__headrace__``."""

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
    """Says what the objects of a transform's class equal, so that the engine runs that instead.

        hr.register(TwoStepPreset, lambda preset: [preset.augment, v1.ToTensor()])

    A class of your own may have a method ``__headrace__(self)`` in place of it, which returns the
    same list. ``headrace.DataLoader`` and ``headrace.from_torchvision`` ask wherever they meet such
    an object: as the transform itself, in a Compose, in a group. They take what is said at its
    word, and ask anew for each epoch, so that a list may follow attributes that change.

    A subclass is not covered by what its parent says, for it may do anything: it is registered
    itself, or has ``__headrace__`` itself. Nor is an object one of whose methods was replaced, or
    that has a hook. Where a class has both, what is registered goes first; so it does before what
    Headrace knows of torchvision's classes.

    Where the list cannot be used, or something in it is not known, the sentence of the warning (or
    of the error, with ``strict=True``) says so, and the object itself runs in Python.

    Args:
        cls: the class, and none of its subclasses.
        fn: called with an object of it; returns a list of transforms that together give the same
            image: torchvision's, timm's, others that are registered, or ``headrace.transforms``.
            Where Normalize, RandomErasing and their like of the latter stand, the image becomes a
            float32 tensor, as in ``headrace.Loader``. None takes back what was registered.

    Raises:
        ArgumentError: ``cls`` is no class, or ``fn`` cannot be called.
    """
    if not isinstance(cls, type):
        raise arguments.refuse_type("cls", cls, "a class")
    if fn is None:
        _functions.pop(cls, None)
        return
    if not callable(fn):
        raise arguments.refuse_type("fn", fn, "a function of an object that returns a list")
    _functions[cls] = fn


def is_spoken_of(op: Any) -> bool:
    """Whether the program says what the class of an object equals, or one of its parents'."""
    return type(op) in _functions or hasattr(type(op), _METHOD)


def is_akin(kind: type) -> bool:
    """Whether the program says it of a class, or of one of its parents."""
    return hasattr(kind, _METHOD) or any(parent in _functions for parent in kind.__mro__)


def equal_of(op: Any) -> list[Any]:
    """What the program says that an object equals.

    Raises:
        Unclear: it is no list, the call of it failed, or the class only inherits the method.
    """
    kind = type(op)
    function, asked = _functions.get(kind), "the function that is registered for it"
    if function is None:
        # A child's forward would be ignored if its parent's word were taken for it.
        if _METHOD not in vars(kind):
            parent = next(base for base in kind.__mro__ if _METHOD in vars(base))
            raise Unclear(
                f"it has {_METHOD} from {parent.__name__} alone, and a subclass may do anything"
            )
        function, asked = getattr(kind, _METHOD), f"its {_METHOD}"
    try:
        found: Any = function(op)
    except Exception as failure:  # whatever a program's own code may raise
        said = one_line(f"{type(failure).__name__}: {failure}")
        raise Unclear(f"{asked} raised {said}") from failure
    # A list with more to it, such as a Translation's dtype, is not taken for less.
    if type(found) not in (list, tuple):
        raise Unclear(f"{asked} gave {arguments.shown(found)} (expected a list of transforms)")
    return list(found)
