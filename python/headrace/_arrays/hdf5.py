"""HDF5: h5py says where the images of a dataset lie, and the engine reads them.

The file is closed again before an image is read: no process that loads has a handle of HDF5's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from headrace._arrays.shapes import Axes, bad, unsupported
from headrace._arrays.stored import Places, Stored

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_DATASETS = 1024
_PACK = "headrace.Writer packs what h5py reads"


def read_hdf5(path: str) -> list[Stored]:
    """The datasets of a file by their names, those in groups as GROUP/NAME.

    Links to other files are not followed.
    """
    found: list[Stored] = []
    with _opened(path) as file:
        h5py = _h5py(path)

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.shape and len(found) < _MOST_DATASETS:
                found.append(_dataset(path, name, item))

        file.visititems(visit)
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
            data: NDArray[Any] = file[name][()]
        return data

    def place(axes: Axes) -> Places:
        with _opened(path) as file:
            try:
                stretches = _stretches(path, name, file[name], axes)
            except (KeyError, RuntimeError, ValueError) as failure:
                raise bad(path, f"dataset {name!r}: {failure}") from None
        return [path], stretches

    return Stored(path, name, tuple(item.shape), str(item.dtype), place, values)


def _stretches(path: str, name: str, item: Any, axes: Axes) -> list[tuple[int, int, int, int]]:
    def refuse(why: str) -> Exception:
        return unsupported(path, f"dataset {name!r} is not read in place: {why}; {_PACK}")

    if item.is_virtual or item.external:
        raise refuse("its values lie in other files")
    if item.chunks is None:
        offset = item.id.get_offset()
        if offset is None:
            raise refuse("it was never written, or lies in its own header")
        return [(0, offset, axes.stride, axes.rows)]
    if item.id.get_create_plist().get_nfilters():
        kind = item.compression or "a filter, as shuffle or fletcher32"
        raise refuse(f"its chunks went through {kind}")
    rows, *sides = item.chunks
    if tuple(sides) != tuple(item.shape[1:]):
        raise refuse(f"a chunk of {item.chunks} holds parts of images")
    chunks = []
    for number in range(item.id.get_num_chunks()):
        info = item.id.get_chunk_info(number)
        first = int(info.chunk_offset[0])
        if first < axes.rows:
            chunks.append((first, int(info.byte_offset)))
    chunks.sort()
    if [first for first, _ in chunks] != list(range(0, axes.rows, rows)):
        raise refuse(f"{math.ceil(axes.rows / rows) - len(chunks)} chunks were never written")
    return joined([(0, at, axes.stride, min(rows, axes.rows - first)) for first, at in chunks])


def joined(stretches: list[tuple[int, int, int, int]]) -> list[tuple[int, int, int, int]]:
    """The same with neighbours in a file as one stretch."""
    found: list[tuple[int, int, int, int]] = []
    for file, offset, stride, rows in stretches:
        if found and found[-1][0] == file and found[-1][1] + stride * found[-1][3] == offset:
            rows, offset = rows + found[-1][3], found.pop()[1]
        found.append((file, offset, stride, rows))
    return found
