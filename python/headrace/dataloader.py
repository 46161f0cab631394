"""torch's DataLoader, with the same arguments, batches and order of samples, run by the engine."""

from __future__ import annotations

import contextlib
import copy
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import torch
import torch.utils.data

from headrace._batch import lending
from headrace._engine import arguments
from headrace._torch.batches import Engine, Pool, Recipe
from headrace._torch.choosing import layers
from headrace._torch.generators import Tracker
from headrace._torch.iteration import Iteration
from headrace._torch.place import Place, Standing, check, part, rest
from headrace._torch.samples import Contents, Samples
from headrace._transforms.multiview import Views
from headrace._translate.translation import Translation, of_steps, translate
from headrace.errors import ArgumentError, HeadraceError, UnsupportedError

STATE_VERSION = 3
_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """``torch.utils.data.DataLoader`` for image folders and packed sets, without worker processes.

    Takes torch's arguments, has its attributes and gives its batches: the same samples in the same
    order for the same torch seed, ``[images, labels]`` as ``default_collate`` makes them. The
    images are decoded and transformed by native threads where

    - the dataset is torchvision's ``ImageFolder`` or ``DatasetFolder`` (or a subclass that leaves
      ``__getitem__`` alone) with the default loader and no ``target_transform``, or a
      ``headrace.Dataset``, or ``Subset``s and ``ConcatDataset``s of them; its files are JPEG or
      PNG; ``samples`` says which, also where it was edited; and
    - its ``transform`` is a ``Compose`` of transforms that ``headrace.from_torchvision`` knows. It
      is looked at anew by each ``iter``.

    Where a ``Compose`` begins with such transforms and goes on with others, the first part runs
    natively and the others in Python threads, which share the process's random generators; one
    warning names the first of them. Where nothing can be done natively, torch's own loader runs
    and one warning says why.

    What arguments mean here:

    - ``num_workers``: decoding threads; 0: as many as affinity and cgroups allow. No processes.
    - ``prefetch_factor``: batches that are made ahead, 2 by default. Indices are drawn
      ``prefetch_factor * max(num_workers, 1)`` batches ahead, as torch draws them.
    - ``timeout``: seconds that a batch may take, also with ``num_workers=0``.
    - ``pin_memory``: batches are made in memory of PyTorch's pinned allocator; what a
      ``collate_fn`` or Python threads made is copied there; nothing where torch finds no
      accelerator.
    - ``persistent_workers``: the threads stay from epoch to epoch anyway; as in torch, the base
      seed is then drawn once.
    - ``worker_init_fn``, ``multiprocessing_context``, ``pin_memory_device``: checked as torch
      checks them, and without effect, for there are no processes. ``in_order=False``: batches come
      in order all the same.

    Several iterators may be alive at once; each beyond the first has threads of its own.

    Args:
        strict: raise instead of handing anything to Python or to torch's loader.
        seed: what augmentations are drawn from, with the number of the epoch; None: from torch's
            base seed, so that ``torch.manual_seed`` or ``generator`` repeats them.
        transform: only for a ``headrace.Dataset``, or a ``Subset`` or ``ConcatDataset`` of such,
            which has none of its own: a ``Compose``, or a list of ``headrace.transforms`` (float32
            images).
        mode: "exact": torchvision's pixels.
        on_error: "raise", or "replace" a bad image by another sample.

    Raises:
        UnsupportedError: with ``strict``, when it is made or iterated.
        ArgumentError: an argument of Headrace's is impossible. Torch's are refused as torch does.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        *,
        strict: bool = False,
        seed: int | None = None,
        transform: Any = None,
        mode: str = "exact",
        on_error: str = "raise",
        **options: Any,
    ) -> None:
        self.strict = arguments.flag("strict", strict)
        self.seed = None if seed is None else arguments.seed("seed", seed)
        if isinstance(dataset, str | bytes | os.PathLike):
            raise arguments.refuse_type(
                "dataset", dataset, f"a dataset, as headrace.Dataset({os.fsdecode(dataset)!r}),"
            )
        if transform is not None and not _without_transform(dataset):
            raise ArgumentError(
                "transform= is for a headrace.Dataset; other datasets have one of their own"
            )
        self.transform = _pipeline(transform)
        self.mode = arguments.choice("mode", mode, arguments.MODES)
        self.on_error = arguments.choice("on_error", on_error, arguments.ON_ERROR)
        self._samples: Samples | None = None
        self._spare: Engine | None = None
        self._alive: weakref.WeakSet[Engine | Pool] = weakref.WeakSet()
        self._warned: set[str] = set()
        # What iterations leave for the next one, and for state_dict.
        self.standing = Standing()
        self.base_seed: int | None = None
        self.tracker = Tracker()
        self._expects_it = False  # a framework to make another loader of this one
        self._native = True  # not left to torch's loader by the latest iteration
        super().__init__(
            dataset,
            batch_size,
            shuffle,
            sampler,
            batch_sampler,
            num_workers,
            collate_fn,
            pin_memory,
            drop_last,
            timeout,
            worker_init_fn,
            multiprocessing_context,
            generator,
            **options,
        )
        if strict:
            self._recipe()

    def check_worker_number_rationality(self) -> None:
        """torch's advice on processes, which only its own loader starts."""
        if not self._native:
            super().check_worker_number_rationality()

    # ---- what runs where ---------------------------------------------------------------------

    def _recipe(self) -> Recipe:
        """Which samples to read and how to transform them, from the dataset as it is now.

        Raises:
            UnsupportedError: the engine cannot; or it cannot do all of it, and ``strict`` is set.
        """
        contents = Contents(self.dataset)
        if self._samples is None or not self._samples.contents.same_as(contents):
            self._samples = Samples(contents)
        made = self._translation(contents)
        if made.rest and self.strict:
            raise UnsupportedError(f"strict=True, and {made.obstacle}")
        return Recipe(
            samples=self._samples,
            translation=made,
            num_threads=self.num_workers,
            prefetch=max(1, 2 if self.prefetch_factor is None else self.prefetch_factor),
            seed=self.seed or 0,
            mode=self.mode,
            on_error=self.on_error,
            pin_memory=self.pin_memory and lending.available(),
        )

    def _translation(self, contents: Contents) -> Translation:
        if self.transform is not None:
            pipelines = [self.transform]
        else:
            pipelines = [getattr(source, "transform", None) for source in contents.sources]
        first, *others = map(self._translated, pipelines)
        for pipeline, other in zip(pipelines[1:], others, strict=True):
            same = other.keywords == first.keywords and other.gives == first.gives
            if not same or (first.rest and pipeline is not pipelines[0]):
                raise UnsupportedError("its parts have different transforms")
        if first.rest and not first:
            raise UnsupportedError(f"of its transforms, {first.obstacle}")
        return first

    def _translated(self, pipeline: Any) -> Translation:
        # A list is nothing that torchvision's datasets could call.
        if pipeline is self.transform and isinstance(pipeline, list | tuple):
            return pipeline if isinstance(pipeline, Translation) else of_steps(pipeline)
        return translate(pipeline)

    def __len__(self) -> int:
        """Batches an epoch; of one that goes on from a state, those before and those behind it."""
        whole = super().__len__()
        place, sampler = self.standing.resume or self.standing.place, self.epoch_sampler
        *wrappers, base = found = layers(self._index_sampler)
        plain = [] if self.batch_sampler is None else [torch.utils.data.BatchSampler]
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

    def recipe(self, stacklevel: int = 4) -> Recipe | None:
        """What runs natively; None, with a warning, where torch's own loader has to read.

        Raises:
            UnsupportedError: it has to, and ``strict`` is set.
        """
        try:
            made = self._recipe()
        except UnsupportedError as failure:
            if self.strict:
                raise
            self._warn(
                f"torch's own DataLoader reads this dataset: {failure} (strict=True makes this "
                "an error)",
                stacklevel=stacklevel,
            )
            self._native = False
            return None
        self._native = True
        return made

    def __iter__(self) -> Any:
        recipe = self.recipe()
        if recipe is None:
            return super().__iter__()
        if recipe.translation.rest:
            self._warn(
                f"{recipe.translation.obstacle}; it and what follows run in Python threads "
                "(strict=True makes this an error)"
            )
        return Iteration(self, recipe)

    @contextlib.contextmanager
    def made_anew(self) -> Iterator[None]:
        """While a framework that asks first makes a loader of its own of this one, as it should."""
        self._expects_it = True
        try:
            yield
        finally:
            self._expects_it = False

    @property
    def _is_accelerate_prepared(self) -> bool:
        """What Accelerate asks before it puts torch's loader in the place of this one.

        It then has the dataset, but nothing that belongs to Headrace.
        """
        if not self._expects_it:
            text = "Accelerator.prepare puts torch's own DataLoader in its place; it stays with "
            text += "headrace.accelerate.prepare(accelerator, loader)"
            if self.strict or self.transform is not None:
                raise UnsupportedError(text)
            self._warn(text)
        return False

    def _warn(self, text: str, stacklevel: int = 3) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(f"headrace.DataLoader: {text}", stacklevel=stacklevel)

    def take(self, recipe: Recipe) -> Engine | Pool:
        """Something that makes batches: the engine of the last epoch where it still serves."""
        made, spare = recipe.translation, self._spare
        self._spare = None
        # Batches are made whole where all images come out in one size; else one by one.
        whole = made.gives != "PIL image" and made.size is not None and not made.rest
        if spare is not None and whole and spare.recipe.same_as(recipe):
            return spare
        if spare is not None:
            spare.close()
        taken = Engine(recipe) if whole else Pool(recipe)
        self._alive.add(taken)
        return taken

    def give_back(self, engine: Engine | Pool) -> None:
        """Keeps an engine for the next epoch, unless there is one already."""
        if isinstance(engine, Engine) and self._spare is None:
            try:
                engine.begin(0, {})
                self._spare = engine
                return
            except HeadraceError:  # it was closed, or belongs to the parent of a forked process
                pass
        engine.close()

    def close(self) -> None:
        """Stops the threads. Batches that are held stay valid; a new ``iter`` starts new ones."""
        for engine in list(self._alive):
            engine.close()
        self._spare = None

    def __getstate__(self) -> dict[str, Any]:
        # To another process go the arguments and the place, not the engine.
        left = dict.fromkeys(("_samples", "_spare", "_alive", "tracker"))
        return self.__dict__ | left | {"standing": copy.copy(self.standing)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._alive, self.tracker = weakref.WeakSet(), Tracker()

    # ---- state -------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the latest iteration stands, counted in batches handed out: small, JSON takes it.

        Raises:
            UnsupportedError: torch's own loader reads the dataset, and it has no state.
        """
        return {**self._identity(), **asdict(self.standing.place)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on, at the next ``iter``, behind the last batch that a ``state_dict`` counted.

        The sampler is iterated to that place, behind which batches may have another size. The order
        is that of the state with ``shuffle`` or without, with torch's samplers (the generator of
        one is put back to where it stood), and with samplers that have ``set_epoch``, unless that
        chooses another epoch, which then begins from its start. Any other sampler has to be as it
        was when its epoch began, and so has one of torch's that the state had no place of: a
        generator that has drawn more than 31 million numbers since it was seeded. Where it does
        not give again what was handed out, the first batch is an ``ArgumentError``.

        Where torch's ``DistributedSampler`` shares an epoch out, another number of ranks may go on
        in the middle of it, as often as one likes: what is left is dealt to them in turns, and
        padded or cut as the sampler does at its end. Each rank may take the state of any. A
        subclass of it may not have an ``__iter__`` of its own.

        Raises:
            ArgumentError: the state is of another dataset, or is none, or of an epoch that another
                number of ranks, or a sampler with ``set_epoch`` where this loader has none, began
                in an order that is not known.
            UnsupportedError: as ``state_dict``.
        """
        state = arguments.mapping("state", state)
        for name, mine in self._identity().items():
            if state.get(name) != mine:
                raise ArgumentError(
                    f"the state has {name}={state.get(name)!r}, the loader {mine!r}"
                )
        numbers: dict[str, Any] = {name: state.get(name) for name in asdict(Place())}
        for name, value in numbers.items():
            if value is None and name not in ("epoch", "batches", "begin", "samples"):
                continue
            length = {"generator": 2, "drawn": 3}.get(name)
            counts = value if length and isinstance(value, list) else [value]
            # A seed of torch's may be negative.
            if not all(type(n) is int and -(2**63) <= n < 2**64 for n in counts) or (
                len(counts) != (length or 1) or counts[-1] < 0
            ):
                raise ArgumentError(f"the state has {name}={value!r}, which is none")
        place = Place(**numbers)
        if place.drawn and not 0 <= place.drawn[1] < place.drawn[2]:
            raise ArgumentError(f"the state has drawn={place.drawn!r}, which is none")
        sampler = self.epoch_sampler
        if place.sampler_epoch is not None and sampler is None:
            raise ArgumentError(
                f"the state is of epoch {place.sampler_epoch} of a sampler with set_epoch, as "
                "torch's DistributedSampler is, and this loader has a "
                f"{type(layers(self._index_sampler)[-1]).__name__}, whose order is another"
            )
        chosen = layers(self._index_sampler)
        check(place, chosen)
        if place.drawn and place.drawn[2] != part(chosen)[1] and _lightning_counts():
            self._warn(
                "Lightning's Trainer counted this epoch's batches before it loaded the state of "
                "another number of ranks, and may end it, or all behind it, too early; "
                "callbacks=[headrace.lightning.Lengths()] has it count anew"
            )
        self.standing.go_to(place)
        if sampler is not None and place.sampler_epoch is not None:
            sampler.set_epoch(place.sampler_epoch)

    def _identity(self) -> dict[str, Any]:
        """What has to be equal in a state and in the loader that takes it."""
        if self._samples is None or not self._native:
            try:
                self._recipe()
            except UnsupportedError as failure:
                raise UnsupportedError(
                    f"torch's own DataLoader reads this dataset, and it has no state: {failure}"
                ) from None
        assert self._samples is not None
        fingerprint = self._samples.fingerprint
        return {"version": STATE_VERSION, "fingerprint": fingerprint, "seed": self.seed}

    @property
    def epoch_sampler(self) -> Any:
        """The sampler whose order ``set_epoch`` chooses, or None."""
        for sampler in (self.sampler, *layers(self.batch_sampler)):
            if hasattr(sampler, "set_epoch") and type(getattr(sampler, "epoch", None)) is int:
                return sampler
        return None


def _lightning_counts() -> bool:
    """Whether there may be a ``Trainer`` of Lightning's without a callback that corrects it."""
    trainers = ("lightning.pytorch", "pytorch_lightning")
    return "headrace.lightning" not in sys.modules and any(map(sys.modules.get, trainers))


def _without_transform(dataset: Any) -> bool:
    """Whether all of it is ``headrace.Dataset``s, which have no transform of their own."""
    try:
        return Contents(dataset).of_headrace
    except UnsupportedError:
        return False


def _pipeline(transform: Any) -> Any:
    """A ``Compose`` or a list of ``headrace.transforms``, which is checked here already."""
    if isinstance(transform, Views):
        raise UnsupportedError(
            "transform=Views(...): a DataLoader makes one image of each sample; several views are "
            "headrace.Loader's, or headrace.IterableDataset's"
        )
    if isinstance(transform, list | tuple) or hasattr(transform, "to_dict"):
        arguments.steps("transform", transform)
    elif transform is not None and not callable(transform):
        allowed = "a Compose, or a list of headrace.transforms,"
        raise arguments.refuse_type("transform", transform, allowed)
    return transform
