"""What an item of a program's own dataset holds: the file of its image, a label and fields."""

from __future__ import annotations

import io
import json
import operator
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from headrace._engine import arguments
from headrace.errors import ArgumentError, UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The columns that are used without being asked for; internal/scan/columns.go has the engine's.
IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "ppm", "webp", "image/encoded")
LABEL_NAMES = ("label", "cls", "class", "target", "image/class/label")
OF_EVERY_SAMPLE = ("index", "path", "key", "image", "label")
KEY = "__key__"  # WebDataset's

_IMAGES = "bytes of an image file, an image of Pillow, or a uint8 array of shape (H, W, C)"


class Columns(NamedTuple):
    """Which values of an item are its image, label and fields; None: those with the usual names."""

    image: str | None = None
    label: str | None = None
    fields: Sequence[str] | None = None
    lossless: str | None = None  # "png", or None to store decoded pixels as they are


class Taken(NamedTuple):
    """An item that is ready to be written.

    Attributes:
        image: a file: the item's own, or its pixels as PPM or PNG.
        label: a whole number, a float, a text, an array, or None.
    """

    image: bytes
    label: Any
    key: str | None
    fields: dict[str, Any]


def take(item: Any, columns: Columns, with_image: bool = True) -> Taken:
    """Returns what an item holds.

    Raises:
        ArgumentError, UnsupportedError: it is not an item of a dataset of images.
    """
    image, label, key, rest = _parts(item, columns)
    taken = {} if columns.fields == [] else {name: plain(name, rest[name]) for name in rest}
    return Taken(
        encoded(image, columns.lossless) if with_image else b"", _label(label), key, _named(taken)
    )


def _parts(item: Any, columns: Columns) -> tuple[Any, Any, str | None, dict[str, Any]]:
    """Returns image, label, key and the other values."""
    if isinstance(item, Mapping) and not _is_undecoded(item):
        return _of_mapping(item, columns)
    if columns.image or columns.label or columns.fields:
        raise ArgumentError(
            f"the item is a {type(item).__name__}, which has no columns; image=, label= and "
            "fields= are for dicts"
        )
    if isinstance(item, tuple | list):
        if len(item) != 2:
            raise ArgumentError(
                f"the item is a {type(item).__name__} of {len(item)} (expected an image and a "
                "label, or a dict that names its values)"
            )
        return item[0], item[1], None, {}
    return item, None, None, {}


def _of_mapping(
    item: Mapping[Any, Any], columns: Columns
) -> tuple[Any, Any, str | None, dict[str, Any]]:
    image = _column("image", item, columns.image, IMAGE_NAMES)
    label = _column("label", item, columns.label, LABEL_NAMES)
    if image is None:
        raise ArgumentError(
            f"no value is known as the image (found {_names(item)}); image= names it"
        )
    rest = {name: value for name, value in item.items() if name not in (image, label, KEY)}
    if columns.fields is not None:
        missing = [name for name in columns.fields if name not in item]
        if missing:
            raise ArgumentError(f"fields: the item has no {missing[0]!r} (found {_names(item)})")
        rest = {name: item[name] for name in columns.fields}
    key = item.get(KEY)
    return item[image], None if label is None else item[label], key and str(key), rest


def _column(
    what: str, item: Mapping[Any, Any], asked: str | None, usual: tuple[str, ...]
) -> str | None:
    """Returns the name of the value that is the image or the label; None if there is none."""
    if asked is not None:
        for name in asked.split(";"):
            if name in item:
                return name
        raise ArgumentError(f"{what}={asked!r}: the item has no such value (found {_names(item)})")
    found = [name for name in usual if name in item]
    if len(found) > 1:
        raise UnsupportedError(
            f"{found[0]} and {found[1]} may both be the {what}; {what}= says which "
            f"(the item has {_names(item)})"
        )
    return found[0] if found else None


def _names(item: Mapping[Any, Any]) -> str:
    return arguments.shown(sorted(map(str, item)))


def _is_undecoded(item: Mapping[Any, Any]) -> bool:
    """Whether it is an image of Hugging Face's ``Image(decode=False)``."""
    return set(item) == {"bytes", "path"}


