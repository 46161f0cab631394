"""Functions of other libraries that do something else for as long as a dataset's code runs.

A function keeps its identity and is given other code, so that names bound early, as in ``from
PIL.Image import open``, lead to the other code too. Threads without a recording get what the
function always did. The last one to leave puts every function's own code back.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any

from headrace._deferred import recording

# A handler's answer: do what the function always does.
NOT_RECORDED: Any = object()

Handler = Callable[..., Any]  # (recording, original, *arguments of the function, by place)


class Switch:
    """One function, its own code and the other.

    Args:
        elsewhere: what is noted where a thread without a recording calls it; "": nothing.
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
        # Those by name alone too, where the handler knows them.
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
        """All arguments by their places, as far as they are given; None where one is unknown."""
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
# Functions that are not written in Python: where they stand, by what names, and what takes their
# place there. Names that were bound early keep them.
_places: list[tuple[Any, str, Any, Any]] = []
# What is to be found by any name, by its id; and how many modules were looked at for it.
_everywhere: dict[int, tuple[Any, Any]] = {}
_looked_at = 0
_lock = threading.Lock()
_recordings: set[Any] = set()  # that go on


def _after_fork() -> None:
    """A child has none of the other threads: the lock is free, and their recordings have ended."""
    global _lock
    _lock = threading.Lock()
    mine = recording.current()
    _recordings.intersection_update(() if mine is None else [mine])


os.register_at_fork(after_in_child=_after_fork)


def add(function: Any, handler: Handler, elsewhere: str = "") -> None:
    """Has a function, while there are recordings, ask a handler first.

    A function that is not written in Python, or takes more arguments than its handler knows, is
    left alone: without it an image is decoded earlier, and no worse.
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
    """Has a name of a module mean something else while there are recordings."""
    if not any(module is place and name == known for place, known, *_ in _places):
        _places.append((module, name, getattr(module, name), other))
        if _recordings:
            setattr(module, name, other)


def put_everywhere(function: Any, other: Any) -> None:
    """As ``put`` of every name that a module has for a function, of those bound early, too."""
    global _looked_at
    if id(function) not in _everywhere:
        _everywhere[id(function)] = function, other
        _looked_at = 0


def _look_at_modules() -> None:
    """Finds the names of ``put_everywhere``; anew where modules were imported since."""
    global _looked_at
    if len(sys.modules) == _looked_at:
        return
    _looked_at = len(sys.modules)
    for place in list(sys.modules.values()):
        names = getattr(place, "__dict__", None)
        # Our own modules need the functions as they are.
        if isinstance(names, dict) and not str(names.get("__name__")).startswith("headrace."):
            for name, value in list(names.items()):
                if id(value) in _everywhere:
                    put(place, name, _everywhere[id(value)][1])


def on(recording: Any) -> None:
    """Has the functions ask their handlers while there is this recording, or another."""
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
    """Ends what ``on`` began; as often as one likes."""
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
    """How many of a function's arguments a handler takes; None: as many as there are."""
    code = handler.__code__
    return None if code.co_flags & CO_VARARGS else code.co_argcount - 2


def _code(function: FunctionType, call: Callable[..., Any]) -> CodeType:
    """Code that calls this with its arguments; it stands alone, as a function's code has to."""
    # The call is a constant of the code: an import in its place took half a microsecond of each.
    text = (
        f"def {function.__name__}(*arguments, **named):\n"
        "    call = 'call'\n"
        "    return call(arguments, named)\n"
    )
    names: dict[str, Any] = {}
    exec(compile(text, recording.SWITCHED, "exec"), names)
    code: CodeType = names[function.__name__].__code__
    constants = tuple(call if one == "call" else one for one in code.co_consts)
    return code.replace(co_consts=constants)
