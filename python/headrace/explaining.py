"""``headrace.explain``: which images of a loader are native, or would be with Headrace's loader."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from headrace._deferred.deciding import asked
from headrace._torch.kind import (
    TorchDataLoader,
    asks_torchs_iterator,
    attributes,
    is_headraces,
)
from headrace.dataloader import DataLoader
from headrace.errors import ArgumentError, UnsupportedError
from headrace.loader import Loader

if TYPE_CHECKING:
    from headrace._deferred.explaining import Explanation

# Attributes in which the loaders of frameworks hold the loader inside: Accelerate's, Fabric's.
_AROUND = ("base_dataloader", "_dataloader")


def explain(loader: Any, index: Any = None) -> Explanation:
    """Explains which images of a loader's samples the engine makes, and why not the others.

    It runs the dataset's code for one sample, and restores Python's, NumPy's and torch's generators
    afterwards. If several lines needed pixels, it runs the code again, up to twice for each of
    them, with an image that is turned or inverted at that line, to see which images come from it.
    The loader does not change.

    Args:
        loader: a ``headrace.DataLoader``; or torch's, and then the answer is what
            ``headrace.DataLoader`` would do; or the loader that Accelerate or Fabric made of
            either.
        index: the sample's index in the dataset, of the kind that the sampler gives; None:
            0, or [0] where the sampler of ``batch_size=None`` is a ``BatchSampler``.

    Returns:
        an object that prints as a table: the place of each image in the sample, whether it is
        native, for each cause of work in Python the line of the program and a cure, and with
        ``num_workers`` whether there are worker processes, and why. Its attributes are ``native``,
        ``leaves``, ``reasons``, ``cure`` and ``runs``.

    Raises:
        UnsupportedError: only torch's loader can run this dataset, or the loader's class has
            torch's iterator; the sentence says why.
        ArgumentError: ``loader`` is neither torch's nor Headrace's.
    """
    own = _inside(loader)
    if is_headraces(own):
        found: Explanation = own.explain(index)
        return found
    if isinstance(own, Loader):
        raise ArgumentError("a headrace.Loader is always native; there is nothing to explain")
    if not isinstance(own, TorchDataLoader):
        kind = type(loader)
        raise ArgumentError(
            f"loader={kind.__module__}.{kind.__qualname__}: a torch.utils.data.DataLoader, or "
            "Headrace's, was expected; loaders with a class of their own, as fastai's, are not read"
        )
    if asks_torchs_iterator(type(own)):
        raise UnsupportedError(
            f"headrace.DataLoader would leave this to torch's own DataLoader: {asked(type(own))}"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice on processes; none are started
        made: DataLoader[Any] = DataLoader(**attributes(own.__dict__))
    try:
        return made.explain(index)
    except UnsupportedError as failure:
        raise UnsupportedError(f"with headrace.DataLoader instead, {failure}") from None
    finally:
        made.close()


def _inside(loader: Any) -> Any:
    """Returns the loader inside the loaders of frameworks."""
    for _ in range(8):
        inner = next((vars(loader)[name] for name in _AROUND if name in _names(loader)), None)
        if inner is None:
            break
        loader = inner
    return loader


def _names(loader: Any) -> dict[str, Any]:
    return getattr(loader, "__dict__", {})
