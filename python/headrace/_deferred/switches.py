"""Switches functions of other libraries to other code while a dataset's code runs.

A function keeps its identity and gets other code, so that names that were bound early, as by ``from
PIL.Image import open``, lead to the other code too. In threads without a recording it does what it
always did. When the last recording ends, every function's own code is put back.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from inspect import CO_GENERATOR, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any

from headrace._deferred import recording

# A handler returns this if the function is to do what it always does.
NOT_RECORDED: Any = object()

Handler = Callable[..., Any]  # gets the recording, the original, and the function's arguments


class Switch:
    """A function, its own code and the other code.

    Args:
        elsewhere: the reason that is noted if a thread without a recording calls the function, but
            works for one that records; "": none.
    """

    def __init__(self, function: FunctionType, handler: Handler, elsewhere: str) -> None:
        self.function, self.handler, self._elsewhere = function, handler, elsewhere
        self._takes_names = bool(handler.__code__.co_flags & CO_VARKEYWORDS)
        self.own: CodeType = function.__code__
        self.original = FunctionType(
            self.own,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self.other = _code(function, self._call)
        by_place = self.own.co_varnames[: self.own.co_argcount]
        defaults = function.__defaults__ or ()
        self._defaults = dict(zip(by_place[::-1], defaults[::-1], strict=False))
        self._defaults |= function.__kwdefaults__ or {}
        # With the keyword-only arguments, if the handler takes them.
        taken = _taken(handler)
        many = self.own.co_argcount if taken is None else max(taken, self.own.co_argcount)
        self._names = self.own.co_varnames[:many]

    def _call(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        found = recording.current()
        if found is not None and not found.eager:
            answer = NOT_RECORDED
            if self._takes_names:
                answer = self.handler(found, self.original, *arguments, **named)
            elif (in_order := self._in_order(arguments, named) if named else arguments) is not None:
                answer = self.handler(found, self.original, *in_order)
            if answer is not NOT_RECORDED:
                return answer
        elif found is None and self._elsewhere:
            recording.note_of_another_thread(self._elsewhere)
        return self.original(*arguments, **named)

    def _in_order(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The given arguments in the order of their places; None: one of them is unknown."""
        given, left = list(arguments), len(named)
        for name in self._names[len(arguments) :]:
            if not left:
                break
            if name in named:
                given.append(named[name])
                left -= 1
            elif name in self._defaults:
                given.append(self._defaults[name])
            else:
                return None
        return None if left else tuple(given)


_switches: list[Switch] = []
_known: dict[FunctionType, Switch] = {}
# Functions that are not written in Python: the modules and names that refer to them, and what takes
# their place there. Other names, which were bound early, are not replaced.
_places: list[tuple[Any, str, Any, Any]] = []
# By their ids, the functions that are replaced under every name; and how many modules were searched
# for these names.
_everywhere: dict[int, tuple[Any, Any]] = {}
_looked_at = 0
_lock = threading.Lock()
_recordings: set[Any] = set()  # the recordings that go on


def _after_fork() -> None:
    """Makes a new lock, and ends the recordings of other threads, which a child does not have."""
    global _lock
    _lock = threading.Lock()
    mine = recording.current()
    _recordings.intersection_update(() if mine is None else [mine])


os.register_at_fork(after_in_child=_after_fork)


def add(function: Any, handler: Handler, elsewhere: str = "") -> None:
    """Has a function ask a handler first, while there are recordings.

    A function that is not written in Python, or takes more arguments than its handler knows, is
    left alone. The only harm is that images are decoded earlier.
    """
    if type(function) is not FunctionType or function in _known or function.__code__.co_freevars:
        return
    taken, code = _taken(handler), function.__code__
    named = code.co_argcount + code.co_kwonlyargcount
    if taken is not None and taken not in (code.co_argcount, named):
        return
    made = Switch(function, handler, elsewhere)
    _switches.append(made)
    _known[function] = made
    if _recordings:
        function.__code__ = made.other


def put(module: Any, name: str, other: Any) -> None:
    """Binds a name of a module to something else while there are recordings."""
    if not any(module is place and name == known for place, known, *_ in _places):
        _places.append((module, name, getattr(module, name), other))
        if _recordings:
            setattr(module, name, other)


def put_everywhere(function: Any, other: Any) -> None:
    """As ``put``, for every name of any module that is bound to a function, also if bound early."""
    global _looked_at
    if id(function) not in _everywhere:
        _everywhere[id(function)] = function, other
        _looked_at = 0


def _look_at_modules() -> None:
    """Finds the names for ``put_everywhere``, again if modules were imported since."""
    global _looked_at
    if len(sys.modules) == _looked_at:
        return
    _looked_at = len(sys.modules)
    for place in list(sys.modules.values()):
        names = getattr(place, "__dict__", None)
        # Headrace's modules need the functions as they are.
        if isinstance(names, dict) and not str(names.get("__name__")).startswith("headrace."):
            for name, value in list(names.items()):
                if id(value) in _everywhere:
                    put(place, name, _everywhere[id(value)][1])


def on(recording: Any) -> None:
    """Has the functions ask their handlers until this recording, and every other, has ended."""
    with _lock:
        if not _recordings:
            _look_at_modules()
        _recordings.add(recording)
        for switch in _switches:
            switch.function.__code__ = switch.other
        for module, name, own, other in _places:
            if module.__dict__.get(name) is own:  # the program may have bound the name anew
                setattr(module, name, other)


def off(recording: Any) -> None:
    """Ends what ``on`` began. It may be called again."""
    with _lock:
        if recording in _recordings:
            _recordings.discard(recording)
            if not _recordings:
                for switch in _switches:
                    switch.function.__code__ = switch.own
                for module, name, own, other in _places:
                    if module.__dict__.get(name) is other:
                        setattr(module, name, own)


def _taken(handler: Handler) -> int | None:
    """How many of a function's arguments a handler takes; None: any number."""
    code = handler.__code__
    return None if code.co_flags & CO_VARARGS else code.co_argcount - 2


def _code(function: FunctionType, call: Callable[..., Any]) -> CodeType:
    """Code that passes its arguments to ``call``. It closes over nothing, as it must."""
    # Since Python 3.13 it is deprecated to replace a generator's code by that of a plain function.
    # torch.random.fork_rng is a generator below its decorator.
    is_generator = function.__code__.co_flags & CO_GENERATOR
    passed_on = "(yield from call(arguments, named))" if is_generator else "call(arguments, named)"
    # `call` is a constant of the code: an import in its place took half a microsecond a call.
    text = (
        f"def {function.__name__}(*arguments, **named):\n"
        "    call = 'call'\n"
        f"    return {passed_on}\n"
    )
    names: dict[str, Any] = {}
    exec(compile(text, recording.SWITCHED, "exec"), names)
    code: CodeType = names[function.__name__].__code__
    constants = tuple(call if one == "call" else one for one in code.co_consts)
    return code.replace(co_consts=constants)
