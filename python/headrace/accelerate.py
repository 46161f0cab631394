"""``headrace.DataLoader`` under Hugging Face Accelerate.

``Accelerator.prepare`` replaces every ``DataLoader`` by a loader of its own over torch's class, and
that class cannot be chosen. Its loader keeps the inner loader in its attribute ``base_dataloader``,
and expects it to have a ``state_dict``. So ``prepare`` here lets Accelerate prepare as usual, and
then replaces the inner loader by Headrace's, with the batch sampler that Accelerate made. So
Accelerate still decides which samples a process gets, how often they are repeated and what is
gathered.

    model, optimizer = accelerator.prepare(model, optimizer)
    loader = headrace.accelerate.prepare(accelerator, loader)
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch.utils.data

from headrace._torch.kind import is_headraces
from headrace.dataloader import DataLoader
from headrace.errors import ArgumentError, UnsupportedError

# The arguments that the prepared loader takes over from the given one; the order is Accelerate's.
_KEPT = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn"),
    *("multiprocessing_context", "prefetch_factor", "persistent_workers", "pin_memory_device"),
    *("strict", "seed", "transform", "mode", "on_error", "limits"),
)


class PreparedDataLoader(DataLoader[Any]):
    """Headrace's loader inside one of Accelerate's.

    Loading a state also sets the epoch that Accelerate counts and gives to samplers.
    """

    _is_accelerate_prepared = True  # what Accelerate looks for, so as not to prepare it again
    _outer: weakref.ref[Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        return self.state.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.state.load_state_dict(state)
        outer = None if self._outer is None else self._outer()
        if outer is not None:
            place = self.standing.place
            chosen, passed = place.sampler_epoch, place.epoch
            outer.iteration = passed if chosen is None else chosen

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_outer": None}


def prepare(accelerator: Any, loader: DataLoader[Any], device_placement: bool | None = None) -> Any:
    """Does the same as ``accelerator.prepare(loader)``, but the engine still decodes the images.

    ``split_batches``, ``even_batches``, ``dispatch_batches``, ``use_seedable_sampler`` and
    ``gather_for_metrics`` work as over torch's loader. With ``use_stateful_dataloader``,
    ``save_state`` and ``load_state`` include the loader's state, at any batch. The returned loader
    has ``state_dict`` and ``load_state_dict`` also without it.

    Args:
        accelerator: an ``accelerate.Accelerator``.
        loader: a ``headrace.DataLoader``.
        device_placement: as for ``accelerator.prepare_data_loader``.

    Returns:
        Accelerate's loader, which Accelerate also keeps in its list of loaders. If only torch's
        loader can read the dataset, Accelerate's loader uses that one, with a warning.

    Raises:
        ArgumentError: ``loader`` is not a ``headrace.DataLoader``.
        UnsupportedError: Accelerate has no such loader on this device (XLA); or it is asked to save
            states while one process reads for all (``dispatch_batches``), and the processes would
            overwrite each other's states.
    """
    if not is_headraces(loader):
        raise ArgumentError(f"loader={loader!r}: a headrace.DataLoader is allowed")
    if isinstance(loader, PreparedDataLoader):
        return accelerator.prepare_data_loader(loader)
    with loader.made_anew():
        outer = accelerator.prepare_data_loader(loader, device_placement=device_placement)
    return _over(outer, loader)


def skip_first_batches(accelerator: Any, loader: Any, num_batches: int = 0) -> Any:
    """Does what ``accelerator.skip_first_batches`` does, without decoding the skipped batches.

    Args:
        accelerator: an ``accelerate.Accelerator``.
        loader: what ``prepare`` returned, or a ``headrace.DataLoader``.
        num_batches: how many batches of the next epoch to skip.

    Returns:
        a loader of the remaining batches.

    Raises:
        ArgumentError: ``loader`` is not a torch loader.
    """
    below = getattr(loader, "base_dataloader", loader)
    if not isinstance(below, torch.utils.data.DataLoader):
        raise ArgumentError(
            f"loader={loader!r}: what headrace.accelerate.prepare returned is allowed"
        )
    skipping = accelerator.skip_first_batches(loader, num_batches)
    own: Any = below
    return _over(skipping, own) if is_headraces(own) else skipping


def _over(outer: Any, loader: DataLoader[Any]) -> Any:
    """Puts a loader of Headrace into a loader of Accelerate, in place of torch's."""
    base = getattr(outer, "base_dataloader", None)
    kept = {name: getattr(loader, name) for name in _KEPT}
    if base is None:
        if not hasattr(outer, "batch_sampler"):
            raise UnsupportedError(f"Accelerate made a {type(outer).__name__} of it")
        return DataLoader(outer.dataset, batch_sampler=outer.batch_sampler, **kept)
    order = {"batch_sampler": base.batch_sampler}
    if base.batch_sampler is None:
        order = {"batch_size": None, "sampler": base.sampler}
    below = PreparedDataLoader(base.dataset, generator=base.generator, **order, **kept)
    if below.recipe() is None:
        kind = type(base.dataset).__name__
        text = f"Accelerate's own loader reads this dataset: {kind} has code of its own"
        if below.strict:
            raise UnsupportedError(f"strict=True, and {text}")
        below.notices.say(f"{text} (strict=True makes this an error)", stacklevel=0)
        return outer
    if getattr(outer, "use_stateful_dataloader", False) and hasattr(outer, "slice_fn"):
        raise UnsupportedError(
            "Accelerate's use_stateful_dataloader does not work together with dispatch_batches: "
            "the processes would overwrite each other's states"
        )
    below._outer = weakref.ref(outer)
    outer.base_dataloader = below
    outer.dl_state_dict = below.state_dict()
    return outer
