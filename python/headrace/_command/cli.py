"""The command line: ``headrace``, and ``python -m headrace``."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from rich.text import Text

from headrace import __version__, writing
from headrace._command import summary
from headrace.dataset import Dataset
from headrace.errors import HeadraceError, SystemFailure, one_line

app = typer.Typer(
    name="headrace",
    add_completion=False,
    pretty_exceptions_enable=False,
)
err = Console(stderr=True)
# Click's, wherever this version of typer keeps it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _path(text: str) -> Path:
    """A path; an empty one, as of a variable that is not set, would be the current directory."""
    if not text:
        raise typer.BadParameter("a path that is not empty was expected")
    return Path(text)


Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        parser=_path,
        help="A packed dataset, an index, a folder of images, or containers: a tar, zip, "
        "TFRecord or MDS file, a folder of such, or a quoted pattern as 'train-{000..146}.tar'.",
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        parser=_path,
        help="A folder with one folder of images a class; or containers: a tar, zip, TFRecord "
        "or MDS file, a folder of such, or a quoted pattern as 'train-{000..146}.tar'.",
    ),
]
Images = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        parser=_path,
        help="A folder with one folder of images a class; a CSV or Parquet file with a path and a "
        "label a row, and any further columns as fields; or containers.",
    ),
]
Threads = Annotated[int | None, typer.Option(help="Threads; all cores where not given.")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
NoSeek = Annotated[
    bool, typer.Option("--no-seek", help="Note no seek points: smaller, but slower to load.")
]
IndexDir = Annotated[
    Path | None,
    typer.Option(metavar="PATH", parser=_path, help="Where the folder's index is, or goes."),
]

Format = Annotated[
    str | None, typer.Option(help="What containers are, where their content leaves a choice.")
]
Image = Annotated[str | None, typer.Option(help="The column of the images in containers.")]
Label = Annotated[str | None, typer.Option(help="The column of the labels in containers.")]
Split = Annotated[str | None, typer.Option(help="Which of several splits.")]
Layout = Annotated[
    str | None, typer.Option(help="The axes of an array of images: NHW, NHWC or NCHW.")
]
Root = Annotated[
    Path | None,
    typer.Option(metavar="PATH", parser=_path, help="Where the containers of an index are now."),
]


@app.callback(invoke_without_command=True)
def headrace(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Pack photographs, look at datasets, and measure how fast they load."""
    if version:
        _say(f"headrace {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help(), end="")  # where typer uses rich, it is printed already
        raise typer.Exit(2)


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


def _say(text: str) -> None:
    """Prints, at once: what nobody can read any more is noticed here, not at exit."""
    try:
        print(text, flush=True)
    except OSError as error:
        # What is still buffered would fail once more at exit: let it go nowhere.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemFailure(f"the output cannot be written: {error.strerror}") from None


def _print(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        _say(json.dumps(found, indent=2))
    else:
        _say("\n".join([*summary.lines(found), *summary.recoding(found)]))


def _complain(lines: list[str]) -> None:
    # Not through rich: it would wrap the lines and take brackets in a path for markup.
    for line in lines:
        print(one_line(line), file=sys.stderr)


def _made(made: dict[str, Any], as_json: bool) -> None:
    _print(made, as_json)
    if not as_json:
        total = made["faults"]["total"]
        kept = f"{summary.counted(total, 'faulty image')}, kept with that verdict in the index:"
        _complain(summary.fault_lines(made["faults"], kept))


@app.command()
def pack(
    source: Images,
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION", parser=_path, help="A directory that does not exist yet."
        ),
    ],
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
    format: Format = None,
    image: Image = None,
    label: Label = None,
    split: Split = None,
    no_seek: NoSeek = False,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Pack a folder, a CSV or Parquet list of files, or containers into shards with an index."""
    notice = ["Re-encoding: the packed images will not be the originals."]
    if resize is None and quality is None:
        notice.clear()
    with _bar("Packing", as_json) as bar:

        def show(done: int, total: int, bytes_: int, faults: int) -> None:
            if done and notice:  # not before it is true: the arguments may yet be refused
                err.print(notice.pop(), style="yellow", highlight=False)
            bar(done, total, bytes_, faults)

        made = writing.pack(
            source,
            destination,
            format=format,
            image=image,
            label=label,
            split=split,
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
    _made(made, as_json)


@app.command()
def index(
    source: Folder,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", parser=_path, help="Of containers: the directory of the index."
        ),
    ] = None,
    index_dir: IndexDir = None,
    format: Format = None,
    image: Image = None,
    label: Label = None,
    split: Split = None,
    no_seek: NoSeek = False,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Index a folder of images, or containers, which are then used in place."""
    with _bar("Indexing", as_json) as show:
        made = writing.index(
            source,
            out,
            format=format,
            image=image,
            label=label,
            split=split,
            index_dir=index_dir,
            seek=not no_seek,
            num_threads=threads,
            on_progress=show,
        )
    _made(made, as_json)


@app.command()
def verify(
    source: Source,
    index_dir: IndexDir = None,
    root: Root = None,
    decode: Annotated[bool, typer.Option(help="Read all entropy data anew, too.")] = False,
    threads: Threads = None,
    as_json: AsJSON = False,
) -> None:
    """Read a dataset whole and compare it with its index; exit status 1 on any fault."""
    with _bar("Verifying", as_json) as show:
        found = writing.verify(
            source,
            index_dir=index_dir,
            root=root,
            decode=decode,
            num_threads=threads,
            on_progress=show,
        )
    _print(found, as_json)
    if not as_json:
        total = found["faults"]["total"]
        _say(f"{summary.counted(total, 'fault')} found" if total else "no fault found")
        _complain(summary.fault_lines(found["faults"], f"{summary.counted(total, 'fault')}:"))
        _complain(_known(found))
    if not found["ok"]:
        raise typer.Exit(1)


def _known(found: dict[str, Any]) -> list[str]:
    """Images that were no good already when they were packed, where the result tells of them."""
    known = {"total": found.get("known_faults", 0), "listed": found.get("known") or []}
    images = summary.counted(known["total"], "image was", "images were")
    return summary.fault_lines(known, f"{images} faulty when packed:")


@app.command()
def info(
    source: Source,
    sample: Annotated[int | None, typer.Option(help="Print what is known of one sample.")] = None,
    index_dir: IndexDir = None,
    format: Format = None,
    image: Image = None,
    label: Label = None,
    split: Split = None,
    layout: Layout = None,
    root: Root = None,
    as_json: AsJSON = False,
) -> None:
    """Say what a dataset holds."""
    with (
        warnings.catch_warnings(record=True) as said,
        Dataset(
            source,
            format=format,
            image=image,
            label=label,
            split=split,
            layout=layout,
            root=root,
            index_dir=index_dir,
        ) as dataset,
    ):
        _print(dataset.info if sample is None else dataset.facts(sample), as_json)
        faults = _shard_faults(source, root) if dataset.kind in ("packed", "contained") else []
    _complain([str(warning.message) for warning in said])
    _complain(faults)
    if faults:
        raise typer.Exit(1)


def _shard_faults(source: Path, root: Path | None) -> list[str]:
    """Shards that are not there or not as long as they were; opening a dataset looks at none."""
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
    from headrace._command.bench import measure

    with _bar("Loading", as_json) as show:
        found = measure(source, batch_size, size, seconds, threads, show)
    if not as_json:
        _say(
            f"{found.pop('images_per_second'):,.0f} images/s, "
            f"{found.pop('megabytes_per_second'):,.1f} MB/s of encoded images"
        )
    _print(found, as_json)


@app.command()
def view(
    source: Source,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", parser=_path, help="The PNG to write.")
    ],
    count: Annotated[int, typer.Option(help="How many samples.")] = 24,
    size: Annotated[int, typer.Option(help="Height and width of each.")] = 160,
    seed: Annotated[int, typer.Option(help="What is drawn from.")] = 0,
    views: Annotated[int, typer.Option(help="Images of each sample, side by side.")] = 1,
) -> None:
    """Write a contact sheet of an augmented batch, with labels."""
    from headrace._command.sheet import contact_sheet

    contact_sheet(source, picture, count, size, seed, views)
    _say(one_line(f"Wrote {picture}"))


