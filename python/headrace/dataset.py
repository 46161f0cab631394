"""Datasets: which samples there are, and any one of them by its number."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from headrace import _lib, fields, functional
from headrace.errors import ArgumentError, HeadraceError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Path = str | os.PathLike[str]


class Sample(tuple[Any, int]):
    """One sample, which unpacks as ``image, label``.

    Attributes:
        image: uint8 array of shape (height, width, 3), RGB.
        label: the class number.
        key: the sample's name, unique in its dataset.
        path: the file that holds it: a shard, or the image itself.
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
    """A packed directory, or a folder of images used in place.

    ``len(ds)`` is the number of samples and ``ds[i]`` a ``Sample``; negative numbers count from the
    end. A dataset pickles as its configuration and opens again where it is unpickled, so it may go
    to a spawned worker.

    Attributes:
        classes: the class names in the order of their numbers.
        kind: "packed", "indexed" (a folder with an index) or "listed" (a folder as it is).
        fingerprint: a short text that differs when the samples differ.

    Args:
        path: the directory.
        backend: how shards are read: "auto", "mmap" or "pread".
        index_dir: where ``headrace index --index-dir`` put a folder's index.
        verify_crc: compare each sample's stored CRC-32C with its bytes.
        limits: ``max_pixels``, ``max_decoder_bytes``, ``max_record_bytes``, ``max_scans``, where
            they should differ from the defaults.

    Raises:
        MissingFileError: the directory does not exist.
        EmptyDatasetError: it holds no sample.
        BadFileError: its index or manifest is not what it claims to be.
    """

    def __init__(
        self,
        path: Path,
        *,
        backend: str = "auto",
        index_dir: Path | None = None,
        verify_crc: bool = True,
        limits: Mapping[str, int] | None = None,
    ) -> None:
        config: dict[str, Any] = {"path": os.fspath(path)}
        if index_dir is not None:
            config["index_dir"] = os.fspath(index_dir)
        self._open(config, backend, verify_crc, limits)

    @classmethod
    def from_files(
        cls,
        paths: Sequence[Path],
        labels: Sequence[int],
        classes: Sequence[str] | None = None,
        *,
        backend: str = "auto",
        limits: Mapping[str, int] | None = None,
    ) -> Dataset:
        """A dataset of image files where they are.

        Args:
            paths: the files.
            labels: a class number for each.
            classes: the class names; None: the numbers.

        Raises:
            ArgumentError: ``paths`` and ``labels`` differ in length, or a label is negative.
        """
        if len(paths) != len(labels):
            raise ArgumentError(f"{len(paths)} paths and {len(labels)} labels were given")
        config: dict[str, Any] = {
            "paths": [os.fspath(path) for path in paths],
            "labels": [operator.index(label) for label in labels],
        }
        if classes is not None:
            config["classes"] = list(classes)
        made = cls.__new__(cls)
        made._open(config, backend, True, limits)
        return made

    def _open(
        self,
        config: dict[str, Any],
        backend: str,
        verify_crc: bool,
        limits: Mapping[str, int] | None,
    ) -> None:
        config |= {"backend": backend, "verify_crc": verify_crc}
        if limits:
            config["limits"] = dict(limits)
        self.__setstate__({"config": config})
        self.handle  # noqa: B018 - opens it: a bad path is refused here

    def __getstate__(self) -> dict[str, Any]:
        return {"config": self._config}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._config: dict[str, Any] = state["config"]
        self._handle: _lib.Handle | None = None
        self._facts: dict[str, Any] = {}

    @property
    def handle(self) -> int:
        """The engine's handle of this dataset, which is opened where it is not yet."""
        if self._handle is None:
            self._handle = _lib.opened("hr_dataset_open", self._config)
        return self._handle.value

    @property
    def info(self) -> dict[str, Any]:
        """What the engine says of the whole: rows, classes, kind, fields, shards, bytes, ..."""
        if not self._facts:
            self._facts = _lib.info("hr_dataset_info", self.handle, -1)
        return self._facts

    @property
    def classes(self) -> list[str]:
        return list(self.info["classes"])

    @property
    def kind(self) -> str:
        return str(self.info["kind"])

    @property
    def fingerprint(self) -> str:
        return str(self.info["fingerprint"])

    def __len__(self) -> int:
        return int(self.info["rows"])

    def facts(self, index: int) -> dict[str, Any]:
        """What the index says of a sample, without reading its image.

        Returns:
            key, label, path, width, height, channels, codec, sampling, process, orientation,
            crc32c, verdict, length (bytes) and ``fields`` with the user's own values.

        Raises:
            IndexError: there is no such sample.
        """
        count, number = len(self), operator.index(index)
        if not -count <= number < count:
            raise IndexError(f"sample {number} of a dataset of {count}")
        found = _lib.info("hr_dataset_info", self.handle, number % count)
        types = {field["name"]: field["type"] for field in self.info["fields"]}
        found["fields"] = fields.from_json(found.get("fields") or {}, types)
        return found

    def read(self, index: int) -> bytearray:
        """The encoded bytes of a sample, their checksum verified."""
        found = self.facts(index)
        number = operator.index(index) % len(self)
        return _lib.answer(
            "hr_dataset_read", self.handle, number, guess=max(int(found["length"]), 1)
        )

    def __getitem__(self, index: int) -> Sample:
        found = self.facts(index)
        try:
            image = functional.decode(self.read(index), limits=self._config.get("limits"))
        except HeadraceError as failure:
            # The decoder saw bytes only; say whose they were.
            if failure.file is None:
                failure.file, failure.record = found["path"], operator.index(index) % len(self)
                inside = failure.offset if failure.offset is not None else 0
                failure.offset = int(found["offset"]) + inside
                failure.reason = (
                    f"{failure.file}: record {failure.record} ({found['key']}) at byte "
                    f"{failure.offset}: {failure.reason}"
                )
            raise
        sample = Sample((image, int(found["label"])))
        sample.key, sample.path, sample.fields = found["key"], found["path"], found["fields"]
        return sample

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def close(self) -> None:
        """Closes the files. Loaders made of this dataset keep what they need."""
        if self._handle is not None:
            self._handle.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        source = self._config.get("path", "files in place")
        return f"Dataset({str(source)!r}: {len(self):,} samples, {len(self.classes):,} classes)"