def _named(fields: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns the fields, without names that every sample has anyway."""
    found: dict[str, Any] = {}
    for given, value in fields.items():
        name = arguments.name("the name of a field", given)
        while name in OF_EVERY_SAMPLE or (name != given and name in fields):
            name += "_"
        found[name] = value
    return found


def plain(name: str, value: Any) -> Any:
    """A value without torch. Objects, and lists of things other than numbers, become JSON."""
    if type(value).__module__.startswith("torch"):
        return _array(value)
    if isinstance(value, Mapping) or (isinstance(value, list | tuple) and not _numeric(value)):
        try:
            return json.dumps(value)
        except (TypeError, ValueError) as failure:
            raise ArgumentError(f"field {name!r}: {failure}") from None
    return value


def _numeric(values: Sequence[Any]) -> bool:
    try:
        return bool(np.asarray(values).dtype.kind in "biuf")
    except (TypeError, ValueError, RuntimeError):
        return False


def _array(value: Any) -> NDArray[Any]:
    """Returns an array of anything that NumPy reads as one."""
    try:
        return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)
    except (TypeError, ValueError, RuntimeError):  # ragged, or a tensor that NumPy cannot read
        return np.empty(0, object)


def _label(value: Any) -> Any:
    """A label as an int, a float, a text, an array or None."""
    if value is None or isinstance(value, str):
        return value or None
    if isinstance(value, bytes):
        return value.decode() or None
    try:
        return int(operator.index(value))
    except (TypeError, ValueError, RuntimeError):
        found = _array(value)
    if found.dtype.kind not in "biuf":
        raise arguments.refuse_type("label", value, "a class number, or its name,")
    if found.ndim == 0:
        return float(found) if found.dtype.kind == "f" else int(found)
    return found


def encoded(image: Any, lossless: str | None) -> bytes:
    """Returns the file of an image: its own bytes, or else its pixels without any change.

    Raises:
        ArgumentError, UnsupportedError: it is not an image.
    """
    if isinstance(image, Mapping) and _is_undecoded(image):
        if image["bytes"] is None and isinstance(image["path"], str):
            return Path(image["path"]).read_bytes()
        image = image["bytes"]
    if isinstance(image, bytes | bytearray):
        return bytes(image)
    if isinstance(image, memoryview) and image.ndim == 1:
        return image.tobytes()
    pillow = getattr(sys.modules.get("PIL.Image"), "Image", None)
    if pillow is not None and isinstance(image, pillow):
        return _file(_of_pillow(image), lossless)
    if isinstance(image, str | None) or not hasattr(image, "__array__"):
        raise arguments.refuse_type("image", image, _IMAGES)
    pixels = _array(image)
    if pixels.dtype != np.uint8:
        raise UnsupportedError(f"the image is an array of {pixels.dtype} (expected {_IMAGES})")
    if pixels.ndim == 1:
        return pixels.tobytes()
    if pixels.ndim == 2:
        pixels = pixels[..., None]
    if pixels.ndim != 3 or pixels.shape[2] not in (1, 3, 4) or not pixels.size:
        raise ArgumentError(
            f"the image is an array of shape {np.shape(image)} (expected (H, W), or (H, W, C) with "
            "1, 3 or 4 channels)"
        )
    # The fourth channel of RGBA is left out, as by Pillow's convert("RGB").
    return _file(pixels[..., :3] if pixels.shape[2] == 4 else pixels, lossless)


def _of_pillow(image: Any) -> NDArray[np.uint8]:
    """Returns the pixels as the engine's decoder would: grey, or RGB as convert makes it."""
    if image.mode not in ("L", "RGB"):
        if image.mode in ("F", "I") or image.mode.startswith("I;"):
            raise UnsupportedError(f"the image has Pillow's mode {image.mode}, of more than 8 bits")
        image = image.convert("L" if image.mode in ("1", "LA", "La") else "RGB")
    pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _file(pixels: NDArray[np.uint8], lossless: str | None) -> bytes:
    height, width, channels = pixels.shape
    if lossless is None:
        magic = b"P5" if channels == 1 else b"P6"
        return b"%s %d %d 255\n" % (magic, width, height) + pixels.tobytes()
    from PIL import Image

    into = io.BytesIO()
    Image.fromarray(pixels[..., 0] if channels == 1 else pixels).save(into, "PNG")
    return into.getvalue()


def classes_of(dataset: Any, label: str | None) -> list[str] | None:
    """The names of the classes that a dataset of torchvision or Hugging Face states itself."""
    features = getattr(dataset, "features", None)
    if isinstance(features, Mapping):
        for name in (label,) if label else LABEL_NAMES:
            names = getattr(features.get(name), "names", None)
            if names is not None:
                return _texts(names)
        return None
    return _texts(getattr(dataset, "classes", None))


def _texts(names: Any) -> list[str] | None:
    found = list(names) if isinstance(names, Iterable) and not isinstance(names, str) else []
    return found if found and all(isinstance(name, str) and name for name in found) else None
