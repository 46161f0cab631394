"""Arrays in files by name, and the choice of those that are images and labels."""

from __future__ import annotations

import glob
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace._arrays import held, shapes
from headrace._arrays.shapes import bad
from headrace._engine import arguments, containers, located
from headrace.errors import ArgumentError, LimitError, MemoryShortError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

IMAGES = ("image", "images", "img", "imgs", "x", "data", "pixels", "train_images", "x_train")
LABELS = ("label", "labels", "y", "target", "targets", "class", "classes", "cls", "y_train")
Places = tuple[list[str], list[shapes.Stretch]]  # files, and where in them the images lie


class Stored(NamedTuple):
    """One array in a file.

    Attributes:
        name: how ``image=`` and ``label=`` call it; "" if the file has only one array.
        dtype: NumPy's name for it, such as "uint8".
        place: says by its axes where its images lie; raises ``UnsupportedError`` if they cannot be
        read in place.
        values: reads the whole array.
        chunks: the shape of a chunk; None if the array is in one piece.
        strides: bytes of each axis, if it is not in C order.
        encoded: offsets and lengths in the file of the encoded images that it holds; None if it
            holds numbers.
    """

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    place: Callable[[shapes.Axes], Places]
    values: Callable[[], NDArray[Any]]
    chunks: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
    encoded: Callable[[], tuple[NDArray[Any], NDArray[Any]]] | None = None

    @property
    def title(self) -> str:
        return f"{self.path}: array {self.name!r}" if self.name else f"{self.path}: the array"


_MOST_LABELS = 512 << 20  # bytes of labels, or 16 times the bytes of their file
_LABELS_OF_FILE = 16
NO_LABELS = object()  # as label=: none of the arrays holds labels


def in_one_piece(path: str, name: str, shape: Sequence[int], dtype: Any, offset: int) -> Stored:
    """An array in C order that begins at an offset of a file."""
    whole, kind = tuple(int(length) for length in shape), np.dtype(dtype)
    if any(length < 0 for length in whole):
        raise bad(path, f"array {name!r} has the shape {whole}")

    def place(axes: shapes.Axes) -> Places:
        return [path], [shapes.Stretch(0, offset, axes.stride, axes.rows)]

    def values() -> NDArray[Any]:
        count = math.prod(whole)
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read(count * kind.itemsize)
        if len(data) != count * kind.itemsize:
            raise bad(
                path,
                f"array {name!r} is truncated (expected {count * kind.itemsize} bytes at "
                f"byte {offset}, found {len(data)})",
            )
        return np.frombuffer(data, kind).reshape(whole)

    return Stored(path, name, whole, str(kind), place, values)


def config(
    kind: str,
    arrays: Sequence[Stored],
    image: str | None,
    label: Any,
    classes: Sequence[str] | None,
    layout: str | None,
    opened: Callable[[str], Sequence[Stored]],
) -> dict[str, Any]:
    """Returns the configuration of the arrays of a file.

    Args:
        kind: the kind of the file.
        image, label: the names of arrays; ``label`` may be another file, or the labels themselves.
        opened: reads the arrays of another file.

    Raises:
        ArgumentError, UnsupportedError, BadFileError: what was asked for is missing, has no shape
            of images, or is not read in place; the sentence says which.
    """
    images = _images(arrays, image)
    if images.encoded is not None:
        return _encoded(images, images.encoded, arrays, label, classes, layout, opened)
    shapes.check_dtype(images.title, images.dtype)
    axes = shapes.axes(images.title, images.shape, images.strides, layout)
    if not math.prod(images.shape):
        raise ArgumentError(f"{images.title} has the shape {images.shape}: it holds no image")
    files, stretches = images.place(axes)
    found: dict[str, Any] = {"array": {**axes.config(stretches), "files": files}}
    if classes is not None:
        found["classes"] = arguments.each("classes", classes, arguments.name)
    values, of = labels_of(arrays, images, axes.rows, label, opened)
    found["array"]["source"] = _source(kind, arrays, images, axes, stretches, of)
    found["labels"] = held.labels(values, axes.rows, found.get("classes"))
    return found


def _encoded(
    images: Stored,
    encoded: Callable[[], tuple[NDArray[Any], NDArray[Any]]],
    arrays: Sequence[Stored],
    label: Any,
    classes: Sequence[str] | None,
    layout: str | None,
    opened: Callable[[str], Sequence[Stored]],
) -> dict[str, Any]:
    """Returns the configuration of encoded images, which are extents of a file."""
    if layout is not None:
        raise ArgumentError(f"layout= is for pixels, and {images.title} holds encoded images")
    (rows,) = images.shape
    if not rows:
        raise ArgumentError(f"{images.title} has the shape {images.shape}: it holds no image")
    offsets, lengths = encoded()
    table = {"file": np.zeros(rows, np.int64), "offset": offsets, "length": lengths}
    values, _ = labels_of(arrays, images, rows, label, opened)
    numbers = held.labels(values, rows, classes)
    if numbers is not None:
        table["label"] = np.array(numbers, np.int64)
    return located.config([images.path], table, classes)


