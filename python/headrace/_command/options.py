"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from headrace._engine import away
from headrace.dataset import Dataset
from headrace.errors import ArgumentError

# Click's class, wherever this version of typer keeps it.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def path(text: str) -> Path:
    """Takes a path, and refuses an empty one: that of an unset variable would be the current
    directory.

    An address stays text, because a ``Path`` would remove one of its slashes.
    """
    if not text:
        raise typer.BadParameter("a path that is not empty was expected")
    return cast("Path", text) if away.is_url(text) else Path(text)


def storage(given: list[str] | None) -> dict[str, Any] | None:
    """Returns what KEY=VALUE says of a store; "true" and "false" are flags."""
    found: dict[str, Any] = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not equals or not name:  # the sentence leaves it out: it may be a secret
            raise typer.BadParameter("--storage KEY=VALUE was expected")
        found[name] = {"true": True, "false": False}.get(value, value)
    return found or None


_CONTAINERS = (
    "containers: a tar, zip, TFRecord, RecordIO, FFCV, MDS, LMDB, LitData, Arrow or Parquet file, "
    "a folder of these, or a pattern such as 'train-{000..146}.tar'"
)
_SEVERAL = "Several containers become one dataset, in the given order."

Source = Annotated[
    Path,
    typer.Argument(
        metavar="SOURCE",
        parser=path,
        help="A packed dataset, an index of containers, or a folder of images with its index.",
    ),
]
Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE",
        parser=path,
        help="A packed dataset, an index, a folder of images; a file of arrays (NumPy, HDF5, "
        f"Zarr and others); or {_CONTAINERS}. {_SEVERAL}",
    ),
]
Folders = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE",
        parser=path,
        help=f"A folder with one folder of images for each class; or {_CONTAINERS}. {_SEVERAL}",
    ),
]
Images = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE",
        parser=path,
        help="A folder with one folder of images for each class; a CSV, JSON lines or Parquet list "
        "of files with a column path or file_name, perhaps label, and others as fields; or "
        f"containers, as for headrace info. {_SEVERAL}",
    ),
]
Pairs = Annotated[
    str | None,
    typer.Option(
        help="image or mask. SOURCE is then two folders: of images, and of the second image or the "
        'mask of each, which becomes the field "target" or "mask".'
    ),
]
Suffixes = Annotated[
    tuple[str, str],
    typer.Option(help='With --pairs: the endings in which the two names of a pair differ: x4 "".'),
]
Threads = Annotated[int | None, typer.Option(help="Number of threads (default: one a core).")]
AsJSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
NoSeek = Annotated[
    bool, typer.Option("--no-seek", help="Store no seek points: smaller, but crops load slower.")
]
IndexDir = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", parser=path, help="Directory of a folder's index (default: the folder)."
    ),
]

Format = Annotated[
    str | None, typer.Option(help="The format of containers, if their content is ambiguous.")
]
Image = Annotated[str | None, typer.Option(help="The column of the images in containers.")]
Label = Annotated[str | None, typer.Option(help="The column of the labels in containers.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME", help="Another column to keep as a field; may be repeated (default: all)."
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="The name of label 0; repeat it for labels 1, 2 and so on."),
]
Split = Annotated[str | None, typer.Option(help="Which split to open, if there are several.")]
Layout = Annotated[
    str | None, typer.Option(help="The axes of an array of images: NHW, NHWC or NCHW.")
]
Root = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        parser=path,
        help="Where an index's containers lie if they moved; for pack also the folder of a table's "
        "files.",
    ),
]

Storage = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Option of an object store: endpoint, region, path_style or anonymous; may be "
        "repeated.",
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Seconds to wait for an object store before an error."),
]
Cache = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH",
        parser=path,
        help="A directory on a local disk that keeps what is fetched from a store.",
    ),
]
CacheSize = Annotated[str | None, typer.Option(help='Maximal size of the cache, as "200GB".')]


Limits = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=NUMBER",
        help="Another value for a limit, as in max_pixels=500000000; may be repeated.",
    ),
]


def limits(given: list[str] | None) -> dict[str, int] | None:
    """Returns what NAME=NUMBER says of limits."""
    found: dict[str, int] = {}
    for one in given or ():
        name, _, value = one.partition("=")
        try:
            found[name] = int(value)
        except ValueError:
            raise typer.BadParameter(f"--limit NAME=NUMBER was expected, and not {one}") from None
    return found or None


def source(given: list[Path]) -> Path | list[Path]:
    """Returns a command's sources as Python's functions take them: one path, or several."""
    return given[0] if len(given) == 1 else given


def paired(given: list[Path], kind: str, suffixes: tuple[str, str]) -> Dataset:
    """Opens two folders as pairs of files."""
    if len(given) != 2:
        raise ArgumentError(f"--pairs takes two folders as SOURCE, found {len(given)}")
    return Dataset.from_pairs(*given, kind=kind, suffixes=suffixes)
