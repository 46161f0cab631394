"""The command line: ``headrace``, and ``python -m headrace``."""

from __future__ import annotations

import json
import os
import signal
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
from headrace._command import inspecting, options, summary
from headrace._engine import containers, scanning
from headrace.dataset import Dataset
from headrace.errors import (
    ArgumentError,
    HeadraceError,
    SystemFailure,
    UnsupportedError,
    one_line,
)

app = typer.Typer(
    name="headrace",
    add_completion=False,
    pretty_exceptions_enable=False,
)
err = Console(stderr=True)
# Click's, wherever this version of typer keeps it.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
# The status that a shell gives a program that SIGPIPE ended.
_SIGPIPE = 128 + signal.SIGPIPE


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
            scan = scanning.so_far() if known is None else ""
            progress.update(
                task, description=scan or doing, completed=done, total=known, faults=faults
            )

        yield show


@contextmanager
def _complaining() -> Iterator[None]:
    """Says warnings as sentences, and behind everything else."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield
    _complain([str(warning.message) for warning in said])


def _say(text: str) -> None:
    """Prints, at once: what cannot be written is noticed here, not at exit."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # who read it has seen enough, as head does
        sys.exit(_SIGPIPE)
    except OSError as error:
        _discard_output()
        raise SystemFailure(f"the output cannot be written: {error.strerror}") from None


def _discard_output() -> None:
    """Lets what is still buffered go nowhere: it would fail once more at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    source: options.Images,
    destination: Annotated[
        Path,
        typer.Argument(
            metavar="DESTINATION",
            parser=options.path,
            help="A directory that does not exist yet, or an address: s3://BUCKET/NAME.",
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
    through_pillow: Annotated[
        bool, typer.Option(help="Store Pillow's pixels of images that the engine does not decode.")
    ] = True,
    overwrite: Annotated[bool, typer.Option(help="Replace a packed dataset.")] = False,
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
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Pack a folder, a CSV or Parquet list of files, or containers into shards with an index."""
    notice = ["Re-encoding: the packed images will not be the originals."]
    if resize is None and quality is None:
        notice.clear()
    with _complaining(), _bar("Packing", as_json) as bar:

        def show(done: int, total: int, bytes_: int, faults: int) -> None:
            if done and notice:  # not before it is true: the arguments may yet be refused
                err.print(notice.pop(), style="yellow", highlight=False)
            bar(done, total, bytes_, faults)

        made = writing.pack(
            options.source(source) if pairs is None else options.paired(source, pairs, suffixes),
            destination,
            format=format,
            image=image,
            label=label,
            fields=fields or None,
            classes=classes or None,
            split=split,
            root=root,
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
        )
    _made(made, as_json)


