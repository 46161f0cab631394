"""Making datasets and checking them."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref
from typing import TYPE_CHECKING, Any

from headrace._arrays import opening
from headrace._engine import _lib, arguments, containers, scarce
from headrace._engine import fields as values_of
from headrace.dataset import Dataset

if TYPE_CHECKING:
    Path = str | os.PathLike[str]
    OnProgress = Callable[[int, int, int, int], None]

LONGEST_SIDE = 65500  # of a JPEG (docs/limits.md)
ON_FAULT = ("keep", "raise")
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def pack(
    source: Path | Sequence[Path] | Dataset,
    destination: Path,
    *,
    format: str | None = None,
    image: str | None = None,
    label: str | None = None,
    fields: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    shard_size: int | str = "256MB",
    resize: int | None = None,
    quality: int | None = None,
    baseline: bool = False,
    raw: bool = False,
    seek: bool = True,
    overwrite: bool = False,
    on_fault: str = "keep",
    allow_empty: bool = False,
    path_column: str = "path",
    label_column: str = "label",
    root: Path | None = None,
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Packs an image folder, a manifest of files, or containers, into tar shards with an index.

    Images keep their original bytes, unless ``resize`` or ``quality`` asks for new ones, which
    loses: pixels are encoded anew as 4:2:0 JPEG, and of the metadata only the EXIF orientation
    stays. Faulty images keep theirs in any case. Equal input gives equal files. ``destination``
    appears whole or not at all.

    Args:
        source: a folder with one folder of images a class; or a CSV or Parquet file with a path
            and a label a row, and any further columns as fields; or containers, as ``Dataset``
            takes them; or a ``Dataset`` of arrays, whose images are stored as decoded pixels.
        format, image, label, fields, classes, split: of containers, as for ``Dataset``.
        destination: a directory that does not exist yet.
        shard_size: bytes a shard may have, as a number or as text: "256MB", "1GiB".
        resize: LOSSY: re-encode with the shorter side so many pixels, by Pillow's bilinear filter.
            Images whose shorter side is no longer keep their bytes.
        quality: LOSSY: re-encode with this JPEG quality, 1 to 100; 90 where only ``resize`` is
            given. Without ``resize``, every image at its own size.
        baseline: rewrite progressive and arithmetic-coded JPEGs as baseline, which decodes faster.
            Nothing is lost: pixels and metadata stay. Files that this could change stay as they
            are.
        raw: store decoded pixels, as binary PPM: nothing is left to decode, and the dataset is
            several times as large, about 3 bytes a pixel. Without ``resize`` no pixel changes; of
            the metadata only the EXIF orientation stays.
        seek: note where decoding may begin inside baseline JPEGs, so that a crop costs little more
            than its own part; ``headrace info`` says what share of their bytes it adds. Pixels are
            the same without.
        overwrite: replace a packed dataset at ``destination``.
        on_fault: what becomes of files that are no good image: "keep" them, with their verdict in
            the index, or "raise" at the first.
        allow_empty: folders of classes may be without an image.
        path_column, label_column: what they are called in a CSV or Parquet file.
        root: where relative paths in it begin; None: beside it.
        num_threads: None: all cores.
        on_progress: called several times a second with samples done, samples in all (-1 while
            unknown), encoded bytes handled, faults found.

    Returns:
        What was written: rows, bytes, shards, classes, counts by kind, and faults: how many in
        "total", and the first thousand "listed" with file, offset and reason. Where images were
        re-encoded, "lossy" says how and "reencoded" how many; "to_baseline" counts the files made
        baseline; "raw" says how many "images" are stored as pixels, their "bytes", and the
        "from_bytes" of the files they come from.

    Raises:
        ArgumentError: an argument is impossible; the sentence names it.
        MissingFileError, EmptyDatasetError, DuplicateKeyError, BadFileError: about the source.
        SystemFailure: the destination exists or cannot be written.
    """
    config: dict[str, Any] = {
        **_output(destination, shard_size, seek, overwrite, on_fault),
        "resize": None if resize is None else arguments.integer("resize", resize, 1, LONGEST_SIDE),
        "quality": None if quality is None else arguments.integer("quality", quality, 1, 100),
        "baseline": arguments.flag("baseline", baseline),
        "raw": arguments.flag("raw", raw),
        "allow_empty": arguments.flag("allow_empty", allow_empty),
        "path_column": arguments.name("path_column", path_column),
        "label_column": arguments.name("label_column", label_column),
        "root": None if root is None else arguments.path("root", root),
        **_containers(source, format, image, label, fields, classes, split),
    }
    return _run("pack", config, num_threads, on_progress)


