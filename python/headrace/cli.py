"""The command line: ``headrace``, and ``python -m headrace``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from headrace import writing
from headrace.dataset import Dataset
from headrace.errors import HeadraceError

app = typer.Typer(
    name="headrace",
    help="Pack photographs, look at datasets, and measure how fast they load.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
out, err = Console(), Console(stderr=True)

Source = Annotated[Path, typer.Argument(help="A folder of images, or a packed dataset.")]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores where not given.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
NoSeek = Annotated[
    bool, typer.Option("--no-seek", help="Without seek points: 2 % smaller, slower to load.")
]
IndexDir = Annotated[Path | None, typer.Option(help="Where the folder's index is, or goes.")]


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        rate, faults = task.finished_speed or task.speed, task.fields.get("faults")
        text = f"{rate:,.0f} images/s" if rate else ""
        return Text(f"{text}, {faults} faulty" if faults else text)


@contextmanager
def _bar(doing: str, quiet: bool) -> Iterator[Callable[[int, int, int, int], None]]:
    """A progress bar on stderr, which stays free for pipes where the output is JSON."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, disable=quiet or not err.is_terminal) as progress:
        task = progress.add_task(doing, total=None)

        def show(done: int, total: int, bytes_: int, faults: int) -> None:
            known = total if total >= 0 else None
            progress.update(task, completed=done, total=known, faults=faults)

        yield show


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(found, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    for name, value in found.items():
        table.add_row(name.replace("_", " "), _words(value))
    out.print(table)


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return f"{len(value):,}" if len(value) > 8 else ", ".join(map(_words, value))
    if isinstance(value, float):
        return f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _remark(found: dict[str, Any], quiet: bool) -> None:
    """Says in words which images are not the original bytes, and whether that lost anything."""
    if quiet:
        return
    if found.get("lossy"):
        out.print(
            f"LOSSY: {found['reencoded']:,} of {found['rows']:,} images were re-encoded "
            f"({found['lossy']}); they are not the originals.",
            style="yellow",
            highlight=False,
        )
    if found.get("to_baseline"):
        out.print(
            f"{found['to_baseline']:,} progressive or arithmetic-coded files became baseline; "
            "nothing of them was lost.",
            highlight=False,
        )
    if found.get("raw"):
        raw = found["raw"]
        out.print(
            f"{raw['images']:,} images are stored as pixels: {raw['bytes'] / 1e6:,.1f} MB, "
            f"{raw['bytes'] / raw['from_bytes']:.2f} times the bytes of the files they came from.",
            highlight=False,
        )


def _fault(fault: dict[str, Any]) -> str:
    """One line: file, record, offset, and what is wrong there."""
    place = str(fault["file"])
    if fault["record"] >= 0:
        place += f": record {fault['record']}"
    if fault["offset"] >= 0:
        place += f" at byte {fault['offset']}"
    return f"{place}: {fault.get('text') or fault.get('reason')}"


@app.command()
def pack(
    source: Source,
    destination: Annotated[Path, typer.Argument(help="A directory that does not exist yet.")],
    shard_size: Annotated[str, typer.Option(help='Bytes a shard may have: "256MB".')] = "256MB",
    resize: Annotated[
        int | None,
        typer.Option(help="LOSSY: re-encode larger images with a shorter side of so many pixels."),
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
    overwrite: Annotated[bool, typer.Option(help="Replace a packed dataset.")] = False,
    no_seek: NoSeek = False,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Pack an image folder, or a CSV or Parquet list of files, into tar shards with an index."""
    if resize is not None or quality is not None:
        err.print("Re-encoding: the packed images will not be the originals.", style="yellow")
    with _bar("Packing", as_json) as show:
        made = writing.pack(
            source,
            destination,
            shard_size=shard_size,
            resize=resize,
            quality=quality,
            baseline=baseline,
            raw=raw,
            overwrite=overwrite,
            seek=not no_seek,
            num_threads=threads,
            on_progress=show,
        )
    _print(made, as_json)
    _remark(made, as_json)


@app.command()
def index(
    source: Source,
    index_dir: IndexDir = None,
    no_seek: NoSeek = False,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Index a folder of images, which is then used in place."""
    with _bar("Indexing", as_json) as show:
        made = writing.index(
            source,
            index_dir=index_dir,
            seek=not no_seek,
            num_threads=threads,
            on_progress=show,
        )
    _print(made, as_json)


@app.command()
def verify(
    source: Source,
    index_dir: IndexDir = None,
    decode: Annotated[bool, typer.Option(help="Read all entropy data anew, too.")] = False,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Read a dataset whole and compare it with its index; exit status 1 on any fault."""
    with _bar("Verifying", as_json) as show:
        found = writing.verify(
            source, index_dir=index_dir, decode=decode, num_threads=threads, on_progress=show
        )
    faults = found["faults"]
    _print(found if as_json else {**found, "faults": faults["total"]}, as_json)
    if not as_json:
        for fault in faults["listed"]:
            print(_fault(fault), file=sys.stderr)
    if not found["ok"]:
        raise typer.Exit(1)


@app.command()
def info(
    source: Source,
    sample: Annotated[int | None, typer.Option(help="Print what is known of one sample.")] = None,
    index_dir: IndexDir = None,
    as_json: AsJSON = False,
) -> None:
    """Say what a dataset holds."""
    with Dataset(source, index_dir=index_dir) as dataset:
        _print(dataset.info if sample is None else dataset.facts(sample), as_json)
        _remark(dataset.info, as_json or sample is not None)


@app.command()
def bench(
    source: Source,
    batch_size: Annotated[int, typer.Option(help="Samples a batch.")] = 128,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 10.0,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Load augmented float32 batches as in training, and say how fast and where the time goes."""
    from headrace.bench import measure

    with _bar("Loading", as_json) as show:
        found = measure(source, batch_size, size, seconds, threads, show)
    if not as_json:
        out.print(
            f"{found.pop('images_per_second'):,.0f} images/s, "
            f"{found.pop('megabytes_per_second'):,.1f} MB/s of encoded images",
            highlight=False,
        )
    _print(found, as_json)


@app.command()
def view(
    source: Source,
    picture: Annotated[Path, typer.Argument(help="The PNG to write.")],
    count: Annotated[int, typer.Option(help="How many samples.")] = 24,
    size: Annotated[int, typer.Option(help="Height and width of each.")] = 160,
    seed: Annotated[int, typer.Option(help="What is drawn from.")] = 0,
) -> None:
    """Write a contact sheet of an augmented batch, with labels."""
    from headrace.sheet import contact_sheet

    contact_sheet(source, picture, count, size, seed)
    out.print(f"Wrote {picture}", highlight=False)


def main() -> None:
    """Runs the command line: a failure is one sentence on stderr and an exit status."""
    try:
        app()
    except (HeadraceError, OSError) as failure:
        # Not through rich: it would wrap the sentence and take brackets in a path for markup.
        print(f"headrace: {failure}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
