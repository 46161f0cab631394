"""Making datasets and checking them."""

from __future__ import annotations

import functools
import os
import warnings
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

Writer.__module__ = __name__  # its home for users, and so for pickles and help()


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
        begin = functools.partial(Writer.begun, told)
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
