"""Datasets: which samples there are, and any one of them by its number."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from headrace import functional
from headrace._arrays import held, opening
from headrace._engine import _lib, arguments, away, containers, located, pairs, scanning
from headrace._engine import fields as values
from headrace.errors import ArgumentError, HeadraceError, NoSampleError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Path = str | os.PathLike[str]


BACKENDS = ("auto", "mmap", "pread")
# How a dataset is read, beside what it consists of.
_SETTINGS = ("backend", "limits", "verify_crc")
_MANY_IMAGES = 1 << 17  # bytes that most encoded images fit in; others are asked for again


class Sample(tuple[Any, int]):
    """One sample, which unpacks as ``image, label``.

    Attributes:
        image: uint8 array of shape (height, width, 3), RGB.
        label: the class number.
        key: the sample's name, unique in its dataset, or in its part of a concatenation; in a
            folder without an index, files that differ in their extension alone share it. It is
            text: what is no UTF-8 in a file name is escaped.
        path: the file that holds it, as ``open`` takes it: a shard, or the image itself.
        fields: what else was packed with it, by name.
    """

    key: str
    path: str
    fields: dict[str, Any]

    @property
    def image(self) -> NDArray[np.uint8]:
        return cast("NDArray[np.uint8]", self[0])

    @property
    def label(self) -> int:
        return self[1]


class Dataset:
    """A packed directory, a folder of images used in place, or containers of others.

    ``len(ds)`` is the number of samples and ``ds[i]`` a ``Sample``; negative numbers count from the
    end, and ``ds[a:b:c]`` is a list of samples, all decoded. A dataset pickles as its configuration
    and opens again where it is unpickled, so it may go to a spawned worker.

    Attributes:
        classes: the class names in the order of their numbers.
        kind: "packed", "indexed" (a folder with an index), "listed" (a folder as it is),
            "scanned" (containers as they are), "contained" (an index of containers), "arrays" (of
            pixels, in files), "memory" (the same, ``from_arrays``) or "concatenated".
        fingerprint: a short text that differs when the samples differ.

    Args:
        path: the directory, or its address in a store of objects ("s3://bucket/train.hr",
            "https://host/train.hr"; docs/object-stores.md); or containers: a tar,
            zip, TFRecord, RecordIO, FFCV, MDS, LMDB, LitData, Arrow or Parquet file, a folder of
            such, a pattern as ``"train-{000000..000146}.tar"`` or ``"train-*.tar"``, or a
            list of paths; or arrays of uint8: .npy, .npz, HDF5, Zarr, .safetensors, .pt, MNIST's
            IDX or CIFAR's binary files. What they are is found by their content (docs/formats.md).
            Without an index containers' headers are read now; ``headrace index`` does that once.
        format: "webdataset", "tar" (of class folders), "zip", "tfrecord", "recordio", "beton",
            "mds", "lmdb", "litdata", "arrow" or "parquet", or of arrays "npy", "npz", "hdf5",
            "zarr", "idx", "safetensors", "pt", "cifar10" or "cifar100", where the content leaves a
            choice; None: found.
        image: the column of the images; alternatives are separated by ";". None: what has one of
            the usual names.
        label: the column of the labels; "json.NAME" is a member of JSON objects. None: what has one
            of the usual names, else every label is -1. Of arrays also another file that holds them,
            or the labels themselves.
        fields: the columns to keep beside them; None: all.
        classes: the names of the labels of containers; None: texts are sorted, numbers have none.
        split: which split, where names of files tell several apart.
        layout: of arrays, "NHW", "NHWC" or "NCHW"; None: the axis of size 1, 3 or 4 is the channel.
        root: where the containers of an index are, if not where it says.
        backend: how shards are read: "pread", into memory, which is what "auto" takes, or "mmap",
            which copies nothing, and faults a page in for each 4 KiB.
        index_dir: where ``headrace index --index-dir`` put a folder's index.
        verify_crc: compare each sample's bytes with the checksum that the index, or else its
            TFRecord or zip, has of them.
        limits: ``max_pixels``, ``max_decoder_bytes``, ``max_record_bytes``, ``max_scans``,
            ``max_scan_blocks``, ``max_block_bytes``, ``max_cached_bytes``, where they should differ
            from the defaults; docs/limits.md says what each bounds.
        storage: of a dataset in a store, what differs from what the store's own tools would take:
            "endpoint", "region", "path_style", "anonymous".
        fetch_ahead: bytes of memory for records that a loader fetches from a store ahead of its
            decode threads, as a number or as text; None: "512MB".
        cache: a directory on a local disk that keeps what loaders fetch from a store, for all
            processes of the machine; None: nothing touches the disk.
        cache_size: the bytes that it may have, as a number or as text such as "200GB".
        timeout: seconds that opening a dataset in a store may take, and then each sample that is
            read of it; None: as long as they take. A loader has a ``timeout`` of its own.

    Raises:
        MissingFileError: the directory does not exist.
        WaitTimeoutError: a store took longer than ``timeout``.
        EmptyDatasetError: it holds no sample.
        ArgumentError: an argument is impossible; the sentence names it.
        BadFileError: its index or manifest is not what it claims to be.
    """

    def __init__(
        self,
        path: Path | Sequence[Path],
        *,
        format: str | None = None,
        image: str | None = None,
        label: Any = None,
        fields: Sequence[str] | None = None,
        classes: Sequence[str] | None = None,
        split: str | None = None,
        layout: str | None = None,
        root: Path | None = None,
        backend: str = "auto",
        index_dir: Path | None = None,
        verify_crc: bool = True,
        limits: Mapping[str, int] | None = None,
        storage: Mapping[str, Any] | None = None,
        fetch_ahead: int | str | None = None,
        cache: Path | None = None,
        cache_size: int | str | None = None,
        timeout: float | None = None,
    ) -> None:
        words = containers.Words(format, image, label, fields, classes, split, root)
        config = opening.source("path", path, words, layout)
        if index_dir is not None:
            config["index_dir"] = arguments.path("index_dir", index_dir)
        if storage is not None:
            config["storage"] = away.storage(storage)
        if fetch_ahead is not None:
            config["fetch_ahead"] = arguments.size("fetch_ahead", fetch_ahead)
        config |= away.cache(cache, cache_size)
        self._open(config, backend, verify_crc, limits, away.timeout(timeout))
        containers.warn_of(self.info)

    @classmethod
    def from_files(
        cls,
        paths: Iterable[Path],
        labels: Iterable[int | str],
        classes: Sequence[str] | None = None,
        *,
        backend: str = "auto",
        limits: Mapping[str, int] | None = None,
    ) -> Dataset:
        """A dataset of image files where they are.

        Args:
            paths: the files.
            labels: for each the number of its class, or the name where ``classes`` are given.
            classes: the class names in the order of their numbers; None: there are only numbers.

        Raises:
            ArgumentError: ``paths`` and ``labels`` differ in length, or a label is negative or none
                of ``classes``.
        """
        config: dict[str, Any] = {"paths": arguments.each("paths", paths, arguments.path)}
        numbers: dict[str, int] = {}
        if classes is not None:
            config["classes"] = arguments.each("classes", classes, arguments.name)
            numbers = {name: number for number, name in enumerate(config["classes"])}
        config["labels"] = arguments.each(
            "labels", labels, lambda name, label: _class_number(name, label, numbers)
        )
        if len(config["paths"]) != len(config["labels"]):
            raise ArgumentError(
                f"{len(config['paths'])} paths and {len(config['labels'])} labels were given"
            )
        made = cls.__new__(cls)
        made._open(config, backend, True, limits)
        return made

    @classmethod
    def from_pairs(
        cls,
        first: Path,
        second: Path,
        *,
        kind: str = "image",
        suffixes: Sequence[str] = ("", ""),
        unpaired: str = "error",
        backend: str = "auto",
        limits: Mapping[str, int] | None = None,
    ) -> Dataset:
        """A dataset of images that each have a second one, in a folder of its own.

        Two files are a pair where their paths below the two folders are the same but for their
        extensions. Folders are listed as ``ImageFolder`` lists those of its classes, also files
        that lie directly in them; every label is -1. The second file's bytes are a field, "target"
        or "mask", which a loader moves with the image: ``labels={"target":
        hr.transforms.Image(scale=4)}`` or ``labels={"mask": hr.transforms.Mask()}``.

        Args:
            first: the folder of the images.
            second: the folder of what belongs to them.
            kind: "image", whose field is "target"; or "mask", PNG files of one channel or with a
                palette, whose field is "mask".
            suffixes: what the names of the first and of the second files end with, in front of
                their extensions, beside what they have in common: ``("x4", "")`` pairs
                ``0001x4.png`` with ``0001.png``. Files without their folder's suffix are passed
                over.
            unpaired: "error": a file without a partner is one; "skip": it is left out.
            backend: as for ``Dataset``; second files are read by "pread" alone.
            limits: as for ``Dataset``; they hold for both files.

        Raises:
            MissingFileError: one of the folders does not exist.
            EmptyDatasetError: there is no pair.
            BadFileError: files have no partner; the sentence names them and the folder. Or two
                files of a folder differ in their extension alone.
        """
        made = cls.__new__(cls)
        config = pairs.config(first, second, kind, suffixes, unpaired)
        made._open(config, backend, True, limits)
        return made

    @classmethod
    def from_arrays(
        cls,
        images: Any,
        labels: Any = None,
        classes: Sequence[str] | None = None,
        *,
        layout: str | None = None,
        limits: Mapping[str, int] | None = None,
    ) -> Dataset:
        """A dataset of images that are an array in memory already.

        Nothing is copied: the array is read where it lies, and kept alive until the dataset and
        its loaders are closed. Who writes to it meanwhile changes the images. Pickling the dataset
        pickles the array.

        Args:
            images: a NumPy array, a memory map or a torch tensor on the CPU, of uint8 and of shape
                (N, H, W), (N, H, W, C) or (N, C, H, W) with 1, 3 or 4 channels; of four, which are
                RGBA, the last is left out. Any strides. A memory map whose file is cut while it is
                read ends the process with a bus error.
            labels: for each the number of its class, or the name where ``classes`` are given, as
                any sequence, array or tensor; None: every label is -1.
            classes: the class names in the order of their numbers; None: there are only numbers.
            layout: "NHW", "NHWC" or "NCHW"; None: the axis of size 1, 3 or 4 is the channel.

        Raises:
            ArgumentError: the shape leaves the layout open or fits none, or ``labels`` are not as
                many as the images.
            UnsupportedError: the images are not of uint8.
            EmptyDatasetError: there are none.
        """
        config: dict[str, Any] = {"array": held.config(images, layout)}
        if classes is not None:
            config["classes"] = arguments.each("classes", classes, arguments.name)
        rows = config["array"]["stretches"][0]["rows"]
        config["labels"] = held.labels(labels, rows, config.get("classes"))
        made = cls.__new__(cls)
        made._open(config, BACKENDS[0], True, limits)
        return made

    @classmethod
    def from_locations(
        cls,
        files: Iterable[Path],
        table: Any,
        classes: Sequence[str] | None = None,
        *,
        backend: str = "auto",
        limits: Mapping[str, int] | None = None,
    ) -> Dataset:
        """A dataset of encoded images at places in files that the caller knows.

        It is the way for a container that Headrace does not know: whoever can say where its images
        lie has a dataset of it, which is read, shuffled, indexed and packed as any other.

        Args:
            files: the files.
            table: columns of one length, as a dict of NumPy arrays or an Arrow table, with a row
                for each sample: "file", the number of one of ``files``; "offset" and "length" of
                the image in it, in bytes; and where there are such "label" (numbers; texts, which
                are sorted; -1 or null for none) and "key" (texts that differ; None: CONTAINER/ROW).
                Every further column is a field: int, float, str or bytes.
            classes: the class names in the order of their numbers; None: of texts the sorted ones.

        Raises:
            ArgumentError: a value is impossible, or outside its file; the sentence says the row.
            DuplicateKeyError: two rows have one key.
            MissingFileError, SystemFailure: a file cannot be read.
            EmptyDatasetError: there is no row.
            UnsupportedError: a column is of a type that no field has.
        """
        config = located.config(files, table, classes)
        made = cls.__new__(cls)
        made._open(config, backend, True, limits)
        containers.warn_of(made.info)
        return made

    @classmethod
    def concat(
        cls, datasets: Iterable[Dataset | Path], classes: Sequence[str] | None = None
    ) -> Dataset:
        """The samples of several datasets, one dataset after the other.

        Nothing is copied, and opening it costs what opening its parts does. Packed sets, folders
        and lists of files may be mixed. Labels stay those of each part, and so do keys; of the
        further fields it has those that all parts have with one type.

        Args:
            datasets: each a ``Dataset`` or the path of one. They are opened anew, so they may be
                closed. ``backend``, ``verify_crc`` and ``limits`` have to be the same in all; of
                several ``timeout`` the smallest holds.
            classes: the names of all labels in the order of their numbers; None: the parts' own,
                which have to be the same in all that have any; an empty list: labels have no names,
                and parts may have classes that differ.

        Raises:
            ArgumentError: there are no datasets, or their classes or settings differ.
        """
        config: dict[str, Any] = {"parts": []}
        if classes is not None:
            config["classes"] = arguments.each("classes", classes, arguments.name)
        if not (parts := arguments.each("datasets", datasets, _part)):
            raise ArgumentError("datasets is an empty list (expected one at least)")
        shared: dict[str, Any] = {}
        for number, (part, settings, _) in enumerate(parts):
            config["parts"].append(part)
            for name, value in settings.items():
                if shared.setdefault(name, value) != value:
                    raise ArgumentError(
                        f"datasets[{number}] has {name}={value!r}, one before it "
                        f"{shared[name]!r}; all are read in one way"
                    )
        made = cls.__new__(cls)
        made._open(
            config,
            shared.get("backend", BACKENDS[0]),
            shared.get("verify_crc", True),
            shared.get("limits"),
            min((timeout for *_, timeout in parts if timeout is not None), default=None),
        )
        return made

    def _open(
        self,
        config: dict[str, Any],
        backend: str,
        verify_crc: bool,
        limits: Mapping[str, int] | None,
        timeout: float | None = None,
    ) -> None:
        config["backend"] = arguments.choice("backend", backend, BACKENDS)
        config["verify_crc"] = arguments.flag("verify_crc", verify_crc)
        if limits is not None:
            config["limits"] = arguments.limits(limits)
        self.__setstate__({"config": config, "timeout": timeout})
        self.handle  # noqa: B018 - opens it: a bad path is refused here

    def __getstate__(self) -> dict[str, Any]:
        held.check_given_back(self._config)
        timed = {} if self._timeout is None else {"timeout": self._timeout}
        return {"config": self._config, **timed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._config: dict[str, Any] = state["config"]
        self._timeout: float | None = state.get("timeout")
        self._handle: _lib.Handle | None = None
        self._arrays = [array["memory"] for array in held.within(self._config)]
        self._facts: dict[str, Any] = {}

    @property
    def handle(self) -> int:
        """The engine's handle of this dataset, which is opened where it is not yet."""
        for array in self._arrays:
            array.check_in_place()
        if self._handle is None:
            with scanning.shown():
                self._handle = self._waited_for(
                    lambda: _lib.opened("hr_dataset_open", self._config), lambda made: made.close()
                )
            self.lend_arrays(self._handle)
        return self._handle.value

    @property
    def away(self) -> bool:
        """Whether it, or a part of it, lies in a store of objects."""
        sources = [self._config, *self._config.get("parts", ())]
        told = any(away.is_url(source.get("path")) for source in sources)
        return told or bool(self._facts.get("away"))  # an index here, of containers there

    @property
    def cached(self) -> bool:
        """Whether loaders keep what they fetch from a store in a directory on disk."""
        return "cache" in self._config

    def _waited_for(self, call: Callable[[], Any], forgotten: Callable[[Any], object]) -> Any:
        if not self.away:
            return call()
        with away.within(self._timeout):
            return away.patiently(call, forgotten)

    def lend_arrays(self, handle: _lib.Handle) -> None:
        """Keeps the arrays in memory that its images are read from until an object that reads them
        is closed, whatever becomes of the dataset."""
        if self._arrays:
            handle.keep({number: one.array for number, one in enumerate(self._arrays)})

    def source_config(self) -> dict[str, Any] | None:
        """What the engine's jobs are told of it; None where they take no such dataset."""
        config = self._config
        if "array" in config:
            held.check_given_back(config)
        elif self.kind not in ("scanned", "contained") or "root" in config or "parts" in config:
            return None
        reading = ("backend", "verify_crc")
        return {name: value for name, value in config.items() if name not in reading}

    def further_images(self) -> list[str]:
        """The fields that are second images of pairs in folders."""
        return pairs.further_images(self._config)

    @property
    def info(self) -> dict[str, Any]:
        """What the engine says of the whole: rows, classes, kind, fields, shards, bytes, ..."""
        if not self._facts:
            facts = _lib.info("hr_dataset_info", self.handle, -1)
            facts.pop("fetched", None)
            self._facts = facts
        return self._facts

    @property
    def fetched(self) -> dict[str, float]:
        """Of a dataset in a store of objects, what opening and reading it has taken so far.

        Returns:
            ``requests``, ``bytes``, ``hits`` of the cache, ``retries``, ``hedges``,
            ``bytes_per_second`` while any request was under way, ``waited_s``, the seconds that
            requests took, of all together; nothing of a dataset that lies here. What loaders
            found in the cache is in their ``stats()``.
        """
        return dict(_lib.info("hr_dataset_info", self.handle, -1).get("fetched", {}))

    @property
    def classes(self) -> list[str]:
        return list(self.info["classes"])

    @property
    def kind(self) -> str:
        return str(self.info["kind"])

    @property
    def fingerprint(self) -> str:
        return str(self.info["fingerprint"])

    @property
    def parts(self) -> list[range]:
        """The numbers of the samples of each dataset of a concatenation; of any other, of all."""
        counts = [part["rows"] for part in self.info.get("parts", [self.info])]
        ends = list(itertools.accumulate(counts))
        return [range(end - count, end) for count, end in zip(counts, ends, strict=True)]

    def __len__(self) -> int:
        return int(self.info["rows"])

    def facts(self, index: int) -> dict[str, Any]:
        """What the index says of a sample, without reading its image.

        Returns:
            key, label, path, width, height, channels, codec, sampling, process, orientation,
            crc32c, verdict, length (bytes) and ``fields`` with the user's own values; of its seek
            points ``seek_length``, and ``seek_path`` and ``seek_offset`` where they are in a file.

        Raises:
            NoSampleError: there is no such sample; it is an ``IndexError``, too.
        """
        number, handle = self._number(index), self.handle
        found: dict[str, Any] = self._waited_for(
            lambda: _lib.info("hr_dataset_info", handle, number), len
        )
        types = {field["name"]: field["type"] for field in self.info["fields"]}
        found["fields"] = values.from_json(found.get("fields") or {}, types)
        for name in ("path", "seek_path"):
            if name in found:
                found[name] = arguments.found_path(found[name])
        return found

    def _number(self, index: Any) -> int:
        """The sample's number from the front, as lists count."""
        try:
            number = operator.index(index)
        except TypeError:
            raise arguments.refuse_type("index", index, "the number of a sample") from None
        count = len(self)
        if not -count <= number < count:
            raise NoSampleError(f"sample {number} of a dataset of {count:,}")
        return number % count

    def read(self, index: int) -> bytearray:
        """The encoded bytes of a sample, their checksum verified."""
        number, handle = self._number(index), self.handle
        return cast(
            "bytearray",
            self._waited_for(
                lambda: _lib.answer("hr_dataset_read", handle, number, guess=_MANY_IMAGES), len
            ),
        )

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            try:
                numbers = range(*index.indices(len(self)))
            except (TypeError, ValueError) as error:
                raise arguments.refuse_type("index", index, str(error)) from None
            return [self._sample(number) for number in numbers]
        return self._sample(self._number(index))

    def _sample(self, number: int) -> Sample:
        with away.within(self._timeout):  # of what is known of it and its bytes together
            found = self.facts(number)
            try:
                image = functional.decode(self.read(number), limits=self._config.get("limits"))
            except HeadraceError as failure:
                # The decoder saw bytes only; say whose they were.
                if failure.file is None:
                    failure.file, failure.record = found["path"], number
                    inside = failure.offset if failure.offset is not None else 0
                    failure.offset = int(found["offset"]) + inside
                    reason = failure.reason.removeprefix(f"at byte {inside}: ")  # it is said anew
                    failure.reason = (
                        f"{failure.file}: record {failure.record} ({found['key']}) at byte "
                        f"{failure.offset}: {reason}"
                    )
                raise
        sample = Sample((image, int(found["label"])))
        sample.key, sample.path, sample.fields = found["key"], found["path"], found["fields"]
        return sample

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(number) for number in range(len(self)))

    def close(self) -> None:
        """Closes the files. Loaders made of this dataset keep what they need."""
        if self._handle is None:
            return
        self._handle.close()
        self._arrays = []
        for array in held.within(self._config):
            array["memory"] = None

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        parts = self._config.get("parts")
        source = self._config.get("path", "files in place")
        if away.is_url(source):
            source = self.info["path"]  # without what is secret in it
        if "array" in self._config:
            inside = "memory" in self._config["array"]
            source = "an array in memory" if inside else "arrays in files"
        if "containers" in self._config:
            source = f"{len(self._config['containers'])} containers"
        if "locations" in self._config:
            source = f"{len(self._config['locations']['files'])} files by locations"
        if "pairs" in self._config:
            source = self._config["pairs"]["first"]
        if parts is not None:
            source = f"{len(parts)} datasets"
        return f"Dataset({str(source)!r}: {len(self):,} samples, {len(self.classes):,} classes)"


def _class_number(name: str, label: Any, numbers: Mapping[str, int]) -> int:
    """The number of a class that was given as such, or by name where there are names."""
    if not isinstance(label, str):
        return arguments.integer(name, label, 0)
    if label in numbers:
        return numbers[label]
    allowed = "one of the classes" if numbers else "a class number (or classes that have the name)"
    raise arguments.refuse(name, label, allowed)


def _part(name: str, part: Any) -> tuple[dict[str, Any], dict[str, Any], float | None]:
    """One part of a concatenation: what it consists of, its own options for reading, if any, and
    its timeout."""
    if not isinstance(part, Dataset):
        return {"path": arguments.path(name, part)}, {}, None
    config = part.__getstate__()["config"]
    own = (*_SETTINGS, "fetch_ahead", "cache", "cache_size")
    source = {key: value for key, value in config.items() if key not in own}
    source = held.copied(source)  # the part may be closed
    # Of files in place no CRC is known.
    in_place = any(name in source for name in ("paths", "pairs", "array"))
    settings = _SETTINGS[:-1] if in_place else _SETTINGS
    return source, {key: config.get(key) for key in settings}, part._timeout
