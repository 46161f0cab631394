"""Finds which of a program's transforms the engine can do, and their equivalents in its JSON."""

from __future__ import annotations

import json
import operator
from collections import OrderedDict
from functools import cached_property, lru_cache, partial
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any

from headrace._deferred.chain import Form, Op
from headrace._translate import own, replaced
from headrace._translate.result import Translation, engine_ops
from headrace._translate.translation import translate

# Transforms that draw nothing, so that their result does not depend on the key.
_UNDRAWN = frozenset(["Resize", "CenterCrop", "Pad", "Grayscale", "Normalize"])
_FINISHED = frozenset(kind.__name__ for kind in own.FINISHED)
_DEEPEST = 6  # transforms within transforms: Compose, its list, RandomApply, its list, ...
_MOST_TRANSFORMS = 1_024
_MOST_SIZES = 65_536  # how many sizes of images are kept with the sizes of their results
# A transform that changes nothing, and takes one place in the engine's list.
_STILL = '{"name":"RandomHorizontalFlip","p":0.0}'
_MOST_PLACES = 56  # of the 64 of such a list; the rest is for ops that are recorded later
# If an attribute's class compares with one of these, an equal value does as well as the attribute.
_COMPARED: set[Any] = {
    kind.__eq__
    for kind in (object, int, float, str, bytes, tuple, list, dict, OrderedDict, set, frozenset)
}


class Known:
    """A transform, or the first part of a Compose, that the engine does.

    Args:
        grey: whether it is done to an image of one channel.

    Attributes:
        replay: applies the program's own transforms to a Pillow image.
        ops: the transform as the one op of a chain. All images share it, because draws are keyed.
            Only in a process without the engine each image gets an op that remembers its draws.
        form: the form of a tensor that it makes.
        drawn: whether it leaves something to chance.
        engine_ops: how many of the engine's ops it takes at most.
        channels: how many channels it leaves, 3 or 1.
        translation: dtype, scale and the rest.
    """

    def __init__(self, ops: list[Any], translation: Translation, grey: bool) -> None:
        transforms = _as_dicts(translation)[grey:]  # it begins with what such an image is already
        text = ",".join(map(json.dumps, transforms))
        finished = [t["name"] for t in transforms if t["name"] in _FINISHED]
        # Not a method, because the op would then close a cycle.
        self.replay = partial(_replayed, ops)
        self.ops = (Op(text, self.replay, tuple(finished), translation.anew),)
        becomes_grey = any(transform.get("num_output_channels") == 1 for transform in transforms)
        self.engine_ops = sum(map(engine_ops, transforms))
        self.channels = 1 if grey or becomes_grey else 3
        self.drawn = any(transform["name"] not in _UNDRAWN for transform in transforms)
        self.translation = translation
        self.form = Form(translation.dtype, translation.scale, channels=self.channels)
        self._sizes: dict[tuple[int, int], tuple[int, int] | None] = {}

    def size_of(self, size: tuple[int, int]) -> tuple[int, int] | None:
        """Width and height of the result for an image of this size.

        None: chance decides, or the result would be narrower than a pixel, which Pillow and torch
        refuse.
        """
        if size not in self._sizes:
            if len(self._sizes) >= _MOST_SIZES:
                self._sizes.clear()
            followed = Translation()
            followed.size = (size[1], size[0])
            found: tuple[int, int] | None = followed.size
            for transform in self.translation:
                followed.add(transform)
                found = followed.size
                if found is not None and min(found) < 1:
                    found = None
                    break
            self._sizes[size] = None if found is None else (found[1], found[0])
        return self._sizes[size]


def behind_draws(ops: tuple[Op, ...], drawn: tuple[Op, ...], taken: int) -> tuple[Op, int] | None:
    """An op that does nothing, put before a random call so that the call draws numbers of its own.

    What the engine draws depends on a key and on the transform's place in the list. Two crops of
    one flipped image would be at the same place of two lists with the same key, and draw the same
    numbers. So one of them is moved to a later place.

    Args:
        ops: the ops before the call.
        drawn: the ops of the call.
        taken: how many places other calls with the same key may take.

    Returns:
        the op, and how many places are taken then; None: the list would be too long.
    """
    fewest, most = (sum(places(op.text)[end] for op in ops) for end in (0, 1))
    moved = max(taken, most) - fewest
    end = most + moved + sum(places(op.text)[1] for op in drawn)
    if end > _MOST_PLACES:
        return None
    return Op(",".join([_STILL] * moved), _unchanged), end


