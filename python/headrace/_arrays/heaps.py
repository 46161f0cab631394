"""HDF5's variable-length bytes: where in a file the values of a dataset lie.

Such a dataset holds references into heaps. Filters compress the references, never the values.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._arrays.shapes import bad

if TYPE_CHECKING:
    from numpy.typing import NDArray

_REFERENCE = np.dtype([("length", "<u4"), ("heap", "<u8"), ("object", "<u4")])
_COLLECTION = struct.Struct("<4sB3xQ")  # "GCOL", version, bytes of all
_OBJECT = struct.Struct("<HH4xQ")  # index, references to it, bytes
_MOST_CHUNK = 256 << 20  # bytes of references
_ZLIB, _SHUFFLE = 1, 2


def places(
    path: str,
    item: Any,
    chunks: list[tuple[tuple[int, ...], int, int, int]],
    refuse: Callable[[str], Exception],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the offsets and lengths, in the file, of the values of a dataset of one axis.

    Args:
        item: the dataset, as h5py gives it.
        chunks: first row, place, bytes and mask of each chunk; empty for a contiguous dataset.

    Raises:
        BadFileError, UnsupportedError: the references lead nowhere, or cannot be read.
    """
    if item.file.id.get_create_plist().get_sizes() != (8, 8):
        raise refuse("its file has addresses of another size than 8 bytes")
    size = os.path.getsize(path)
    rows = item.shape[0]
    if item.chunks is not None:
        step = item.chunks[0]
        if step * _REFERENCE.itemsize > _MOST_CHUNK:
            raise refuse(f"a chunk of {step} references is too large")
        check_whole(sorted(first for (first,), *_ in chunks), rows, step, refuse)
    elif rows * _REFERENCE.itemsize > size:
        raise bad(path, f"dataset {item.name!r} is truncated")
    found = np.zeros(rows, _REFERENCE)
    with open(path, "rb") as file:
        if item.chunks is None:
            offset = item.id.get_offset()
            if offset is None:
                raise refuse("it was never written, or lies in its own header")
            data = os.pread(file.fileno(), found.nbytes, offset)
            if len(data) < found.nbytes:
                raise bad(path, f"dataset {item.name!r} is truncated")
            found[:] = np.frombuffer(data, _REFERENCE)
        else:
            plist = item.id.get_create_plist()
            filters = [plist.get_filter(number) for number in range(plist.get_nfilters())]
            for (first,), at, stored, mask in chunks:
                data = os.pread(file.fileno(), min(stored, size), at)
                passed = [one for number, one in enumerate(filters) if not mask >> number & 1]
                part = _unfiltered(path, data, passed, item.chunks[0], refuse)
                here = found[first : first + item.chunks[0]]
                here[:] = part[: len(here)]
        base = item.file.id.get_create_plist().get_userblock()
        offsets = _offsets(path, file.fileno(), found, base)
    return offsets, found["length"].astype(np.int64)


def check_whole(
    firsts: list[int], rows: int, step: int, refuse: Callable[[str], Exception]
) -> None:
    """Refuses a dataset if some of its chunks, of ``step`` rows each, are not in the file.

    Args:
        firsts: the first row of each chunk that is in the file, sorted.
    """
    # The chunks are counted before they are listed, because a file of 2 kB may claim 2**60 rows.
    expected = -(-rows // step)
    if len(firsts) != expected or firsts != list(range(0, rows, step)):
        raise refuse(f"{expected - len(firsts)} chunks were never written")


def _unfiltered(
    path: str,
    data: bytes,
    filters: list[tuple[int, int, tuple[int, ...], bytes]],
    rows: int,
    refuse: Callable[[str], Exception],
) -> NDArray[Any]:
    size = rows * _REFERENCE.itemsize
    for number, _, values, name in reversed(filters):
        if number == _ZLIB:
            try:
                data = zlib.decompressobj().decompress(data, size)
            except zlib.error as failure:
                raise bad(path, f"the references to its images do not decode: {failure}") from None
        elif number == _SHUFFLE and values[:1] == (_REFERENCE.itemsize,):
            whole = np.frombuffer(data[:size], np.uint8)
            if len(whole) < size:
                break
            data = whole.reshape(_REFERENCE.itemsize, rows).T.tobytes()
        else:
            said = name.decode("utf-8", "replace") or f"filter {number}"
            raise refuse(f"the references to its images went through {said}")
    if len(data) < size:
        raise bad(path, f"the references to its images have {len(data)} bytes (expected {size})")
    return np.frombuffer(data[:size], _REFERENCE)


def _offsets(path: str, file: int, found: NDArray[Any], base: int) -> NDArray[np.int64]:
    """Returns where the objects lie that the references name; 0 for an empty value."""
    offsets = np.zeros(len(found), np.int64)
    order = np.argsort(found["heap"], kind="stable")
    order = order[found["length"][order] > 0]
    heaps = found["heap"][order]
    begins = np.flatnonzero(np.r_[len(heaps) > 0, heaps[1:] != heaps[:-1]]).tolist()
    size = os.fstat(file).st_size
    steps = (
        size // _OBJECT.size + 1
    )  # heaps do not overlap, so all of them together have no more objects than this
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
        rows = order[begin:end]
        wanted = set(found["object"][rows].tolist())
        objects, steps = _objects(path, file, int(heaps[begin]) + base, wanted, size, steps)
        for row in rows.tolist():
            number, length = int(found["object"][row]), int(found["length"][row])
            at, held = objects.get(number, (0, -1))
            if length > held:
                text = f"the reference is to {length} bytes of object {number} of a heap"
                raise bad(path, f"{text}, which has {held}" if at else f"{text} without it", row)
            offsets[row] = at
    return offsets


def _objects(
    path: str, file: int, heap: int, wanted: set[int], size: int, steps: int
) -> tuple[dict[int, tuple[int, int]], int]:
    """Returns place and bytes of the needed objects of a heap, and how many steps are left."""
    head = os.pread(file, _COLLECTION.size, heap) if heap <= size else b""
    if len(head) < _COLLECTION.size or head[:4] != b"GCOL":
        raise bad(path, "there is no heap where a reference leads", offset=heap)
    _, _, length = _COLLECTION.unpack(head)
    end, at = heap + length, heap + _COLLECTION.size
    if end > size:
        raise bad(path, f"the heap has {length} bytes, which are more than the file's", offset=heap)
    found: dict[int, tuple[int, int]] = {}
    while len(found) < len(wanted) and at + _OBJECT.size <= end:
        steps -= 1
        if steps < 0:
            raise bad(path, "its heaps overlap", offset=heap)
        index, _, held = _OBJECT.unpack(os.pread(file, _OBJECT.size, at))
        if index == 0:  # the rest is free
            break
        if held > end - at - _OBJECT.size:
            raise bad(path, f"an object of {held} bytes leads out of its heap", offset=at)
        if index in wanted:
            found[index] = (at + _OBJECT.size, held)
        at += _OBJECT.size + (held + 7) // 8 * 8
    return found, steps
