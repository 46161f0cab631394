"""Explains which images of a sample the engine makes, and why it does not make the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import BatchSampler

from headrace._deferred import deciding, pixels
from headrace._deferred.altering import Altering
from headrace._deferred.chain import Chain
from headrace._deferred.curing import BAD, IN_PYTHON
from headrace._deferred.drawn import go_back, states
from headrace._deferred.image import DeferredImage
from headrace._deferred.parts import leaves_of
from headrace._deferred.recording import Reason
from headrace._deferred.source import File, bytes_of
from headrace._deferred.tensor import PendingTensor
from headrace._deferred.ways import PartlyNative
from headrace._engine.arguments import printable
from headrace._torch.failures import noted
from headrace._torch.kind import asks_torchs_iterator
from headrace._torch.recipe import Recipe
from headrace._translate.result import Translation
from headrace.errors import UnsupportedError

if TYPE_CHECKING:
    from headrace._deferred.iteration import Deferring


class Leaf(NamedTuple):
    """One image of a sample.

    An array or a tensor that the engine does not make counts as an image if it has three axes or
    more, or two axes of bytes. Others may be tables or masks: two axes of at least 16 floats, int32
    and int64 with three channels, and what is found in an object's attributes. These count if they
    change with the pixels that a line of the program needed.

    Attributes:
        where: its place in the sample, as Python writes it: ``[0]``, ``['image']``.
        what: its type and shape.
        native: whether the engine decodes and transforms it.
        place: file and line of the program at which its pixels first came to Python; "" if it is
            native, if it has nothing of an opened image, or if it differs with each call.
    """

    where: str
    what: str
    native: bool
    place: str = ""


class Explanation(NamedTuple):
    """Which images of a sample are native, and why the others are not; ``str`` of it is a table.

    Attributes:
        leaves: the images of the sample.
        reasons: why pixels were needed in Python, each with the line of the program.
        cure: what would make all of it native, in a sentence or more; "" if it is.
        runs: with ``num_workers``, whether there are worker processes, and why; else "".
    """

    leaves: list[Leaf]
    reasons: list[Reason]
    cure: str
    runs: str = ""

    @property
    def native(self) -> bool:
        """Whether there are images, and the engine makes all of them."""
        return bool(self.leaves) and all(leaf.native for leaf in self.leaves) and not self.reasons

    def __str__(self) -> str:
        if not self.leaves and not self.reasons:
            return "\n".join(filter(None, ["the sample has no image", self.runs]))
        wide = max((len(leaf.where) for leaf in self.leaves), default=0)
        lines = [] if self.leaves else ["no image is found in the sample"]
        for leaf in self.leaves:
            how, of = ("native" if leaf.native else "Python"), leaf.place and f", from {leaf.place}"
            lines.append(f"{leaf.where:{wide}}  {how}  {leaf.what}{of}")
        # All images can be native, and still a label or a decision may be made of their pixels.
        all_native = self.leaves and all(leaf.native for leaf in self.leaves)
        said = "also in Python" if all_native else "in Python"
        for text, place in self.reasons:
            lines.append(f"{said}: {text} ({place})" if place else f"{said}: {text}")
        return "\n".join(filter(None, [*lines, self.cure, self.runs]))


def of_loader(
    loader: Any,
    recipe: Callable[[], Recipe],
    deferred: Callable[[], Deferring | None],
    index: Any,
) -> Explanation:
    """The explanation for a sample of a ``DataLoader``.

    Args:
        recipe: returns what the engine reads itself, or raises ``UnsupportedError`` if it cannot.
        deferred: returns what runs the dataset's own code; None: only torch's loader can.
        index: the sample's index; None: 0, or [0] where the loader's sampler gives lists.

    Raises:
        UnsupportedError: only torch's loader can run this dataset, or the loader's class asks for
            torch's iterator.
    """
    if asks_torchs_iterator(type(loader)):
        raise UnsupportedError(f"torch's own DataLoader loads it: {deciding.asked(type(loader))}")
    workers = loader.num_workers
    try:
        made = recipe().translation
    except UnsupportedError as failure:
        behind = deferred()
        if behind is None:
            why = deciding.obstacle(loader.dataset) or f"{failure}; {deciding.SNAPSHOTS}"
            raise UnsupportedError(f"torch's own DataLoader loads it: {why}") from None
        runs = ""
        if workers and not isinstance(failure, PartlyNative):  # with strict=True that is an error
            processes = "1 worker process" if workers == 1 else f"{workers} worker processes"
            runs = f"the dataset's code runs in {processes}, because {failure}"
        return _of_sample(loader, behind, index)._replace(runs=runs)
    threads = "1 thread" if workers == 1 else f"{workers} threads"
    runs = f"the engine reads and decodes in {threads}, and starts no process" if workers else ""
    return of_recipe(made)._replace(runs=runs)


def _of_sample(loader: Any, behind: Deferring, index: Any) -> Explanation:
    """The explanation for the sample of an index, or for the first one.

    With ``batch_size=None`` and a ``BatchSampler`` as the sampler, torch's loader asks the dataset
    for lists of indices, and the dataset may refuse a number.
    """
    if index is not None:
        return explained(behind, index)
    lists = loader.batch_size is None and isinstance(loader.sampler, BatchSampler)
    try:
        return explained(behind, [0] if lists and loader.batch_sampler is None else 0)
    except Exception as failure:
        noted(failure, "explain(index) takes another index, of the kind that the sampler gives")
        raise


def explained(deferring: Deferring, index: Any) -> Explanation:
    """The explanation for a sample that the dataset is asked for; generators stay as they were."""
    with _generators_as_they_were():
        try:
            sample, reasons, opened = deferring.sample(index)
        except Exception as failure:
            noted(failure, f"index {index!r} of the dataset")
            raise
    all_of_it = _leaves(sample)
    found = [(leaf, sure) for leaf, _, sure in all_of_it]
    in_python = [leaf for leaf, sure in found if sure and not leaf.native]
    if in_python and not reasons:
        reasons = [Reason(deferring.unseen(opened), "")]
    doubtful = [leaf for leaf, sure in found if not sure]
    lines = list(dict.fromkeys(reason.place for reason in reasons))
    places: dict[str, str] = {}
    if len(lines) == 1:
        places = dict.fromkeys((leaf.where for leaf in in_python), lines[0])
        in_python = []  # their line is known
    if lines and (in_python or doubtful):
        places |= _places(deferring, index, [*in_python, *doubtful], lines[:_MOST_LINES])
    bad = {leaf.where: told for leaf, value, _ in all_of_it if (told := _bad(value))}
    leaves = [
        leaf._replace(
            place=places.get(leaf.where, ""), native=leaf.native and leaf.where not in bad
        )
        for leaf, sure in found
        if sure or leaf.where in places
    ]
    reasons = [*reasons, *(Reason(told, "") for told in dict.fromkeys(bad.values()))]
    cures = dict.fromkeys(deferring.cure(reason.text, opened) for reason in reasons)
    return Explanation(leaves, reasons, " ".join(cures))


def of_recipe(made: Translation) -> Explanation:
    """The explanation for a folder or packed set, whose samples the engine reads itself."""
    what = made.gives if made.size is None else f"{made.gives} of {made.size[0]} x {made.size[1]}"
    reasons = [Reason(made.obstacle, "in the dataset's transform")] if made.rest else []
    return Explanation([Leaf("[0]", what, not made.rest)], reasons, IN_PYTHON if reasons else "")


def _bad(value: Any) -> str:
    """Why an image's file cannot be decoded; "" if it can be, or is decoded already."""
    chains: list[Chain] = []
    if isinstance(value, PendingTensor):
        chains = [part.chain for part in leaves_of(value.parts)]
    elif isinstance(value, DeferredImage) and value.chain is not None:
        chains = [value.chain]
    for source in (chain.source for chain in chains):
        try:
            pixels.read_by_pillow(bytes_of(source))
        except Exception as failure:
            path = source.path if isinstance(source, File) else b""
            name = printable(os.fsdecode(path)) if path else "an image in memory"
            return f"{name} {BAD}: {failure}"
    return ""


