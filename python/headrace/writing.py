"""Makes datasets (``pack``, ``index``, ``Writer``) and checks them (``verify``)."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace._engine import arguments, containers
from headrace._making import jobs, packing, pillow, sources
from headrace._making.jobs import parse_size
from headrace._making.writer import Writer
from headrace.dataset import Dataset

if TYPE_CHECKING:
    from headrace._making.jobs import OnProgress

    Path = str | os.PathLike[str]

__all__ = ["Writer", "index", "pack", "parse_size", "verify"]

Writer.__module__ = __name__  # its home for users, and for pickles and help()


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
    """Packs images from any source into tar shards with an index.

    The packed dataset appears as a whole or not at all. Images keep their bytes, with two
    exceptions: images that Pillow has to decode (``through_pillow``), and images that ``resize`` or
    ``quality`` re-encodes. Re-encoding is lossy, and of the metadata keeps only the EXIF
    orientation. Equal input gives equal files.

    Args:
        source: a folder with one folder of images for each class; a CSV, JSON lines or Parquet list
            of files with a path, and optionally a label and fields, in each row; containers, as
            ``Dataset`` accepts them; a ``Dataset``; or any map-style Python dataset of pairs of
            image and label, or of dicts (docs/formats.md).
        destination: a directory that does not exist yet; or an s3://, gs:// or az:// address
            below which there is nothing.
        format, image, label, fields, classes, split: as for ``Dataset``, for containers and (except
            ``format``) for Python datasets.
        root: for an index of containers, as for ``Dataset``; for a list of files, the folder that
            relative paths begin at, None: the folder of the list.
        shard_size: maximal bytes of a shard, as a number or as text such as "256MB" or "1GiB".
        resize: LOSSY: the length of the shorter side in pixels, for images whose shorter side is
            longer; they are resized by Pillow's bilinear filter.
        quality: LOSSY: re-encode with this JPEG quality, 1 to 100; 90 with ``resize`` alone.
        baseline: rewrite progressive and arithmetic-coded JPEGs as baseline, which loses nothing
            and decodes faster. Files whose pixels this could change stay as they are.
        raw: store decoded pixels as binary PPM, about 3 bytes a pixel: the loader has nothing to
            decode.
        lossless: how the pixels of a Python dataset are stored: "png" as PNG; None: as PPM.
        through_pillow: what to do with images that Pillow decodes and the engine does not, such as
            AVIF or 16-bit TIFF. True: store the pixels of ``convert("RGB")`` as PNG, without loss.
            False: keep the files unchanged, with the verdict unsupported.
        seek: store seek points: where decoding may begin inside JPEGs, so that a crop costs little
            more than its own part. The pixels are the same without them.
        overwrite: replace a packed dataset at ``destination``.
        on_fault: what to do with files that are not good images: "keep" them with their verdict, or
            "raise" an error at the first one.
        allow_empty: whether class folders may be empty.
        path_column, label_column: the names of these columns in a list of files; None: "path",
            else "file_name", and "label"; then a Parquet file that contains images is a container.
        limits: as for ``Dataset``; None: those of ``source`` if it is a ``Dataset``, else the
            defaults. An image over a limit is kept with the verdict limit; a block over a limit
            ends the job.
        num_threads: threads; None: as many as cores.
        num_workers: processes that read a Python dataset, started as torch starts them; 0: this
            process reads it.
        on_progress: a function that is called several times a second with: samples done, samples in
            total (-1 while unknown), encoded bytes handled, faults found.
        storage: as for ``Dataset``, for a source or a destination in an object store.
        timeout: seconds that a store may take for each single wait: for a range, a page of a list,
            a part of an upload; None: the bounds of docs/object-stores.md.

    Returns:
        a dict: rows, bytes, shards, classes, counts by kind; "faults" with "total", their number,
        and "listed", the first thousand with file, offset and reason; and if they apply "lossy",
        "reencoded", "to_baseline", "through_pillow", and "raw" with "images", "bytes" and
        "from_bytes".

    Warns:
        UserWarning: files were kept that are not good images.

    Raises:
        ArgumentError: an argument is impossible, or an item of a Python dataset is; then the
            sentence has its index.
        MissingFileError, EmptyDatasetError, DuplicateKeyError, BadFileError: the source cannot be
            packed; the sentence says why.
        SystemFailure: the destination exists or cannot be written.
        UnreachableError, DeniedError: a store did not answer, or refused access.
        WaitTimeoutError: a store took longer than ``timeout``.
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
        begin = functools.partial(Writer.begun, told)
        return _warned(packing.pack(samples, begin, arguments.callback("on_progress", on_progress)))
    told |= listed | sources.containers_of(source, words) | limited
    if told.get("pillow"):
        told["extensions"] = pillow.extensions()
    return _of_folder(source, split, jobs.run("pack", told, num_threads, on_progress))


