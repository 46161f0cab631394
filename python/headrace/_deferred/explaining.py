"""Which images of a program's samples the engine makes, and what keeps it from the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from headrace._deferred.altering import Altering
from headrace._deferred.curing import IN_PYTHON
from headrace._deferred.drawn import go_back, states
from headrace._deferred.image import DeferredImage
from headrace._deferred.recording import Reason
from headrace._deferred.tensor import PendingTensor
from headrace._translate.result import Translation

if TYPE_CHECKING:
    from headrace._deferred.iteration import Deferring


class Leaf(NamedTuple):
    """One image of a sample.

    An array or a tensor that the engine does not make counts as one if it has three axes or more,
    or two of 16 and more: what has fewer are labels, boxes or points.

    Attributes:
        where: its place in the sample, as Python writes it: ``[0]``, ``['image']``.
        what: its type and shape.
        native: the engine decodes and transforms it.
        place: file and line of the program where its pixels came to Python first; "" where it is
            native, or nothing that was opened is in it, or it is another with each call.
    """

    where: str
    what: str
    native: bool
    place: str = ""


class Explanation(NamedTuple):
    """What becomes natively of a sample; ``str`` of it is a table.

    Attributes:
        leaves: the images of the sample.
        reasons: why pixels were needed in Python, each with the line of the program.
        cure: what would make it native, a sentence or more; "" where all of it is.
    """

    leaves: list[Leaf]
    reasons: list[Reason]
    cure: str

    @property
    def native(self) -> bool:
        """Whether there are images, and the engine makes all of them."""
        return bool(self.leaves) and all(leaf.native for leaf in self.leaves) and not self.reasons

    def __str__(self) -> str:
        if not self.leaves:
            return "the sample has no image"
        wide = max(len(leaf.where) for leaf in self.leaves)
        lines = []
        for leaf in self.leaves:
            how, of = ("native" if leaf.native else "Python"), leaf.place and f", from {leaf.place}"
            lines.append(f"{leaf.where:{wide}}  {how}  {leaf.what}{of}")
        # The images can all be native while a label or a decision is made of their pixels.
        said = "also in Python" if all(leaf.native for leaf in self.leaves) else "in Python"
        for text, place in self.reasons:
            lines.append(f"{said}: {text} ({place})" if place else f"{said}: {text}")
        return "\n".join([*lines, self.cure] if self.cure else lines)


def explained(deferring: Deferring, index: Any) -> Explanation:
    """Asks the dataset for a sample; generators are left as they were."""
    with _generators_as_they_were():
        sample, reasons, opened = deferring.sample(index)
    leaves = [leaf for leaf, _ in _leaves(sample, "", 0)]
    in_python = [leaf for leaf in leaves if not leaf.native]
    if in_python and not reasons:
        reasons = [Reason(deferring.unseen(opened), "")]
    lines = list(dict.fromkeys(reason.place for reason in reasons))
    if len(lines) == 1:
        places = dict.fromkeys((leaf.where for leaf in in_python), lines[0])
    else:
        places = _places(deferring, index, in_python, lines[:_MOST_LINES])
    leaves = [leaf._replace(place=places.get(leaf.where, "")) for leaf in leaves]
    cures = dict.fromkeys(deferring.cure(reason.text, opened) for reason in reasons)
    return Explanation(leaves, reasons, " ".join(cures))


def of_recipe(made: Translation) -> Explanation:
    """Of a folder or packed set, whose samples the engine reads itself."""
    what = made.gives if made.size is None else f"{made.gives} of {made.size[0]} x {made.size[1]}"
    reasons = [Reason(made.obstacle, "in the dataset's transform")] if made.rest else []
    return Explanation([Leaf("[0]", what, not made.rest)], reasons, IN_PYTHON if reasons else "")


_MOST_LINES = 16  # that a sample is made anew for


def _places(
    deferring: Deferring, index: Any, leaves: list[Leaf], lines: list[str]
) -> dict[str, str]:
    """The line that each of some leaves came to Python at, where several lines needed pixels.

    A leaf is of the first line with whose pixels it changes. Turning an image leaves one as it is
    that has the same values everywhere; inverting it does not.
    """
    first, second = (_values(deferring, index, None) for _ in range(2))
    # What is another with each call tells nothing.
    left = {leaf.where for leaf in leaves} - _differing(first, second)
    places: dict[str, str] = {}
    for inverts in (False, True):
        for line in lines:
            if left and line:
                changed = left & _differing(
                    first, _values(deferring, index, Altering(line, inverts))
                )
                places |= dict.fromkeys(changed, line)
                left -= changed
    return places


def _values(deferring: Deferring, index: Any, altering: Altering | None) -> dict[str, Any]:
    """What is in Python of a sample, by its places; nothing where the program's code fails."""
    with _generators_as_they_were():
        try:
            sample, _, _ = deferring.sample(index, altering)
        except Exception:  # of pixels that it did not expect
            return {}
        return {leaf.where: value for leaf, value in _leaves(sample, "", 0) if not leaf.native}


def _differing(values: dict[str, Any], others: dict[str, Any]) -> set[str]:
    """The places that both have, with other values."""
    return {
        where for where in values.keys() & others.keys() if not _equal(values[where], others[where])
    }


def _equal(one: Any, other: Any) -> bool:
    if hasattr(one, "getbands"):
        return bool(one.size == other.size and one.tobytes() == other.tobytes())
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one.detach(), other.detach())
    return np.array_equal(np.asarray(one), np.asarray(other))


_MOVED = ("BoundingBoxes", "KeyPoints", "Mask")


def _leaves(value: Any, where: str, depth: int) -> Iterator[tuple[Leaf, Any]]:
    """The images at any depth, by their places."""
    kind = type(value).__name__
    if isinstance(value, PendingTensor):
        shape, dtype = value.described()
        yield Leaf(where or "sample", f"{value.plain.__name__} {shape} {dtype}", True), value
    elif isinstance(value, DeferredImage) and value.chain is not None:
        yield Leaf(where or "sample", f"PIL image {value.size}", value.chain.native), value
    elif kind in _MOVED and type(value).__module__.startswith("torchvision.tv_tensors"):
        return  # what torchvision moves with an image is none
    elif hasattr(value, "shape") and _may_be_an_image(value):
        yield Leaf(where or "sample", f"{kind} {tuple(value.shape)} {value.dtype}", False), value
    elif hasattr(value, "getbands"):
        yield Leaf(where or "sample", f"PIL image {value.size}", False), value
    elif depth < 8:
        for name, part in _parts(value):
            yield from _leaves(part, where + name, depth + 1)


def _may_be_an_image(array: Any) -> bool:
    """Whether an array or tensor has channels, or bytes; tables and boxes have neither, and a mask
    has classes."""
    if str(array.dtype).removeprefix("torch.") in ("bool", "int32", "int64"):
        return False
    return len(array.shape) > 2 or (len(array.shape) == 2 and array.dtype.itemsize == 1)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield f"[{key!r}]", part
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield f"[{number}]", part
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield f".{field.name}", getattr(value, field.name)


@contextmanager
def _generators_as_they_were() -> Iterator[None]:
    """Puts Python's, NumPy's and torch's generators back."""
    before = states()
    try:
        yield
    finally:
        go_back(before)
