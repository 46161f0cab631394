"""The loader: an iterable of finished batches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from headrace import samplers
from headrace._batch import columns, lending, mixing, views
from headrace._batch.moved import Moved
from headrace._engine import abi, arguments, away, containers, scarce, tracing
from headrace._epoch import datasets, devices, feed, options, ranks, states
from headrace._epoch.epoch import Batches, Epoch, Source
from headrace._epoch.passes import Passes
from headrace._transforms.multiview import Views
from headrace._transforms.schedule import Schedule
from headrace.dataset import Dataset
from headrace.errors import ArgumentTypeError


class Loader(Passes):
    """Batches of a dataset, decoded and augmented by native threads.

    Each ``iter(loader)`` is one epoch: epoch 0 first, then the next one, or the one given to
    ``set_epoch``. A batch is ``(images, labels)``; with ``fields`` or ``labels`` a dict of named
    values is its third part. By default ``images`` is a float32 tensor of shape (batch, 3, height,
    width) with values in 0..1, and ``labels`` an int64 tensor of shape (batch,), -1 for none. The
    order of samples and every augmentation are functions of (seed, epoch, sample), so they do not
    depend on the number of threads.

    A batch is a view of memory that the engine wrote. It belongs to whoever holds it: the memory is
    not written again before its last tensor is gone, also after the loader is closed. A forked
    child has a copy of its own.

    Args:
        dataset: a ``Dataset``, or the path of one; or a list of these, which becomes
            ``Dataset.concat`` of them.
        batch_size: samples of a batch, on this rank.
        format, image, label, classes, split, root: as for ``Dataset``, for a dataset given by its
            path, and for each path of a list. An open ``Dataset`` has its own.
        shuffle: whether each epoch has a new order. True: the whole dataset is mixed. "window":
            blocks of neighbours are mixed, and then all samples of a window, for storage that is
            slow at random reads, and for containers with compressed blocks.
        seed: number that order and augmentations are drawn from, 0 to 2^64 - 1.
        drop_last: leave out a smaller last batch.
        pad: repeat the first samples of the epoch until the last batch is equally long on all
            ranks, as ``DistributedSampler`` does. Otherwise the last samples are split as evenly
            as possible; if there are fewer of them than ranks, some ranks get an empty batch.
        transform: a list of ``headrace.transforms``, or of the dicts that their ``to_dict``
            returns. All images must have one size after it. The list may end with ``MixUp``,
            ``CutMix``, a ``RandomChoice`` of both, or ``Mixup``. Then labels are float32 of shape
            (batch, num_classes), or with ``MixUp(labels="pair")`` a tuple of labels, partners'
            labels and lambda. With ``headrace.transforms.Views``, which holds several such lists
            (without mixing), ``images`` is a list of tensors, or a dict of them if the views have
            names.
        resolution: sizes in pixels by the epoch from which they hold, such as ``{0: 128, 10: 160,
            30: 224}``. They replace the size at the end of the transforms; one number replaces
            both sides. Or a ``headrace.transforms.Schedule``, which may also count steps. The
            loader keeps running, with memory for the largest size.
        dtype: dtype of the images: "float32", "float16", "bfloat16" or "uint8". Without
            ``Normalize`` floats are in 0..1.
        layout: "NCHW", "NHWC", or "channels_last" (shape NCHW, memory NHWC).
        scale: how a byte becomes a float: "div" divides by 255 as ``ToTensor`` does, "mul"
            multiplies by 1/255 as ``v2.ToDtype`` does.
        mode: "exact" gives Pillow's pixels, "fast" similar ones, as
            ``functional.resized_crop`` says.
        output: "torch" or "numpy": the kind of arrays in a batch.
        num_threads: decode threads; None: as many as affinity and cgroups allow, shared between
            the processes of ``LOCAL_WORLD_SIZE``.
        prefetch: batches made ahead; None: 2, or for tiny images of arrays as many as fit into
            16 MB, at most 8.
        read_ahead: samples read ahead; None: as many as the storage seems to need.
        storage: options of an object store, as for ``Dataset``, for a dataset given by its address.
        fetch_ahead: bytes of memory for records that are fetched from a store ahead of the decode
            threads, as a number or as text such as "512MB"; None: the dataset's own, or "512MB".
        cache: a directory on a local disk that keeps what is fetched from a store, as for
            ``Dataset``.
        cache_size: bytes that the cache may have, as a number or as text such as "200GB".
        timeout: seconds to wait for a batch, and for opening a dataset by its address in a store;
            None: without end. If it takes longer, a ``WaitTimeoutError`` is raised.
        fields: names of fields for the third part of a batch, also "index" and "key". For
            containers given by a path, they are chosen among all columns.
            A mixed batch also has "label", "partner" (its index), "partner_label", "lam" (float64,
            the share of the sample itself) and "box" (int32: top, left, height and width of the
            partner's part, in pixels), each with one value for every sample.
        labels: fields that move with the image, and what they are: ``{"boxes":
            hr.transforms.Boxes(sanitize=1), "classes": hr.transforms.Along("boxes"), "mask":
            hr.transforms.Mask(), "target": hr.transforms.Image(scale=4)}``. They are in the third
            part of a batch: masks and images as one tensor, boxes and points as a list with one
            tensor for each image. Colour ops, erasing and JPEG do not change them. Policies,
            ``FiveCrop`` and mixing are refused together with labels, as in torchvision; so are
            resizes, and other rotations than quarter turns, together with an ``Image`` of another
            scale. Making the loader searches the whole index for the longest list of boxes and
            points.
        rank, world_size: this process's part; None: from torch.distributed or the environment. All
            ranks of a process group must then begin every iteration together, and compare what the
            order depends on. To read on one rank alone, say ``rank=0, world_size=1``.
        on_error: "raise" an error for a bad sample, after which the next batch follows; or
            "replace" the sample by another one and list it in ``report()``.
        sampler: one of ``headrace.samplers``; or, instead of ``shuffle``, any iterable of sample
            numbers or a function that makes one. It is iterated again for each epoch, after
            ``set_epoch(epoch)`` if it has that method, and on a resume up to the saved position.
            Its order is that of all ranks together, unless it has ``num_replicas`` and so divides
            the samples itself.
        window: samples that ``shuffle="window"`` mixes with one another; None: 16,384, in
            1,024 stretches of neighbours, and for compressed blocks at most as many as decode to
            192 MB.
        pin_memory: put batches into memory of PyTorch's pinned allocator. Without an accelerator
            PyTorch cannot pin; then there is one warning, and ordinary memory is used.
        device: a CUDA device that batches are copied to, ahead of time and on a stream of their
            own; it implies ``pin_memory``. None or "cpu": no copy.
        batch_fn: a function that is called with each batch, ``(images, labels)`` or also the
            dict; the loader returns its result instead of the batch. It is Python code that runs
            in the thread that asks for the batch, one batch at a time; in an ``IterableDataset``
            that is the worker. If it raises, the batch counts as delivered, and the next one
            follows. It must draw its random values itself, and keep the state of its generator.

    Raises:
        ArgumentError: an argument or a transform is impossible; the sentence names it.
        UnsupportedError: an argument asks for something that this version does not support.
        MissingFileError, EmptyDatasetError, BadFileError: as for ``Dataset``.
        MemoryShortError: there is not enough memory for the batches.
    """

    @options.with_torchs_refused
    def __init__(
        self,
        dataset: Dataset | str | os.PathLike[str] | Sequence[Dataset | str | os.PathLike[str]],
        batch_size: int = 1,
        *,
        format: str | None = None,
        image: str | None = None,
        label: Any = None,
        classes: Sequence[str] | None = None,
        split: str | None = None,
        root: str | os.PathLike[str] | None = None,
        shuffle: bool | str = False,
        seed: int = 0,
        drop_last: bool = False,
        pad: bool = False,
        transform: Sequence[Any] | Views | None = None,
        resolution: Schedule | Mapping[int, Any] | None = None,
        dtype: str = "float32",
        layout: str = "NCHW",
        scale: str = "div",
        mode: str = "exact",
        output: str = "torch",
        num_threads: int | None = None,
        prefetch: int | None = None,
        read_ahead: int | None = None,
        timeout: float | None = None,
        pin_memory: bool = False,
        device: Any = None,
        batch_fn: Callable[[Any], Any] | None = None,
        sampler: Any = None,
        fields: Sequence[str] | None = None,
        labels: Mapping[str, Any] | None = None,
        window: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        on_error: str = "raise",
        storage: Mapping[str, Any] | None = None,
        fetch_ahead: int | str | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_size: int | str | None = None,
    ) -> None:
        self._batch_fn = arguments.callback("batch_fn", batch_fn)
        self._device = devices.resolve(device)
        said = options.words(
            dtype=dtype, layout=layout, scale=scale, mode=mode, output=output, on_error=on_error
        )
        said |= options.transforms(transform, resolution)
        self._pad = arguments.flag("pad", pad)
        pin_memory = arguments.flag("pin_memory", pin_memory)
        said |= options.order(shuffle, window, sampler)
        self._own_order = sampler is None or isinstance(sampler, samplers.Sampler)
        if not self._own_order:
            options.check_own_sampler(sampler, shuffle, drop_last, self._pad)
        self._owns_dataset = not isinstance(dataset, Dataset)
        self.batch_size = arguments.count("batch_size", batch_size, 1)
        self.drop_last = arguments.flag("drop_last", drop_last)
        self.timeout = None if timeout is None else arguments.seconds("timeout", timeout)
        self.seed = arguments.seed("seed", seed)
        self.sampler = sampler
        self._config: dict[str, Any] = {
            "batch_size": self.batch_size,
            **said,
            "order": "epoch" if self._own_order else "submitted",
            "drop_last": self.drop_last and self._own_order,
            "pad": self._pad and self._own_order,
            **options.amounts(num_threads, prefetch, read_ahead, fetch_ahead),
        }
        self._part = ranks.checked(rank, world_size)
        words_of_path = containers.Words(format, image, label, None, classes, split, root)
        with away.within(self.timeout):
            self.dataset = datasets.opened(dataset, words_of_path, storage, cache, cache_size)
        self._mixes = mixing.mixes_any(transform)
        last = layout == "channels_last"
        with_fields = self._take_fields(fields, labels, output, last)
        lent = pin_memory or self._device  # in memory of PyTorch, else the engine's
        self._lender = lending.lender(output, own=self._device is None) if lent else None
        self._config["nice"] = lending.niceness(self._lender)
        arrange = transform.arrange if isinstance(transform, Views) else None
        self._view = views.viewer(
            output, dtype, last, with_fields, self._lender, arrange, self._mixes
        )
        self._start()

    def _take_fields(
        self,
        fields: Sequence[str] | None,
        labels: Mapping[str, Any] | None,
        output: str,
        channels_last: bool,
    ) -> bool:
        """Looks for what a batch has besides images and labels; returns whether it has any."""
        beside = tuple(mixing.FIELDS) if self._mixes else ()
        self._fields = columns.known(self.dataset, () if fields is None else fields, beside)
        self._moved = Moved(self.dataset, labels, self._fields, output, channels_last)
        self._config["labels"] = self._moved.config()
        return bool(self._fields or self._moved)

    def __len__(self) -> int:
        """Batches an epoch, the same on all ranks.

        Raises:
            TypeError: the sampler has no length.
        """
        self._open()
        if self._own_order:
            return self._steps
        return feed.steps(self.sampler, self.batch_size * self._shares(), self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        self._warn_of_cache()
        return Batches(self.source(), self._batch_fn)

    def source(self) -> Source:
        """The batches of the next iteration, by their numbers."""
        epoch = Epoch(self)
        if self._device is None:
            return epoch
        assert self._lender is not None, "where a device is, memory can be pinned"
        return devices.Copies(epoch, self._device, self._lender)

    def view(self, batch: abi.Batch, left: float | None = None) -> tuple[Any, ...]:
        """The tensors of a batch that was received.

        Args:
            left: seconds that reading its fields may take; None for no limit.
        """
        if not self._fields and not self._moved:
            return self._view(batch)
        images, labels, indices, more = self._view(batch)
        known = (
            {name: more[engines] for name, engines in mixing.FIELDS.items()} if self._mixes else {}
        )
        known["index"] = indices
        began = time.monotonic()
        named = columns.of_batch(self.dataset, indices, self._fields, known, left)
        if left is not None:
            left = max(0.0, left - (time.monotonic() - began))
        return images, labels, named | self._moved.of_batch(indices, more, left)

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next ``iter``. If a state of that epoch was just loaded, its
        position stays."""
        self.position.set_epoch(arguments.epoch("epoch", epoch))

    def state_dict(self) -> dict[str, Any]:
        """The loader's position after the last batch that was returned, as small JSON values.

        Returns:
            "seed", "epoch" and "position" (samples of that epoch, over all ranks together);
            "version", "fingerprint", "samples" and "shuffle", by which a later load checks that
            the order is the same; and with a sampler of your own "drawn", a checksum of its
            numbers so far.
        """
        epoch, position, drawn = self.position.reached
        state = {**self._order(), "seed": self.seed, "epoch": epoch, "position": position}
        if position and not self._own_order and drawn is not None:
            state["drawn"] = drawn
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continues, at the next ``iter``, where the loader was when ``state_dict`` was called.

        A sampler of your own is asked again for all samples up to that position. If it gives other
        samples, for example because its generator was not restored, asking for the first batch
        raises an ``ArgumentError``.

        Raises:
            ArgumentError: the state is of another dataset or order, or is not a state.
        """
        most = self._length if self._own_order else None
        seed, reached = states.read(state, self._order(), most)
        self.seed = seed
        self.position.go_to(*reached)

    def stats(self) -> dict[str, Any]:
        """What the engine measured since the loader was opened.

        Returns:
            rates, totals, waiting times by stage, stalls and queues; ``headrace.metrics.FIELDS``
            describes each field, and so does docs/doctor.md.
        """
        self._warn_of_cache()
        return dict(self._info()["stats"])

    def _warn_of_cache(self) -> None:
        """Warns once if the cache of an object store is no longer used."""
        if self._engine is not None and self._engine.close.alive and self.dataset.cached:
            scarce.warn_of(self._info().get("cache_warning", "").encode())

    def report(self) -> list[dict[str, Any]]:
        """The samples that ``on_error="replace"`` replaced, and those that the decoder warned of.

        Returns:
            dicts with epoch, step, place (row in the batch), index and key of the sample;
            substitute, the index of the sample that was delivered instead, or -1 for a warning;
            warnings, how many there were; and error, the sentence. At most 10,000 replacements and
            1,000 warnings are listed; ``stats()`` counts all of them.
        """
        return list(self._info()["report"])

    def trace(self, path: str | os.PathLike[str] | None) -> str | None:
        """Writes a trace of the loader's threads to a file for Chrome and Perfetto, from now on.

        The file is complete after ``close()`` or ``trace(None)``. The environment variable
        ``HEADRACE_TRACE`` has every loader write one from its first sample on.

        Args:
            path: the file, which is overwritten; None ends the trace. If this process wrote a
                trace there before, or another process is writing one, a number is added to the
                name, as in ``run-2.json``.

        Returns:
            the file's name; None if the trace was ended.

        Raises:
            ArgumentError: ``path`` is not a path, or not that of a regular file.
            OSError: the file, or a part of it, cannot be written.
        """
        wanted = tracing.checked(path)
        self._open()
        self._trace = wanted
        assert self._engine is not None
        if self._trace is None:
            tracing.end(self._engine)
            return None
        return tracing.begin(self._engine, self._trace)

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "a Loader cannot be pickled or copied, since its threads belong to this process: make "
            "it in the process that iterates it, from a Dataset, which can be pickled"
        )

    def close(self) -> None:
        """Stops the threads. Batches that are held stay valid."""
        if self._engine is not None:
            self._warn_of_cache()
            tracing.close(self._engine)
            self._engine.close()
        if self._lender is not None:
            self._lender.close()
        if self._owns_dataset:
            self.dataset.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
