"""Checks the ``transform`` of a ``DataLoader``: which datasets take one, and what it may be."""

from __future__ import annotations

from typing import Any

from headrace._engine import arguments
from headrace._torch.samples import Contents
from headrace._transforms.multiview import Views
from headrace.errors import ArgumentError, UnsupportedError


def has_none_of_its_own(dataset: Any) -> bool:
    """Whether a dataset consists of ``headrace.Dataset``s, which have no transform of their own."""
    try:
        return Contents(dataset).of_headrace
    except UnsupportedError:
        return False


def checked(transform: Any, dataset: Any) -> Any:
    """The transform, a ``Compose`` or a list of ``headrace.transforms``, which is checked early.

    Raises:
        ArgumentError: the dataset takes no transform.
    """
    if transform is not None and not has_none_of_its_own(dataset):
        raise ArgumentError(
            "transform= is for a headrace.Dataset; other datasets have one of their own"
        )
    if isinstance(transform, Views):
        raise UnsupportedError(
            "transform=Views(...): a DataLoader makes one image of each sample; several views are "
            "headrace.Loader's, or headrace.IterableDataset's"
        )
    if isinstance(transform, list | tuple) or hasattr(transform, "to_dict"):
        arguments.transforms("transform", transform)
    elif transform is not None and not callable(transform):
        allowed = "a Compose, or a list of headrace.transforms,"
        raise arguments.refuse_type("transform", transform, allowed)
    return transform
