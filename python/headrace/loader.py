"""The loader: an iterable of finished batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from headrace import _lib, ranks, views
from headrace import fields as batch_fields
from headrace.dataset import Dataset
from headrace.epoch import Epoch
from headrace.errors import ArgumentError, UnsupportedError
from headrace.position import Position

LAYOUTS = ("NCHW", "NHWC", "channels_last")
STATE_VERSION = 1


class Loader:
    """Batches of a dataset, decoded and augmented by native threads.

    Each ``iter(loader)`` is one epoch: 0 first, then the next, or the one that ``set_epoch`` said.
    A batch is ``(images, labels)``, with ``fields`` also a dict of those. The order of samples and
    every augmentation are functions of (seed, epoch, sample), so they do not depend on threads.

    A batch is a view of memory that the engine wrote, and belongs to whoever holds it: it is not
    written again before its last tensor is gone, and outlives the loader.

    Args:
        dataset: a ``Dataset``, or the path of one.
        batch_size: samples a batch, on this rank.
        shuffle: a new order each epoch, all of the dataset mixed.
        seed: what order and augmentations are drawn from.
        drop_last: leave a last, smaller batch out.
        transform: a list of ``headrace.transforms``, or of the dicts they make. All images have to
            come out of it in one size.
        dtype: of the images: "float32", "float16", "bfloat16" or "uint8". A float without
            ``Normalize`` is in 0..1.
        layout: "NCHW", "NHWC", or "channels_last": NCHW by shape, NHWC in memory.
        scale: how a float is made of a byte: "div" by 255 as ``ToTensor``, or "mul" by 1/255 as
            ``v2.ToDtype``.
        mode: "exact": Pillow's pixels; "fast": close to those, as ``functional.resized_crop``.
        output: "torch" or "numpy": what batches are made of. Labels are int64, shape (batch,).
        num_threads: decoding threads; None: what affinity and cgroups allow, shared between the
            processes of ``LOCAL_WORLD_SIZE``.
        prefetch: batches made ahead.
        read_ahead: samples read ahead; None: as many as the storage seems to need.
        timeout: seconds that a batch may take; None: as long as it takes.
        fields: names of packed fields, "index" or "key" among them, for the third part of a batch.
        rank, world_size: this process's part; None: from torch.distributed or the environment.
        on_error: "raise", or "replace" a bad sample by another one and say so in ``report()``.
        device, sampler, window: parts of later versions, refused until then.

    Raises:
        ArgumentError: an argument or a transform is impossible; the sentence names it.
        UnsupportedError: an argument asks for what this version has not got yet.
    """

    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str],
        batch_size: int = 1,
        *,
        shuffle: bool | str = False,
        seed: int = 0,
        drop_last: bool = False,
        transform: Sequence[Any] | None = None,
        dtype: str = "float32",
        layout: str = "NCHW",
        scale: str = "div",
        mode: str = "exact",
        output: str = "torch",
        num_threads: int | None = None,
        prefetch: int = 2,
        read_ahead: int | None = None,
        timeout: float | None = None,
        device: Any = None,
        sampler: Any = None,
        fields: Sequence[str] | None = None,
        window: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        on_error: str = "raise",
    ) -> None:
        _refuse_later_parts(shuffle=shuffle, device=device, sampler=sampler, window=window)
        for name, value, allowed in (
            ("dtype", dtype, views.DTYPES),
            ("layout", layout, LAYOUTS),
            ("output", output, views.OUTPUTS),
        ):
            if value not in allowed:
                raise ArgumentError(f"{name}={value!r} is not one of {', '.join(allowed)}")
        if timeout is not None and not timeout > 0:
            raise ArgumentError(f"timeout={timeout!r}: it is in seconds and more than 0, or None")
        self._owns_dataset = not isinstance(dataset, Dataset)
        self.dataset = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.timeout = timeout
        self.seed = seed
        self._fields = batch_fields.known(self.dataset, fields or ())
        self._view = views.viewer(output, dtype, layout == "channels_last", bool(self._fields))
        self._config: dict[str, Any] = {
            "batch_size": batch_size,
            "shuffle": bool(shuffle),
            "drop_last": drop_last,
            "transform": [_as_dict(step) for step in transform or ()],
            "dtype": dtype,
            "layout": "NCHW" if layout == "NCHW" else "NHWC",
            "scale": scale,
            "mode": mode,
            "num_threads": num_threads or 0,
            "prefetch": prefetch,
            "read_ahead": read_ahead or 0,
            "on_error": on_error,
        }
        self._part = (rank, world_size)
        self.position = Position()
        self.iteration = 0  # counts iterations begun; an Epoch knows by it that it is the latest
        self.steps = 0
        self._engine: _lib.Handle | None = None
        self._opened_for: tuple[int, int, int] = (0, 0, 0)
        # Opened now: an impossible transform is refused here, and the first batch is under way.
        self._open()

    def _open(self) -> int:
        """The engine's handle; opened anew where rank, world size or seed have become others."""
        if self._engine is not None:
            self._engine.value  # noqa: B018 - raises where the loader was closed
        wanted = (*ranks.resolve(*self._part), self.seed)
        if self._engine is None or self._opened_for != wanted:
            if self._engine is not None:
                self._engine.close()
            config = dict(self._config, epoch=self.position.place[0], seed=self.seed)
            config["rank"], config["world_size"] = wanted[:2]
            self._engine = _lib.opened("hr_loader_open", config, self.dataset.handle)
            self._opened_for = wanted
            self.steps = int(self._info()["steps"])
        return self._engine.value

    def _info(self) -> dict[str, Any]:
        assert self._engine is not None
        return _lib.info("hr_loader_info", self._engine.value)

    @property
    def step_samples(self) -> int:
        """Samples that all ranks together take a step."""
        return self.batch_size * self._opened_for[1]

    def __len__(self) -> int:
        """Batches an epoch, the same on all ranks."""
        self._open()
        return self.steps

    def __iter__(self) -> Epoch:
        return Epoch(self)

    def begin(self) -> tuple[int, int, int]:
        """Moves the engine to where the next iteration begins: (handle, epoch, step)."""
        handle = self._open()
        epoch, step = self.position.begin(self.step_samples)
        _lib.call("hr_seek", handle, epoch, step)
        self.iteration += 1
        return handle, epoch, step

    def view(self, batch: _lib.Batch) -> tuple[Any, ...]:
        """The tensors of a batch that was received."""
        if not self._fields:
            return self._view(batch)
        images, labels, indices = self._view(batch)
        return images, labels, batch_fields.of_batch(self.dataset, indices, self._fields)

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch the next ``iter`` is. That of a state just loaded keeps its position."""
        if epoch < 0:
            raise ArgumentError(f"epoch={epoch}: epochs count from 0")
        self.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, counted in batches handed out: small, and JSON will take it.

        Returns:
            "seed", "epoch" and "position" (samples of that epoch, all ranks together), with
            "version", "fingerprint", "samples" and "shuffle" to know the order by.
        """
        epoch, position = self.position.place
        return {**self._order(), "seed": self.seed, "epoch": epoch, "position": position}

    def _order(self) -> dict[str, Any]:
        return {
            "version": STATE_VERSION,
            "fingerprint": self.dataset.fingerprint,
            "samples": len(self.dataset),
            "shuffle": self._config["shuffle"],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on, at the next ``iter``, where a ``state_dict`` stood.

        Raises:
            ArgumentError: the state is of another dataset or order, or is none.
        """
        for name, mine in self._order().items():
            if state.get(name) != mine:
                raise ArgumentError(
                    f"the state has {name}={state.get(name)!r}, the loader {mine!r}"
                )
        numbers: list[Any] = [state.get(name) for name in ("seed", "epoch", "position")]
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ArgumentError(f"the state has seed, epoch and position {numbers}")
        seed, epoch, position = numbers
        if position > len(self.dataset):
            raise ArgumentError(f"the state's position {position} is behind the last sample")
        self.seed = seed
        self.position.go_to(epoch, position)

    def stats(self) -> dict[str, Any]:
        """What the engine measured since it was opened: rates, waits by stage, stalls, slots."""
        return dict(self._info()["stats"])

    def report(self) -> list[dict[str, Any]]:
        """The samples that ``on_error="replace"`` replaced: epoch, step, index, key, why."""
        return list(self._info()["report"])

    def close(self) -> None:
        """Stops the threads. Batches that are held stay valid."""
        if self._engine is not None:
            self._engine.close()
        if self._owns_dataset:
            self.dataset.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_later_parts(shuffle: bool | str, device: Any, sampler: Any, window: Any) -> None:
    later = {
        f"shuffle={shuffle!r}": not isinstance(shuffle, bool),
        f"device={device!r}": device is not None and str(device) != "cpu",
        "sampler": sampler is not None,
        "window": window is not None,
    }
    for name, asked in later.items():
        if asked:
            raise UnsupportedError(f"{name} is not yet part of this version")


def _as_dict(step: Any) -> dict[str, Any]:
    if isinstance(step, Mapping):
        return dict(step)
    to_dict = getattr(step, "to_dict", None)
    if to_dict is None:
        raise ArgumentError(
            f"transform: {step!r} is none of headrace.transforms, which run in the engine"
        )
    found: dict[str, Any] = to_dict()
    return found
