"""Saves and loads the state of a ``DataLoader``, so that another loader goes on from it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from torch.utils.data import BatchSampler

from headrace._engine import arguments
from headrace._torch.choosing import layers
from headrace._torch.notices import Notices
from headrace._torch.place import Place, Standing, check, part, rest
from headrace._torch.reading import Reading
from headrace._translate.libraries import package_of
from headrace.errors import ArgumentError, UnsupportedError

STATE_VERSION = 3


class State:
    """The part of a loader that has to do with its state: the two methods, and the length.

    A loader has the methods only while it is native, and as attributes of the object. torch's
    loader has none, and frameworks look whether there are any, some of them at the class. So the
    methods belong to this object. It refers to the parts of a loader and not to the loader itself:
    that would be a cycle, and the loader's threads would stay until garbage is collected.

    Args:
        sampler, batch_sampler: those of the loader.

    Attributes:
        seed: the loader's seed.
    """

    def __init__(
        self,
        reading: Reading,
        standing: Standing,
        seed: int | None,
        notices: Notices,
        sampler: Any,
        batch_sampler: Any,
    ) -> None:
        self._reading, self.standing, self.seed, self._notices = reading, standing, seed, notices
        self._sampler, self._batch_sampler = sampler, batch_sampler

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration stands, in batches handed out; small, and valid as JSON."""
        return {**self._identity(), **asdict(self.standing.place)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on, at the next ``iter``, after the last batch that a ``state_dict`` counted.

        The sampler is iterated to that place; the batches after it may have another size. The order
        is that of the state with ``shuffle`` or without, and with torch's samplers, whose generator
        is put back to where it stood. It is also that of the state with samplers that have
        ``set_epoch``. If the program chooses another epoch there, that epoch begins at its start.
        Any other sampler has to be as it was when its epoch began. So has a sampler of torch whose
        place the state does not hold, because its generator has drawn more than 31 million numbers
        since it was seeded. If a sampler does not give again what was handed out, the first batch
        raises an ``ArgumentError``.

        If torch's ``DistributedSampler`` divides an epoch, another number of ranks may go on in the
        middle of it, any number of times. What is left is dealt to them in turns, and padded or cut
        at the end as the sampler does it. Each rank may take the state of any rank. A subclass of
        that sampler may not have its own ``__iter__``.

        Raises:
            ArgumentError: it is no state, or it is of another dataset; or another number of ranks
                began its epoch in an order that is not known; or its epoch is that of a sampler
                with ``set_epoch``, and this loader has none.
        """
        identity = self._identity()
        state = arguments.state(state, identity, "headrace.DataLoader")
        for name, mine in identity.items():
            if state[name] != mine:
                raise ArgumentError(f"the state has {name}={state[name]!r}, the loader {mine!r}")
        numbers: dict[str, Any] = {name: state.get(name) for name in asdict(Place())}
        for name, value in numbers.items():
            if value is None and name not in ("epoch", "batches", "begin", "samples"):
                continue
            length = {"generator": 2, "drawn": 3}.get(name)
            counts = value if length and isinstance(value, list) else [value]
            # torch's seeds may be negative.
            if not all(type(n) is int and -(2**63) <= n < 2**64 for n in counts) or (
                len(counts) != (length or 1) or counts[-1] < 0
            ):
                raise ArgumentError(f"the state has {name}={value!r}, which no DataLoader saves")
        place = Place(**numbers)
        if place.drawn and not 0 <= place.drawn[1] < place.drawn[2]:
            raise ArgumentError(f"the state has drawn={place.drawn!r}, which no DataLoader saves")
        sampler = self.epoch_sampler
        if place.sampler_epoch is not None and sampler is None:
            raise ArgumentError(
                f"the state is of epoch {place.sampler_epoch} of a sampler with set_epoch, such as "
                "torch's DistributedSampler; this loader has a "
                f"{type(self._layers()[-1]).__name__}, which gives another order"
            )
        chosen = self._layers()
        check(place, chosen)
        if place.drawn and place.drawn[2] != part(chosen)[1] and _lightning_counts():
            self._notices.say(
                "Lightning's Trainer counted this epoch's batches before it loaded the state of "
                "another number of ranks, and may end it, and all later ones, too early; "
                "callbacks=[headrace.lightning.Lengths()] makes it count again",
                stacklevel=2,
            )
        self.standing.go_to(place)
        if sampler is not None and place.sampler_epoch is not None:
            sampler.set_epoch(place.sampler_epoch)

    def length(self, whole: int) -> int:
        """How many batches an epoch has, also of one that goes on from a state.

        That one has the batches before the state, and those after it.

        Args:
            whole: the length of an epoch from its start, as torch counts it.
        """
        place, sampler = self.standing.resume or self.standing.place, self.epoch_sampler
        *wrappers, base = found = self._layers()
        plain = [] if self._batch_sampler is None else [BatchSampler]
        if [type(wrapper) for wrapper in wrappers] != plain:
            return whole
        epoch = None if sampler is None else sampler.epoch
        if place.sampler_epoch not in (None, epoch) or not place.drawn:
            return whole
        place, left = rest(place, found)
        samples = len(base if left is None else left) - place.samples
        if not wrappers:
            return place.batches + samples
        size, drop_last = wrappers[0].batch_size, wrappers[0].drop_last
        return int(place.batches + (samples // size if drop_last else -(-samples // size)))

    def _identity(self) -> dict[str, Any]:
        """What has to be equal in a state and in the loader that loads it."""
        samples = self._reading.samples
        if samples is None:
            # A dataset that the engine does not read is identified by its class and its length.
            with contextlib.suppress(UnsupportedError):
                samples, _ = self._reading.look()
        fingerprint = self._reading.described() if samples is None else samples.fingerprint
        return {"version": STATE_VERSION, "fingerprint": fingerprint, "seed": self.seed}

    def _layers(self) -> list[Any]:
        return layers(self._sampler if self._batch_sampler is None else self._batch_sampler)

    @property
    def epoch_sampler(self) -> Any:
        """The sampler whose order ``set_epoch`` chooses, or None."""
        for sampler in (self._sampler, *layers(self._batch_sampler)):
            if hasattr(sampler, "set_epoch") and type(getattr(sampler, "epoch", None)) is int:
                return sampler
        return None


def _lightning_counts() -> bool:
    """Whether there may be a ``Trainer`` of Lightning without the callback that corrects it."""
    trainers = ("lightning.pytorch", "pytorch_lightning")
    imported = any(name in sys.modules and package_of(name) for name in trainers)
    return imported and "headrace.lightning" not in sys.modules