@app.command()
def index(
    source: options.Folders,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", parser=options.path, help="Of containers: the directory of the index."
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
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Index a folder of images, or containers, which are then used in place."""
    with _complaining(), _bar("Indexing", as_json) as show:
        made = writing.index(
            options.source(source),
            out,
            format=format,
            image=image,
            label=label,
            fields=fields or None,
            classes=classes or None,
            split=split,
            root=root,
            index_dir=index_dir,
            seek=not no_seek,
            limits=options.limits(limit),
            num_threads=threads,
            on_progress=show,
            storage=options.storage(storage),
        )
    _made(made, as_json)


@app.command()
def verify(
    source: options.Source,
    index_dir: options.IndexDir = None,
    root: options.Root = None,
    decode: Annotated[bool, typer.Option(help="Read all entropy data anew, too.")] = False,
    limit: options.Limits = None,
    storage: options.Storage = None,
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Read a dataset whole and compare it with its index; exit status 1 on any fault."""
    with _bar("Verifying", as_json) as show:
        found = writing.verify(
            source,
            index_dir=index_dir,
            root=root,
            decode=decode,
            limits=options.limits(limit),
            num_threads=threads,
            on_progress=show,
            storage=options.storage(storage),
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
    source: options.Sources,
    sample: Annotated[int | None, typer.Option(help="Print what is known of one sample.")] = None,
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
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
    as_json: options.AsJSON = False,
) -> None:
    """Say what a dataset holds; of containers also where image or label are in doubt."""
    given = options.source(source)
    words = containers.Words(format, image, label, fields or None, classes or None, split, root)
    with _complaining():
        try:
            dataset = Dataset(
                given,
                **words._asdict(),
                layout=layout,
                index_dir=index_dir,
                storage=options.storage(storage),
                cache=cache,
                cache_size=cache_size,
            )
        except (ArgumentError, UnsupportedError):
            if sample is None and (found := inspecting.looked_at(given, words, storage)):
                _print(found, as_json)
            raise
        with dataset:
            found = dataset.info if sample is None else dataset.facts(sample)
            if sample is None and dataset.kind in ("scanned", "contained"):
                with suppress(HeadraceError):  # of a field that cannot be read
                    found = {**found, "first_key": dataset.facts(0)["key"]}
            _print(found, as_json)
            own = dataset.kind in ("packed", "contained") and not dataset.away
            faults = _shard_faults(source[0], root) if own else []
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
    source: options.Sources,
    batch_size: Annotated[int, typer.Option(help="Samples a batch.")] = 128,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    seconds: Annotated[float, typer.Option(help="How long to measure.")] = 10.0,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
    threads: options.Threads = None,
    as_json: options.AsJSON = False,
) -> None:
    """Load augmented float32 batches as in training, and say how fast and where the time goes."""
    from headrace._command.bench import measure

    with _complaining(), _bar("Loading", as_json) as show:
        found = measure(
            options.source(source),
            batch_size,
            size,
            seconds,
            threads,
            show,
            format=format,
            image=image,
            label=label,
            fields=fields or None,
            classes=classes or None,
            split=split,
            root=root,
            storage=options.storage(storage),
            cache=cache,
            cache_size=cache_size,
        )
    if not as_json:
        _say(
            f"{found.pop('images_per_second'):,.0f} images/s, "
            f"{found.pop('megabytes_per_second'):,.1f} MB/s of encoded images"
        )
    _print(found, as_json)


@app.command()
def doctor(
    source: options.Sources,
    rate: Annotated[float | None, typer.Option(help="Images a second that are needed.")] = None,
    transform: Annotated[
        str, typer.Option(help="train, eval, randaugment, or a JSON file with a list.")
    ] = "train",
    batch_size: Annotated[int, typer.Option(help="Samples a batch.")] = 128,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    seconds: Annotated[float, typer.Option(help="How long to measure, about.")] = 15.0,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
    as_json: options.AsJSON = False,
) -> None:
    """Say what limits loading here, storage, decoding or delivery, and what would help."""
    from headrace import diagnosing
    from headrace._doctor import machine, stages

    # Where others keep the cores busy this program takes long to start. That counts, for the answer
    # is to be there in twice the time.
    if seconds > 0:
        seconds = max(min(seconds, (2 * seconds - machine.age()) / stages.ENDS), seconds / 4)
    found = diagnosing.doctor(
        options.source(source),
        rate=rate,
        transform=transform,
        batch_size=batch_size,
        size=size,
        seconds=seconds,
        format=format,
        image=image,
        label=label,
        fields=fields or None,
        classes=classes or None,
        split=split,
        root=root,
        storage=options.storage(storage),
        cache=cache,
        cache_size=cache_size,
    )
    _say(found.to_json() if as_json else str(found))