_MOST_LINES = 16  # for each line a sample is made again, up to twice


def _places(
    deferring: Deferring, index: Any, leaves: list[Leaf], lines: list[str]
) -> dict[str, str]:
    """For each leaf the line of the program that made it in Python, if several lines needed pixels.

    It is the first line at which other pixels change the leaf. The image is turned there, and then
    inverted, because turning does not change an image that has the same value everywhere.
    """
    first, second = (_values(deferring, index, None) for _ in range(2))
    # A leaf that differs from call to call anyway tells nothing.
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
    """The leaves of a sample that Python made, by their places; {} if the program's code fails."""
    with _generators_as_they_were():
        try:
            sample, _, _ = deferring.sample(index, altering)
        except Exception:  # it did not expect such pixels
            return {}
        return {leaf.where: value for leaf, value, _ in _leaves(sample) if not leaf.native}


def _differing(values: dict[str, Any], others: dict[str, Any]) -> set[str]:
    """The places that both have, but with different values."""
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


_DEEPEST = 8
_Found = tuple[Leaf, Any, bool]  # a leaf, its value, and whether it is surely an image


def _leaves(sample: Any) -> list[_Found]:
    """The images of a sample at any depth."""
    return [*_within(sample, "", _DEEPEST, True, set())]


def _within(value: Any, where: str, deeper: int, sure: bool, seen: set[int]) -> Iterator[_Found]:
    kind, place = type(value).__name__, where or "sample"
    if isinstance(value, PendingTensor):
        shape, dtype = value.described()
        yield Leaf(place, f"{value.plain.__name__} {shape} {dtype}", True), value, True
    elif isinstance(value, DeferredImage) and value.chain is not None:
        yield Leaf(place, f"PIL image {value.size}", value.chain.native), value, True
    elif kind in _MOVED and type(value).__module__.startswith("torchvision.tv_tensors"):
        return  # torchvision moves these along with an image; they are no images
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        is_image = _is_image(value)
        if is_image is not False:
            leaf = Leaf(place, f"{kind} {tuple(value.shape)} {value.dtype}", False)
            yield leaf, value, bool(is_image and sure)
    elif hasattr(value, "getbands"):
        yield Leaf(place, f"PIL image {value.size}", False), value, sure
    elif deeper and id(value) not in seen:
        for name, part, of_data in _parts(value, seen):
            yield from _within(part, where + name, deeper - 1, sure and of_data, seen)


