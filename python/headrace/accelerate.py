"""``headrace.DataLoader`` under Hugging Face Accelerate.

``Accelerator.prepare`` makes a loader of its own of every ``DataLoader``, over torch's; which class
that is, nobody can tell it. What it makes keeps the loader that it goes through in its attribute
``base_dataloader``, and expects of that a ``state_dict``. So here Accelerate prepares as ever, and
then the one below is exchanged, over the very batch sampler that Accelerate made. Which samples a
process gets, how often they are repeated and what is gathered is therefore Accelerate's doing.

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
    """The loader below one of Accelerate's.

    A state that it loads also moves the epoch that Accelerate counts, and sets samplers to.
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
    """As ``accelerator.prepare(loader)``; the images are still decoded by the engine.

    ``split_batches``, ``even_batches``, ``dispatch_batches``, ``use_seedable_sampler`` and
    ``gather_for_metrics`` do what they do over torch's loader. With ``use_stateful_dataloader`` the
    loader's own state is part of ``save_state`` and ``load_state``, at any batch; ``state_dict``
    and ``load_state_dict`` of what is returned are there without it, too.

    Args:
        accelerator: ``accelerate.Accelerator``.
        loader: a ``headrace.DataLoader``.
        device_placement: as of ``accelerator.prepare_data_loader``.

    Returns:
        Accelerate's loader, which it also lists among its own; over torch's, with a warning, where
        that has to read the dataset.

    Raises:
        ArgumentError: ``loader`` is no ``headrace.DataLoader``.
        UnsupportedError: Accelerate has no such loader on this device (XLA), or is to save states
            of a loader that one process reads for all (``dispatch_batches``), where the processes
            would overwrite each other's.
    """
    if not is_headraces(loader):
        raise ArgumentError(f"loader={loader!r}: a headrace.DataLoader is allowed")
    if isinstance(loader, PreparedDataLoader):
        return accelerator.prepare_data_loader(loader)
    with loader.made_anew():
        outer = accelerator.prepare_data_loader(loader, device_placement=device_placement)
    return _over(outer, loader)


def skip_first_batches(accelerator: Any, loader: Any, num_batches: int = 0) -> Any:
    """As ``accelerator.skip_first_batches(loader, num_batches)``, without decoding what is skipped.

    Args:
        accelerator: ``accelerate.Accelerator``.
        loader: what ``prepare`` returned, or a ``headrace.DataLoader``.
        num_batches: how many batches of the next epoch are left out.

    Raises:
        ArgumentError: ``loader`` is no torch loader.
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
    """Puts a loader of Headrace's where one of Accelerate's has torch's."""
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
        raise UnsupportedError("use_stateful_dataloader together with dispatch_batches")
    below._outer = weakref.ref(outer)
    outer.base_dataloader = below
    outer.dl_state_dict = below.state_dict()
    return outer
