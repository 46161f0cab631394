"""NumPy's files: .npy, and .npz, which is a zip of .npy files."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from tokenize import TokenError
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy

from headrace._arrays.shapes import PACK, Axes, bad, unsupported
from headrace._arrays.stored import Places, Stored, in_one_piece
from headrace._engine import containers

if TYPE_CHECKING:
    from numpy.typing import NDArray

_npy: Any = npy  # NumPy for Python 3.10 has no types of its functions

_LOCAL_HEADER = struct.Struct("<4sHHHHHIIIHH")  # of a zip's member (APPNOTE.TXT 4.3.7)


# What NumPy raises if the bytes are not a header.
_NO_HEADER = (ValueError, TypeError, SyntaxError, TokenError, EOFError, zipfile.BadZipFile)


def read_npy(path: str) -> list[Stored]:
    with open(path, "rb") as file:
        return [_array(path, "", file, 0)]


def _array(path: str, name: str, file: IO[bytes], begin: int) -> Stored:
    """Returns the array whose header comes next in ``file``; it is ``begin`` bytes into the file at
    ``path``."""
    try:
        version = _npy.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = _npy.read_array_header_1_0(file)
        elif version == (2, 0):
            shape, fortran, dtype = _npy.read_array_header_2_0(file)
        else:
            text = f".npy of version {version} (expected 1.0 or 2.0)"
            raise unsupported(path, f"{text}; {PACK}")
    except _NO_HEADER as failure:
        reason = " ".join(str(failure).split())
        raise bad(path, f"array {name!r}: bad header: {reason}") from None
    if dtype.hasobject:
        text = f"array {name!r} is of dtype object, which is a pickle and is never read; {PACK}"
        raise unsupported(path, text)
    found = in_one_piece(path, name, shape, dtype, begin + file.tell())
    if not fortran or len(shape) < 2:
        return found
    # The first axis changes fastest, so the bytes of one image are spread over the whole file.
    steps = [dtype.itemsize]
    for length in shape[:-1]:
        steps.append(steps[-1] * length)

    def place(axes: Axes) -> Places:
        said = f"{found.title} is in Fortran's order, where every image lies all over the file"
        more = "numpy.save of numpy.ascontiguousarray(array) makes a file that is read fast"
        containers.warn_of({"warnings": [f"{said}: {more}"]})
        return found.place(axes)

    def values() -> NDArray[Any]:
        data: NDArray[Any] = found.values().reshape(found.shape[::-1]).T
        return data

    return found._replace(place=place, values=values, strides=tuple(steps))


def _refused(path: str, name: str, shape: Any, dtype: Any, why: str) -> Stored:
    def refuse(_: Axes | None = None) -> Places:
        raise unsupported(
            path,
            f"array {name!r} is not read in place, {why}; "
            f"headrace.Dataset.from_arrays(numpy.load(path)[{name!r}]) reads it from memory",
        )

    def values() -> NDArray[Any]:
        refuse()
        raise AssertionError

    return Stored(path, name, tuple(shape), str(dtype), refuse, values)


def read_npz(path: str) -> list[Stored]:
    """Returns the arrays of a .npz by the names of its members, without ".npy"."""
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as raw:
            members = [one for one in archive.infolist() if one.filename.endswith(".npy")]
            return [_member(path, archive, raw, one) for one in members]
    except (zipfile.BadZipFile, RuntimeError) as failure:
        raise bad(path, f"bad zip: {failure}") from None


def _member(path: str, archive: zipfile.ZipFile, raw: IO[bytes], one: zipfile.ZipInfo) -> Stored:
    name = one.filename.removesuffix(".npy")
    if one.flag_bits & 1:
        raise unsupported(path, f"array {name!r} is encrypted; unzip it first")
    if one.compress_type != zipfile.ZIP_STORED:
        with archive.open(one) as file:
            found = _array(path, name, file, 0)
        why = "it is compressed (numpy.savez, not savez_compressed, writes it as it is)"
        refused = _refused(path, name, found.shape, found.dtype, why)
        return refused._replace(values=lambda: _inflated(path, one, found))
    # Name and extra field are taken from the local header, because the central one may have others.
    raw.seek(one.header_offset)
    header = _LOCAL_HEADER.unpack(raw.read(_LOCAL_HEADER.size))
    if header[0] != b"PK\3\4":
        raise bad(path, f"array {name!r} has no header at byte {one.header_offset}")
    raw.seek(one.header_offset + _LOCAL_HEADER.size + header[9] + header[10])
    return _array(path, name, raw, 0)


def _inflated(path: str, one: zipfile.ZipInfo, found: Stored) -> NDArray[Any]:
    """Reads a small compressed array, such as labels; its shape was checked before."""
    expected = math.prod(found.shape) * np.dtype(found.dtype).itemsize
    with zipfile.ZipFile(path) as archive, archive.open(one) as file:
        _array(path, found.name, file, 0)  # skips its header, whatever its version
        data = file.read(expected)  # no more, whatever size the member claims
    if len(data) != expected:
        raise bad(path, f"array {found.name!r} is truncated")
    return np.frombuffer(data, found.dtype).reshape(found.shape)


def first_member(path: str) -> str:
    """The name of a zip's first member; "" if it has none."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        head = file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\3\4":
            return ""
        return file.read(_LOCAL_HEADER.unpack(head)[9]).decode("utf-8", "replace")
