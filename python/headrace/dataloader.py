"""torch's DataLoader, with the same arguments, batches and order of samples, run by the engine."""

from __future__ import annotations

import contextlib
import copy
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import torch
import torch.utils.data

from headrace._batch import lending
from headrace._engine import arguments
from headrace._torch import stateful
from headrace._torch.batches import Engine
from headrace._torch.choosing import layers
from headrace._torch.generators import Tracker
from headrace._torch.iteration import Iteration
from headrace._torch.notices import Notices, may_have_images
from headrace._torch.place import Standing, rest
from headrace._torch.pool import Pool
from headrace._torch.reading import Reading
from headrace._torch.recipe import Recipe
from headrace._torch.samples import Contents
from headrace._torch.states import State
from headrace._transforms.multiview import Views
from headrace.errors import ArgumentError, HeadraceError, UnsupportedError

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(torch.utils.data.DataLoader[_T_co]):
    """``torch.utils.data.DataLoader`` for image folders and packed sets, without worker processes.

    Takes torch's arguments, has its attributes and gives its batches: the same samples in the same
    order for the same torch seed, ``[images, labels]`` as ``default_collate`` makes them. The
    images are decoded and transformed by native threads where

    - the dataset is torchvision's ``ImageFolder`` or ``DatasetFolder`` (or a subclass that leaves
      ``__getitem__`` alone) with the default loader and no ``target_transform``, or a
      ``headrace.Dataset``, or ``Subset``s and ``ConcatDataset``s of them; ``samples`` says which
      files, also where it was edited; at least half of them are JPEG or PNG by name; and
    - its ``transform`` is a ``Compose`` of transforms that ``headrace.from_torchvision`` knows. It
      is looked at anew by each ``iter``.

    A file of a folder that the engine does not read, as a WebP whatever it is called, is decoded by
    Pillow alone, and the rest stays native; ``stats`` counts them, and one warning names one of
    them. Errors of a folder's files are those of ``headrace.errors`` and Pillow's at once, and so
    ``OSError``s; Pillow's switches ``ImageFile.LOAD_TRUNCATED_IMAGES`` and
    ``Image.MAX_IMAGE_PIXELS`` count as they stand at each ``iter``.

    Where a ``Compose`` begins with such transforms and goes on with others, the first part runs
    natively and the others in Python threads, which share the process's random generators; one
    warning names the first of them. Where nothing can be done natively, torch's own loader runs
    and, if anything suggests that the dataset has images, one warning says why. A warning is never
    an error here: where a filter would make it one, its text goes to the log "headrace".
    ``state_dict`` and ``load_state_dict`` are there while the loader is native, which is found out
    when it is made and by each ``iter``; torch's loader has none.

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
        strict: raise instead of handing anything to Python, to Pillow or to torch's loader.
        seed: what augmentations are drawn from, with the number of the epoch; None: from torch's
            base seed, so that ``torch.manual_seed`` or ``generator`` repeats them.
        transform: only for a ``headrace.Dataset``, or a ``Subset`` or ``ConcatDataset`` of such,
            which has none of its own: a ``Compose``, or a list of ``headrace.transforms`` (float32
            images).
        mode: "exact": torchvision's pixels.
        on_error: "raise", or "replace" a bad image by another sample.
        limits: of the files of image folders, as of a ``headrace.Dataset``. ``max_pixels`` that is
            not among them follows Pillow's ``Image.MAX_IMAGE_PIXELS`` at each ``iter``.
        snapshot_every_n_steps: torchdata's argument. Natively a state is always that of the last
            batch; where torch's loader would read, torchdata's ``StatefulDataLoader`` reads.

    Raises:
        UnsupportedError: with ``strict``, when it is made or iterated.
        ArgumentError: an argument of Headrace's is impossible. Torch's are refused as torch does.
    """

    # Of ``State``; there while the loader is native, and not where torch's loader, which has none,
    # reads.
    state_dict: Callable[[], dict[str, Any]]
    load_state_dict: Callable[[Mapping[str, Any]], None]

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
        limits: Mapping[str, int] | None = None,
        snapshot_every_n_steps: int | None = None,
        **options: Any,
    ) -> None:
        self.strict = arguments.flag("strict", strict)
        seed = None if seed is None else arguments.seed("seed", seed)
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
        self.limits = None if limits is None else arguments.limits(limits)
        if limits is not None and _without_transform(dataset):
            raise ArgumentError("limits= is for image folders; a headrace.Dataset has its own")
        self.snapshot_every_n_steps = stateful.steps(snapshot_every_n_steps)
        self._spare: Engine | None = None
        self._alive: weakref.WeakSet[Engine | Pool] = weakref.WeakSet()
        self.notices = Notices()
        self._reading = Reading(dataset, self.transform, self.limits)
        # What iterations leave for the next one, and for state_dict.
        self.standing = Standing()
        self.base_seed: int | None = None
        self.tracker = Tracker()
        self._expects_it = False  # a framework to make another loader of this one
        self._native = True  # not left to torch's loader, as far as is known
        self._advised = False  # on the number of processes
        given: Any = (
            *(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn),
            *(pin_memory, drop_last, timeout, worker_init_fn, multiprocessing_context, generator),
        )
        super().__init__(*given, **options)
        self._stateful: Any = None  # torchdata's loader, where it is the one that reads
        # What that one is made of, where its argument is given.
        self._given = (given, options) if self.snapshot_every_n_steps else None
        self.state = State(
            self._reading, self.standing, seed, self.notices, self.sampler, self.batch_sampler
        )
        if strict:
            self._recipe()
        self._becomes(native=strict or self._reading.seems_native())

    def check_worker_number_rationality(self) -> None:
        """torch's advice on processes, once, and only where its own loader will start them."""
        if not self._native and not self._advised and self._given is None:
            self._advised = True
            super().check_worker_number_rationality()

    def _becomes(self, native: bool) -> None:
        """Has a state, or none as torch's loader, whose advice then comes."""
        self._native = native
        if not native and self._given is not None and self._stateful is None:
            self._stateful = stateful.loader(*self._given, self.snapshot_every_n_steps)
        owner = self.state if native else self._stateful
        for name in ("state_dict", "load_state_dict"):
            self.__dict__.pop(name, None)
            if owner is not None and not hasattr(type(self), name):
                self.__dict__[name] = getattr(owner, name)
        if not native:
            self.check_worker_number_rationality()

    # ---- what runs where ---------------------------------------------------------------------

    def _recipe(self) -> Recipe:
        """Which samples to read and how to transform them, from the dataset as it is now.

        Raises:
            UnsupportedError: the engine cannot; or it cannot do all of it, and ``strict`` is set.
        """
        samples, made = self._reading.look()
        if made.rest and self.strict:
            raise UnsupportedError(f"strict=True, and {made.obstacle}")
        return Recipe(
            samples=samples,
            translation=made,
            num_threads=self.num_workers,
            prefetch=max(1, 2 if self.prefetch_factor is None else self.prefetch_factor),
            seed=self.seed or 0,
            mode=self.mode,
            on_error=self.on_error,
            pin_memory=self.pin_memory and lending.available(),
            strict=self.strict,
        )

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
            if may_have_images(self.dataset):
                self.notices.say(
                    f"torch's own DataLoader reads this dataset: {failure} (strict=True makes this "
                    "an error)",
                    stacklevel=stacklevel - 1,
                )
            self._becomes(native=False)
            return None
        if not self._native:
            self._becomes(native=True)
        return made

    def __iter__(self) -> Any:
        recipe = self.recipe()
        if recipe is None:
            return super().__iter__() if self._stateful is None else iter(self._stateful)
        if recipe.translation.rest:
            self.notices.say(
                f"{recipe.translation.obstacle}; it and what follows run in Python threads "
                "(strict=True makes this an error)",
                stacklevel=2,
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
            self.notices.say(text, stacklevel=3)
        return False

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

    def stats(self) -> dict[str, int]:
        """What was not decoded by the engine, though all else is native.

        Returns:
            "pillow_images": how many images Pillow has decoded, repeated ones counted; and
            "pillow_files": how many files are known to be left to it. Counted since the dataset was
            last found to be another.
        """
        samples = self._reading.samples
        foreign = None if samples is None else samples.foreign
        if foreign is None:
            return {"pillow_images": 0, "pillow_files": 0}
        return {"pillow_images": foreign.decoded, "pillow_files": len(foreign.rows)}

    def close(self) -> None:
        """Stops the threads. Batches that are held stay valid; a new ``iter`` starts new ones."""
        for engine in list(self._alive):
            engine.close()
        self._spare = None

    def __getstate__(self) -> dict[str, Any]:
        # To another process go the arguments and the place, not the engine.
        left = self.__dict__ | dict.fromkeys(("_spare", "_alive", "tracker"))
        left["standing"], left["state"] = copy.copy(self.standing), copy.copy(self.state)
        left["state"].standing = left["standing"]
        for name in ("state_dict", "load_state_dict"):
            left.pop(name, None)
        return left

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._alive, self.tracker = weakref.WeakSet(), Tracker()
        self._becomes(self._native)

    @property
    def epoch_sampler(self) -> Any:
        """The sampler whose order ``set_epoch`` chooses, or None."""
        return self.state.epoch_sampler

    @property
    def seed(self) -> int | None:  # the argument
        return self.state.seed

    @seed.setter
    def seed(self, seed: int | None) -> None:
        self.state.seed = seed


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