@app.command()
def plan(
    context: typer.Context,
    source: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[SOURCE...]", parser=options.path, help="The dataset, where there is one."
        ),
    ] = None,
    gpus: Annotated[int, typer.Option(help="How many GPUs train.")] = 1,
    rate: Annotated[float | None, typer.Option(help="Images a second of one GPU.")] = None,
    step_seconds: Annotated[
        float | None, typer.Option(help="Or: seconds of a step on one GPU, without waiting.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Samples a step on one GPU.")] = 256,
    images: Annotated[int | None, typer.Option(help="Without SOURCE: images of the set.")] = None,
    image_bytes: Annotated[
        float | None,
        typer.Option(help="Mean bytes of an image, without SOURCE or where it has no files."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of the training.")] = 1,
    size: Annotated[int, typer.Option(help="Height and width of the crops.")] = 224,
    images_per_core: Annotated[
        float | None, typer.Option(help="Images a second of a core, as headrace doctor has it.")
    ] = None,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    as_json: options.AsJSON = False,
) -> None:
    """Work out the storage, cores and memory that a training needs."""
    from headrace import planning

    if (rate is None) == (step_seconds is None):
        raise _UsageError("One of --rate and --step-seconds is needed", context)
    if not source and (images is None or image_bytes is None):
        raise _UsageError("SOURCE is needed, or --images and --image-bytes", context)
    if source and images is not None:
        raise _UsageError("--images is for a plan without SOURCE", context)
    found = planning.plan(
        options.source(source) if source else None,
        gpus=gpus,
        rate=rate,
        step_seconds=step_seconds,
        batch_size=batch_size,
        images=images,
        image_bytes=image_bytes,
        epochs=epochs,
        size=size,
        images_per_core=images_per_core,
        format=format,
        image=image,
        label=label,
        fields=fields or None,
        classes=classes or None,
        split=split,
        root=root,
        storage=options.storage(storage),
    )
    _say(found.to_json() if as_json else str(found))


@app.command()
def view(
    source: options.Sources,
    picture: Annotated[
        Path, typer.Argument(metavar="PICTURE", parser=options.path, help="The PNG to write.")
    ],
    count: Annotated[int, typer.Option(help="How many samples.")] = 24,
    size: Annotated[int, typer.Option(help="Height and width of each.")] = 160,
    seed: Annotated[int, typer.Option(help="What is drawn from.")] = 0,
    views: Annotated[int, typer.Option(help="Images of each sample, side by side.")] = 1,
    format: options.Format = None,
    image: options.Image = None,
    label: options.Label = None,
    fields: options.Fields = None,
    classes: options.Classes = None,
    split: options.Split = None,
    root: options.Root = None,
    storage: options.Storage = None,
    cache: options.Cache = None,
    cache_size: options.CacheSize = None,
) -> None:
    """Write a contact sheet of an augmented batch, with labels."""
    from headrace._command.sheet import contact_sheet

    with _complaining():
        contact_sheet(
            options.source(source),
            picture,
            count,
            size,
            seed,
            views,
            format=format,
            image=image,
            label=label,
            fields=fields or None,
            classes=classes or None,
            split=split,
            root=root,
            storage=options.storage(storage),
            cache=cache,
            cache_size=cache_size,
        )
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
    Where nobody reads the output any more it is 141, without a sentence.
    """
    try:
        status = app(standalone_mode=False)
    except _UsageError as failure:
        status = _fail(_usage(failure), 2)
    except HeadraceError as failure:
        status = _fail(_by_option(str(failure)))
    except KeyboardInterrupt:
        status = 130
    except MemoryError:
        status = _fail("memory is short")
    except OSError as failure:
        _discard_output()
        where = failure.filename or "the output cannot be written"
        status = _fail(f"{where}: {failure.strerror or failure}")
    except SystemExit:  # a closed pipe's, by typer where it printed the help itself
        _discard_output()
        status = _SIGPIPE
    if status == 130:
        _fail("interrupted")
    sys.exit(status)


def _usage(failure: Any) -> str:
    asked = failure.ctx.command_path if failure.ctx is not None else "headrace"
    return f"{failure.format_message().rstrip('.')}; see {asked} --help"


def _by_option(sentence: str) -> str:
    """A sentence about an argument, which it begins with, with the option that gave it."""
    name, equals, rest = sentence.partition("=")
    option = "--" + name.removeprefix("num_").replace("_", "-")
    given = {word.partition("=")[0] for word in sys.argv[1:]}
    return f"{option} {rest}" if equals and option in given else sentence


def _fail(sentence: str, status: int = 1) -> int:
    _complain([f"headrace: {sentence}"])
    return status


if __name__ == "__main__":
    main()
