"""torch's DataLoader, with the same arguments, batches and order of samples, run by the engine."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from headrace._deferred import curing, deciding, ways
from headrace._engine import arguments, tracing
from headrace._torch import stateful, transformed
from headrace._torch.batches import Engine
from headrace._torch.engines import Engines
from headrace._torch.generators import Tracker
from headrace._torch.iteration import Iteration
from headrace._torch.kind import (
    Kind,
    TorchDataLoader,
    attributes,
    has_own_iterator,
    is_accelerates,
)
from headrace._torch.notices import Notices, may_have_images
from headrace._torch.place import Standing
from headrace._torch.pool import Pool
from headrace._torch.reading import Reading
from headrace._torch.recipe import Recipe
from headrace._torch.record import Record
from headrace._torch.states import State
from headrace.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from headrace._deferred.explaining import Explanation
    from headrace._deferred.iteration import Deferring

_T_co = TypeVar("_T_co", covariant=True)


class DataLoader(TorchDataLoader[_T_co], metaclass=Kind):
    """``torch.utils.data.DataLoader`` with the images decoded and transformed by the engine.

    It takes torch's arguments, has its attributes and gives its batches: the same samples in the
    same order for the same torch seed, by default as ``default_collate`` makes them. For an image
    folder that is ``[images, labels]``: float32 of shape (batch, 3, height, width) if the pipeline
    ends in floats, and int64 of shape (batch,). There are three ways to load; the first one that
    is possible is used (docs/drop-in.md).

    1. **Natively**: the engine reads, decodes and transforms, without the dataset's code, if

       - the dataset is torchvision's ``ImageFolder`` or ``DatasetFolder`` (or a subclass without a
         ``__getitem__`` of its own) with the default loader and no ``target_transform``; or a
         ``headrace.Dataset``; or ``Subset``s and ``ConcatDataset``s of these. The files are those
         of ``samples``, also after it was edited. By their names, at least half of them must be of
         kinds that the engine decodes; and
       - its ``transform`` is a ``Compose`` of transforms that ``headrace.from_torchvision`` knows.
         Each ``iter`` looks at it again. If only the first transforms are known, the engine runs
         those and Python runs the others, where torch's loader would run them. One warning names
         the first of the others.

       Single files that the engine cannot read, such as an AVIF, whatever its name, are decoded by
       Pillow. The rest stays native; ``stats`` counts these files, and one warning names one of
       them. Errors of files are classes of ``headrace.errors`` and of Pillow at once, and so
       ``OSError``s. Pillow's switches ``ImageFile.LOAD_TRUNCATED_IMAGES`` and
       ``Image.MAX_IMAGE_PIXELS`` are read at each ``iter``.

    2. **With the dataset's own code**, where torch's loader would run it: in the thread that
       iterates or, with ``num_workers``, in torch's worker processes. Images then open without
       being decoded, what is done to them is recorded, and the engine makes the batch. Operations
       that cannot be recorded get Pillow's pixels at once, and one warning names the line of the
       program; ``explain`` shows all of them. The engine draws for random transforms, unless the
       code seeds torch's generator itself. If a file turns out to be bad, ``__getitem__`` is called
       again, and that image opens as without Headrace.

    3. **With torch's own loader**, if neither is possible.

    A warning of this class never becomes an error: if a warnings filter would make it one, its text
    goes to the log "headrace" instead. ``state_dict`` and ``load_state_dict`` exist if the order
    of samples can be resumed: not for a stream, and not for a dataset without images, whose loader
    behaves as torch's.

    What torch's arguments mean here:

    - ``num_workers``: the number of decode threads; 0: as many as affinity and cgroups allow. No
      processes are started. Only if the dataset's own code runs is it the number of worker
      processes, beside decode threads for all CPUs.
    - ``prefetch_factor``: batches that are made ahead, 2 by default. Indices are drawn
      ``prefetch_factor * max(num_workers, 1)`` batches ahead, as torch draws them.
    - ``timeout``: seconds that a batch may take, also with ``num_workers=0``.
    - ``pin_memory``: batches are made in memory of PyTorch's pinned allocator; what a
      ``collate_fn`` or Python threads made is copied there. It does nothing if torch finds no
      accelerator.
    - ``persistent_workers``: the threads stay from epoch to epoch anyway. As in torch, the base
      seed is drawn only once.
    - ``worker_init_fn``, ``multiprocessing_context``: for worker processes, as torch's. Without
      them they are checked as torch checks them, and have no effect; neither has
      ``pin_memory_device``. ``in_order=False``: batches come in order all the same.

    Several iterators may be used at once; each beyond the first has threads of its own.

    Args:
        strict: raise an error instead of leaving anything to Python, to Pillow or to torch's
            loader.
        seed: number that augmentations are drawn from, together with the epoch; None: torch's base
            seed, so that ``torch.manual_seed`` or ``generator`` repeats them.
        transform: for a ``headrace.Dataset``, or a ``Subset`` or ``ConcatDataset`` of such, which
            have no transform of their own: a ``Compose``, or a list of ``headrace.transforms``
            (which gives float32 images).
        mode: "exact" gives torchvision's pixels; "fast" similar ones (docs/exactness.md).
        on_error: "raise" an error for a bad image, or "replace" it by another sample.
        eager_open: decode images that a dataset's own code opens at once, for programs that
            must not have ``__getitem__`` called twice for one index.
        ahead: how many batches the dataset's own code may run ahead, if it opens images in the
            thread that iterates. With 0 it draws from the process's generators in torch's order.
        limits: limits for files of image folders and for files that a dataset's own code opens, if
            the engine decodes them, as for ``headrace.Dataset``. Without ``max_pixels`` Pillow's
            ``Image.MAX_IMAGE_PIXELS`` is read at each ``iter``.
        snapshot_every_n_steps: torchdata's argument. A native loader's state is always that of the
            last batch; where torch's loader would read, torchdata's ``StatefulDataLoader`` reads.

    Raises:
        UnsupportedError: with ``strict``, when the loader is made or iterated.
        ArgumentError: an argument of Headrace's is impossible. Errors for torch's arguments are
            torch's.
    """

    # Methods of ``State``. They exist while the loader is native, and not if torch's loader reads,
    # which has none.
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
        eager_open: bool = False,
        ahead: int = 2,
        **options: Any,
    ) -> None:
        self.strict = arguments.flag("strict", strict)
        seed = None if seed is None else arguments.seed("seed", seed)
        if isinstance(dataset, str | bytes | os.PathLike):
            raise arguments.refuse_type(
                "dataset", dataset, f"a dataset, as headrace.Dataset({os.fsdecode(dataset)!r}),"
            )
        self.transform = transformed.checked(transform, dataset)
        self.mode = arguments.choice("mode", mode, arguments.MODES)
        self.on_error = arguments.choice("on_error", on_error, arguments.ON_ERROR)
        self.eager_open = arguments.flag("eager_open", eager_open)
        self.ahead = arguments.count("ahead", ahead, 0)
        self.limits = None if limits is None else arguments.limits(limits)
        if limits is not None and transformed.has_none_of_its_own(dataset):
            raise ArgumentError("limits= is for image folders; a headrace.Dataset has its own")
        self.snapshot_every_n_steps = stateful.steps(snapshot_every_n_steps)
        self._engines = Engines()
        self.notices = Notices()
        self.record = Record(dataset)
        self._deferring: Deferring | None = None
        self._reading = Reading(dataset, self.transform, self.limits)
        # What iterations leave for the next one, and for state_dict.
        self.standing = Standing()
        self.base_seed: int | None = None
        self.tracker = Tracker()
        self._expects_it = False  # that a framework makes another loader of this one
        self._native = True  # not left to torch's loader, as far as known
        self._advised = False  # whether it advised on the number of processes
        given: Any = (
            *(dataset, batch_size, shuffle, sampler, batch_sampler, num_workers, collate_fn),
            *(pin_memory, drop_last, timeout, worker_init_fn, multiprocessing_context, generator),
        )
        super().__init__(*given, **options)
        self._stateful: Any = None  # torchdata's loader, if that one reads
        # The arguments from which that loader is made, if its own argument is given.
        snapshots = self.snapshot_every_n_steps and not has_own_iterator(type(self))
        self._given = (given, options) if snapshots else None
        self.state = State(
            self._reading, self.standing, seed, self.notices, self.sampler, self.batch_sampler
        )
        native = self.recipe() is not None if strict else self._reading.seems_native()
        self._becomes(native=native and not has_own_iterator(type(self)))

    def check_worker_number_rationality(self) -> None:
        """Gives torch's advice on processes, once, and only if torch's loader will start them."""
        if not self._native and not self._advised and self._given is None:
            self._advised = True
            super().check_worker_number_rationality()

    def _becomes(self, native: bool) -> None:
        """Gets a state, or loses it like torch's loader, and gives the advice on processes."""
        self._native = native
        if not native and self._given is not None and self._stateful is None:
            self._stateful = stateful.loader(*self._given, self.snapshot_every_n_steps)
        owner = self.state if native or ways.keeps_its_place(self, self._given) else self._stateful
        for name in ("state_dict", "load_state_dict"):
            self.__dict__.pop(name, None)
            if owner is not None and not hasattr(type(self), name):
                self.__dict__[name] = getattr(owner, name)
        if not native:
            self.check_worker_number_rationality()

    # ---- what runs where ---------------------------------------------------------------------

    def _recipe(self) -> Recipe:
        return ways.recipe(self, self._reading, self._deferred)

    def __len__(self) -> int:
        """Batches an epoch; one that continues from a state counts those before and after it."""
        return self.state.length(super().__len__())

    def recipe(self) -> Recipe | None:
        """Returns what the engine reads itself; None if the dataset's own code runs.

        Raises:
            UnsupportedError: ``strict`` is set, and Python would have to do a part.
        """
        try:
            made = self._recipe()
        except UnsupportedError as failure:
            if self.strict and isinstance(failure, ways.PartlyNative):
                raise
            if self.strict and self._deferred() is None:
                why = deciding.obstacle(self.dataset) or deciding.SNAPSHOTS
                raise UnsupportedError(f"strict=True, and {failure}: {why}") from None
            self._becomes(native=False)
            return None
        if not self._native:
            self._becomes(native=True)
        return made

    def _deferred(self) -> Deferring | None:
        """Returns what runs the dataset's own code while the engine still makes the images."""
        if self._deferring is None and self._given is None:
            self._deferring = ways.deferring(self, self._reading)
        return self._deferring

    def __iter__(self) -> Any:
        if has_own_iterator(type(self)):
            self._becomes(native=False)
            ways.left_to(self, "torch's loader", deciding.asked(type(self)))
            return super().__iter__()
        recipe = self.recipe()
        if recipe is None:
            if self._stateful is not None:
                ways.left_to(self, "torchdata's StatefulDataLoader", deciding.SNAPSHOTS)
                stateful.follow(self._stateful, self)
                return iter(self._stateful)
            behind = self._deferred()
            if behind is None:
                return super().__iter__()
            behind.follow(self)
            return behind.iterate(self._IterableDataset_len_called)
        if recipe.translation.rest:
            self.record.native(recipe.translation.obstacle, curing.IN_PYTHON)
            self.notices.say(
                f"{recipe.translation.obstacle}; it and what follows run in Python, one image at "
                f"a time (strict=True makes this an error). {curing.IN_PYTHON}",
                stacklevel=2,
            )
        else:
            self.record.native()
        return Iteration(self, recipe)

    def _get_iterator(self) -> Any:
        # torch's ``__iter__`` calls this, and so do subclasses that keep an iterator of their own.
        cause = deciding.obstacle(self.dataset) or deciding.asked(type(self))
        ways.left_to(self, "torch's loader", cause)
        return super()._get_iterator()

    @property
    def _iterator(self) -> Any:
        """torch's iterator with persistent workers; frameworks end these and set it to None."""
        if (inner := self.__dict__.get("_stateful")) is not None:
            return inner._iterator
        behind = self.__dict__.get("_deferring")
        return self.__dict__.get("_persistent") if behind is None else behind.persistent

    @_iterator.setter
    def _iterator(self, iterator: Any) -> None:
        if (inner := self.__dict__.get("_stateful")) is not None:
            inner._iterator = iterator
        elif (behind := self.__dict__.get("_deferring")) is None:
            self.__dict__["_persistent"] = iterator
        else:
            behind.persistent = iterator

    def explain(self, index: Any = None) -> Explanation:
        """Explains which images of a sample the engine makes, and why it does not make the others.

        It runs the dataset's code for one sample, and restores Python's, NumPy's and torch's
        generators afterwards. If several lines needed pixels, it runs the code again, up to twice
        for each of them, with other pixels at that line, to see which images come from it.

        Args:
            index: the sample's index in the dataset, of the kind that the sampler gives; None:
                0, or [0] where the sampler of ``batch_size=None`` is a ``BatchSampler``.

        Returns:
            an object that prints as a table: the place of each image in the sample, whether it is
            native, for each cause of work in Python the line of the program and a cure, and with
            ``num_workers`` whether there are worker processes, and why. Its attributes are
            ``native``, ``leaves``, ``reasons``, ``cure`` and ``runs``.

        Raises:
            UnsupportedError: only torch's loader can run this dataset, or the loader's class has
                torch's iterator; the sentence says why.
        """
        from headrace._deferred import explaining

        return explaining.of_loader(self, self._recipe, self._deferred, index)

    @contextlib.contextmanager
    def made_anew(self) -> Iterator[None]:
        """Expects that a framework makes its own loader of this one, which it may do here."""
        self._expects_it = True
        try:
            yield
        finally:
            self._expects_it = False

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Accelerate asks for this before it puts torch's loader in the place of this one.

        Accelerate then gets the dataset, but nothing that belongs to Headrace.
        """
        if not self._expects_it and not is_accelerates(DataLoader):
            text = "Accelerator.prepare replaces this loader by torch's own DataLoader; "
            text += "headrace.accelerate.prepare(accelerator, loader) keeps it"
            if self.strict or self.transform is not None:
                raise UnsupportedError(text)
            self.notices.say(text, stacklevel=3)
        return False

    def take(self, recipe: Recipe) -> Engine | Pool:
        """Returns something that makes batches."""
        return self._engines.take(recipe)

    def give_back(self, engine: Engine | Pool) -> None:
        """Takes the engine back after the last batch."""
        self._engines.give_back(engine)

    def trace(self, path: str | os.PathLike[str] | None) -> str | None:
        """Writes a trace of the engine's threads to a file, as ``headrace.Loader.trace`` does.

        Returns:
            the file's name; None if the trace was ended, or begins only with the next ``iter``. If
            a dataset's own code runs, the trace begins with the first image that the engine makes.

        Raises:
            UnsupportedError: the dataset has no images, or work in Python follows them.
            ArgumentError, OSError: as ``headrace.Loader.trace``.
        """
        wanted = tracing.checked(path)
        if wanted is None:
            if self._deferring is not None:
                self._deferring.trace(None)
            return self._engines.trace(None, None)
        recipe = self.recipe()
        own = recipe is None and may_have_images(self.dataset)
        behind = self._deferred() if own else None
        return self._engines.trace(wanted, recipe) if behind is None else behind.trace(wanted)

    def stats(self) -> dict[str, Any]:
        """What the engine measured, and how many images were left to Pillow.

        Returns:
            a dict. "pillow_images" counts the images that Pillow has decoded, with repetitions, and
            "pillow_files" the files that are known to be left to it. For a folder they are counted
            since the dataset last changed. If a dataset's own code runs, they count what that code
            opens and only Pillow can read, and what was recorded but the engine could not decode.
            If the engine makes the batches or the images, the dict also has the fields of
            ``headrace.Loader.stats``, counted since the threads started; if several epochs are in
            progress at once, those of the one that has decoded most.
        """
        if self._deferring is not None and self._deferring.counts.batches:
            pillows = self._deferring.pillows
            left = {"pillow_images": pillows.images, "pillow_files": pillows.files}
            return self._deferring.stats() | left
        engines = self._engines.stats()
        found = dict(max(engines, key=lambda one: one["images_decoded"])) if engines else {}
        return found | self._reading.left_to_pillow()

    def close(self) -> None:
        """Stops the threads. Batches that are held stay valid; a new ``iter`` starts new ones."""
        self._engines.close()
        if self._deferring is not None:
            self._deferring.close()

    def __getstate__(self) -> dict[str, Any]:
        # Only the arguments and the place go to another process, not the engine.
        left = self.__dict__ | dict.fromkeys(("_engines", "tracker", "_deferring"))
        left["standing"], left["state"] = copy.copy(self.standing), copy.copy(self.state)
        left["state"].standing = left["standing"]
        for name in ("state_dict", "load_state_dict", "record"):
            left.pop(name, None)
        return left

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "standing" not in state:  # it was pickled as torch's class
            DataLoader.__init__(self, **attributes(state))
            return
        self.__dict__.update(state)
        self._engines, self.tracker, self.record = Engines(), Tracker(), Record(self.dataset)
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
