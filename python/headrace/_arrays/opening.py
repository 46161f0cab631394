"""Recognises paths that hold arrays of images, by content, and writes their configuration."""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from typing import Any

from headrace._arrays import hdf5, numpys, published, stored, tensors, zarrs
from headrace._arrays import several as several_
from headrace._arrays.shapes import bad, unsupported
from headrace._arrays.stored import Stored
from headrace._engine import arguments, away, containers
from headrace.errors import ArgumentError, HeadraceError, SystemFailure

_READERS = {
    "npy": numpys.read_npy,
    "npz": numpys.read_npz,
    "idx": published.read_idx,
    "safetensors": tensors.read_safetensors,
    "pt": tensors.read_torch,
    "hdf5": hdf5.read_hdf5,
    "zarr": zarrs.read_zarr,
}
# What NumPy, zipfile and Python's own parsers raise if the bytes are not a header.
_OF_HEADERS = (
    *(ArithmeticError, EOFError, LookupError, MemoryError, RecursionError, SyntaxError),
    *(TypeError, ValueError, NotImplementedError, struct.error, zlib.error),
)
FORMATS = (*_READERS, "cifar10", "cifar100")


def source(
    what: str, path: Any, words: containers.Words, layout: str | None = None
) -> dict[str, Any]:
    """Returns the configuration of a path or of several, whether they hold arrays or anything else.

    Args:
        what: the name of that argument.

    Raises:
        ArgumentError: a word is impossible, or does not apply to what lies there.
        UnsupportedError, BadFileError: they hold arrays, but these cannot be read as asked.
    """
    words.checked()
    if away.is_url(path):
        if layout is not None:
            raise ArgumentError("layout= is for arrays, and a store has none")
        return containers.config(what, path, words)
    found = config(what, path, words, layout)
    if found is None:
        return containers.config(what, path, words)
    if words.root is not None:
        raise ArgumentError("root= is for an index of containers, and these are arrays")
    return found


def config(
    what: str, path: Any, words: containers.Words, layout: str | None = None
) -> dict[str, Any] | None:
    """Returns the configuration of the arrays at a path; None if something else lies there.

    Args:
        what: the name of that argument.
        path: a file or folder, several files, or a pattern of files.

    Raises:
        ArgumentError, UnsupportedError, BadFileError: they hold arrays, but these cannot be read as
        asked.
    """
    format, image, label, fields, classes, split, _ = words
    several = isinstance(path, list | tuple)
    paths = [_local(what, one) for one in (path if several else [path])]
    kind = format if format in FORMATS else None
    if kind is None and format is not None:
        return None
    if not several and kind not in published._CIFAR:
        paths = several_.matching(paths[0]) or paths
    if kind is None and not several and zarrs.is_zarr(paths[0]):
        kind = "zarr"
    of_mnist = {} if kind is not None or several else published.idx_files(paths[0])
    if of_mnist:
        paths, split, kind = [published.of_split(of_mnist, split)], None, "idx"
    if len(paths) > 1 and kind not in published._CIFAR and not published.cifar_kind(paths):
        kind = kind or kind_of(paths[0])
    elif several or kind in published._CIFAR or (kind is None and os.path.isdir(paths[0])):
        kind, paths = _cifar(paths, kind)
    elif kind is None:
        kind = kind_of(paths[0])
    if kind is None:
        if layout is not None:
            raise ArgumentError("layout= is for arrays, and these are none")
        if label is not None and not isinstance(label, str):
            raise arguments.refuse_type("label", label, "the name of a column, for containers,")
        return None
    if fields is not None:
        raise ArgumentError("fields= is for containers, and these are arrays")
    if kind in published._CIFAR:
        return published.read_cifar(paths, kind, label, split, _opened)
    if split is not None:
        raise ArgumentError(f"split= is for containers and CIFAR, and this is {kind}")
    if len(paths) > 1:
        known = kind
        return several_.config(
            kind, paths, lambda one: _read(known, one), _opened, image, label, classes, layout
        )
    arrays = _read(kind, paths[0])
    return stored.config(kind, arrays, image, label, classes, layout, _opened)


def _local(what: str, path: Any) -> str:
    return arguments.found_path(arguments.path(what, path))


def _cifar(paths: list[str], kind: str | None) -> tuple[str | None, list[str]]:
    """Returns the kind and the files, given CIFAR's folder or the files themselves."""
    if len(paths) == 1 and os.path.isdir(paths[0]):
        paths = published.cifar_files(paths[0])
    return kind or published.cifar_kind(paths), paths


_HDF5 = b"\x89HDF\r\n\x1a\n"
# If a block of the user's own comes first, as in MATLAB's files, only the name tells: a tar whose
# first member is HDF5 looks the same.
_HDF5_NAMES = (".h5", ".hdf5", ".hdf", ".he5", ".mat")


def _is_hdf5(descriptor: int, size: int) -> bool:
    """Whether HDF5's signature is at byte 0, 512, 1024, 2048 and so on (HDF5's format, II.A)."""
    offset = 0
    while offset + len(_HDF5) <= size:
        if os.pread(descriptor, len(_HDF5), offset) == _HDF5:
            return True
        offset = 2 * offset or 512
    return False


def kind_of(path: str) -> str | None:
    """Returns the format of a file by its first bytes; None if it is no such format."""
    if published.cifar_kind([path]):
        return published.cifar_kind([path])
    if zarrs.is_zarr(path):  # one of several, or one of labels
        return "zarr"
    try:
        # A FIFO named like a dataset must not hang the program.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None  # it is a pattern, or the engine says what is wrong
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        head = os.pread(descriptor, 64, 0)
        if path.lower().endswith(_HDF5_NAMES) and _is_hdf5(descriptor, found.st_size):
            return "hdf5"
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if head.startswith(b"\x93NUMPY"):
        return "npy"
    if head.startswith(_HDF5):
        return "hdf5"
    if head.startswith(b"PK\3\4"):
        first = numpys.first_member(path)
        if first.endswith(".npy"):
            return "npz"
        return "pt" if first.endswith(("/data.pkl", "/.format_version")) else None
    if tensors.safetensors_header(head, found.st_size) is not None:
        return "safetensors"
    if published.idx_shape(head) is not None:
        return "idx"
    return None


def _read(kind: str, path: str) -> list[Stored]:
    try:
        arrays = _READERS[kind](path)
    except HeadraceError:
        raise
    except OSError as failure:
        if failure.errno not in (None, errno.EINVAL):  # EINVAL: a seek beyond every file
            text = f"{path}: cannot read it: {failure.strerror}"
            raise SystemFailure(text, file=path) from failure
        raise bad(path, f"bad header: {failure}") from None
    except _OF_HEADERS as failure:
        reason = " ".join(str(failure).split())[:200]
        raise bad(path, f"bad header: {reason or type(failure).__name__}") from None
    if not arrays:
        raise bad(path, "it holds no array")
    return arrays


def _opened(path: str) -> list[Stored]:
    """Returns the arrays of a file that was given as labels."""
    kind = kind_of(path)
    if kind not in _READERS:
        text = f"labels are read of {[*_READERS]}; label= takes a list or an array of them, too"
        raise unsupported(path, text)
    return _read(kind, path)