@app.command(context_settings={"allow_interspersed_args": False})
def run(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="A Python file, or with -m a module's name.")
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGUMENTS]...", help="The program's own.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", help="PROGRAM is a module.")] = False,
) -> None:
    """Run a Python program with Headrace's loaders in the place of torch's, and list them."""
    from headrace._command import running

    running.run([*(["-m"] if module else []), program, *(arguments or [])])


def main() -> None:
    """Runs the command line: a failure is one sentence on stderr and an exit status.

    The status is 0, 1 for a failure or a fault found, 2 for a wrong command line, 130 for Ctrl-C.
    """
    try:
        status = app(standalone_mode=False)
    except _UsageError as failure:
        status = _fail(_usage(failure), 2)
    except HeadraceError as failure:
        status = _fail(str(failure))
    except KeyboardInterrupt:
        status = 130
    except MemoryError:
        status = _fail("memory is short")
    except OSError as failure:
        status = _fail(f"{failure.filename or 'the output'}: {failure.strerror or failure}")
    except SystemExit:  # how typer answers a closed pipe, where it printed the help itself
        status = _fail("the output cannot be written")
    if status == 130:
        _fail("interrupted")
    sys.exit(status)


def _usage(failure: Any) -> str:
    asked = failure.ctx.command_path if failure.ctx is not None else "headrace"
    return f"{failure.format_message().rstrip('.')}; see {asked} --help"


def _fail(sentence: str, status: int = 1) -> int:
    _complain([f"headrace: {sentence}"])
    return status


if __name__ == "__main__":
    main()
