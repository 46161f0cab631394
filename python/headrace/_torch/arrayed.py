"""Reads torchvision's datasets that are one array: MNIST and its like, CIFAR, SVHN and STL10.

Their ``__getitem__`` makes a PIL image of a part of the array. The engine reads that part itself.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np
import torch

from headrace.errors import UnsupportedError


class NotItsArrayError(UnsupportedError):
    """A dataset's array is not as torchvision makes it; the message says what differs."""


class _Kind(NamedTuple):
    labels: str  # the attribute that holds the labels
    of: type  # the type of its data: a tensor, or a NumPy array
    shape: tuple[int | None, ...]  # the shape of its data
    layout: str


_KINDS = {
    "MNIST": _Kind("targets", torch.Tensor, (None, None, None), "NHW"),
    "CIFAR10": _Kind("targets", np.ndarray, (None, None, None, 3), "NHWC"),
    "SVHN": _Kind("labels", np.ndarray, (None, 3, None, None), "NCHW"),
    "STL10": _Kind("labels", np.ndarray, (None, 3, None, None), "NCHW"),
}
_AS_THEY_ARE = ("CIFAR10",)  # returns labels as they are; the others make ints of them
# FashionMNIST, KMNIST, EMNIST and CIFAR100 inherit their ``__getitem__`` from two of these.
NAMES = tuple(_KINDS)


class Pixels(NamedTuple):
    """The array of a dataset, and the labels as they were when it was looked at.

    Attributes:
        place: address, shape and strides of the values, by which a different array is noticed.
    """

    array: Any
    layout: str
    labels: list[int]
    place: Any

    def values(self) -> Any:
        """The array, in memory that nothing moves.

        For a tensor it is a copy. torch moves a tensor's memory when the tensor is sent to another
        process, even while somebody reads it.
        """
        return self.array.detach().clone() if self.is_copied else self.array

    @property
    def is_copied(self) -> bool:
        """Whether ``values`` is a copy, which does not follow changes in place."""
        return isinstance(self.array, torch.Tensor)

    def same_as(self, other: Pixels) -> bool:
        """Whether both are the same array at the same place in memory."""
        return self.array is other.array and self.place == other.place

    @property
    def grey(self) -> bool:
        """Whether the images have one channel."""
        return self.layout == "NHW"

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        shape, at = self.array.shape, self.layout.index("H")
        return int(shape[at]), int(shape[at + 1])


_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def are_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors of bytes on the CPU, of one shape, have the same values."""
    if not (one.is_contiguous() and other.is_contiguous()):
        return torch.equal(one, other)
    # torch compares one byte after another.
    return not _memcmp(one.data_ptr(), other.data_ptr(), one.nbytes)


def pixels(dataset: Any, name: str) -> Pixels:
    """The array and labels of a dataset of torchvision's.

    Args:
        name: the name of its class, or of the class that it inherits from.

    Raises:
        NotItsArrayError: the dataset is not as torchvision makes it; the message says what differs.
    """
    kind, title = _KINDS[name], type(dataset).__name__
    if dataset.target_transform is not None:
        raise NotItsArrayError(f"{title} has a target_transform")
    array, labels = dataset.data, getattr(dataset, kind.labels)
    uint8 = str(getattr(array, "dtype", None)) in ("uint8", "torch.uint8")
    shape = tuple(getattr(array, "shape", ()))
    fits = len(shape) == len(kind.shape) and all(
        wanted in (None, found) for wanted, found in zip(kind.shape, shape, strict=True)
    )
    if type(array) is not kind.of or not uint8 or not fits or 0 in shape:
        raise NotItsArrayError(f"{title} has data that is not torchvision's")
    if isinstance(array, torch.Tensor) and (array.device.type != "cpu" or array.is_sparse):
        raise NotItsArrayError(f"{title} has data that is not in the memory of the CPU")
    found = _labels(title, labels, int(shape[0]), name in _AS_THEY_ARE)
    view: Any = array.detach().numpy() if isinstance(array, torch.Tensor) else array
    return Pixels(array, kind.layout, found, (view.ctypes.data, view.shape, view.strides))


def _labels(title: str, labels: Any, count: int, as_they_are: bool) -> list[int]:
    if isinstance(labels, torch.Tensor | np.ndarray):
        dtype = str(labels.dtype).removeprefix("torch.")
        # Labels of another dtype would be collated to that dtype.
        whole = dtype == "int64" if as_they_are else dtype.startswith(("int", "uint"))
        if len(labels.shape) != 1 or not whole:
            raise NotItsArrayError(f"{title} has labels that are not whole numbers")
        labels = labels.tolist()
    # Exactly int: a bool or a NumPy number would be collated to another dtype.
    if not isinstance(labels, list) or not set(map(type, labels)) <= {int}:
        raise NotItsArrayError(f"{title} has labels that are no list of ints")
    found: list[int] = labels
    if len(found) != count or (found and not -1 <= min(found) <= max(found) < 2**31):
        raise NotItsArrayError(f"{title} has not one class number for each image")
    return list(found)
