"""A ``torch.utils.data.IterableDataset`` over a ``Loader``, and normalising on a device."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.utils.data

from headrace._engine import arguments
from headrace._epoch import options, ranks
from headrace._torch.share import Epochs, Share
from headrace.loader import Loader


class IterableDataset(torch.utils.data.IterableDataset[Any]):
    """A ``Loader`` as an iterable dataset of whole batches, for torch's ``DataLoader``.

    Use it as ``DataLoader(ds, batch_size=None)``. ``num_workers=0`` is best: the threads are
    Headrace's own, and worker processes only add a copy. With workers the batches are the same, in
    the same order.

    It takes the arguments of ``Loader``. The engine starts at the first iteration or ``len``, so
    worker processes may be forked until then; wrong arguments are reported there too. If it was
    given a path instead of a ``Dataset``, it may also be sent to spawned workers.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        options.refuse_torchs(kwargs)
        self._arguments = inspect.signature(Loader).bind(*args, **kwargs).arguments
        self._loader: Loader | Share | None = None
        self._state: dict[str, Any] | None = None  # a state for the loader once it is made
        self._next_epoch = Epochs()  # -1: the epoch of the state

    @property
    def loader(self) -> Loader | Share:
        """The loader; in a worker process, the loader of the worker's part."""
        if self._loader is None:
            worker = torch.utils.data.get_worker_info()
            if worker is None:
                self._loader = Loader(**self._arguments)
            else:
                self._loader = Share(worker.id, worker.num_workers, self._arguments)
            if self._state is not None:
                self._loader.load_state_dict(self._state)
            if worker is None and self._next_epoch[0] > 0:
                self._loader.set_epoch(self._next_epoch[0])
        return self._loader

    def __iter__(self) -> Iterator[Any]:
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            position, said = self.loader.position, self._next_epoch[worker.id]
            if said >= 0:
                position.set_epoch(said)
            self._next_epoch[worker.id] = position.next_epoch + 1
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def __getstate__(self) -> dict[str, Any]:
        given, state = dict(self._arguments), self._state
        if torch.utils.data.get_worker_info() is None:
            # torch.distributed is not set up in a spawned worker.
            part = ranks.checked(given.get("rank"), given.get("world_size"))
            given["rank"], given["world_size"] = ranks.resolve(*part)
        if self._loader is not None:
            state = self._loader.state_dict()
        return {**self.__dict__, "_arguments": given, "_loader": None, "_state": state}

    def set_epoch(self, epoch: int) -> None:
        """Does what ``Loader.set_epoch`` does."""
        epoch = arguments.epoch("epoch", epoch)
        self._next_epoch.fill(epoch)
        if self._loader is not None:
            self._loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state like ``Loader.state_dict``; in a worker process, that of the worker's part."""
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Loads a state like ``Loader.load_state_dict``; in a worker process, for its part."""
        self._state = arguments.mapping("state", state)
        worker = torch.utils.data.get_worker_info()
        if worker is not None:
            self._next_epoch[worker.id] = -1
        else:
            self._next_epoch.fill(-1)
        if self._loader is not None:
            self._loader.load_state_dict(state)


class Normalize(torch.nn.Module):
    """Converts uint8 batches to normalised floats, on the device that they are on.

    Use it with a loader with ``dtype="uint8"`` if the bus to the device is the limit: uint8 has a
    quarter of the bytes of float32.

    Args:
        mean, std: one number for each channel, for pixel values in 0..1.
        dtype: dtype of the result.
    """

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(
        self, mean: Sequence[float], std: Sequence[float], dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        means, deviations = torch.tensor(mean).view(-1, 1, 1), torch.tensor(std).view(-1, 1, 1)
        self.register_buffer("scale", 1 / (255 * deviations), persistent=False)
        self.register_buffer("shift", -means / deviations, persistent=False)
        self._dtype = dtype

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Normalises uint8 ``images`` of shape (batch, channels, height, width), or without batch.

        Returns:
            floats of the same shape: ``(image / 255 - mean) / std``.
        """
        return torch.addcmul(self.shift, images.to(self.scale.dtype), self.scale).to(self._dtype)
