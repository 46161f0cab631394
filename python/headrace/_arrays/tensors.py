"""Tensors in files: safetensors, and the files of torch.save."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._arrays.shapes import PACK, bad, unsupported
from headrace._arrays.stored import Stored, in_one_piece
from headrace.errors import BadFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The types of safetensors that NumPy has as well.
_DTYPES = {
    "BOOL": "bool",
    **{f"I{bits}": f"<i{bits // 8}" for bits in (16, 32, 64)},
    **{f"U{bits}": f"<u{bits // 8}" for bits in (16, 32, 64)},
    **{f"F{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    "I8": "int8",
    "U8": "uint8",
}
_MOST_DEPTH = 16  # a list may contain itself
_MOST_TENSORS = 1024
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")  # torch prints parts of its sentences bold
_MOST_HEADER = 100_000_000  # safetensors' own bound


def safetensors_header(head: bytes, size: int) -> int | None:
    """The length of the safetensors header at the beginning of a file; None if there is none."""
    length = int.from_bytes(head[:8], "little")
    # A TFRecord begins with a length as well; behind it is a checksum, which may be any bytes.
    if head[8:10] not in (b'{"', b"{}", b"{ ", b"{\n") or not 2 <= length <= min(
        _MOST_HEADER, size - 8
    ):
        return None
    return length


def read_safetensors(path: str) -> list[Stored]:
    """Returns the tensors of a file by name. The format: github.com/huggingface/safetensors."""

    def wrong(text: str) -> BadFileError:
        return bad(path, f"bad header: {text}")

    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = safetensors_header(file.read(10), size)
        if length is None:
            raise wrong("its length is more than the file's, or it is no JSON")
        file.seek(8)
        text = file.read(length)
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as failure:
        raise wrong(str(failure)) from None
    arrays = []
    for name, said in header.items():
        if name == "__metadata__":
            continue
        try:
            shape, (begin, end) = [int(side) for side in said["shape"]], said["data_offsets"]
            kind, begin, end = str(said["dtype"]), int(begin), int(end)
        except (TypeError, KeyError, ValueError):
            raise wrong(f"tensor {name!r} has no dtype, shape and data_offsets") from None
        if kind not in _DTYPES:
            continue  # a float that NumPy lacks is neither image nor label
        expected = math.prod(shape) * np.dtype(_DTYPES[kind]).itemsize
        if min([begin, *shape]) < 0 or end - begin != expected or end > size - 8 - length:
            raise wrong(f"tensor {name!r} of shape {shape} lies at {begin} to {end}")
        arrays.append(in_one_piece(path, name, shape, _DTYPES[kind], 8 + length + begin))
    return arrays


def read_torch(path: str) -> list[Stored]:
    """Returns the tensors of a file of torch.save, by key or, in a tuple, by number; nested ones
    are called GROUP/NAME.

    torch reads the file: it unpickles nothing but tensors (weights_only) and maps the storages. The
    mappings say where in the file the storages lie.
    """
    try:
        import torch
    except ModuleNotFoundError:
        raise unsupported(path, "it is torch's, which is not installed") from None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as failure:  # a hostile pickle may cause any error
        reason = " ".join(_ANSI.sub("", str(failure)).split())[:300]
        text = f"it holds more than tensors, or is none of torch's zip files: {reason}; {PACK}"
        raise unsupported(path, text) from None
    arrays = []
    for name, tensor in itertools.islice(_tensors(saved), _MOST_TENSORS):
        if str(tensor.layout) != "torch.strided" or tensor.dtype.is_complex:
            continue
        try:
            kind = tensor.numpy().dtype
        except (TypeError, RuntimeError):  # bfloat16, or a tensor that needs a gradient
            continue
        offset = _offset(path, tensor.data_ptr()) if tensor.numel() else 0
        found = in_one_piece(path, name, tuple(tensor.shape), kind, offset)
        if not tensor.is_contiguous():
            # torch saves a tensor that was permuted, expanded or cut with the strides of its axes.
            steps = tuple(step * kind.itemsize for step in tensor.stride())
            found = found._replace(strides=steps, values=_copied(tensor))
        arrays.append(found)
    return arrays


def _copied(tensor: Any) -> Callable[[], NDArray[Any]]:
    return lambda: np.array(tensor.numpy())


def _tensors(saved: Any, prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Yields the tensors of nested dicts, tuples and lists, as GROUP/NAME."""
    import torch

    if isinstance(saved, torch.Tensor):
        yield prefix.removesuffix("/"), saved
    elif isinstance(saved, dict | list | tuple) and depth < _MOST_DEPTH:
        pairs = saved.items() if isinstance(saved, dict) else enumerate(saved)
        for name, value in pairs:
            yield from _tensors(value, f"{prefix}{name}/", depth + 1)


def _offset(path: str, address: int) -> int:
    """Returns where in a file the bytes lie that are mapped at an address."""
    found = os.stat(path)
    with open("/proc/self/maps") as maps:
        for line in maps:
            ends, _, begin, _, inode, *_ = line.split()
            low, high = (int(end, 16) for end in ends.split("-"))
            if low <= address < high and int(inode) == found.st_ino:
                return int(begin, 16) + address - low
    raise unsupported(path, f"torch did not map the file's tensors; {PACK}")
