"""Decides which way a ``DataLoader`` loads, as its dataset and its arguments are now."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.utils.data

from headrace._batch import lending
from headrace._deferred import curing, deciding
from headrace._torch.arrayed import NotItsArrayError
from headrace._torch.kind import has_own_iterator
from headrace._torch.notices import may_have_images
from headrace._torch.reading import Reading
from headrace._torch.recipe import Recipe
from headrace.errors import UnsupportedError

if TYPE_CHECKING:
    from headrace._deferred.iteration import Deferring


class PartlyNative(UnsupportedError):
    """The loader is strict, and the engine could do only a part of the work."""


def recipe(loader: Any, reading: Reading, deferred: Callable[[], Deferring | None]) -> Recipe:
    """Which samples to read and how to transform them, from the dataset as it is now.

    Args:
        deferred: returns what runs the dataset's own code instead; called only if that may be
            better.

    Raises:
        UnsupportedError: the engine cannot read the samples; or it cannot transform them entirely,
            and the loader is strict or running the dataset's own code is better.
    """
    samples, made = reading.look()
    own = loader.transform is None and loader.limits is None and loader.on_error == "raise"
    # The dataset's own code is better if worker processes then run the program's functions, or if
    # known transforms follow a function: these can be native then.
    if made.rest and (loader.num_workers or made.goes_on) and own and deferred():
        raise UnsupportedError(made.obstacle)
    if made.rest and loader.strict:
        raise PartlyNative(f"strict=True, and {made.obstacle}. {curing.IN_PYTHON}")
    return Recipe(
        samples=samples,
        translation=made,
        num_threads=loader.num_workers,
        prefetch=max(1, 2 if loader.prefetch_factor is None else loader.prefetch_factor),
        seed=loader.seed or 0,
        mode=loader.mode,
        on_error=loader.on_error,
        pin_memory=loader.pin_memory and lending.available(),
        strict=loader.strict,
    )


def deferring(loader: Any, reading: Reading) -> Deferring | None:
    """What runs the dataset's own code while the engine still makes its images."""
    rows, refused = None, ""
    try:
        rows = reading.look()[0].rows  # gives the numbers of samples by indices
    except NotItsArrayError as failure:
        refused = str(failure)
    except UnsupportedError:
        pass
    made = deciding.behind(loader, rows)
    if made is not None:
        made.refused = refused
    return made


def keeps_its_place(loader: Any, given: Any) -> bool:
    """Whether a state can restore the order of samples although the dataset's own code runs.

    A stream has no such order. And loaders of data without images behave as torch's.

    Args:
        given: the arguments of torchdata's loader, if that one reads; else None.
    """
    stream = isinstance(loader.dataset, torch.utils.data.IterableDataset)
    possible = given is None and deciding.possible(loader.dataset)
    possible = possible and not has_own_iterator(type(loader))
    return possible and not stream and may_have_images(loader.dataset)


def left_to(loader: Any, reader: str, cause: deciding.Obstacle) -> None:
    """Warns that another loader reads, unless the dataset has no images.

    Raises:
        UnsupportedError: the loader is strict.
    """
    loader.record.torchs(*cause)
    if loader.strict:
        raise UnsupportedError(f"strict=True, and {reader} loads this dataset: {cause}")
    if may_have_images(loader.dataset):
        text = f"{reader} loads this dataset in Python, one image at a time: {cause}"
        loader.notices.say(f"{text} (strict=True makes this an error)", stacklevel=0)
