"""Which images of a program's samples the engine makes, and what keeps it from the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace._deferred.curing import IN_PYTHON
from headrace._deferred.drawn import go_back, states
from headrace._deferred.image import DeferredImage
from headrace._deferred.recording import Reason
from headrace._deferred.tensor import PendingTensor
from headrace._translate.translation import Translation

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
        place: file and line of the program where it came to Python; "" where it is native, or
            several lines may have been it: all of them stand in ``Explanation.reasons``.
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
        for text, place in self.reasons:
            lines.append(f"in Python: {text} ({place})" if place else f"in Python: {text}")
        return "\n".join([*lines, self.cure] if self.cure else lines)


def explained(deferring: Deferring, index: Any) -> Explanation:
    """Asks the dataset for a sample; generators are left as they were."""
    with _generators_as_they_were():
        sample, reasons, opened = deferring.sample(index)
    leaves = list(_leaves(sample, "", 0))
    in_python = [leaf for leaf in leaves if not leaf.native]
    if in_python and not reasons:
        reasons = [Reason(deferring.unseen(opened), "")]
    places = {reason.place for reason in reasons}
    if len(places) == 1:
        place = places.pop()
        leaves = [leaf if leaf.native else leaf._replace(place=place) for leaf in leaves]
    cures = dict.fromkeys(deferring.cure(reason.text, opened) for reason in reasons)
    return Explanation(leaves, reasons, " ".join(cures))


def of_recipe(made: Translation) -> Explanation:
    """Of a folder or packed set, whose samples the engine reads itself."""
    what = made.gives if made.size is None else f"{made.gives} of {made.size[0]} x {made.size[1]}"
    reasons = [Reason(made.obstacle, "in the dataset's transform")] if made.rest else []
    return Explanation([Leaf("[0]", what, not made.rest)], reasons, IN_PYTHON if reasons else "")


_MOVED = ("BoundingBoxes", "KeyPoints", "Mask")


def _leaves(value: Any, where: str, depth: int) -> Iterator[Leaf]:
    """The images at any depth, by their places."""
    kind = type(value).__name__
    if isinstance(value, PendingTensor):
        shape, dtype = value.described()
        yield Leaf(where or "sample", f"{value.plain.__name__} {shape} {dtype}", True)
    elif isinstance(value, DeferredImage) and value.chain is not None:
        yield Leaf(where or "sample", f"PIL image {value.size}", value.chain.native)
    elif kind in _MOVED and type(value).__module__.startswith("torchvision.tv_tensors"):
        return  # what torchvision moves with an image is none
    elif hasattr(value, "shape") and _may_be_an_image(value):
        yield Leaf(where or "sample", f"{kind} {tuple(value.shape)} {value.dtype}", False)
    elif hasattr(value, "getbands"):
        yield Leaf(where or "sample", f"PIL image {value.size}", False)
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
