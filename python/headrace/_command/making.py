"""The commands that make datasets, and check them: ``pack``, ``index`` and ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from headrace import writing
from headrace._command import options, output, summary
from headrace._engine import containers


def pack(
    source: options.Images,
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION",
            parser=options.path,
            help="A directory that does not exist yet, or an address: s3://BUCKET/NAME.",
        ),
    ],
    shard_size: Annotated[str, typer.Option(help='Maximal size of a shard: "256MB".')] = "256MB",
    resize: Annotated[
        int | None,
        typer.Option(help="LOSSY: shrink larger images to this shorter side, and re-encode them."),
    ] = None,
    quality: Annotated[
        int | None,
        typer.Option(help="LOSSY: re-encode with this JPEG quality, 1 to 100; 90 with --resize."),
    ] = None,
    baseline: Annotated[
        bool, typer.Option(help="Rewrite progressive JPEGs as baseline, which loses nothing.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Store decoded pixels: the fastest to load, several times larger."
        ),
    ] = False,
    through_pillow: Annotated[
        bool, typer.Option(help="Decode images that only Pillow can read, and store their pixels.")
    ] = True,
    overwrite: Annotated[bool, typer.Option(help="Replace the packed dataset there.")] = False,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    pairs: options.Pairs = None,
    suffixes: options.Suffixes = ("", ""),
    no_seek: options.NoSeek = False,
    limit: options.Limits = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Pack a folder, a list (CSV, JSON lines, Parquet), or containers into shards with an index."""
    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    notice = ["Re-encoding: the packed images will not be the originals."]
    if resize is None and quality is None:
        notice.clear()
    with output.complaining(), output.bar("Packing", as_json) as bar:

        def show(done: int, total: int, bytes_: int, faults: int) -> None:
            if done and notice:  # only once it is true: before, the arguments may be refused
                output.err.print(notice.pop(), style="yellow", highlight=False)
            bar(done, total, bytes_, faults)

        made = writing.pack(
            options.source(source) if pairs is None else options.paired(source, pairs, suffixes),
            destination,
            **words._asdict(),
            shard_size=shard_size,
            resize=resize,
            quality=quality,
            baseline=baseline,
            raw=raw,
            through_pillow=through_pillow,
            overwrite=overwrite,
            seek=not no_seek,
            limits=options.limits(limit),
            num_threads=threads,
            on_progress=show,
            storage=options.storage(storage),
            timeout=timeout,
        )
    output.made(made, as_json)


def index(
    source: options.Folders,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", parser=options.path, help="Directory for an index of containers."
        ),
    ] = None,
    index_dir: options.IndexDir = None,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    no_seek: options.NoSeek = False,
    limit: options.Limits = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Write an index for a folder of images or for containers, to use them in place.

    Run it again after files were added, removed or changed.
    """
    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    with output.complaining(), output.bar("Indexing", as_json) as show:
        made = writing.index(
            options.source(source),
            out,
            **words._asdict(),
            index_dir=index_dir,
            seek=not no_seek,
            limits=options.limits(limit),
            num_threads=threads,
            on_progress=show,
            storage=options.storage(storage),
            timeout=timeout,
        )
    output.made(made, as_json)


def verify(
    source: options.Source,
    index_dir: options.IndexDir = None,
    root: options.Root = None,
    decode: Annotated[
        bool, typer.Option(help="Also read the coded data of every image again.")
    ] = False,
    limit: options.Limits = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Read a whole dataset and compare it with its index; exit status 1 if they differ."""
    with output.bar("Verifying", as_json) as show:
        found = writing.verify(
            source,
            index_dir=index_dir,
            root=root,
            decode=decode,
            limits=options.limits(limit),
            num_threads=threads,
            on_progress=show,
            storage=options.storage(storage),
            timeout=timeout,
        )
    output.result(found, as_json)
    if not as_json:
        total = found["faults"]["total"]
        found_none = "no fault found: all is as it was recorded"
        output.say(f"{summary.counted(total, 'fault')} found" if total else found_none)
        output.complain(summary.fault_lines(found["faults"], f"{summary.counted(total, 'fault')}:"))
        output.complain(summary.known_faults(found))
    if not found["ok"]:
        raise typer.Exit(1)