def _source(
    kind: str,
    arrays: Sequence[Stored],
    images: Stored,
    axes: shapes.Axes,
    stretches: Sequence[shapes.Stretch],
    label: str,
) -> dict[str, Any]:
    """Returns what ``Dataset.info`` says of an array."""
    chunks = itertools.chain.from_iterable(one.chunks() for one in stretches)
    codecs = {" and ".join(filter(None, (one.codec, one.sum))) for one in chunks}
    others = (
        f"{one.name} {one.dtype} {one.shape}"
        for one in arrays
        if one is not images and one.name != label
    )
    return {
        "format": kind,
        "image": images.name,
        "label": label,
        "layout": axes.layout,
        "shape": list(images.shape),
        "dtype": "uint8",
        "chunks": list(images.chunks or ()),
        "codecs": sorted(codecs),
        "arrays": list(others),
    }


def _images(arrays: Sequence[Stored], image: str | None) -> Stored:
    if image is not None:
        return _named("image", arrays, arguments.name("image", image))
    fitting = [one for one in arrays if len(one.shape) in (3, 4) or one.encoded is not None]
    usual = [one for one in fitting if one.name.lower() in IMAGES]
    if len(fitting) == 1 or len(usual) == 1:
        return fitting[0] if len(fitting) == 1 else usual[0]
    if len(arrays) == 1:
        return arrays[0]
    raise ArgumentError(f"image= is needed, to choose one of {_names(fitting or arrays)}")


def _names(arrays: Sequence[Stored]) -> str:
    return arguments.shown([one.name for one in arrays])


def _named(what: str, arrays: Sequence[Stored], name: str) -> Stored:
    for one in arrays:
        if one.name == name:
            return one
    raise arguments.refuse(what, name, f"one of {_names(arrays)}")


def labels_of(
    arrays: Sequence[Stored],
    images: Stored | None,
    rows: int,
    label: Any,
    opened: Callable[[str], Sequence[Stored]],
) -> tuple[Any, str]:
    """Returns the labels, None if there are none, and what they are called."""
    if label is NO_LABELS:
        return None, ""
    if label is not None and not isinstance(label, str | os.PathLike):
        return label, ""
    if label is None:
        fitting = [
            one
            for one in arrays
            if one is not images and one.shape[:1] == (rows,) and math.prod(one.shape) == rows
        ]
        # In a tuple of images and labels, neither array has a name.
        usual = [one for one in fitting if one.name.lower() in LABELS or one.name.isdigit()]
        if len(usual) == 1:
            return _label_values(usual[0], rows), usual[0].name
        if usual:
            raise ArgumentError(f"label= is needed, to choose one of {_names(usual)}")
        if fitting:
            said = f"no array has a label's usual name, and every label is -1: {_names(fitting)}"
            containers.warn_of({"warnings": [f"{said} may be given as label="]})
        return None, ""
    if any(one.name == label for one in arrays):
        chosen = _named("label", arrays, str(label))
    else:
        path = arguments.path("label", label)
        if not os.path.exists(path):
            found = glob.glob(path)  # a pattern of one file; several files are read elsewhere
            if len(found) != 1:
                named = any(one.name for one in arrays)
                allowed = f"a file, or one of {_names(arrays)}" if named else "a file that is there"
                raise arguments.refuse("label", label, allowed)
            path = found[0]
        beside = opened(path)
        chosen = beside[0] if len(beside) == 1 else _labels_of(beside, rows, path)
    return _label_values(chosen, rows), chosen.name or chosen.path


def _label_values(chosen: Stored, rows: int) -> NDArray[Any]:
    """Reads an array of labels after its shape, dtype and size have been checked.

    Raises:
        ArgumentError, UnsupportedError, LimitError, MemoryShortError: it holds no labels, or is too
        large.
    """
    # The shape is checked before the values are read, because a header may say anything.
    if chosen.shape[:1] != (rows,) or math.prod(chosen.shape) != rows:
        raise ArgumentError(f"{chosen.title} has the shape {chosen.shape} (expected ({rows},))")
    kind = np.dtype(chosen.dtype)
    if kind.kind not in "iuU":
        raise UnsupportedError(
            f"{chosen.title} is of dtype {chosen.dtype} (expected whole numbers); "
            "label= takes a list or an array of them, too"
        )
    # An array that is compressed or was never written may claim any size in a file of a few bytes.
    most = max(_MOST_LABELS, _LABELS_OF_FILE * os.path.getsize(chosen.path))
    if rows * kind.itemsize > most:
        raise LimitError(
            f"{chosen.title} has {rows * kind.itemsize} bytes of labels, {kind.itemsize} for each "
            f"(at most {most} are read)",
            file=chosen.path,
        )
    try:
        return chosen.values()
    except MemoryError:
        text = f"{chosen.title}: no memory for {rows * kind.itemsize} bytes of labels"
        raise MemoryShortError(text, file=chosen.path) from None


def _labels_of(arrays: Sequence[Stored], rows: int, path: str) -> Stored:
    fitting = [one for one in arrays if one.shape == (rows,)]
    if len(fitting) != 1:
        raise ArgumentError(f"label={path!r} has {len(fitting)} arrays of {rows} (expected one)")
    return fitting[0]