def index(
    source: Path | Sequence[Path],
    out: Path | None = None,
    *,
    format: str | None = None,
    image: str | None = None,
    label: str | None = None,
    fields: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    index_dir: Path | None = None,
    seek: bool = True,
    on_fault: str = "keep",
    allow_empty: bool = False,
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Writes an index for a folder or for containers, which are then used in place, without a copy.

    Args:
        source: a folder with one folder of images a class; or containers, as ``Dataset`` takes
            them.
        out: of containers: the directory of the index, which ``Dataset`` then opens. None: the
            folder of the containers where ``source`` is one, else NAME.hr beside them.
        format, image, label, fields, classes, split: of containers, as for ``Dataset``.
        index_dir: of a folder of images: where the index goes; None: into the folder itself.
        seek, on_fault, allow_empty, num_threads, on_progress: as in ``pack``.

    Returns:
        What was indexed, as ``pack`` says it.
    """
    config = {
        "index_dir": None if index_dir is None else arguments.path("index_dir", index_dir),
        "out": None if out is None else arguments.path("out", out),
        **_containers(source, format, image, label, fields, classes, split),
        "no_seek": not arguments.flag("seek", seek),
        "on_fault": arguments.choice("on_fault", on_fault, ON_FAULT),
        "allow_empty": arguments.flag("allow_empty", allow_empty),
    }
    return _run("index", config, num_threads, on_progress)


def verify(
    source: Path,
    *,
    index_dir: Path | None = None,
    root: Path | None = None,
    decode: bool = False,
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
) -> dict[str, Any]:
    """Reads a dataset whole and compares every checksum, offset and seek point with its index.

    Args:
        source: a packed dataset, or a folder with an index.
        index_dir: where the folder's index lies, if elsewhere.
        root: where the containers of an index are, if not where it says.
        decode: read the entropy data of every image anew, too.
        num_threads, on_progress: as in ``pack``.

    Returns:
        "ok", what was read, and "faults": how many in "total", and the first "listed", each with
        file, record, offset, what was expected and what was found.
    """
    config = {
        "index_dir": None if index_dir is None else arguments.path("index_dir", index_dir),
        "root": None if root is None else arguments.path("root", root),
        "decode": arguments.flag("decode", decode),
        "source": arguments.path("source", source),
    }
    return _run("verify", config, num_threads, on_progress)


def _containers(source: Path | Sequence[Path] | Dataset, *choices: Any) -> dict[str, Any]:
    """The source of a job, with what is said of its containers."""
    if isinstance(source, Dataset):
        found = source.array_config()
        if found is None:
            raise arguments.refuse("source", source, "a path, or a dataset of arrays,")
        if any(choice is not None for choice in choices):
            raise arguments.refuse("source", source, "no further choice for a dataset")
        return found
    found = opening.config(source, *choices, what="source")
    if found is not None:
        return found
    found = containers.config("source", source, *choices)
    if "path" in found:
        found["source"] = found.pop("path")
    return found


def _run(
    job: str,
    config: dict[str, Any],
    num_threads: int | None,
    on_progress: OnProgress | None,
) -> dict[str, Any]:
    arguments.callback("on_progress", on_progress)
    config["job"] = job
    if num_threads is not None:
        config["threads"] = arguments.integer("num_threads", num_threads, 1, 1024)
    given = {name: value for name, value in config.items() if value is not None}
    handle = _lib.opened("hr_job_start", given)
    progress, error = _lib.Progress(), _lib.Error()
    wait = _lib.library().hr_job_wait
    try:
        code, slice_ms = _lib.TIMEOUT, 0  # the first answer at once, for a bar to begin with
        while code == _lib.TIMEOUT:
            code = wait(handle.value, slice_ms, byref(progress), byref(error))
            slice_ms = _lib.SLICE_MS
            if on_progress is not None:
                on_progress(progress.done, progress.total, progress.bytes, progress.faults)
        if code:
            raise error.exception()
        scarce.warn_of(error.text)
        return _lib.info("hr_job_result", handle.value)
    finally:
        handle.close()  # cancels, where an exception (Ctrl-C) ended the wait


def _output(
    destination: Path, shard_size: int | str, seek: bool, overwrite: bool, on_fault: str
) -> dict[str, Any]:
    """What ``pack`` and ``Writer`` say alike of what they make."""
    return {
        "destination": arguments.path("destination", destination),
        "shard_bytes": parse_size(shard_size),
        "no_seek": not arguments.flag("seek", seek),
        "overwrite": arguments.flag("overwrite", overwrite),
        "on_fault": arguments.choice("on_fault", on_fault, ON_FAULT),
    }


def parse_size(size: int | str) -> int:
    """Bytes, of a number or of text such as "256MB" (10**6) or "256MiB" (2**20).

    Raises:
        ArgumentError: it is neither, or not positive.
    """
    allowed = "a positive number of bytes, or text such as '256MB',"
    if not isinstance(size, str):
        return arguments.integer("shard_size", size, 1)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]I?)?B?\s*", size.upper(), re.ASCII)
    number = float(found[1]) * _UNITS[found[2] or ""] if found else 0
    if not 1 <= number <= arguments.INT64_MAX:
        raise arguments.refuse("shard_size", size, allowed)
    return round(number)


class Writer:
    """A dataset written sample by sample::

        with hr.Writer("out.hr") as writer:
            writer.add(image=jpeg_bytes, label=3, caption="a cat")

    The dataset appears when the block ends, whole; after an exception nothing of it is left.

    Data that is no good image is kept, as ``pack`` keeps it, with its verdict in the index:
    ``finish`` warns of it, and ``result["faults"]`` names the samples. ``on_fault="raise"`` ends
    the writing at the first instead: a later ``add`` or ``finish`` raises, for images are looked at
    behind the caller's back.

    Attributes:
        result: after ``finish``, what was written, as ``pack`` says it; None before.

    Args:
        destination: a directory that does not exist yet.
        shard_size: bytes a shard may have, as in ``pack``.
        classes: the class names in the order of their numbers.
        fields: ``{"name": ..., "type": "int" | "float" | "str" | "bytes" | "array"}`` for each
            field; None: those of the first sample.
        seek, overwrite, on_fault: as in ``pack``.

    Raises:
        ArgumentError: an argument is impossible; the sentence names it.
        SystemFailure: the destination exists or cannot be written.
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
    ) -> None:
        config = _output(destination, shard_size, seek, overwrite, on_fault)
        if classes is not None:
            config["classes"] = arguments.each("classes", classes, arguments.name)
        if fields is not None:
            config["fields"] = arguments.each("fields", fields, _field)
        self.result: dict[str, Any] | None = None
        self._handle = _lib.opened("hr_writer_open", config)

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
            label: the number of its class, or the name where ``classes`` were given; None: none.
            key: its name, unique in the dataset; None: its number.
            values: fields: int (of 64 bits), float, str, bytes or numeric arrays. All samples have
                the same fields, of the types that the first one has.

        Raises:
            ArgumentError: ``image`` is not bytes, the label is negative or no class, the key is
                empty, or a field is missing, unknown, of another type or out of range.
            DuplicateKeyError: an earlier sample has the key.
        """
        data = _encoded(image)
        sample = {name: values_of.to_json(name, value) for name, value in values.items()}
        if label is not None:
            check = arguments.text if isinstance(label, str) else _class_number
            sample["label"] = check("label", label)
        if key is not None:
            sample["key"] = arguments.name("key", key)
        text = json.dumps(sample).encode()
        _lib.call("hr_writer_add", self._handle.value, data, len(data), text, len(text))

    def finish(self) -> dict[str, Any]:
        """Makes the dataset visible, whole; the end of the ``with`` block does it.

        Returns:
            What was written, as ``pack`` says it; also in ``result``.

        Warns:
            UserWarning: data that is no good image was kept.
        """
        return self._finish()

    def _finish(self) -> dict[str, Any]:
        try:
            scarce.warn_of(_lib.call("hr_writer_finish", self._handle.value))
            self.result = _lib.info("hr_job_result", self._handle.value)
        finally:
            self._handle.close()  # the writer is closed whatever comes of it
        faults = self.result["faults"]
        if faults["total"]:
            first = faults["listed"][0]
            warnings.warn(
                f"{faults['total']:,} of {self.result['rows']:,} samples are no good images and "
                f"were kept as such; the first is record {first['record']}: {first['reason']}",
                stacklevel=3,  # whoever called finish, or ends the block
            )
        return self.result

    def abort(self) -> None:
        """Leaves nothing of the dataset."""
        self._handle.close()

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
    """The bytes of an encoded file, from anything that holds bytes and is no picture already."""
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
