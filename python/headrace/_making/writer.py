"""``headrace.Writer``: a dataset that is written sample by sample."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace._engine import _lib, arguments, away, containers, scarce
from headrace._engine import fields as values_of
from headrace._making import jobs

if TYPE_CHECKING:
    Path = str | os.PathLike[str]


class Writer:
    """Writes a packed dataset sample by sample::

        with hr.Writer("out.hr") as writer:
            writer.add(image=jpeg_bytes, label=3, caption="a cat")

    The whole dataset appears when the block ends. After an exception nothing of it is left.

    Data that is not a good image is kept, as by ``pack``, with its verdict in the index. ``finish``
    warns of it, and ``result["faults"]`` names the samples. With ``on_fault="raise"`` the first
    such sample is an error instead. It is raised by a later ``add`` or ``finish``, because images
    are inspected in other threads.

    Attributes:
        result: after ``finish``, a dict about what was written, with the keys of ``pack``; None
            before.

    Args:
        destination: a directory that does not exist yet, or an address, as in ``pack``.
        shard_size: maximal bytes of a shard, as in ``pack``.
        classes: the class names in the order of their numbers.
        fields: ``{"name": ..., "type": "int" | "float" | "str" | "bytes" | "array"}`` for each
            field; None: the fields of the first sample.
        seek, overwrite, on_fault, storage, timeout: as in ``pack``.

    Raises:
        ArgumentError: an argument is impossible; the sentence names it.
        SystemFailure: the destination exists or cannot be written.
        UnreachableError, DeniedError: a store did not answer, or refused access.
    """

    def __init__(
        self,
        destination: Path,
        *,
        shard_size: int | str = "256MB",
        classes: Sequence[str] | None = None,
        fields: Sequence[Mapping[str, Any]] | None = None,
        seek: bool = True,
        overwrite: bool = False,
        on_fault: str = "keep",
        storage: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> None:
        config = jobs.output(destination, shard_size, seek, overwrite, on_fault, storage, timeout)
        if classes is not None:
            config["classes"] = arguments.each("classes", classes, arguments.name)
        if fields is not None:
            config["fields"] = arguments.each("fields", fields, _field)
        self._open(config)

    def _open(self, config: dict[str, Any]) -> None:
        self.result: dict[str, Any] | None = None
        given = {name: value for name, value in config.items() if value is not None}
        self._waiting = away.waiting(given["destination"])
        self._handle = self._waiting(
            functools.partial(_lib.opened, "hr_writer_open", given), lambda made: made.close()
        )

    @classmethod
    def begun(cls, config: dict[str, Any], classes: list[str] | None) -> Writer:
        """Makes a writer that also encodes images again, as ``pack`` may be asked to."""
        made = cls.__new__(cls)
        made._open({**config, "classes": classes})
        return made

    def add(
        self,
        /,
        image: bytes | bytearray | memoryview,
        label: int | str | None = None,
        *,
        key: str | None = None,
        **values: Any,
    ) -> None:
        """Adds a sample. A sample that is refused leaves the writer as it was.

        Args:
            image: the encoded file, which is stored as it is.
            label: the class number, or the class name if ``classes`` was given; None: no label.
            key: the sample's name, unique in the dataset; None: its number.
            values: the fields: int (of 64 bits), float, str, bytes or numeric arrays. All samples
                have the same fields, with the types of the first sample.

        Raises:
            ArgumentError: ``image`` is not bytes, the label is negative or not a class, the key is
                empty, or a field is missing, unknown, of another type or out of range.
            DuplicateKeyError: an earlier sample has the same key.
            BadImageError, TruncatedError, UnsupportedError, LimitError: with
                ``on_fault="raise"``, an earlier sample is not a good image.
        """
        data = _encoded(image)
        sample = {name: values_of.to_json(name, value) for name, value in values.items()}
        if label is not None:
            check = arguments.text if isinstance(label, str) else _class_number
            sample["label"] = check("label", label)
        if key is not None:
            sample["key"] = arguments.name("key", key)
        text = json.dumps(sample).encode()
        told = (self._handle.value, data, len(data), text, len(text))
        self._waiting(functools.partial(_lib.call, "hr_writer_add", *told), lambda _: None)

    def finish(self) -> dict[str, Any]:
        """Makes the whole dataset visible. The end of the ``with`` block calls it.

        Returns:
            a dict about what was written, with the keys of ``pack``; it is also in ``result``.

        Warns:
            UserWarning: data that is not a good image was kept, or something is left in the store
                that belongs to no dataset.
        """
        return self._finish()

    def _end(self) -> dict[str, Any]:
        try:
            finish = functools.partial(_lib.call, "hr_writer_finish", self._handle.value)
            scarce.warn_of(self._waiting(finish, lambda _: None))
            self.result = _lib.info("hr_job_result", self._handle.value)
        finally:
            _lib.end(self._handle)  # the writer is closed in any case
        containers.warn_of(self.result)
        return self.result

    def _finish(self) -> dict[str, Any]:
        self.result = self._end()
        faults = self.result["faults"]
        if faults["total"]:
            first = faults["listed"][0]
            warnings.warn(
                f"{faults['total']:,} of {self.result['rows']:,} samples are damaged or "
                f"unsupported images, and were stored unchanged; the first is record "
                f"{first['record']}: {first['reason']}",
                stacklevel=3,  # the caller of finish, or the end of the block
            )
        return self.result

    def abort(self) -> None:
        """Removes everything that was written so far.

        Warns:
            UserWarning: some uploaded objects could not be removed.
        """
        _lib.end(self._handle)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        elif self._handle.close.alive:
            self._finish()


def _field(name: str, value: Any) -> dict[str, Any]:
    found = arguments.mapping(name, value)
    arguments.name(f"{name}['name']", found.get("name"))
    arguments.choice(f"{name}['type']", found.get("type"), values_of.TYPES)
    return found


def _class_number(name: str, label: Any) -> int:
    return arguments.integer(name, label, 0)


def _encoded(image: Any) -> bytes:
    """The bytes of an encoded file, from any object that holds bytes and is not decoded pixels."""
    try:
        view = memoryview(image)
    except TypeError:
        hint = (
            " (of a path: Path(...).read_bytes())" if isinstance(image, str | os.PathLike) else ""
        )
        raise arguments.refuse_type("image", image, f"the bytes of an image file{hint}") from None
    if view.ndim != 1 or view.itemsize != 1:
        raise arguments.refuse_type("image", image, "the bytes of an image file, not its pixels,")
    return bytes(view)