def _of_folder(source: Any, split: str | None, made: dict[str, Any]) -> dict[str, Any]:
    """Returns what was made, with the warning that ``Dataset`` gives for the same folder."""
    if split is None:  # with a split, its folders hold splits of containers
        containers.warn_of_splits(source, containers.class_folders(source, made["classes"]))
    return _warned(made)


KEPT = "kept with that verdict in the index"


def _warned(made: dict[str, Any]) -> dict[str, Any]:
    """Returns what was made, and warns of images that a loader will refuse."""
    if total := made["faults"]["total"]:
        images = "1 image is" if total == 1 else f"{total:,} images are"
        first = made["faults"]["listed"][0]
        name = arguments.printable(first["file"])
        why = first.get("reason") or first.get("text")
        said = f"{images} faulty, {KEPT}: {name}: {why}"
        more = ' (the result has all as "faults")' if total > 1 else ""
        containers.warn(said + more)
    return made


def _listed(allow_empty: bool, path_column: str | None, label_column: str | None) -> dict[str, Any]:
    """Returns the words that apply only to a folder and to a list of files."""
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
    """Writes an index for a folder of images or for containers, which are used in place.

    Run it again after files were added, removed or changed: an index knows only what was there, and
    a file or container with other bytes is an error when it is read.

    Args:
        source: a folder with one folder of images for each class; or containers, as ``Dataset``
            accepts them; or an index of containers, which is then written again.
        out: for containers: the directory of the index, which ``Dataset`` then opens. None: the
            folder of the containers if ``source`` is a folder, else NAME.hr beside them.
        format, image, label, fields, classes, split, root: for containers, as for ``Dataset``.
        index_dir: for a folder of images: the directory of the index; None: the folder itself.
        seek, on_fault, allow_empty, limits, num_threads, on_progress, storage, timeout: as in
            ``pack``.

    Returns:
        a dict about what was indexed, with the keys of ``pack``.

    Raises:
        ArgumentError, MissingFileError, EmptyDatasetError, DuplicateKeyError, BadFileError,
        SystemFailure, UnreachableError, DeniedError, WaitTimeoutError: as in ``pack``.
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
    return _of_folder(source, split, jobs.run("index", config, num_threads, on_progress))


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
    """Reads a whole dataset and compares every checksum, offset and seek point with its index.

    Args:
        source: a packed dataset, an index of containers, or a folder of images with its index.
        index_dir: where the folder's index is, if not in the folder.
        root: where the containers of an index are, if not where the index says.
        decode: also read the coded data of every image again, and compare its verdict.
        limits: as for ``Dataset``; an image over a limit is a fault.
        num_threads, on_progress, timeout: as in ``pack``.
        storage: as for ``Dataset``, for a dataset in an object store.

    Returns:
        a dict: "ok", whether the bytes are as recorded; what was read; "faults" with "total", their
        number, and "listed", the first ones with file, record, offset, what was expected and what
        was found; "known" and "known_faults", images that already were faulty when they were packed
        or indexed (docs/format.md).

    Raises:
        ArgumentError, MissingFileError, BadFileError, SystemFailure, UnreachableError, DeniedError,
        WaitTimeoutError: the dataset cannot be read at all.
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
