"""The commands that show what a dataset holds: ``info`` and ``view``."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from headrace._command import inspecting, options, output
from headrace._engine import containers
from headrace.dataset import Dataset
from headrace.errors import ArgumentError, HeadraceError, UnsupportedError, one_line


def info(
    source: options.Sources,
    sample: Annotated[int | None, typer.Option(help="Describe the sample of this number.")] = None,
    index_dir: options.IndexDir = None,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    layout: options.Layout = None,
    root: options.Root = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
    as_json: options.AsJSON = False,
) -> None:
    """Describe a dataset: samples, classes, fields, formats, and columns of containers."""
    given = options.source(source)
    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    with output.complaining():
        try:
            dataset = Dataset(
                given,
                **words._asdict(),
                layout=layout,
                index_dir=index_dir,
                storage=options.storage(storage),
                timeout=timeout,
                cache=cache,
                cache_size=cache_size,
            )
        except (ArgumentError, UnsupportedError):
            if sample is None and (found := inspecting.looked_at(given, words, storage, timeout)):
                output.result(found, as_json)
            raise
        with dataset:
            found = dataset.info if sample is None else dataset.facts(sample)
            if sample is None and dataset.kind in ("scanned", "contained"):
                with suppress(HeadraceError):  # a field cannot be read
                    found = {**found, "first_key": dataset.facts(0)["key"]}
            if sample is None:
                found = inspecting.with_path(found, given)
            if sample is None and dataset.away:
                found = {**found, "fetched": dataset.fetched}
            output.result(found, as_json)
            own = dataset.kind in ("packed", "contained") and not dataset.away
            faults = _shard_faults(source[0], root) if own else []
    output.complain(faults)
    if faults:
        raise typer.Exit(1)


def _shard_faults(source: Path, root: Path | None) -> list[str]:
    """Lists shards that are missing or have changed their length; opening a dataset checks none."""
    faults = []
    manifest = json.loads((source / "headrace.json").read_text())
    folder = root or source / manifest.get("root", "")
    for shard in manifest["shards"]:
        path = folder / shard["name"]
        if not path.exists():
            faults.append(f"{path}: this shard is missing")
        elif path.stat().st_size != shard["size"]:
            found = f"{path.stat().st_size:,} bytes, {shard['size']:,} were expected"
            faults.append(f"{path}: this shard has {found}")
    return faults


def view(
    source: options.Sources,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", parser=options.path, help="The PNG to write.")
    ],
    count: Annotated[int, typer.Option(help="Number of samples.")] = 24,
    size: Annotated[int, typer.Option(help="Height and width of each image, in pixels.")] = 160,
    seed: Annotated[int, typer.Option(help="Seed of the random crops.")] = 0,
    views: Annotated[int, typer.Option(help="Crops of each sample, side by side.")] = 1,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    timeout: options.Timeout = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
) -> None:
    """Write a picture of an augmented batch with its labels (a contact sheet)."""
    from headrace._command.sheet import contact_sheet

    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    with output.complaining():
        contact_sheet(
            options.source(source),
            picture,
            count,
            size,
            seed,
            views,
            **words._asdict(),
            storage=options.storage(storage),
            timeout=timeout,
            cache=cache,
            cache_size=cache_size,
        )
    output.say(one_line(f"Wrote {picture}"))
