"""Tensors and arrays over the memory of a batch, which goes back when the last of them is freed."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from headrace._batch import mixing
from headrace._engine import _lib, abi
from headrace.errors import ArgumentError, HeadraceError

View = Callable[[abi.Batch], tuple[Any, ...]]
Arrange = Callable[[list[Any]], Any]

DTYPES = ("float32", "float16", "bfloat16", "uint8")
OUTPUTS = ("torch", "numpy")
_ALIGNMENT = 64  # that of fields in a slot, and of torch's own tensors


class Tensor(NamedTuple):
    """Where a field lies in a batch, and its dtype and shape."""

    dtype: Any  # of torch, or NumPy
    shape: tuple[int, ...]
    elements: int
    at: int  # bytes from the first field
    own: bool  # copied to memory of its own


class Form(NamedTuple):
    """Where things lie in a batch. It is the same for all batches of one form and length."""

    memory: Any  # the ctypes array type that spans all fields
    tensors: tuple[Tensor, ...]  # images of each view, labels, indices, and what follows them
    more: tuple[str, ...]  # names of what follows: moved labels, or fields of a mixed batch


class Lends(Protocol):
    """Lends the engine the memory of batches; ``lending.Lender`` is one."""

    def over(self, batch: abi.Batch, form: Form) -> list[Any]:
        """Returns the tensors of a batch that came."""


def viewer(
    output: str,
    dtype: str,
    channels_last: bool,
    with_fields: bool,
    lender: Lends | None = None,
    arrange: Arrange | None = None,
    mixed: bool = False,
) -> View:
    """Returns a function that turns a batch into (images, labels), or these with indices and more.

    ``more`` is a dict of what follows the indices: labels that moved, or, in a ``mixed`` batch, its
    other fields and its plain labels. Labels and indices, one number a sample, are copied to memory
    of their own; all else is a view of the batch's memory. The views share one buffer object, and
    the batch goes back when it is freed. So no view outlives its memory, however it is sliced or
    passed on. Memory that a ``lender`` lent belongs to the tensors, so it needs none of this.
    ``arrange`` says what is made of the images of several views.
    """
    over, kinds = (_over_torch if output == "torch" else _over_numpy)(dtype)
    move = "permute" if output == "torch" else "transpose"
    # Permutations for images, and for several crops of each image.
    permute = {
        4: operator.methodcaller(move, 0, 3, 1, 2),
        5: operator.methodcaller(move, 0, 1, 4, 2, 3),
    }
    forms: dict[tuple[int, int], Form] = {}
    release_with = _lib.release_with

    def view(batch: abi.Batch) -> tuple[Any, ...]:
        key = (batch.length, batch.form)
        form = forms.get(key) or forms.setdefault(key, _form(batch, kinds, with_fields or mixed))
        if lender is not None and batch.length:
            parts = lender.over(batch, form)
        else:
            buffer = form.memory.from_address(batch.fields[0].data)
            release_with(buffer, batch)
            parts = over(buffer, form)
        more = {name: parts.pop() for name in reversed(form.more)}
        indices = parts.pop() if with_fields or mixed else None
        *images, labels = parts
        if channels_last:
            images = [permute[image.ndim](image) for image in images]
        made = images[0] if arrange is None else arrange(images)
        targets = labels
        if mixed:
            targets = mixing.labels_of(labels, more)
            more["labels"] = labels
        return (made, targets, indices, more) if with_fields else (made, targets)

    return view


def _form(batch: abi.Batch, kinds: Mapping[tuple[int, int], Any], whole: bool) -> Form:
    """Returns the form of all fields, or only of images and labels, because each further tensor
    costs 2 us."""
    fields = batch.fields[: batch.field_count]
    first, last = fields[0], fields[-1]
    tensors = []
    for field in fields:
        shape = tuple(field.shape[: field.ndim])
        dtype = kinds[field.dtype_code, field.dtype_bits]
        # One number a sample is copied, so that keeping an epoch's labels does not keep its images.
        own = len(shape) == 1
        tensors.append(Tensor(dtype, shape, math.prod(shape), field.data - first.data, own))
    names = [field.name.decode() for field in fields]
    indices = names.index("indices")
    more = tuple(names[indices + 1 :]) if whole else ()
    shown = tuple(tensors if whole else tensors[:indices])
    return Form(ctypes.c_char * (last.data + last.bytes - first.data), shown, more)


# The types of fields by DLPack's (code, bits), with their names in torch and NumPy.
KINDS = {
    (0, 32): "int32",
    (0, 64): "int64",
    (1, 8): "uint8",
    (2, 16): "float16",
    (4, 16): "bfloat16",
    (2, 32): "float32",
    (2, 64): "float64",
}

Over = Callable[[Any, Form], list[Any]]


def _over_torch(_: str) -> tuple[Over, Mapping[tuple[int, int], Any]]:
    try:
        import torch
    except ModuleNotFoundError as failure:
        if failure.name != "torch":
            raise
        raise HeadraceError(
            "output='torch' needs PyTorch, which is not installed: pip install torch, or ask for "
            "output='numpy'"
        ) from None
    frombuffer, empty = torch.frombuffer, torch.empty

    def over(buffer: Any, form: Form) -> list[Any]:
        found = []
        for dtype, shape, elements, at, own in form.tensors:
            if elements == 0:  # frombuffer takes no empty view
                found.append(empty(shape, dtype=dtype, device="cpu"))
                continue
            tensor = frombuffer(buffer, dtype=dtype, count=elements, offset=at).view(shape)
            # To autograd it is no view, as torch's batches are none.
            found.append(tensor.clone() if own else tensor.data)
        return found

    return over, {kind: getattr(torch, name) for kind, name in KINDS.items()}


def _over_numpy(dtype: str) -> tuple[Over, Mapping[tuple[int, int], Any]]:
    import numpy as np

    if dtype == "bfloat16":
        raise ArgumentError("dtype='bfloat16' is no NumPy type; use output='torch' or 'float16'")
    array = np.ndarray

    def copied(numbers: Any) -> Any:
        # The copy is aligned as JAX needs it to take an array without another copy.
        memory = np.empty(numbers.nbytes + _ALIGNMENT, np.uint8)
        copy: Any = array(numbers.shape, numbers.dtype, memory, -memory.ctypes.data % _ALIGNMENT)
        copy[...] = numbers
        return copy

    def over(buffer: Any, form: Form) -> list[Any]:
        return [
            copied(array(shape, kind, buffer, at)) if own else array(shape, kind, buffer, at)
            for kind, shape, _, at, own in form.tensors
        ]

    known = {kind: name for kind, name in KINDS.items() if name != "bfloat16"}
    return over, {kind: np.dtype(name) for kind, name in known.items()}