def _is_image(array: Any) -> bool | None:
    """Whether an array or a tensor is an image; None: it may be one, or a table or a mask.

    An image has channels, or consists of bytes; boxes have neither.
    """
    shape, dtype = tuple(array.shape), str(array.dtype).removeprefix("torch.")
    if dtype == "bool" or len(shape) < 2:
        return False
    if dtype in ("int32", "int64"):  # numbers of classes, unless there are channels
        return None if len(shape) > 2 and 3 in (shape[-1], shape[-3]) else False
    if len(shape) > 2 or array.dtype.itemsize == 1:
        return True
    return None if dtype.startswith(("float", "bfloat")) and min(shape) >= 16 else False


# Objects that a sample may refer to, but that are no part of it.
_OTHERS = (type, FunctionType, BuiltinFunctionType, MethodType, ModuleType, torch.nn.Module)
_ALL_OTHERS = (*_OTHERS, torch.utils.data.Dataset, torch.Generator)


def _parts(value: Any, seen: set[int]) -> Iterator[tuple[str, Any, bool]]:
    """The parts of a value: place, part, and whether it is data, which attributes may not be."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield f"[{key!r}]", part, True
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield f"[{number}]", part, True
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield f".{field.name}", getattr(value, field.name), True
    elif not isinstance(value, _ALL_OTHERS):
        seen.add(id(value))
        attributes = getattr(value, "__dict__", None)
        for name, part in [*attributes.items()] if isinstance(attributes, dict) else ():
            yield f".{name}", part, False


@contextmanager
def _generators_as_they_were() -> Iterator[None]:
    """A context after which Python's, NumPy's and torch's generators are put back."""
    before = states()
    try:
        yield
    finally:
        go_back(before)
