"""Datasets: which samples there are, and access to each of them by its number."""

from __future__ import annotations

import itertools
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, overload

from headrace import functional
from headrace._arrays import held, opening
from headrace._dataset.configured import BACKENDS, Configured
from headrace._dataset.files import of_files
from headrace._dataset.parts import concatenated
from headrace._dataset.sample import Sample, tell_whose
from headrace._engine import _lib, arguments, away, containers, located, pairs
from headrace._engine import fields as values
from headrace.errors import HeadraceError, NoSampleError

if TYPE_CHECKING:
    Path = str | os.PathLike[str]

__all__ = ["Dataset", "Sample"]

_MANY_IMAGES = 1 << 17  # bytes: most encoded images fit in; larger ones are asked for again


class Dataset(Configured):
    """A packed dataset, a folder of images used in place, or containers in other formats.

    ``len(ds)`` is the number of samples and ``ds[i]`` a ``Sample``. Negative numbers count from the
    end, and ``ds[a:b:c]`` is a list of samples, all decoded. A dataset is pickled as its
    configuration and opened again when it is unpickled, so it may be sent to a spawned worker.

    Attributes:
        classes: the class names in the order of their numbers.
        kind: "packed", "indexed" (a folder with an index), "listed" (a folder without one),
            "scanned" (containers without an index), "contained" (an index of containers), "arrays"
            (arrays of pixels in files), "memory" (arrays in memory, ``from_arrays``) or
            "concatenated".
        fingerprint: a short text that differs when the samples differ.

    Args:
        path: one of: a directory (a packed dataset, an index, class folders, or images with a list
            of them, metadata.csv, .jsonl or .parquet); its address in an object store
            ("s3://bucket/train.hr", "https://host/train.hr"; docs/object-stores.md); containers (a
            tar, zip, TFRecord, RecordIO, FFCV, MDS, LMDB, LitData, Arrow or Parquet file, a folder
            of these, a pattern such as ``"train-{000000..000146}.tar"`` or ``"train-*.tar"``, or a
            list of paths); or arrays of uint8 (.npy, .npz, HDF5, Zarr, .safetensors, .pt, MNIST's
            IDX or CIFAR's binary files). The format is detected from the content
            (docs/formats.md). The headers of containers without an index are read when they are
            opened; ``headrace index`` does that once.
        format: the format, if the content is ambiguous: "webdataset", "tar" (of class folders),
            "zip", "tfrecord", "recordio", "beton", "mds", "lmdb", "litdata", "arrow" or "parquet",
            or for arrays "npy", "npz", "hdf5", "zarr", "idx", "safetensors", "pt", "cifar10" or
            "cifar100". None: it is detected.
        image: the column of the images; alternatives are separated by ";". None: a column with one
            of the usual names.
        label: the column of the labels; "json.NAME" is a member of JSON objects. None: a column
            with one of the usual names; without one, every label is -1. For arrays also another
            file that holds the labels, or the labels themselves.
        fields: the other columns to keep; None: all.
        classes: the names of the labels of containers; None: texts are sorted, and numbers have no
            names.
        split: which split to open, if names of files or folders tell several apart.
        layout: for arrays, "NHW", "NHWC" or "NCHW"; None: the axis of size 1, 3 or 4 is the
            channel.
        root: where the containers of an index are, if they are not where the index says.
        backend: how shards are read: "pread" reads into memory (this is what "auto" uses), and
            "mmap" maps files, which copies nothing and causes a page fault for each 4 KiB.
        index_dir: where ``headrace index --index-dir`` put a folder's index.
        verify_crc: compare each sample's bytes with the checksum in the index, or if there is none
            with that in its TFRecord or zip.
        limits: values that differ from the defaults, for ``max_pixels``, ``max_decoder_bytes``,
            ``max_record_bytes``, ``max_scans``, ``max_scan_blocks``, ``max_block_bytes`` and
            ``max_cached_bytes``; docs/limits.md says what each bounds.
        storage: options of an object store that differ from what the store's own tools use:
            "endpoint", "region", "path_style", "anonymous".
        fetch_ahead: bytes of memory for records that a loader fetches from a store ahead of its
            decode threads, as a number or as text; None: "512MB".
        cache: a directory on a local disk that keeps what loaders fetch from a store, for all
            processes of the machine; None: nothing touches the disk.
        cache_size: bytes that the cache may have, as a number or as text such as "200GB".
        timeout: seconds that opening a dataset in a store may take, and afterwards reading each
            sample; None: no limit. A loader has its own ``timeout``.

    Raises:
        MissingFileError: the path does not exist.
        WaitTimeoutError: a store took longer than ``timeout``.
        EmptyDatasetError: the dataset has no sample.
        ArgumentError: an argument is impossible; the sentence names it.
        BadFileError: an index, a manifest or a container is damaged.
        UnsupportedError: the format is not read by this version; the sentence names it.
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
        info = self.info
        containers.warn_of(info)
        if info["kind"] == "listed":
            containers.warn_of_splits(info["path"], info["classes"])

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
            labels: the class number of each file, or the class name if ``classes`` is given.
            classes: the class names in the order of their numbers; None: there are only numbers.
            backend, limits: as for ``Dataset``.

        Raises:
            ArgumentError: ``paths`` and ``labels`` differ in length, or a label is negative or not
                in ``classes``.
        """
        made = cls.__new__(cls)
        made._open(of_files(paths, labels, classes), backend, True, limits)
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
        """A dataset of images that each have a second image, in another folder.

        Two files are a pair if their paths relative to the two folders are the same without
        extensions. The folders are listed as ``ImageFolder`` lists its class folders, including
        files that lie directly in them; every label is -1. The second file's bytes are a field,
        "target" or "mask", which a loader moves with the image: ``labels={"target":
        hr.transforms.Image(scale=4)}`` or ``labels={"mask": hr.transforms.Mask()}``.

        Args:
            first: the folder of the images.
            second: the folder of the second images or masks.
            kind: "image": the second files are images, in the field "target". "mask": they are
                masks, PNG files with one channel or with a palette, in the field "mask".
            suffixes: the endings, before the extension, in which the names of the first and the
                second files differ: ``("x4", "")`` pairs ``0001x4.png`` with ``0001.png``. Files
                without their folder's suffix are ignored.
            unpaired: "error": a file without a partner is an error; "skip": it is left out.
            backend: as for ``Dataset``; second files are always read by "pread".
            limits: as for ``Dataset``; they hold for both files.

        Raises:
            MissingFileError: one of the folders does not exist.
            EmptyDatasetError: there is no pair.
            BadFileError: files have no partner, and the sentence names them and the folder; or two
                files of a folder differ only in their extension.
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
        """A dataset of images in an array in memory.

        Nothing is copied: the array is read in place, and kept alive until the dataset and its
        loaders are closed. Writing to it meanwhile changes the images. Pickling the dataset pickles
        the array.

        Args:
            images: a NumPy array, a memory map or a torch tensor on the CPU, of uint8 and of shape
                (N, H, W), (N, H, W, C) or (N, C, H, W) with 1, 3 or 4 channels. Four channels are
                RGBA, and the last one is ignored. Any strides are allowed. If the file of a memory
                map is truncated while it is read, the process ends with a bus error.
            labels: the class number of each image, or the class name if ``classes`` is given, as
                any sequence, array or tensor; None: every label is -1.
            classes: the class names in the order of their numbers; None: there are only numbers.
            layout: "NHW", "NHWC" or "NCHW"; None: the axis of size 1, 3 or 4 is the channel.
            limits: as for ``Dataset``.

        Raises:
            ArgumentError: the shape fits no layout or several, or the number of ``labels`` is not
                that of the images.
            UnsupportedError: the dtype is not uint8.
            EmptyDatasetError: there are no images.
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
        """A dataset of encoded images at known positions in files.

        Use it for a container format that Headrace does not know: if you know where its images
        are, you have a dataset that can be read, shuffled, indexed and packed like any other.

        Args:
            files: the files.
            table: columns of equal length, as a dict of NumPy arrays or an Arrow table, with one
                row for each sample. "file" is the number of one of ``files``; "offset" and
                "length" say where the image is in it, in bytes. Optional columns are "label"
                (numbers, or texts, which are sorted into classes; -1 or null for none) and "key"
                (texts, all different; without it CONTAINER/ROW). Every other column is a field:
                int, float, str or bytes.
            classes: the class names in the order of their numbers; None: the sorted texts.
            backend, limits: as for ``Dataset``.

        Raises:
            ArgumentError: a value is impossible, or outside its file; the sentence names the row.
            DuplicateKeyError: two rows have the same key.
            MissingFileError, SystemFailure: a file cannot be read.
            EmptyDatasetError: there is no row.
            UnsupportedError: a column has a type that fields cannot have.
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

        Nothing is copied, and opening it takes as long as opening its parts. Packed datasets,
        folders and lists of files may be mixed. Labels and keys stay those of each part. It has
        the fields that all parts have with the same type.

        Args:
            datasets: each a ``Dataset`` or the path of one. They are opened again, so they may be
                closed. ``backend``, ``verify_crc`` and ``limits`` must be the same in all. The
                smallest ``timeout`` is used.
            classes: the names of all labels in the order of their numbers; None: those of the
                parts, which must be the same in all parts that have any. An empty list: labels
                have no names, and the parts may have different classes.

        Raises:
            ArgumentError: there are no datasets, or their classes or settings differ.
        """
        made = cls.__new__(cls)
        made._open(*concatenated(datasets, classes))
        return made

    @property
    def classes(self) -> list[str]:
        return list(self.info["classes"])

    @property
    def fingerprint(self) -> str:
        return str(self.info["fingerprint"])

    @property
    def parts(self) -> list[range]:
        """For a concatenation the sample numbers of each dataset; otherwise one range of all."""
        counts = [part["rows"] for part in self.info.get("parts", [self.info])]
        ends = list(itertools.accumulate(counts))
        return [range(end - count, end) for count, end in zip(counts, ends, strict=True)]

    def __len__(self) -> int:
        return int(self.info["rows"])

    def facts(self, index: int) -> dict[str, Any]:
        """Facts about a sample from the index, without reading its image.

        Returns:
            key, label, path, width, height, channels, codec, sampling, process, orientation,
            crc32c, verdict, length (in bytes) and ``fields`` with the user's own values;
            ``seek_length`` of its seek points, and ``seek_path`` and ``seek_offset`` if they are in
            a file. docs/format.md explains them.

        Raises:
            NoSampleError: there is no such sample; it is also an ``IndexError``.
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
        """Returns the sample's number counted from the front; negative ones count as in lists."""
        try:
            number = operator.index(index)
        except TypeError:
            raise arguments.refuse_type("index", index, "the number of a sample") from None
        count = len(self)
        if not -count <= number < count:
            raise NoSampleError(f"there is no sample {number}: the dataset has {count:,} samples")
        return number % count

    def read(self, index: int) -> bytearray:
        """The encoded bytes of a sample, with their checksum verified.

        Raises:
            NoSampleError: there is no such sample.
            ChecksumError, TruncatedError, SystemFailure: the bytes are damaged or cannot be read.
        """
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
        with away.within(self._timeout):  # bounds reading its facts and its bytes together
            found = self.facts(number)
            try:
                image = functional.decode(self.read(number), limits=self._config.get("limits"))
            except HeadraceError as failure:
                tell_whose(failure, number, found)
                raise
        sample = Sample((image, int(found["label"])))
        sample.key, sample.path, sample.fields = found["key"], found["path"], found["fields"]
        return sample

    def __iter__(self) -> Iterator[Sample]:
        return (self._sample(number) for number in range(len(self)))

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        size = f"{len(self):,} samples, {len(self.classes):,} classes"
        return f"Dataset({self._described()!r}: {size})"