def _unchanged(image: Any) -> Any:
    return image


@lru_cache(1024)
def places(text: str) -> tuple[int, int]:
    """How many places transforms take in the engine's list, at least and at most."""
    found = json.loads(f"[{text}]")
    return len(found), sum(map(_most_places, found))


def _most_places(transform: dict[str, Any]) -> int:
    name = transform["name"]
    own = {"RandomHorizontalFlip": 1, "RandomPhotometricDistort": 19}.get(name, 2)
    inner = transform.get("transforms") or ()
    return own + sum(1 + _most_places(one) for one in inner)


class _Kept:
    """A transform's translation, and everything that it was made from."""

    def __init__(self, transform: Any, grey: bool) -> None:
        self.transform = transform  # kept alive, so that no other object gets its id
        self._namespaces: list[dict[Any, Any]] = []
        self._empty: list[dict[Any, Any]] = []  # most dicts of a Module, such as those of hooks
        self._lists: list[Any] = []
        self._collect(transform, 0)
        self._state = self._now()
        self._compares = all(type(value).__eq__ in _COMPARED for value in self._state)
        self._namespaces_then = [dict(namespace) for namespace in self._namespaces]
        self._lists_then = [one[:] for one in self._lists]
        self.known = _known(transform, grey)

    def _collect(self, value: Any, depth: int) -> None:
        """Finds the attributes, lists and dicts in which the transform keeps its parts."""
        # A Module keeps its hooks in OrderedDicts.
        own = value if isinstance(value, dict) else getattr(value, "__dict__", None)
        if type(value) in (list, tuple):
            self._lists.append(value)
            parts = list(value)
        elif isinstance(own, dict):
            (self._namespaces if own else self._empty).append(own)
            parts = list(own.values())
        else:
            return
        for part in parts if depth < _DEEPEST else ():
            if not isinstance(part, type | FunctionType | ModuleType):
                self._collect(part, depth + 1)

    def _now(self) -> list[Any]:
        namespaces = chain.from_iterable(map(dict.values, self._namespaces))
        return [*namespaces, *chain.from_iterable(self._lists)]

    def holds(self) -> bool:
        """Whether every part is what it was.

        It is asked for every image, so it has no loop in Python.
        """
        if any(self._empty):
            return False
        if self._compares:
            # Python does not ask identical objects whether they are equal; that takes half the time
            # of the comparison below.
            try:
                same = self._namespaces == self._namespaces_then
                return same and self._lists == self._lists_then
            except Exception:  # something new cannot be compared, such as an array
                return False
        now = self._now()
        return len(now) == len(self._state) and all(map(operator.is_, now, self._state))


class Transforms:
    """The transforms that a dataset uses, translated once each and again when they change."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bool], _Kept] = {}

    @cached_property
    def replaced_method(self) -> str:
        """What ``replaced.method`` said when it was first asked for."""
        return replaced.method()

    @cached_property
    def _replaced_function(self) -> str:
        return replaced.function()

    def of(self, transform: Any, grey: bool = False) -> Known | None:
        """What the engine can do of a transform; ``grey``: of an image of one channel.

        None: it can do nothing from the transform's beginning on, or the transform calls functions
        that the program has replaced.
        """
        if self._replaced_function:
            return None
        kept = self._kept.get((id(transform), grey))
        if kept is None or not kept.holds():
            if len(self._kept) >= _MOST_TRANSFORMS:  # a program may make one for each sample
                self._kept.clear()
            kept = self._kept[id(transform), grey] = _Kept(transform, grey)
        return kept.known


def _replayed(ops: list[Any], image: Any) -> Any:
    """Applies the program's own transforms to a Pillow image."""
    for op in ops:
        image = op(image)
    return image


def _as_dicts(translation: Translation) -> list[dict[str, Any]]:
    return [
        transform if isinstance(transform, dict) else transform.to_dict()
        for transform in translation
    ]


def _known(transform: Any, grey: bool) -> Known | None:
    made = translate(transform, grey)
    if len(made) == grey and made.gives == "PIL image":
        return None
    if grey and any(transform.get("num_output_channels") == 3 for transform in _as_dicts(made)):
        return None  # it makes three channels of one again
    if not made.rest:
        return Known([transform], made, grey)
    # What an object equals may be given as Headrace's transforms, which Python cannot run.
    return Known(made.taken, made, grey) if all(map(callable, made.taken)) else None
