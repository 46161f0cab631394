"""Making datasets and checking them."""

from __future__ import annotations

import functools
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace._engine import _lib, arguments, away, containers, scarce
from headrace._engine import fields as values_of
from headrace._making import jobs, packing, pillow, sources
from headrace._making.jobs import parse_size
from headrace.dataset import Dataset

if TYPE_CHECKING:
    from headrace._making.jobs import OnProgress

    Path = str | os.PathLike[str]

__all__ = ["Writer", "index", "pack", "parse_size", "verify"]


def pack(
    source: Any,
    destination: Path,
    *,
    format: str | None = None,
    image: str | None = None,
    label: str | None = None,
    fields: Sequence[str] | None = None,
    classes: Sequence[str] | None = None,
    split: str | None = None,
    root: Path | None = None,
    shard_size: int | str = "256MB",
    resize: int | None = None,
    quality: int | None = None,
    baseline: bool = False,
    raw: bool = False,
    lossless: str | None = None,
    through_pillow: bool = True,
    seek: bool = True,
    overwrite: bool = False,
    on_fault: str = "keep",
    allow_empty: bool = False,
    path_column: str | None = None,
    label_column: str | None = None,
    limits: Mapping[str, int] | None = None,
    num_threads: int | None = None,
    num_workers: int = 0,
    on_progress: OnProgress | None = None,
    storage: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Packs images of anywhere into tar shards with an index, which appears whole or not at all.

    Images keep their bytes, unless Pillow has to decode them (``through_pillow``), or ``resize`` or
    ``quality`` asks for new ones, which loses: of the metadata only the EXIF orientation stays.
    Equal input gives equal files.

    Args:
        source: a folder with one folder of images a class; a CSV or Parquet file with a path, a
            label and any fields a row; containers, as ``Dataset`` takes them; a ``Dataset``; or any
            map-style dataset of pairs of image and label, or of dicts (docs/formats.md).
        destination: a directory that does not exist yet; or an address of s3://, gs:// or az://,
            below which nothing lies.
        format, image, label, fields, classes, split: of containers, as for ``Dataset``, and but for
            format of Python's datasets.
        root: of an index of containers, as for ``Dataset``; of a list of files where relative paths
            begin, None: beside it.
        shard_size: bytes a shard may have, as a number or as text: "256MB", "1GiB".
        resize: LOSSY: the shorter side in pixels, by Pillow's bilinear filter, where it is longer.
        quality: LOSSY: re-encode with this JPEG quality, 1 to 100; 90 with ``resize`` alone.
        baseline: rewrite progressive and arithmetic-coded JPEGs as baseline, which loses nothing
            and decodes faster. Files that this could change stay as they are.
        raw: store decoded pixels, about 3 bytes a pixel, as binary PPM: nothing is left to decode.
        lossless: "png": what a Python dataset has as pixels is stored as PNG; None: as PPM.
        through_pillow: of images that the engine does not decode and Pillow does, as AVIF or TIFF
            of 16 bits, store the pixels of ``convert("RGB")`` as PNG, which loses none of them;
            False: keep them as they are, with the verdict unsupported.
        seek: note where decoding may begin inside JPEGs, so that a crop costs little more than its
            own part. Pixels are the same without.
        overwrite: replace a packed dataset at ``destination``.
        on_fault: "keep" files that are no good image, with that verdict, or "raise" at the first.
        allow_empty: folders of classes may be without an image.
        path_column, label_column: what they are called in a list of files; None: "path" and
            "label", and a Parquet file that has images itself is a container.
        limits: as for ``Dataset``, and None: the dataset's own where ``source`` is one. An image
            over one is kept with that verdict; a block over one ends the job.
        num_threads: None: all cores.
        num_workers: processes that read a Python dataset, started as torch's; 0: this one.
        on_progress: called several times a second with samples done, samples in all (-1 while
            unknown), encoded bytes handled, faults found.
        storage: of a source or destination in a store of objects, as for ``Dataset``.
        timeout: seconds that a store may take for each thing that is waited for: a range, a page of
            a list, a part of an upload; None: as docs/object-stores.md says.

    Returns:
        rows, bytes, shards, classes, counts by kind; "faults": how many in "total", the first
        thousand "listed" with file, offset and reason; where it applies "lossy", "reencoded",
        "to_baseline", "through_pillow", and "raw" with its "images", "bytes" and "from_bytes".

    Raises:
        ArgumentError: an argument is impossible, or an item of a dataset, whose index it says.
        MissingFileError, EmptyDatasetError, DuplicateKeyError, BadFileError: about the source.
        SystemFailure: the destination exists or cannot be written.
        UnreachableError, DeniedError: what a store answered.
        WaitTimeoutError: it took longer than ``timeout``.
    """
    told = jobs.output(destination, shard_size, seek, overwrite, on_fault, storage, timeout)
    told |= jobs.recoding(resize, quality, baseline, raw)
    limited = jobs.limits(limits)
    if arguments.flag("through_pillow", through_pillow):
        told["pillow"] = pillow.command()
        if isinstance(source, Dataset):
            told["pillow_fields"] = source.further_images()
    listed = _listed(allow_empty, path_column, label_column)
    words = containers.Words(format, image, label, fields, classes, split, root)
    if (samples := sources.samples(source, words, lossless, num_workers)) is not None:
        told |= limited | {"threads": jobs.threads(num_threads)}
        begin = functools.partial(Writer._begun, told)
        return _warned(packing.pack(samples, begin, arguments.callback("on_progress", on_progress)))
    told |= listed | sources.containers_of(source, words) | limited
    if told.get("pillow"):
        told["extensions"] = pillow.extensions()
    return _warned(jobs.run("pack", told, num_threads, on_progress))


KEPT = "kept with that verdict in the index"


def _warned(made: dict[str, Any]) -> dict[str, Any]:
    """What was made, with a warning of images that a loader will refuse."""
    if total := made["faults"]["total"]:
        images = "1 image is" if total == 1 else f"{total:,} images are"
        first = made["faults"]["listed"][0]
        name = arguments.printable(first["file"])
        why = first.get("reason") or first.get("text")
        said = f"{images} faulty, {KEPT}: {name}: {why}"
        more = ' (the result has all as "faults")' if total > 1 else ""
        warnings.warn(said + more, stacklevel=3)
    return made


def _listed(allow_empty: bool, path_column: str | None, label_column: str | None) -> dict[str, Any]:
    """What is said of a folder and of a list of files alone."""
    return {
        "allow_empty": arguments.flag("allow_empty", allow_empty),
        **{
            name: None if value is None else arguments.name(name, value)
            for name, value in (("path_column", path_column), ("label_column", label_column))
        },
    }


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
    root: Path | None = None,
    index_dir: Path | None = None,
    seek: bool = True,
    on_fault: str = "keep",
    allow_empty: bool = False,
    limits: Mapping[str, int] | None = None,
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
    storage: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Writes an index for a folder or for containers, which are then used in place, without a copy.

    Args:
        source: a folder with one folder of images a class; or containers, as ``Dataset`` takes
            them; or an index of containers, which is written anew.
        out: of containers: the directory of the index, which ``Dataset`` then opens. None: the
            folder of the containers where ``source`` is one, else NAME.hr beside them.
        format, image, label, fields, classes, split, root: of containers, as for ``Dataset``.
        index_dir: of a folder of images: where the index goes; None: into the folder itself.
        seek, on_fault, allow_empty, limits, num_threads, on_progress, storage, timeout: as in
            ``pack``.

    Returns:
        What was indexed, as ``pack`` says it.
    """
    words = containers.Words(format, image, label, fields, classes, split, root)
    config = {
        "index_dir": None if index_dir is None else arguments.path("index_dir", index_dir),
        "out": None if out is None else arguments.path("out", out),
        **sources.containers_of(source, words),
        "no_seek": not arguments.flag("seek", seek),
        "on_fault": arguments.choice("on_fault", on_fault, jobs.ON_FAULT),
        "allow_empty": arguments.flag("allow_empty", allow_empty),
        **jobs.of_store(storage, timeout),
        **jobs.limits(limits),
    }
    return _warned(jobs.run("index", config, num_threads, on_progress))


def verify(
    source: Path,
    *,
    index_dir: Path | None = None,
    root: Path | None = None,
    decode: bool = False,
    limits: Mapping[str, int] | None = None,
    num_threads: int | None = None,
    on_progress: OnProgress | None = None,
    storage: Mapping[str, Any] | None = None,
    timeout: float | None = None,
) -> dict[str, Any]:
    """Reads a dataset whole and compares every checksum, offset and seek point with its index.

    Args:
        source: a packed dataset, an index of containers, or a folder of images with its index.
        index_dir: where the folder's index lies, if elsewhere.
        root: where the containers of an index are, if not where it says.
        decode: read the entropy data of every image anew, too.
        limits: as for ``Dataset``; what is over one is a fault.
        num_threads, on_progress, timeout: as in ``pack``.
        storage: of a dataset in a store of objects, as for ``Dataset``.

    Returns:
        "ok", what was read, and "faults": how many in "total", and the first "listed", each with
        file, record, offset, what was expected and what was found.
    """
    config = {
        "index_dir": None if index_dir is None else arguments.path("index_dir", index_dir),
        "root": None if root is None else arguments.path("root", root),
        "decode": arguments.flag("decode", decode),
        "source": arguments.path("source", source),
        **jobs.of_store(storage, timeout),
        **jobs.limits(limits),
    }
    return jobs.run("verify", config, num_threads, on_progress)


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
        destination: a directory that does not exist yet, or an address, as in ``pack``.
        shard_size: bytes a shard may have, as in ``pack``.
        classes: the class names in the order of their numbers.
        fields: ``{"name": ..., "type": "int" | "float" | "str" | "bytes" | "array"}`` for each
            field; None: those of the first sample.
        seek, overwrite, on_fault, storage, timeout: as in ``pack``.

    Raises:
        ArgumentError: an argument is impossible; the sentence names it.
        SystemFailure: the destination exists or cannot be written.
        UnreachableError, DeniedError: what a store answered.
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
    def _begun(cls, config: dict[str, Any], classes: list[str] | None) -> Writer:
        """One that also encodes images anew, as ``pack`` may be asked to."""
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
        told = (self._handle.value, data, len(data), text, len(text))
        self._waiting(functools.partial(_lib.call, "hr_writer_add", *told), lambda _: None)

    def finish(self) -> dict[str, Any]:
        """Makes the dataset visible, whole; the end of the ``with`` block does it.

        Returns:
            What was written, as ``pack`` says it; also in ``result``.

        Warns:
            UserWarning: data that is no good image was kept.
        """
        return self._finish()

    def _end(self) -> dict[str, Any]:
        try:
            finish = functools.partial(_lib.call, "hr_writer_finish", self._handle.value)
            scarce.warn_of(self._waiting(finish, lambda _: None))
            self.result = _lib.info("hr_job_result", self._handle.value)
        finally:
            _lib.end(self._handle)  # the writer is closed whatever comes of it
        return self.result

    def _finish(self) -> dict[str, Any]:
        self.result = self._end()
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
        """Leaves nothing of the dataset.

        Warns:
            UserWarning: what was uploaded to a store could not be removed.
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
