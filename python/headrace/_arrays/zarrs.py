"""Zarr: zarr-python says how an array is cut into chunks, and the engine reads their files."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from headrace._arrays import tiles
from headrace._arrays.hdf5 import blosc_refused, joined
from headrace._arrays.shapes import Axes, Tile, bad, unsupported
from headrace._arrays.stored import Places, Stored
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MARKS = ("zarr.json", ".zarray", ".zgroup")
_PACK = "headrace.pack takes a map-style dataset that reads it through zarr"
_NEVER = 2**64 - 1  # in a shard's index: the chunk was never written


def is_zarr(folder: str) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any(os.path.isfile(os.path.join(folder, mark)) for mark in _MARKS)


def read_zarr(path: str) -> list[Stored]:
    """Returns the arrays of a folder by their names; for a single array, only itself."""
    try:
        import zarr  # type: ignore[import-not-found,unused-ignore]
    except ModuleNotFoundError:
        text = "it is Zarr, which zarr-python 3 is needed for: pip install headrace[zarr]"
        raise unsupported(path, text) from None
    try:
        node = zarr.open(path, mode="r")
        return [_array(path, name, array) for name, array in _arrays(node)]
    except HeadraceError:
        raise
    except Exception as failure:  # hostile metadata may cause any error
        raise bad(path, f"zarr cannot open it: {' '.join(str(failure).split())[:300]}") from None


@contextlib.contextmanager
def _explained(path: str, name: str) -> Iterator[None]:
    """Turns any error that hostile metadata and chunks cause into a sentence."""
    try:
        yield
    except HeadraceError:
        raise
    except Exception as failure:
        reason = " ".join(str(failure).split())[:300] or type(failure).__name__
        raise bad(path, f"zarr cannot read array {name!r}: {reason}") from None


def _arrays(node: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(node, "members"):
        yield "", node
        return
    for name, member in node.members(max_depth=None):
        if not hasattr(member, "members"):
            yield name, member


def _array(path: str, name: str, array: Any) -> Stored:
    def values() -> NDArray[Any]:
        with _explained(path, name):
            data: NDArray[Any] = array[...]
        return data

    def place(axes: Axes) -> Places:
        with _explained(path, name):
            return _places(path, name, array, axes)

    about = tuple(array.shape), str(array.dtype), place, values
    return Stored(path, name, *about, chunks=array.chunks)


def _places(path: str, name: str, array: Any, axes: Axes) -> Places:
    def refuse(why: str) -> Exception:
        return unsupported(path, f"array {name!r} is not read in place: {why}; {_PACK}")

    about = array.metadata
    codecs = _codecs(about)
    shard = codecs[0] if len(codecs) == 1 and hasattr(codecs[0], "index_codecs") else None
    inner = codecs if shard is None else list(shard.codecs)
    if getattr(about, "order", "C") != "C":
        raise refuse("its chunks go through a transposition")
    coded = _coded(inner, refuse)
    # In version 3, `chunks` may be the chunks inside a shard.
    whole = tuple(about.chunk_grid.chunk_shape if hasattr(about, "chunk_grid") else about.chunks)
    parts = whole if shard is None else tuple(shard.chunk_shape)
    each = tuple(a // b for a, b in zip(whole, parts, strict=True))
    root = os.path.join(path, array.path if name else "")
    files: list[str] = []
    found: dict[tuple[int, ...], Tile] = {}
    for number, file in _written(root, about, tiles.Grid(array.shape, whole, {}, 0).counts, refuse):
        places = [(0, os.path.getsize(file))]
        if shard is not None:
            places = _index(file, shard, math.prod(each))
        for steps, (begin, stored) in zip(_each(each), places, strict=True):
            at = tuple(a * b + c for a, b, c in zip(number, each, steps, strict=True))
            inside = all(a * b < c for a, b, c in zip(at, parts, array.shape, strict=True))
            if begin == _NEVER or not inside:
                continue
            chunk = tiles.chunk_of(coded, begin, stored, math.prod(parts))
            if chunk.codec == "blosc" and not found and (why := blosc_refused(file, begin)):
                raise refuse(why)
            found[at] = Tile(len(files), chunk)
        files.append(file)
    fill = 0 if about.fill_value is None else int(about.fill_value)
    return files, joined(tiles.Grid(array.shape, parts, found, fill).stretches(axes, refuse))


def _each(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(count) for count in counts))


def _written(
    root: str, about: Any, counts: tuple[int, ...], refuse: Callable[[str], Exception]
) -> Iterator[tuple[tuple[int, ...], str]]:
    """Yields the files of those chunks that exist, by their numbers along the axes.

    zarr-python writes no file for a chunk that holds only the fill value.
    """
    missing = 0
    for number in _each(counts):
        key = about.encode_chunk_key(number)
        file = os.path.join(root, *key.split("/"))
        if os.path.isfile(file):
            yield number, file
            continue
        missing += 1
        if missing > tiles.MOST_MISSING:
            raise refuse(f"more than {tiles.MOST_MISSING} chunks were never written")


# Codecs by the names of their classes in zarr-python and numcodecs.
_CODECS = {
    "ZstdCodec": "zstd",
    "Zstd": "zstd",
    "GzipCodec": "gzip",
    "GZip": "gzip",
    "BloscCodec": "blosc",
    "Blosc": "blosc",
    "Zlib": "zlib",
    "LZ4": "lz4",
}
_SUMS = ("Crc32cCodec",)


def _coded(codecs: list[Any], refuse: Callable[[str], Exception]) -> tuple[str, str] | None:
    """The codec and the checksum that a chunk goes through; None if it is stored as it is."""
    codec, total = "", ""
    for number, one in enumerate(codecs):
        name = type(one).__name__
        if name == "BytesCodec" and number == 0:
            continue
        # Values of one byte have nothing to shuffle.
        if name == "Shuffle" and not codec and getattr(one, "elementsize", 0) == 1:
            continue
        if name in _CODECS and not codec and not total:
            codec = _CODECS[name]
        elif name in _SUMS and not total:
            total = "crc32c"
        else:
            said = [type(each).__name__ for each in codecs]
            raise refuse(f"its chunks go through {', '.join(said)}")
    return (codec or "plain", total) if codec or total else None


def _codecs(about: Any) -> list[Any]:
    """Returns what values go through before they are stored in a chunk."""
    if hasattr(about, "codecs"):
        return list(about.codecs)
    return [one for one in (*(about.filters or ()), about.compressor) if one is not None]


def _index(file: str, shard: Any, count: int) -> list[tuple[int, int]]:
    """Returns where the chunks of a shard begin, and their bytes (zarr-specs, sharding_indexed)."""
    names = [type(codec).__name__ for codec in shard.index_codecs]
    if names not in (["BytesCodec"], ["BytesCodec", "Crc32cCodec"]):
        raise unsupported(file, f"the shard's index goes through {', '.join(names)}; {_PACK}")
    size = 16 * count + 4 * (len(names) - 1)
    if size > os.path.getsize(file):
        raise bad(file, f"the shard's index has {size} bytes, which are more than the file's")
    at_end = "start" not in str(shard.index_location)
    with open(file, "rb") as data:
        data.seek(-size if at_end else 0, os.SEEK_END if at_end else os.SEEK_SET)
        entries = struct.unpack(f"<{2 * count}Q", data.read(size)[: 16 * count])
    return list(zip(entries[::2], entries[1::2], strict=True))
