"""Finds which samples a torch dataset consists of, if Headrace can read them itself.

It reads torchvision's folders and datasets of one array, torch's ``Subset`` and ``ConcatDataset``
of these at any depth, and ``headrace.Dataset``. It only looks at their attributes. A subclass that
makes its samples in its own way is left to torch's loader. torchvision is never imported.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._torch import arrayed
from headrace._torch.draws import Draws
from headrace._torch.foreign import Foreign
from headrace._translate import replaced
from headrace.dataset import Dataset
from headrace.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.int64]


class Contents:
    """The folders and packed sets behind a dataset, and which of their samples it has.

    Attributes:
        sources: each folder (torchvision's object) or ``headrace.Dataset``, once.
        total: how many samples these have together.
        lists: for each source, what a folder's ``samples`` was, or the labels of an array; empty
            for a ``headrace.Dataset``.
        pixels: the array of each source that is one of torchvision's datasets of one array.
        rows: by index of the dataset, the sample's number among those of all sources together.

    Raises:
        UnsupportedError: Headrace does not read something in it; the message says what.
    """

    def __init__(self, dataset: Any) -> None:
        self.sources: list[Any] = []
        self.lists: list[list[Any]] = []
        self.pixels: list[arrayed.Pixels] = []
        self._begins: list[int] = []
        self.total = 0
        self.rows: Rows = self._rows(dataset)

    @property
    def of_headrace(self) -> bool:
        """Whether it consists only of ``headrace.Dataset``s."""
        return all(isinstance(source, Dataset) for source in self.sources)

    def same_as(self, other: Contents) -> bool:
        """Whether nothing was exchanged, added, removed or relabelled."""
        return (
            len(self.sources) == len(other.sources)
            and all(map(operator.is_, self.sources, other.sources))
            and self.lists == other.lists
            and len(self.pixels) == len(other.pixels)
            and all(a.same_as(b) for a, b in zip(self.pixels, other.pixels, strict=True))
            and np.array_equal(self.rows, other.rows)
        )

    def _rows(self, dataset: Any) -> Rows:
        if isinstance(dataset, Dataset):
            return self._source(dataset, [], len(dataset))
        readers: tuple[tuple[str, str, Callable[[Any], Rows]], ...] = (
            ("torchvision.datasets", "DatasetFolder", self._folder),
            *(("torchvision.datasets", name, self._array(name)) for name in arrayed.NAMES),
            ("torch.utils.data", "Subset", self._subset),
            ("torch.utils.data", "ConcatDataset", self._concatenation),
        )
        kind = type(dataset).__name__
        for module, name, read in readers:
            base = getattr(sys.modules.get(module), name, None)
            if base is None or not isinstance(dataset, base):
                continue
            for method in ("__getitem__", "__getitems__", "__len__"):
                if getattr(type(dataset), method, None) is not getattr(base, method, None):
                    raise UnsupportedError(f"{kind} has a {method} of its own")
            return read(dataset)
        raise UnsupportedError(f"{kind} is not one of the datasets that Headrace reads")

    def _source(self, source: Any, samples: list[Any], length: int) -> Rows:
        for begin, known in zip(self._begins, self.sources, strict=True):
            if known is source:
                return np.arange(begin, begin + length)
        begin, self.total = self.total, self.total + length
        self.sources.append(source)
        self.lists.append(samples)
        self._begins.append(begin)
        return np.arange(begin, begin + length)

    def _folder(self, folder: Any) -> Rows:
        kind, datasets = type(folder).__name__, sys.modules["torchvision.datasets.folder"]
        if folder.loader not in (datasets.default_loader, datasets.pil_loader):
            raise UnsupportedError(f"{kind} has a loader of its own")
        if sys.modules["torchvision"].get_image_backend() != "PIL":
            raise UnsupportedError("torchvision's image backend is not PIL")
        if name := replaced.opening() or replaced.method():
            raise UnsupportedError(replaced.said(name))
        if folder.target_transform is not None:
            raise UnsupportedError(f"{kind} has a target_transform")
        # It is a copy, with which the next iteration compares, because the list may be edited.
        try:
            samples = [pair if type(pair) is tuple else tuple(pair) for pair in folder.samples]
        except TypeError:
            raise UnsupportedError(f"{kind} has samples that are not pairs") from None
        return self._source(folder, samples, len(samples))

    def _array(self, name: str) -> Callable[[Any], Rows]:
        def read(dataset: Any) -> Rows:
            found = arrayed.pixels(dataset, name)
            before = len(self.sources)
            rows = self._source(dataset, found.labels, len(found.labels))
            if len(self.sources) > before:
                self.pixels.append(found)
            return rows

        return read

    def _subset(self, subset: Any) -> Rows:
        whole, chosen = self._rows(subset.dataset), np.asarray(subset.indices)
        if not chosen.size:
            return whole[:0]
        if chosen.ndim != 1 or chosen.dtype.kind not in "iu":
            raise UnsupportedError("a Subset has indices that are not whole numbers")
        if chosen.min() < -len(whole) or chosen.max() >= len(whole):
            raise UnsupportedError("a Subset has indices outside its dataset")
        rows: Rows = whole[chosen]
        return rows

    def _concatenation(self, concatenation: Any) -> Rows:
        parts = [self._rows(part) for part in concatenation.datasets]
        if np.cumsum([len(part) for part in parts]).tolist() != concatenation.cumulative_sizes:
            raise UnsupportedError("a part of a ConcatDataset has changed its length")
        return np.concatenate(parts)


class Samples:
    """The samples of a dataset, opened.

    Attributes:
        contents: what was found in the dataset.
        dataset: what the samples are read from; its rows are those of ``contents``.
        labels: the labels by row; None: only ``dataset`` knows them.
        foreign: the samples that Pillow decodes; None for arrays and for datasets of Headrace's,
            where Pillow is not asked.

    Args:
        limits: the limits for the files of a folder; datasets of Headrace's have their own.
        own_pixels: whether the program chose ``max_pixels`` in these.

    Raises:
        UnsupportedError: the engine cannot read some samples; the message says which.
    """

    def __init__(
        self, contents: Contents, limits: dict[str, int] | None = None, own_pixels: bool = True
    ) -> None:
        self.contents = contents
        self.foreign: Foreign | None = None
        self.labels: list[int] | None = None
        self._copies: list[tuple[Any, Any]] = []  # tensors, and what is read in their place
        if contents.of_headrace:
            self.dataset: Dataset = _one(contents.sources)
            return
        if any(isinstance(source, Dataset) for source in contents.sources):
            # The latter have no transform, so their images would be of another kind.
            raise UnsupportedError("it joins image folders with datasets of Headrace's")
        if not contents.total:
            raise UnsupportedError("it is empty")
        if contents.pixels:
            self._open_arrays(contents)
            return
        paths, self.labels = _checked(sample for part in contents.lists for sample in part)
        self.foreign = Foreign(paths, own_pixels)
        count, total = len(self.foreign.rows), len(paths)
        if 2 * count > total:  # torch's worker processes decode these in parallel
            first = next(iter(self.foreign.rows.values()))
            raise UnsupportedError(f"{first}, nor are {count:,} of its {total:,} files")
        try:
            self.dataset = Dataset.from_files(paths, self.labels, limits=limits)
        except ArgumentError as failure:  # a path that no file can have
            raise UnsupportedError(failure.reason) from None

    def _open_arrays(self, contents: Contents) -> None:
        if len(contents.pixels) < len(contents.sources):
            raise UnsupportedError("it joins image folders with arrays")
        if len({(one.grey, one.size) for one in contents.pixels}) > 1:
            raise UnsupportedError("it joins arrays of images that differ in size or channels")
        self.labels = [label for labels in contents.lists for label in labels]
        read = [one.values() for one in contents.pixels]
        self._copies = [
            (one.array.detach(), copy)
            for one, copy in zip(contents.pixels, read, strict=True)
            if one.is_copied
        ]
        self.dataset = _one(
            [
                Dataset.from_arrays(values, one.labels, layout=one.layout)
                for one, values in zip(contents.pixels, read, strict=True)
            ]
        )

    def same_as(self, contents: Contents) -> bool:
        """Whether these are the samples of what was found in a dataset now.

        The pixels of tensors are compared. torch's count of changes to a tensor does not have those
        that are made through ``numpy()``.
        """
        return self.contents.same_as(contents) and all(
            arrayed.are_equal(tensor, copy) for tensor, copy in self._copies
        )

    def __len__(self) -> int:
        return len(self.contents.rows)

    def draws(self) -> Draws:
        """A counter of how often each sample came."""
        return Draws(len(self.dataset))

    def rows(self, indices: Iterable[Any]) -> list[int]:
        """The rows of some indices. Negative indices count from the end.

        Raises:
            IndexError, TypeError: an index is outside the dataset, or is no index.
        """
        length = len(self)
        chosen = indices if isinstance(indices, list) else [*indices]
        fast = _whole(chosen)
        if fast is not None and -length <= np.min(fast) and np.max(fast) < length:
            taken: list[int] = self.contents.rows[fast].tolist()
            return taken
        # One by one, because an index may be of another type, and to name the one that is outside.
        numbers = [operator.index(index) for index in chosen]
        for number in numbers:
            if not -length <= number < length:
                raise IndexError(f"index {number} is outside a dataset of {length} samples")
        found: list[int] = self.contents.rows[numbers].tolist() if numbers else []
        return found

    @functools.cached_property
    def fingerprint(self) -> str:
        """A short text that differs when the samples or their labels do.

        A folder's files count by their paths below its root, because the root may be another one on
        another machine.
        """
        digest = hashlib.sha256(self.contents.rows.tobytes())
        if self.contents.pixels:
            digest.update(self.dataset.fingerprint.encode())
            return digest.hexdigest()[:32]
        for source, samples in zip(self.contents.sources, self.contents.lists, strict=True):
            if isinstance(source, Dataset):
                digest.update(source.fingerprint.encode())
                continue
            root = os.path.join(os.fspath(source.root), "")
            for path, label in samples:
                below = os.fspath(path).removeprefix(root)
                digest.update(f"{below}\0{label}\0".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:32]


def _one(datasets: list[Dataset]) -> Dataset:
    """One dataset of several. Each keeps its labels, whatever its classes are, as with torch.

    Raises:
        UnsupportedError: they have to be read in different ways.
    """
    if len(datasets) == 1:
        return datasets[0]
    try:
        return Dataset.concat(datasets, classes=())
    except ArgumentError as failure:
        raise UnsupportedError(f"it joins datasets that differ: {failure}") from None


def _checked(samples: Iterable[Any]) -> tuple[list[str], list[int]]:
    """The paths and labels of a folder's samples.

    Raises:
        UnsupportedError: one of them is not a path or a label for the engine.
    """
    paths, labels = [], []
    for sample in samples:
        try:
            path, label = sample
            path = os.fspath(path)
            known = isinstance(path, str)
        except (TypeError, ValueError):
            raise UnsupportedError(f"the sample {sample!r} is not a path and a label") from None
        if not known:
            raise UnsupportedError(f"the path {path!r} is not a str")
        # Exactly int: a bool or a NumPy number would be collated to another dtype.
        if type(label) is not int or not 0 <= label < 2**31:
            raise UnsupportedError(f"the label of {path} is {label!r}, which is not a class number")
        paths.append(path)
        labels.append(label)
    return paths, labels


def _whole(indices: list[Any]) -> NDArray[np.int64] | None:
    """Python's ints as an array; None: one is something else, or there are none."""
    if not indices or set(map(type, indices)) != {int}:
        return None
    try:
        return np.array(indices, np.int64)
    except OverflowError:
        return None
