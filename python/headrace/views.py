"""Tensors and arrays over the memory of a batch, which goes back when the last of them dies."""

from __future__ import annotations

import ctypes
import operator
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace import _lib, mixing
from headrace.errors import ArgumentError, HeadraceError

if TYPE_CHECKING:
    from headrace.lending import Lender

View = Callable[[_lib.Batch], tuple[Any, ...]]

DTYPES = ("float32", "float16", "bfloat16", "uint8")
OUTPUTS = ("torch", "numpy")


class Form(NamedTuple):
    """Where things lie in a batch: the same for all batches of one length."""

    memory: Any  # the ctypes array type that spans all fields
    length: int
    shape: list[int]
    elements: int
    images_bytes: int
    labels_at: int
    indices_at: int
    mixed: tuple[mixing.Extent, ...]  # the fields behind those


def viewer(
    output: str,
    dtype: str,
    channels_last: bool,
    with_indices: bool,
    lender: Lender | None = None,
    mixed: bool = False,
) -> View:
    """A function from a held batch to its (images, labels), or (images, labels, indices).

    Of a ``mixed`` batch a dict of its other fields, and of its plain labels, comes behind the
    indices. Each is a view of the batch's own memory. The views share one buffer object whose
    finalizer gives the batch back, so none of them outlives its memory, however it is sliced or
    passed on. What a ``lender`` lent is the tensors' own memory, and needs no finalizer.
    """
    over = (_over_torch if output == "torch" else _over_numpy)(dtype)
    over_mixed = mixing.over_buffer(output) if mixed else None
    to_nchw = operator.methodcaller("permute" if output == "torch" else "transpose", 0, 3, 1, 2)
    forms: dict[int, Form] = {}
    finalize, release = weakref.finalize, _lib.release

    def view(batch: _lib.Batch) -> tuple[Any, ...]:
        form = forms.get(batch.length) or forms.setdefault(batch.length, _form(batch))
        if lender is not None and form.length:
            images, labels, indices, more = lender.over(batch, form)
        else:
            buffer = form.memory.from_address(batch.fields[0].data)
            # From here on the batch is the finalizer's to give back, and no longer the iterator's.
            handle, batch.batch = batch.batch, 0
            # At exit the process gives all memory back, and torch may still hold tensors by then.
            finalize(buffer, release, handle).atexit = False
            images, labels, indices = over(buffer, form, with_indices)
            more = {at.name: over_mixed(buffer, at) for at in form.mixed} if over_mixed else {}
        if channels_last:
            images = to_nchw(images)
        if not mixed:
            return (images, labels, indices) if with_indices else (images, labels)
        targets = mixing.labels_of(labels, more)
        if not with_indices:
            return images, targets
        return images, targets, indices, more | {"labels": labels}

    return view


def _form(batch: _lib.Batch) -> Form:
    images, labels, indices = batch.fields[:3]
    last = batch.fields[batch.field_count - 1]
    shape = images.shape[:]
    return Form(
        memory=ctypes.c_char * (last.data + last.bytes - images.data),
        length=batch.length,
        shape=shape,
        elements=shape[0] * shape[1] * shape[2] * shape[3],
        images_bytes=images.bytes,
        labels_at=labels.data - images.data,
        indices_at=indices.data - images.data,
        mixed=mixing.extents(batch),
    )


def _over_torch(dtype: str) -> Callable[[Any, Form, bool], tuple[Any, ...]]:
    try:
        import torch
    except ImportError:
        raise HeadraceError(
            "output='torch' needs PyTorch, which is not installed: pip install torch, or ask for "
            "output='numpy'"
        ) from None
    kind, int64, frombuffer = getattr(torch, dtype), torch.int64, torch.frombuffer

    def over(buffer: Any, form: Form, with_indices: bool) -> tuple[Any, ...]:
        _, length, shape, elements, _, labels_at, indices_at, _ = form
        if not length:  # frombuffer takes no empty view
            return torch.empty(shape, dtype=kind), *torch.empty(2, 0, dtype=int64)
        images = frombuffer(buffer, dtype=kind, count=elements).view(shape)
        labels = frombuffer(buffer, dtype=int64, count=length, offset=labels_at)
        if not with_indices:
            return images, labels, None
        return images, labels, frombuffer(buffer, dtype=int64, count=length, offset=indices_at)

    return over


def _over_numpy(dtype: str) -> Callable[[Any, Form, bool], tuple[Any, ...]]:
    import numpy as np

    if dtype == "bfloat16":
        raise ArgumentError("dtype='bfloat16' is no NumPy type; use output='torch' or 'float16'")
    kind, int64, array = np.dtype(dtype), np.dtype(np.int64), np.ndarray

    def over(buffer: Any, form: Form, with_indices: bool) -> tuple[Any, ...]:
        _, length, shape, _, _, labels_at, indices_at, _ = form
        images, labels = array(shape, kind, buffer), array(length, int64, buffer, labels_at)
        if not with_indices:
            return images, labels, None
        return images, labels, array(length, int64, buffer, indices_at)

    return over
