"""HDF5: h5py says where the images of a dataset lie, and the engine reads them.

The file is closed again before an image is read, so no process that loads images holds one of
HDF5's handles.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._arrays import heaps, tiles
from headrace._arrays.shapes import Axes, Stretch, Tile, bad, unsupported
from headrace._arrays.stored import Places, Stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_DATASETS = 1024
_PACK = "headrace.pack takes a map-style dataset that reads it through h5py"


def read_hdf5(path: str) -> list[Stored]:
    """Returns the datasets of a file by their names; one in a group is called GROUP/NAME.

    Links to other files are not followed.
    """
    found: list[Stored] = []
    with _opened(path) as file:
        h5py = _h5py(path)

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.shape and len(found) < _MOST_DATASETS:
                # NumPy has no such type, so the dataset holds neither images nor labels.
                with contextlib.suppress(TypeError):
                    found.append(_dataset(path, name, item))

        try:
            file.visititems(visit)
        except (OSError, RuntimeError, KeyError, ValueError) as failure:
            raise bad(path, f"h5py cannot read what it holds: {failure}") from None
    return found


def _h5py(path: str) -> Any:
    try:
        import h5py  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ModuleNotFoundError:
        text = "it is HDF5, which h5py is needed for: pip install headrace[hdf5]"
        raise unsupported(path, text) from None
    return h5py


def _opened(path: str) -> Any:
    try:
        return _h5py(path).File(path, "r")
    except (OSError, RuntimeError) as failure:
        raise bad(path, f"h5py cannot open it: {failure}") from None


def _dataset(path: str, name: str, item: Any) -> Stored:
    def values() -> NDArray[Any]:
        with _opened(path) as file:
            try:
                data: NDArray[Any] = file[name][()]
            except (OSError, RuntimeError, KeyError, ValueError) as failure:
                raise bad(path, f"dataset {name!r}: {failure}") from None
        return data

    def place(axes: Axes) -> Places:
        with _opened(path) as file:
            try:
                stretches = _stretches(path, name, file[name], axes)
            except (OSError, RuntimeError, KeyError, ValueError) as failure:
                raise bad(path, f"dataset {name!r}: {failure}") from None
        return [path], stretches

    def encoded() -> tuple[NDArray[Any], NDArray[Any]]:
        with _opened(path) as file:
            try:
                chunks = _chunks(file[name]) if file[name].chunks else []
                return heaps.places(path, file[name], chunks, refuse)
            except (OSError, RuntimeError, KeyError, ValueError) as failure:
                raise bad(path, f"dataset {name!r}: {failure}") from None

    def refuse(why: str) -> Exception:
        return unsupported(path, f"dataset {name!r} is not read in place: {why}; {_PACK}")

    about = tuple(item.shape), str(item.dtype), place, values
    of_bytes = item.ndim == 1 and _h5py(path).check_vlen_dtype(item.dtype) == np.uint8
    return Stored(path, name, *about, item.chunks, encoded=encoded if of_bytes else None)


# Filters by their numbers (github.com/HDFGroup/hdf5_plugins). Filter 2 shuffles the bytes of a
# value, and a uint8 has only one byte.
_CODECS = {1: "zlib", 32001: "blosc", 32004: "lz4 pieces", 32015: "zstd"}
_SHUFFLE, _FLETCHER32 = 2, 3


def _stretches(path: str, name: str, item: Any, axes: Axes) -> list[Stretch]:
    def refuse(why: str) -> Exception:
        return unsupported(path, f"dataset {name!r} is not read in place: {why}; {_PACK}")

    if item.is_virtual or item.external:
        raise refuse("its values lie in other files")
    if item.chunks is None:
        offset = item.id.get_offset()
        if offset is None:
            raise refuse("it was never written, or lies in its own header")
        return [Stretch(0, offset, axes.stride, axes.rows)]
    plist = item.id.get_create_plist()
    filters = [plist.get_filter(number) for number in range(plist.get_nfilters())]
    size = math.prod(item.chunks)
    found: dict[tuple[int, ...], Tile] = {}
    codecs: dict[int, tuple[str, str] | None] = {}
    for begins, at, stored, mask in _chunks(item):
        if mask not in codecs:
            passed = [one for number, one in enumerate(filters) if not mask >> number & 1]
            codecs[mask] = _codec(passed, refuse)
        number = tuple(begin // step for begin, step in zip(begins, item.chunks, strict=True))
        found[number] = Tile(0, tiles.chunk_of(codecs[mask], at, stored, size))
    never = plist.get_fill_time() == _h5py(path).h5d.FILL_TIME_NEVER
    grid = tiles.Grid(item.shape, item.chunks, found, None if never else int(item.fillvalue))
    stretches = grid.stretches(axes, refuse)
    _look(path, stretches, refuse)
    return joined(stretches)


def _chunks(item: Any) -> list[tuple[tuple[int, ...], int, int, int]]:
    """Returns of each written chunk where its values begin, its offset, its bytes, and the mask of
    skipped filters."""
    chunks: list[tuple[tuple[int, ...], int, int, int]] = []

    def take(info: Any) -> None:
        begins = tuple(int(begin) for begin in info.chunk_offset)
        # A dataset that became smaller may keep chunks behind its end.
        if all(begin < length for begin, length in zip(begins, item.shape, strict=True)):
            chunks.append((begins, int(info.byte_offset), int(info.size), int(info.filter_mask)))

    if hasattr(item.id, "chunk_iter"):  # its time is proportional to the chunks
        item.id.chunk_iter(take)
    else:
        for number in range(item.id.get_num_chunks()):
            take(item.id.get_chunk_info(number))
    return chunks


def _codec(
    filters: list[tuple[int, int, tuple[int, ...], bytes]], refuse: Callable[[str], Exception]
) -> tuple[str, str] | None:
    """The codec and the checksum of a chunk with these filters; None if they change nothing."""
    codec, total = "", ""
    for number, _, values, name in filters:
        if number == _SHUFFLE and not codec and values[:1] in ((), (1,)):
            continue
        if number in _CODECS and not codec and not total:
            codec = _CODECS[number]
        elif number == _FLETCHER32 and not total:
            total = "fletcher32"
        else:
            said = name.decode("utf-8", "replace") or f"filter {number}"
            raise refuse(f"its chunks went through {said}")
    if not codec and not total:
        return None
    return codec or "plain", total


def _look(path: str, stretches: list[Stretch], refuse: Callable[[str], Exception]) -> None:
    """Refuses frames of Blosc that are not read; the first chunk says which kind they are."""
    for chunk in itertools.chain.from_iterable(one.chunks() for one in stretches):
        if chunk.codec == "blosc":
            why = blosc_refused(path, chunk.offset)
            if why:
                raise refuse(why)
            return


def blosc_refused(path: str, offset: int) -> str:
    """Says why a frame of Blosc is not read; "" if it is. Its header tells (c-blosc's
    README_CHUNK_FORMAT.rst)."""
    with open(path, "rb") as file:
        file.seek(offset)
        version, _, flags, width = (*file.read(4), 0, 0, 0, 0)[:4]
    if version > 2:
        return f"its chunks are frames of Blosc of version {version}"
    if not flags & 2 and flags >> 5 == 0:
        return "its chunks went through BloscLZ"
    if not flags & 2 and width != 1:
        return f"its chunks are frames of Blosc of values of {width} bytes"
    return ""


def joined(stretches: list[Stretch]) -> list[Stretch]:
    """Joins stretches that are neighbours in a file."""
    found: list[Stretch] = []
    for one in stretches:
        last = found[-1] if found else None
        if (
            last is not None
            and last.chunk is None
            and one.chunk is None
            and last.tiles is None
            and one.tiles is None
            and last.file == one.file
            and last.offset + one.stride * last.rows == one.offset
        ):
            found[-1] = last._replace(rows=last.rows + one.rows)
        else:
            found.append(one)
    return found
